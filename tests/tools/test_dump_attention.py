"""scripts/dump-attention.py: attn-compute applied to a dump reproduces PyTorch's results."""

import importlib.util
import shutil
import subprocess
import sys
import textwrap
import unittest
import unittest.mock
import warnings

import h5py
import numpy as np

from attn import SOURCE, ToolTest

WITHOUT_TORCH = importlib.util.find_spec("torch") is None

if WITHOUT_TORCH:
    print("test_dump_attention: no torch for this Python, so it is not tested", file=sys.stderr)
else:
    import torch
    from torch import nn
    sys.path.insert(0, str(SOURCE / "scripts"))
    # pylint: disable=wrong-import-position
    from dump_attention import DumpError, dump_attention


def own_attention(q, k, v, attn_mask=None, is_causal=False, scale=None):
    """scaled_dot_product_attention, as documented."""
    scale = q.shape[-1]**-0.5 if scale is None else scale
    scores = q @ k.transpose(-2, -1) * scale
    if is_causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~allowed, -np.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -np.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return scores.softmax(-1) @ v


class SomethingRuns(unittest.TestCase):
    """Makes a run without torch fail instead of skipping all tests."""

    def test_torch_is_installed(self):
        if WITHOUT_TORCH:
            self.skipTest("torch is not installed")

    def test_is_valid_python(self):
        path = SOURCE / "scripts/dump-attention.py"
        compile(path.read_text(), path, "exec")


@unittest.skipIf(WITHOUT_TORCH, "torch is not installed")
class DumpTest(ToolTest):

    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        self.path = self.folder / "dump.h5"

    def groups(self):
        with h5py.File(self.path) as file:
            return sorted(file)

    def attributes(self, group):
        with h5py.File(self.path) as file:
            return dict(file[group].attrs)

    def computed(self, group):
        """attn-compute's out and weights of a group, with the energy and scale that the group
        records."""
        recorded = self.attributes(group)
        options = [f"--energy={recorded['attn_energy']}", f"--scale={recorded['attn_scale']!r}"]
        return self.compute(f"dump.h5:/{group}", *options, "--emit=out,weights", "--only")

    def check_module(self, module, group, result):
        """`result`: the return value of the module, with weights by head."""
        bundle = self.computed(group)
        out, weights = (x.detach() for x in result)
        if weights.dim() == 3:
            weights = weights[None]
        self.assert_near("weights", bundle["weights"], weights.numpy(), 2e-6)
        # After the heads, the module applies another projection.
        heads = torch.from_numpy(bundle["out"]).transpose(1, 2)
        mine = module.out_proj(heads.flatten(2)).detach()
        if out.dim() == 2:
            mine = mine[0]
        elif not module.batch_first:
            mine = mine.transpose(0, 1)
        self.assert_near("out", mine.numpy(), out.numpy(), 1e-5)


