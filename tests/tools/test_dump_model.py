"""dump-attention --model: models of Hugging Face without a script, by a stand-in for transformers."""

import json
import sys
import unittest

import h5py
import numpy as np

from test_dump_command import WITHOUT_TORCH, CommandTest

if not WITHOUT_TORCH:
    import torch
    import torch.nn.functional as F
    import small_transformers
    from torch_dumps import plain_attention


class Usage(CommandTest):

    def test_usage(self):
        for arguments, says in [(["--model", "m"], "--model: --text TEXT is needed"),
                                (["--model", "m", "--text", "a", "infer.py"], "--model and infer.py: one of them"),
                                (["--model", "m", "--text", "a", "-m", "run"], "--model and -m: one of them"),
                                (["--model", "m", "--text", "a", "--tokenizer", "b"], "a --model has its own"),
                                (["--text", "a", "infer.py"], "--text is for a --model"),
                                (["--attention", "sdpa", "infer.py"], "--attention is for a --model")]:
            with self.subTest(arguments=arguments):
                self.refused_with("-o", "dump.h5", *arguments, status=2, says=says)


@unittest.skipIf(WITHOUT_TORCH, "torch is not installed")
class Models(CommandTest):

    def setUp(self):
        super().setUp()
        package = self.folder / "site/transformers"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("from small_transformers import AutoConfig, AutoModel, AutoTokenizer\n")

    def prepare(self):
        sys.path.insert(1, str(self.folder / "site"))
        if not hasattr(F, "scaled_dot_product_attention"):  # before PyTorch 2
            F.scaled_dot_product_attention = plain_attention

    def model(self, kind, folder="model", **config):
        (self.folder / folder).mkdir(exist_ok=True)
        (self.folder / folder / "config.json").write_text(json.dumps({"model_type": kind} | config))
        return folder

    def record(self, model, *options, text="the cat sat", **more):
        return self.run_command("-o", "dump.h5", "--force", "--model", model, "--text", text, *options, **more)

    def refused(self, model, *options, status=3, says, text="the cat sat", hint=None):
        err = self.refused_with("-o", "dump.h5", "--model", model, "--text", text, *options, status=status,
                                says=says, hint=hint)
        self.assertEqual(err.count("\n"), 1 + (hint is not None))

    def test_a_folder(self):
        out, err = self.record(self.model("decoder"))
        self.assertEqual(out, "")
        self.assertRegex(err, r"\Adump-attention: 2 calls of 2 layers, [\d.e-]+ MB written in [\d.e-]+ s "
                         r"-> dump.h5\n\Z")
        with h5py.File(self.path) as file:
            self.assertEqual(sorted(file), ["layers.0.self_attn", "layers.1.self_attn"])
            about = dict(file.attrs)
            group = file["layers.1.self_attn"]
            self.assertEqual(group["q"].dtype, np.float32)
            self.assertEqual(group["tokens"].asstr()[()].tolist(), [["<s>", "the", "cat", "sat"]])
            self.assertEqual(group.attrs["attn_causal"], "top-left")
            self.assertLess(group.attrs["model_error"], 1e-5)
        self.assertEqual((about["text_length"], about["model_attention"]), (4, "eager"))
        self.assertRegex(about["history"], "Z: dump-attention -o dump.h5 --force --model model --text 'the cat sat' ")
        torch.manual_seed(1)
        model = small_transformers.Decoder("eager").half().float().eval()
        with torch.no_grad():
            model(torch.tensor([[0, 1, 2, 3]]))
        made = model.layers[1]["self_attn"].made
        self.assert_near("out", self.compute("dump.h5:/layers.1.self_attn")["out"], made, 1e-5)

    def test_a_name_in_the_cache_and_options(self):
        self.model("decoder", "cached")
        self.record(small_transformers.CACHED, "--layers", "1", "--name", "mine", "--attention", "sdpa")
        with h5py.File(self.path) as file:
            self.assertEqual(list(file), ["layers.1.self_attn"])
            self.assertEqual((file.attrs["model_name"], file.attrs["model_attention"]), ("mine", "sdpa"))
        self.record(self.model("words"), "--quiet", "--attention", "sdpa")
        with h5py.File(self.path) as file:
            self.assertEqual(file.attrs["model_name"], "model")

    def test_standard_input(self):
        self.record(self.model("decoder"), text="-", stdin=b"the cat\non the mat\n")
        with h5py.File(self.path) as file:
            self.assertEqual(file["layers.0.self_attn/tokens"].asstr()[()].tolist(),
                             [["<s>", "the", "cat", "on", "the", "mat"]])
        _, err = self.record("model", text="-", stdin=b"\xff", status=3)
        self.assertRegex(err, r"\Adump-attention: error: --text -: standard input is not UTF-8: [^\n]+\n\Z")

    def test_a_decoder_reads_the_text_behind_its_start(self):
        self.record(self.model("t5", is_encoder_decoder=True, decoder_start_token_id=5))
        with h5py.File(self.path) as file:
            tokens = {name: file[name]["tokens"].asstr()[()].tolist()[0] for name in file}
            for name in file:
                self.assertLess(file[name].attrs["model_error"], 1e-5)
        read = ["<s>", "the", "cat", "sat"]
        self.assertEqual(tokens, {"encoder.0": read, "encoder.1": read, "cross": read,
                                  "decoder": ["mat", "<s>", "the", "cat"]})

    def test_attention_that_only_sdpa_shows(self):
        _, err = self.record(self.model("words"))
        self.assertIn("dump-attention: recorded with --attention sdpa, as eager attention of this model is not seen\n",
                      err)
        with h5py.File(self.path) as file:
            self.assertEqual(sorted(file), ["layers.0.attention", "layers.1.attention"])
            self.assertEqual(file.attrs["model_attention"], "sdpa")
            self.assertLess(file["layers.1.attention"].attrs["model_error"], 1e-5)
        self.path.unlink()
        self.refused("model", "--attention", "eager", says=(
            r"layers.0.attention and 1 more layer: small_transformers.WordsAttention computes its attention by itself"),
            hint='attn_implementation="sdpa"')
        self.refused(self.model("only-eager"), hint="name a function that it calls",
                     says="small_transformers.WordsAttention computes its attention by itself")

    def test_what_cannot_be_run(self):
        (self.folder / "empty").mkdir()
        for model, says in [("empty", "empty: it is no model .* no folder with a config.json"),
                            ("infer.py", "infer.py: it is no model of Hugging Face"),
                            ("no/such", "no/such: there is no such folder, and no model of this name"),
                            (self.model("other", "other"), r"its configuration .*: Unrecognized model type other\.$"),
                            (self.model("decoder", "mute", tokens=False), r"mute: its tokenizer cannot .*tokenizer\.$"),
                            (self.model("pictures", "pictures"), "Pictures failed on the text: TypeError")]:
            with self.subTest(model):
                self.refused(model, says=says)
        self.model("decoder", max_position_embeddings=3)
        self.refused("model", says="--text: it has 4 tokens, and model has positions for 3")
        self.record("model", text="the cat")
        self.path.unlink()
        # The first two places of this table are for padding.
        self.refused(self.model("words"), text="the " * 10, says="it has 11 tokens, and model has positions for 10")
        for text in ("", " \n"):
            self.refused("model", text=text, status=2, says="--text: the text is empty")
        self.path.write_text("mine")
        _, err = self.run_command("-o", "dump.h5", "--model", "no/such", "--text", "a", status=5)
        self.assertIn("error: dump.h5 exists", err)

    def test_without_transformers(self):
        self.prepare = lambda: sys.modules.update(transformers=None)
        self.refused(self.model("decoder"), status=2, says="--model needs transformers",
                     hint="python3 -m pip install transformers")


if __name__ == "__main__":
    unittest.main()
