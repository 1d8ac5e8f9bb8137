"""dump-attention on models with the interfaces of Hugging Face's transformers: attn-compute applied
to a dump reproduces what the model computed."""

import re
import subprocess
import unittest

import numpy as np

from attn import BIN
from torch_dumps import WITHOUT_TORCH, DumpTest, SomethingRuns, recording  # noqa: F401
from dump_attention import DumpError

if not WITHOUT_TORCH:
    import torch
    import registry_models
    from registry_models import ALL_ATTENTION_FUNCTIONS, T5, Decoder


def lengths_of(padding, batch, length):
    if padding is None:
        return torch.full([batch], length), torch.ones(batch, length, dtype=torch.long)
    lengths, place = torch.tensor([length, length - 3, 2]), torch.arange(length)[None]
    left = padding == "left"
    return lengths, (place >= length - lengths[:, None] if left else place < lengths[:, None]).long()


class Registry(DumpTest):

    IMPLEMENTATIONS = ("eager", "sdpa", "flash_attention_2", "flex_attention")

    def check_layers(self, model, real, limit=2e-5):
        for n, layer in enumerate(model.layers):
            self.check(f"layers.{n}.self_attn", layer["self_attn"].made, limit=limit, rows=real.bool())

    def knows(self, *names):
        """Whether the tools read these datasets."""
        page = subprocess.run([BIN / "attn-compute", "--man"], capture_output=True, check=True).stdout
        return all(re.search(rf"(?<![a-z]){name}(?![a-z])", page.decode()) for name in names)

    def test_implementations_and_padding(self):
        ids = torch.randint(0, 50, (3, 9))
        for implementation in self.IMPLEMENTATIONS:
            for padding in (None, "right", "left"):
                with self.subTest(implementation, padding=padding):
                    model = Decoder(implementation).eval()
                    before = dict(ALL_ATTENTION_FUNCTIONS), registry_models.eager_attention_forward
                    lengths, real = lengths_of(padding, 3, 9)
                    self.record(model, input_ids=ids, attention_mask=real)
                    self.assertEqual(before, (dict(ALL_ATTENTION_FUNCTIONS),
                                              registry_models.eager_attention_forward))
                    self.assertFalse(ALL_ATTENTION_FUNCTIONS._local_mapping)
                    self.assertEqual(self.groups(), ["layers.0.self_attn", "layers.1.self_attn"])
                    group = "layers.1.self_attn"
                    names = {"q", "k", "v", "token_ids"}
                    if padding:
                        names |= {"key_length", "query_length"}
                        np.testing.assert_array_equal(self.values(group, "query_length"), lengths)
                    if padding == "left":
                        names |= {"key_start", "query_start"}
                        np.testing.assert_array_equal(self.values(group, "key_start"), 9 - lengths)
                    self.assertEqual(self.names(group), names)
                    self.assertEqual(self.values(group, "k").shape, (3, 2, 9, 8))
                    self.assertEqual(self.attributes(group)["attn_causal"], "top-left")
                    np.testing.assert_array_equal(self.values(group, "token_ids"), ids)
                    self.check_layers(model, real)

    def test_the_tools_read_the_lengths(self):
        """A padded batch gives each sequence's own results."""
        if not self.knows("query_length", "key_start"):
            self.skipTest("attn-compute does not know query_length and key_start")
        for padding in ("right", "left"):
            model = Decoder("eager").eval()
            real = lengths_of(padding, 3, 9)[1]
            self.record(model, input_ids=torch.randint(0, 50, (3, 9)), attention_mask=real)
            out = model.layers[1]["self_attn"].made
            out = np.where(real[:, None, :, None], out, 0)
            self.assert_near("out", self.computed("layers.1.self_attn")["out"], out, 2e-5)

    def test_windows_caps_scales(self):
        ids = torch.randint(0, 50, (3, 12))
        for implementation in ("eager", "sdpa", "flash_attention_2"):
            for options, expected in [({"window": 4}, {"attn_window": 4, "attn_causal": "top-left"}),
                                      ({"window": 50}, {"attn_window": 50}),
                                      ({"softcap": 2.0}, {"attn_softcap": 2.0}),
                                      ({"scaling": 1.0}, {"attn_energy": "dot", "attn_scale": 1.0}),
                                      ({"scaling": None}, {"attn_energy": "scaled-dot"})]:
                if implementation != "sdpa" and "scaling" in options and options["scaling"] is None:
                    continue
                for padding in (None, "left"):
                    with self.subTest(implementation, padding=padding, **options):
                        model = Decoder(implementation, **options).eval()
                        real = lengths_of(padding, 3, 12)[1]
                        self.record(model, input_ids=ids, attention_mask=real)
                        attributes = self.attributes("layers.0.self_attn")
                        if implementation == "sdpa" and "softcap" in options:
                            expected = {"attn_softcap": None}  # that function has none
                        for name, value in expected.items():
                            self.assertEqual(attributes.get(name), value)
                        self.assertNotIn("mask", self.names("layers.0.self_attn"))
                        self.check_layers(model, real)

    def test_sinks(self):
        for implementation in ("eager", "flash_attention_2"):
            with self.subTest(implementation):
                model = Decoder(implementation, sinks=True).eval()
                self.record(model, input_ids=torch.randint(0, 50, (3, 9)))
                group, layer = "layers.0.self_attn", model.layers[0]["self_attn"]
                np.testing.assert_array_equal(self.values(group, "sink"), layer.sinks.detach())
                self.assertLess(self.attributes(group)["model_error"], 1e-5)
                # Softmax with a further logit is softmax times 1 / (1 + e^sink / Σ e^score).
                plain = self.computed(group, emit="out,row_potential")
                if not self.knows("sink"):
                    sink = layer.sinks.detach().numpy()[None, :, None]
                    out = plain["out"] / (1 + np.exp(sink - plain["row_potential"]))[..., None]
                    self.assert_near("out", out, layer.made.numpy(), 2e-5)
                else:
                    self.check(group, layer.made)

    def test_inputs(self):
        ids = torch.randint(0, 50, (3, 9))
        model = Decoder("sdpa", layers=1).eval()
        self.record(model, input_ids=ids, dump={"inputs": True})
        group = "layers.0.self_attn"
        self.assertEqual(self.values(group, "wk").shape, (2, 16, 8))
        self.check(group, model.layers[0]["self_attn"].made, "--from=projection")
        normed = model.layers[0]["norm"](model.embed_tokens(ids)).detach()
        self.assert_near("x", self.values(group, "x"), normed.numpy(), 1e-6)
        model = Decoder("sdpa", layers=1, rotary=True).eval()
        self.record(model, input_ids=ids, dump={"inputs": True}, expect=["q and k are not"])
        self.check(group, model.layers[0]["self_attn"].made)

    def test_generation_with_a_cache(self):
        """Each call has more keys than queries; tokens of earlier calls name them."""
        for implementation in ("eager", "sdpa", "flash_attention_2"):
            with self.subTest(implementation):
                model, cache = Decoder(implementation).eval(), {}
                ids = torch.randint(0, 50, (2, 9))
                made = []
                with torch.no_grad(), recording(self.path, model, force=True):
                    for part in ids.split([5, 3, 1], 1):
                        model(input_ids=part, cache=cache)
                        made.append(model.layers[1]["self_attn"].made)
                for call, (keys, causal) in enumerate([(5, "top-left"), (8, "bottom-right"),
                                                       (9, "none")]):
                    group = "layers.1.self_attn" + (f"@{call + 1}" if call else "")
                    np.testing.assert_array_equal(self.values(group, "token_ids"), ids[:, :keys])
                    self.assertEqual(self.attributes(group)["attn_causal"], causal)
                    self.assertNotIn("mask", self.names(group))
                    self.check(group, made[call])

    def test_functions_that_are_registered(self):
        def twice(module, query, key, value, attention_mask, **more):
            out, _ = registry_models.sdpa_attention_forward(module, query, key, value, attention_mask,
                                                            **more)
            return 2 * out, None

        ALL_ATTENTION_FUNCTIONS["mine"] = twice
        self.addCleanup(ALL_ATTENTION_FUNCTIONS.__delitem__, "mine")
        model = Decoder("mine", layers=1).eval()
        self.record(model, input_ids=torch.randint(0, 50, (3, 9)), expect=["differs .* by up to 0.5"])
        self.assertIs(ALL_ATTENTION_FUNCTIONS["mine"], twice)
        ALL_ATTENTION_FUNCTIONS["paged|mine"] = twice
        self.addCleanup(ALL_ATTENTION_FUNCTIONS.__delitem__, "paged|mine")
        with self.assertRaisesRegex(DumpError, "continuous batches"):
            self.record(Decoder("paged|mine"), input_ids=torch.randint(0, 50, (3, 9)))

    def test_names(self):
        self.record(Decoder("sdpa"), input_ids=torch.randint(0, 50, (1, 4)))
        self.assertEqual(self.attributes()["model_name"], "small/decoder")
        self.assertEqual(self.attributes()["model_class"], "registry_models.Decoder")
        self.record(Decoder("sdpa"), input_ids=torch.randint(0, 50, (1, 4)), dump={"name": "mine"})
        self.assertEqual(self.attributes()["model_name"], "mine")