class Modules(DumpTest):

    def test_multihead_attention(self):
        length, queries, batch = 7, 5, 3
        allowed = torch.rand(queries, length) < 0.7
        allowed[:, 0] = True
        padding = torch.zeros(batch, length, dtype=torch.bool)
        padding[1, 4:] = True
        by_head = (torch.rand(batch * 4, queries, length) < 0.3)
        by_head[:, :, 0] = False
        added = torch.randn(queries, length)
        closed = added.masked_fill(~allowed, -np.inf)
        cases = [
            ({}, {}),
            ({"batch_first": True}, {}),
            ({"bias": False}, {"attn_mask": ~allowed}),
            ({"kdim": 6, "vdim": 10}, {"attn_mask": closed, "key_padding_mask": padding}),
            ({}, {"attn_mask": by_head}),
            ({}, {"attn_mask": ~allowed, "key_padding_mask": padding}),
            ({"batch_first": True}, {"key_padding_mask": padding}),
            ({}, {"attn_mask": torch.randn(batch * 4, queries, length)}),
            ({"add_bias_kv": True, "add_zero_attn": True},
             {"attn_mask": ~allowed, "key_padding_mask": padding}),
            ({"add_bias_kv": True}, {"attn_mask": added}),
        ]
        for options, masks in cases:
            with self.subTest(options=options, masks=list(masks)):
                module = nn.MultiheadAttention(16, 4, **options).eval()
                if module.in_proj_bias is not None:
                    nn.init.normal_(module.in_proj_bias)
                q = torch.randn(queries, batch, 16)
                k = torch.randn(length, batch, options.get("kdim", 16))
                v = torch.randn(length, batch, options.get("vdim", 16))
                if module.batch_first:
                    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
                with dump_attention(module, self.path, force=True):
                    result = module(q, k, v, **masks, average_attn_weights=False)
                self.assertEqual(self.groups(), ["attention"])
                self.check_module(module, "attention", result)

    def test_without_batch(self):
        module = nn.MultiheadAttention(12, 3)
        x = torch.randn(6, 12)
        with dump_attention(module, self.path):
            result = module(x, x, x, average_attn_weights=False)
        self.check_module(module, "attention", result)

    def test_names_calls_and_the_fast_path(self):
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        model = nn.TransformerEncoder(layer, 3).eval()
        x = torch.randn(2, 9, 16)
        padding = torch.zeros(2, 9, dtype=torch.bool)
        padding[0, 6:] = True
        forward = nn.MultiheadAttention.forward
        with torch.no_grad():
            expected = model(x)
            with dump_attention(model, self.path) as recorder:
                near = model(x)
                model(x, src_key_padding_mask=padding)
        names = [f"layers.{n}.self_attn" for n in range(3)]
        self.assertEqual(self.groups(), sorted(names + [f"{name}@2" for name in names]))
        self.assertEqual(recorder.calls, dict.fromkeys(names, 2))
        self.assert_near("the model itself", near.numpy(), expected.numpy(), 1e-5)
        self.assertIs(nn.MultiheadAttention.forward, forward)
        self.assertNotEqual(model.layers[0].activation_relu_or_gelu, 0)
        with h5py.File(self.path) as file:
            first, second = file[names[1]], file[f"{names[1]}@2"]
            self.assertEqual(first["q"].shape, (2, 2, 9, 8))
            self.assertNotIn("mask", first)
            np.testing.assert_array_equal(second["mask"][:, 0, 0], ~padding.numpy())
            self.assertIn("PyTorch", file.attrs["history"])

    def test_other_models_are_not_recorded(self):
        mine, other = nn.MultiheadAttention(8, 2), nn.MultiheadAttention(8, 2)
        x = torch.randn(4, 1, 8)
        with dump_attention(mine, self.path):
            mine(x, x, x)
            other(x, x, x)
        self.assertEqual(self.groups(), ["attention"])

    def test_dropout_is_warned_of(self):
        module = nn.MultiheadAttention(8, 2, dropout=0.5).train()
        x = torch.randn(4, 1, 8)
        with self.assertWarnsRegex(UserWarning, "dropout"), dump_attention(module, self.path):
            module(x, x, x)

    def test_bfloat16_and_float16(self):
        for dtype in (torch.bfloat16, torch.float64):
            module = nn.MultiheadAttention(8, 2).to(dtype)
            x = torch.randn(4, 1, 8, dtype=dtype)
            with dump_attention(module, self.path, force=True):
                module(x, x, x)
            with h5py.File(self.path) as file:
                expected = np.float32 if dtype == torch.bfloat16 else np.float64
                self.assertEqual(file["attention/q"].dtype, expected)


