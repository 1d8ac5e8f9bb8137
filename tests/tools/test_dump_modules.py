"""dump-attention: a dump gives what nn.MultiheadAttention computed in PyTorch."""

import unittest

import numpy as np

from attn import SOURCE
from torch_dumps import WITHOUT_TORCH, DumpTest, SomethingRuns, recording  # noqa: F401
from dump_attention import DumpError

if not WITHOUT_TORCH:
    import torch
    from torch import nn


class Source(unittest.TestCase):

    def test_is_valid_python(self):
        for path in (SOURCE / "scripts/dump_attention").glob("*.py"):
            compile(path.read_text(), path, "exec")


class Modules(DumpTest):

    def check_module(self, module, group, result, rows=None):
        """`result`: the return value of the module, with weights by head."""
        out, weights = (x.detach() for x in result)
        weights = weights if weights.dim() == 4 else weights[None]
        mine = self.computed(group, emit="out,weights")
        if rows is None:
            self.assert_near("weights", mine["weights"], weights.numpy(), 2e-6)
        # After the heads, the module applies another projection.
        heads = torch.from_numpy(mine["out"]).transpose(1, 2)
        mine = module.out_proj(heads.flatten(2)).detach()
        out = out[None] if out.dim() == 2 else out if module.batch_first else out.transpose(0, 1)
        if rows is not None:
            mine, out = mine[rows], out[rows]
        self.assert_near("out", mine.numpy(), out.numpy(), 1e-5)

    def test_masks_and_shapes(self):
        length, queries, batch = 7, 5, 3
        allowed = torch.rand(queries, length) < 0.7
        allowed[:, 0] = True
        padding = torch.zeros(batch, length, dtype=torch.bool)
        padding[1, 4:] = True
        gaps = padding.clone()
        gaps[2, 2] = True
        by_head = torch.rand(batch * 4, queries, length) < 0.3
        by_head[:, :, 0] = False
        added = torch.randn(queries, length)
        closed = added.masked_fill(~allowed, -np.inf)
        soft = torch.randn(batch, length).masked_fill(padding, -np.inf)
        cases = [
            ({}, {}, set()),
            ({"batch_first": True}, {}, set()),
            ({"bias": False}, {"attn_mask": ~allowed}, {"mask"}),
            ({"kdim": 6, "vdim": 10}, {"attn_mask": closed, "key_padding_mask": padding},
             {"bias", "mask", "key_length"}),
            ({}, {"attn_mask": by_head}, {"mask"}),
            ({}, {"attn_mask": ~allowed, "key_padding_mask": padding}, {"mask", "key_length"}),
            ({}, {"key_padding_mask": padding}, {"key_length"}),
            ({}, {"key_padding_mask": gaps}, {"mask"}),
            ({}, {"key_padding_mask": soft}, {"bias", "key_length"}),
            ({}, {"attn_mask": torch.randn(batch * 4, queries, length)}, {"bias"}),
            ({"add_bias_kv": True, "add_zero_attn": True},
             {"attn_mask": ~allowed, "key_padding_mask": padding}, {"mask"}),
            ({"add_bias_kv": True}, {"attn_mask": added}, {"bias"}),
        ]
        for options, masks, stored in cases:
            with self.subTest(options=options, masks=list(masks)):
                module = nn.MultiheadAttention(16, 4, **options).eval()
                if module.in_proj_bias is not None:
                    nn.init.normal_(module.in_proj_bias)
                q = torch.randn(queries, batch, 16)
                k = torch.randn(length, batch, options.get("kdim", 16))
                v = torch.randn(length, batch, options.get("vdim", 16))
                if module.batch_first:
                    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
                result = self.record(module, q, k, v, **masks, average_attn_weights=False)
                self.assertEqual(self.groups(), ["attention"])
                self.assertEqual(self.names("attention"), {"q", "k", "v"} | stored)
                self.check_module(module, "attention", result)
                self.assertLess(self.attributes("attention")["model_error"], 1e-5)

    def test_without_batch(self):
        module = nn.MultiheadAttention(12, 3)
        x = torch.randn(6, 12)
        result = self.record(module, x, x, x, average_attn_weights=False)
        self.check_module(module, "attention", result)

    def test_padding_of_self_attention(self):
        module = nn.MultiheadAttention(16, 4, batch_first=True).eval()
        x = torch.randn(4, 9, 16)
        lengths = torch.tensor([9, 5, 1, 7])
        place = torch.arange(9)[None]
        for left in (False, True):
            real = place >= 9 - lengths[:, None] if left else place < lengths[:, None]
            for mask, causal in ((None, "none"), (torch.ones(9, 9).triu(1).bool(), "top-left")):
                if left and mask is not None:
                    # PyTorch's NaN for queries without keys would reach the others in later layers.
                    mask = mask & ~torch.eye(9, dtype=torch.bool)
                with self.subTest(left=left, causal=causal):
                    out = self.record(module, x, x, x, key_padding_mask=~real, attn_mask=mask)[0]
                    names = {"key_length", "query_length"}
                    names |= {"key_start", "query_start"} if left else set()
                    self.assertEqual(self.names("attention"), {"q", "k", "v"} | names)
                    self.assertEqual(self.attributes("attention")["attn_causal"], causal)
                    for name in names:
                        expected = lengths if "length" in name else 9 - lengths
                        stored = self.values("attention", name)
                        self.assertEqual(stored.dtype, np.int64)
                        np.testing.assert_array_equal(stored, expected)
                    heads = self.sequences("attention")
                    mine = module.out_proj(torch.from_numpy(heads).transpose(1, 2).flatten(2)).detach()
                    self.assert_near("out", mine[real].numpy(), out[real].numpy(), 1e-5)

    def test_cross_attention_is_not_padded_in_queries(self):
        # As many queries as keys: only that they come from elsewhere tells.
        module = nn.MultiheadAttention(16, 4, batch_first=True).eval()
        x, memory = torch.randn(2, 6, 16), torch.randn(2, 6, 16)
        padding = torch.arange(6)[None] >= torch.tensor([[6], [4]])
        result = self.record(module, x, memory, memory, key_padding_mask=padding,
                             average_attn_weights=False, dump={"inputs": True})
        self.assertEqual(self.names("attention") & {"key_length", "query_length", "y"},
                         {"key_length", "y"})
        self.check_module(module, "attention", result)
        self.assert_near("from projections", self.computed("attention", "--from=projection")["out"],
                         self.computed("attention")["out"], 1e-5)

    def test_inputs_of_modules(self):
        for options in ({}, {"bias": False}, {"kdim": 6, "vdim": 6}):
            with self.subTest(options=options):
                module = nn.MultiheadAttention(16, 4, batch_first=True, **options).eval()
                if module.in_proj_bias is not None:
                    nn.init.normal_(module.in_proj_bias)
                x = torch.randn(3, 7, 16)
                # Without a bias, PyTorch 1.13 fails if x and y are the same.
                y = torch.randn(3, 5, 6) if "kdim" in options else x.clone() if options else x
                out = self.record(module, x, y, y, dump={"inputs": True})[0]
                self.assertEqual(self.values("attention", "wk").shape, (4, y.shape[-1], 4))
                mine = self.computed("attention", "--from=projection", "--join")["joined"]
                self.assert_near("joined", mine, out.detach().numpy(), 1e-5)
                self.record(module, x, y, y, dump={"inputs": True, "heads": "1,3"})
                self.assertFalse(self.names("attention") & {"wo", "bo"})
        k, v = torch.randn(2, 3, 5, 16)
        module = nn.MultiheadAttention(16, 4)
        self.record(module, k, k, v, dump={"inputs": True}, expect=["different inputs"])
        module = nn.MultiheadAttention(16, 4, add_zero_attn=True)
        self.record(module, k, k, k, dump={"inputs": True}, expect=["adds a key"])
        self.assertEqual(self.names("attention"), {"q", "k", "v"})

    def test_names_calls_and_the_fast_path(self):
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        model = nn.TransformerEncoder(layer, 3).eval()
        x = torch.randn(2, 9, 16)
        padding = torch.zeros(2, 9, dtype=torch.bool)
        padding[0, 6:] = True
        call = nn.Module.__call__
        with torch.no_grad():
            expected = model(x)
            with recording(self.path, model) as recorder:
                near = model(x)
                model(x, src_key_padding_mask=padding)
        names = [f"layers.{n}.self_attn" for n in range(3)]
        self.assertEqual(self.groups(), sorted(names + [f"{name}@2" for name in names]))
        self.assertEqual(recorder.calls, dict.fromkeys(names, 2))
        self.assert_near("the model itself", near.numpy(), expected.numpy(), 1e-5)
        self.assertIs(nn.Module.__call__, call)
        self.assertNotEqual(model.layers[0].activation_relu_or_gelu, 0)
        self.assertNotIn("key_length", self.names(names[1]))
        np.testing.assert_array_equal(self.values(f"{names[1]}@2", "query_length"), [6, 9])
        attributes = self.attributes()
        self.assertRegex(attributes["history"], r"\A\d{4}-\d\d-\d\dT[\d:]+Z: .*unittest.* "
                         r"\(\d+\.\d+\.\d+, PyTorch .*\)\Z")
        self.assertEqual(attributes["model_class"], "torch.nn.modules.transformer.TransformerEncoder")
        self.assertEqual(self.attributes(names[0])["module_class"],
                         "torch.nn.modules.activation.MultiheadAttention")

    def test_other_models_are_not_recorded(self):
        mine, other = nn.MultiheadAttention(8, 2), nn.MultiheadAttention(8, 2)
        x = torch.randn(4, 1, 8)
        with recording(self.path, mine):
            mine(x, x, x)
            other(x, x, x)
        self.assertEqual(self.groups(), ["attention"])

    def test_dropout_is_warned_of(self):
        module = nn.MultiheadAttention(8, 2, dropout=0.5).train()
        x = torch.randn(4, 1, 8)
        self.record(module, x, x, x, expect=["dropout"])

    def test_more_than_was_recorded_is_warned_of(self):
        class Scaled(nn.MultiheadAttention):
            def forward(self, *args, **named):
                out, weights = super().forward(*args, **named)
                return 1.01 * out, weights

        x = torch.randn(4, 1, 8)
        self.record(Scaled(8, 2, bias=False), x, x, x, expect=["differs .* by up to 0.0099"])

    def test_types(self):
        for kind, dtype, expected in [(torch.bfloat16, None, "f4"), (torch.float64, None, "f8"),
                                      (torch.float32, "f16", "f2"), (torch.bfloat16, "f16", "f2"),
                                      (torch.float64, "f32", "f4")]:
            with self.subTest(kind=kind, dtype=dtype):
                module = nn.MultiheadAttention(8, 2).to(kind)
                x = torch.randn(4, 1, 8, dtype=kind)
                self.record(module, x, x, x, dump={"dtype": dtype})
                self.assertEqual(self.values("attention", "q").dtype, np.dtype(expected))
        module = nn.MultiheadAttention(8, 2)
        with self.assertRaisesRegex(DumpError, r"attention/q: 1e\+05 is too large for float16"):
            with torch.no_grad(), recording(self.path, module, dtype="f16", force=True):
                module.in_proj_weight[0].zero_()
                module.in_proj_weight[0, 0] = 1e5
                module(torch.ones(1, 1, 8), torch.ones(1, 1, 8), torch.ones(1, 1, 8))


if __name__ == "__main__":
    unittest.main()