class T5Models(DumpTest):

    def test_three_kinds(self):
        model = T5().eval()
        ids, decoder_ids = torch.randint(0, 50, (3, 40)), torch.randint(0, 50, (3, 9))
        lengths = torch.tensor([40, 23, 31])
        real = (torch.arange(40)[None] < lengths[:, None]).long()
        self.record(model, ids, decoder_ids, real, dump={"inputs": True})
        self.assertEqual(self.groups(), ["cross", "decoder", "encoder.0", "encoder.1"])
        inputs = {"q", "k", "v", "x", "wq", "wk", "wv", "wo", "token_ids"}
        padded = {"key_length", "query_length"}
        for group, module, names, causal in [
            ("encoder.0", model.encoder[0], inputs | padded | {"rel_bias"}, "none"),
            ("encoder.1", model.encoder[1], inputs | padded | {"rel_bias"}, "none"),
            ("decoder", model.decoder, inputs | {"rel_bias"}, "top-left"),
            ("cross", model.cross, inputs | {"y", "key_length"}, "none"),
        ]:
            with self.subTest(group):
                self.assertEqual(self.names(group), names)
                attributes = self.attributes(group)
                self.assertEqual((attributes["attn_energy"], attributes["attn_scale"]), ("dot", 1.0))
                self.assertEqual(attributes["attn_causal"], causal)
                self.assertEqual(attributes.get("attn_relative_bias"),
                                 "t5" if "rel_bias" in names else None)
                self.assertLess(attributes["model_error"], 1e-5)
                rows = real.bool() if "query_length" in names else None
                self.check(group, module.made, rows=rows)
                self.check(group, module.made, "--from=projection", rows=rows)
        np.testing.assert_array_equal(self.values("cross", "token_ids"), ids)
        np.testing.assert_array_equal(self.values("decoder", "token_ids"), decoder_ids)

    def test_another_bias_is_kept_as_it_is(self):
        model = T5().eval()
        model.encoder[0].bias = lambda length: torch.randn(1, 4, length, length)
        ids = torch.randint(0, 50, (2, 7))
        real = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
        self.record(model, ids, ids, real)
        self.assertEqual(self.values("encoder.1", "bias").shape, (1, 4, 7, 7))
        self.assertNotIn("rel_bias", self.names("encoder.1"))
        for n in range(2):
            self.check(f"encoder.{n}", model.encoder[n].made, rows=real.bool())


if __name__ == "__main__":
    unittest.main()