class Functions(DumpTest):

    NAME = f"{__name__}:own_attention"

    def follow(self, **arguments):
        q, k, v = (torch.randn(2, 4, n, 8) for n in (5, 7, 7))
        with dump_attention(None, self.path, [self.NAME], force=True):
            out = globals()["own_attention"](q, k, v, **arguments)
        self.assertEqual(self.groups(), ["own_attention"])
        self.assert_near("out", self.computed("own_attention")["out"], out.numpy(), 1e-5)
        return self.attributes("own_attention")

    def test_arguments(self):
        allowed = torch.rand(2, 1, 5, 7) < 0.6
        allowed[..., 0] = True
        for arguments, energy, scale, causal in [
            ({}, "scaled-dot", 1, "none"),
            ({"attn_mask": allowed}, "scaled-dot", 1, "none"),
            ({"attn_mask": torch.randn(5, 7)}, "scaled-dot", 1, "none"),
            ({"scale": 0.25}, "dot", 0.25, "none"),
            ({"scale": 8**-0.5}, "scaled-dot", 1, "none"),
            ({"is_causal": True}, "scaled-dot", 1, "top-left"),
            ({"is_causal": True, "attn_mask": torch.randn(2, 4, 5, 7), "scale": 2.0}, "dot", 2,
             "top-left"),
        ]:
            with self.subTest(arguments=list(arguments)):
                recorded = self.follow(**arguments)
                self.assertEqual((recorded["attn_energy"], recorded["attn_scale"],
                                  recorded["attn_causal"]), (energy, scale, causal))

    def test_explain_away_uses_recorded_settings(self):
        self.follow(scale=0.7, is_causal=True)
        self.run_tool("explain-away-stats", "dump.h5:/own_attention", "--scheme=unas", "-o",
                      "stats.h5")
        sums = self.computed("own_attention")["weights"].sum(axis=-2)
        self.assert_near("col_sum", self.read("stats.h5")["unas_col_sum"], sums, 1e-5)

    def test_scaled_dot_product_attention(self):
        class Layer(nn.Module):
            def forward(self, q, k, v):
                return nn.functional.scaled_dot_product_attention(q, k, v, None, 0.0, True)

        if not hasattr(nn.functional, "scaled_dot_product_attention"):
            # Before PyTorch 2: a module with its parameters replaces it.
            def stand_in(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
                del dropout_p
                return own_attention(q, k, v, attn_mask, is_causal, scale)

            replaced = unittest.mock.patch.object(
                nn.functional, "scaled_dot_product_attention", stand_in, create=True)
            replaced.start()
            self.addCleanup(replaced.stop)

        model = nn.ModuleDict({"layer": Layer(), "other": nn.MultiheadAttention(8, 2)})
        q, k, v = (torch.randn(2, 4, 6, 8) for _ in "qkv")
        with dump_attention(model, self.path):
            out = model["layer"](q, k, v)
            # Called outside the modules of the model.
            nn.functional.scaled_dot_product_attention(q, k, v)
            model["other"](q[0], k[0], v[0])  # it may call the function itself: once is enough
        self.assertEqual(self.groups(), ["layer", "other"])
        self.assert_near("out", self.computed("layer")["out"], out.numpy(), 1e-5)

    def test_refusals(self):
        for name in ("nothing", "no.such.module:f", f"{__name__}:no_such_function", ":", "torch:"):
            with self.subTest(name=name), self.assertRaisesRegex(DumpError, "module:function"):
                with dump_attention(None, self.path, [name]):
                    pass
        with self.assertRaisesRegex(DumpError, "no attention was called"):
            with dump_attention(None, self.path):
                pass
        with self.assertRaises(ZeroDivisionError):
            with dump_attention(None, self.path):
                raise ZeroDivisionError
        self.path.write_text("mine")
        with self.assertRaises(FileExistsError):
            with dump_attention(None, self.path):
                pass
        self.assertEqual([p.name for p in self.folder.iterdir()], ["dump.h5"])
        self.assertEqual(self.path.read_text(), "mine")


@unittest.skipIf(WITHOUT_TORCH, "torch is not installed")
class Script(DumpTest):

    SCRIPT = textwrap.dedent("""
        import sys
        import torch
        import mylayer

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.block = torch.nn.ModuleList([mylayer.Layer() for _ in range(2)])
                self.mha = torch.nn.MultiheadAttention(8, 2)

            def forward(self, x):
                for layer in self.block:
                    x = layer(x)
                return self.mha(x, x, x)[0]

        if __name__ == "__main__":
            assert sys.argv[1:] == ["--layers", "2"], sys.argv
            torch.manual_seed(1)
            Model()(torch.randn(5, 1, 8))
        """)
    LAYER = textwrap.dedent("""
        import torch

        def attend(query, key, value, causal):
            s = query @ key.transpose(-1, -2) / 8**0.5
            if causal:
                s = s.masked_fill(~torch.ones_like(s, dtype=torch.bool).tril(), -float("inf"))
            return s.softmax(-1) @ value

        class Layer(torch.nn.Module):
            def forward(self, x):
                return attend(x[:, 0], value=x[:, 0], key=x[:, 0], causal=True)[:, None]
        """)

    def dump(self, *arguments, status=0):
        (self.folder / "infer.py").write_text(self.SCRIPT)
        (self.folder / "mylayer.py").write_text(self.LAYER)
        command = [sys.executable, SOURCE / "scripts/dump-attention.py", *arguments]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True,
                              check=False)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return done.stderr.decode()

    def test_around_a_script(self):
        self.dump("-o", "dump.h5", "--function", "mylayer:attend", "infer.py", "--layers", "2")
        self.assertEqual(self.groups(), ["block.0", "block.1", "mha"])
        shutil.rmtree(self.folder / "__pycache__", ignore_errors=True)
        with h5py.File(self.path) as file:
            values = {n: torch.from_numpy(file[f"block.0/{n}"][()]) for n in "qkv"}
            self.assertIn("infer.py --layers 2", file.attrs["history"])
        out = self.compute("dump.h5:/block.0", "--causal=top-left")["out"]
        expected = own_attention(**values, is_causal=True)
        self.assert_near("out", out, expected.numpy(), 1e-5)

    def test_failures(self):
        err = self.dump("-o", "dump.h5", "--function", "mylayer:other", "infer.py", status=1)
        self.assertRegex(err, "dump.attention.py: error: mylayer:other: .*module:function")
        err = self.dump("-o", "dump.h5", "infer.py", status=1)
        self.assertIn("AssertionError", err)
        self.assertFalse(self.path.exists())


if __name__ == "__main__":
    warnings.simplefilter("error")
    unittest.main()
