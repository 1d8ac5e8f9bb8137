"""dump-attention: a dump gives what functions of query, key and value computed in PyTorch."""

import sys
import types
import unittest
import unittest.mock

import h5py
import numpy as np

from torch_dumps import (WITHOUT_TORCH, DumpTest, SomethingRuns,  # noqa: F401
                         plain_attention, recording)
from dump_attention import DumpError

if not WITHOUT_TORCH:
    import torch
    from torch import nn


def own_attention(q, k, v, attn_mask=None, is_causal=False, scale=None):
    return plain_attention(q, k, v, attn_mask, is_causal, scale)


def causal_by_default(q, k, v, is_causal=True):
    return plain_attention(q, k, v, is_causal=is_causal)


LAYOUTS = {"bhld": lambda x: x, "blhd": lambda x: x.transpose(1, 2),
           "joined": lambda x: x.transpose(1, 2).flatten(2)}


def laid_out(q, k, v, given, made, causal=False):
    """Attention of tensors in the layout `given` with a result in the layout `made`; causality is
    counted from the last query and key."""
    q, k, v = map(LAYOUTS[given], (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
    return LAYOUTS[made](plain_attention(q, k, v, mask.tril(len(mask.T) - len(mask)) if causal else None))


class Functions(DumpTest):

    NAME = f"{__name__}:own_attention"

    def follow(self, q=None, k=None, v=None, **arguments):
        if q is None:
            q, k, v = (torch.randn(2, 4, n, 8) for n in (5, 7, 7))
        with recording(self.path, None, functions=[self.NAME], force=True):
            out = globals()["own_attention"](q, k, v, **arguments)
        self.assertEqual(self.groups(), ["own_attention"])
        self.check("own_attention", out)
        return self.attributes("own_attention"), self.names("own_attention") - {"q", "k", "v"}

    def test_arguments(self):
        allowed = torch.rand(2, 1, 5, 7) < 0.6
        allowed[..., 0] = True
        least = torch.randn(5, 7).masked_fill(~allowed[0, 0], torch.finfo(torch.float32).min)
        for arguments, energy, scale, causal, stored in [
            ({}, "scaled-dot", 1, "none", set()),
            ({"attn_mask": allowed}, "scaled-dot", 1, "none", {"mask"}),
            ({"attn_mask": torch.ones(5, 7, dtype=torch.bool)}, "scaled-dot", 1, "none", set()),
            ({"attn_mask": torch.randn(5, 7)}, "scaled-dot", 1, "none", {"bias"}),
            ({"attn_mask": torch.zeros(5, 7)}, "scaled-dot", 1, "none", set()),
            ({"attn_mask": least}, "scaled-dot", 1, "none", {"bias", "mask"}),
            ({"scale": 0.25}, "dot", 0.25, "none", set()),
            ({"scale": 8**-0.5}, "scaled-dot", 1, "none", set()),
            ({"is_causal": True}, "scaled-dot", 1, "top-left", set()),
            ({"is_causal": True, "attn_mask": torch.randn(2, 4, 5, 7), "scale": 2.0}, "dot", 2,
             "top-left", {"bias"}),
        ]:
            with self.subTest(arguments=list(arguments)):
                recorded, names = self.follow(**arguments)
                self.assertEqual((recorded["attn_energy"], recorded["attn_scale"],
                                  recorded["attn_causal"]), (energy, scale, causal))
                self.assertEqual(names, stored)

    def test_defaults_of_functions_count(self):
        q = torch.randn(2, 4, 5, 8)
        name = f"{__name__}:causal_by_default"
        with recording(self.path, None, functions=name):
            out = globals()["causal_by_default"](q, q, q)
        self.assertEqual(self.attributes("causal_by_default")["attn_causal"], "top-left")
        self.check("causal_by_default", out)

    def test_masks_that_are_causality_or_windows(self):
        def places(queries, keys, offset=0):
            return torch.arange(keys)[None] - torch.arange(queries)[:, None] - offset

        square, wide = places(9, 9), places(3, 9, 6)
        for name, allowed, causal, window in [
            ("causal", square <= 0, "top-left", None),
            ("cache", wide <= 0, "bottom-right", None),
            ("window", (square <= 0) & (square > -4), "top-left", 4),
            ("both sides", square.abs() < 3, "none", 3),
            ("window with a cache", (wide <= 0) & (wide > -4), "bottom-right", 4),
        ]:
            for shape in ([], [1, 1], [2, 4]):
                with self.subTest(name, shape=shape):
                    q, k = (torch.randn(2, 4, n, 8) for n in allowed.shape)
                    mask = allowed.expand(*shape, *allowed.shape)
                    recorded, names = self.follow(q, k, k, attn_mask=mask)
                    self.assertEqual(names, set())
                    self.assertEqual(recorded["attn_causal"], causal)
                    self.assertEqual(recorded.get("attn_window"), window)
        # One pair less is a mask.
        less = square <= 0
        less[5, 2] = False
        q = torch.randn(2, 4, 9, 8)
        self.assertEqual(self.follow(q, q, q, attn_mask=less)[1], {"mask"})

    def test_the_layout_is_what_gives_the_output(self):
        for queries, keys, heads, key_heads in [(5, 7, 4, 2), (4, 4, 4, 4), (4, 8, 4, 4), (6, 3, 6, 3)]:
            for given in ("bhld", "blhd"):
                for made in LAYOUTS:
                    for causal in (False, True) if queries <= keys else (False,):
                        with self.subTest(given, made=made, heads=heads, keys=keys, causal=causal):
                            tensors = [torch.randn(2, *size, 8) for size in (
                                (heads, queries), (key_heads, keys), (key_heads, keys))]
                            with recording(self.path, function=f"{__name__}:laid_out", force=True):
                                out = globals()["laid_out"](*map(LAYOUTS[given], tensors), given, made,
                                                            causal=causal)
                            for name, tensor in zip("qkv", tensors):
                                np.testing.assert_array_equal(self.values("laid_out", name), tensor)
                            out = LAYOUTS["blhd"](out.unflatten(-1, (heads, 8))) if made == "joined" else (
                                LAYOUTS[made](out))
                            self.check("laid_out", out)
                            self.assertLess(self.attributes("laid_out")["model_error"], 1e-5)

    def test_shapes_that_do_not_fit(self):
        q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 3, 7, 8)
        with unittest.mock.patch.object(sys.modules[__name__], "own_attention", lambda q, k, v: q):
            with self.assertRaisesRegex(DumpError, r"of \(2, 4, 5, 8\), \(2, 3, 7, 8\), .* are neither"):
                with recording(self.path, function=f"{__name__}:own_attention"):
                    globals()["own_attention"](q, k, k)

    def test_a_layout_that_nothing_tells_is_the_usual_one(self):
        name = f"{__name__}:own_attention"
        q = torch.randn(2, 4, 5, 8)
        with unittest.mock.patch.object(sys.modules[__name__], "own_attention", lambda q, k, v: v * 3):
            with self.assertWarnsRegex(UserWarning, "output differs"), recording(self.path, function=name):
                globals()["own_attention"](q, q, q)
        np.testing.assert_array_equal(self.values("own_attention", "q"), q)

    def test_grouped_heads(self):
        class Layer(nn.Module):
            def forward(self, q, k, v):
                return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                                  enable_gqa=True)

        self.stand_in_for_sdpa()
        q, k, v = torch.randn(2, 6, 7, 8), *torch.randn(2, 2, 2, 7, 8)
        out = self.record(Layer(), q, k, v)
        self.assertEqual(self.values("attention", "k").shape, (2, 2, 7, 8))
        self.check("attention", out)
        for heads, left in ({"0,1": 1, "0-2": 1, "2,3": 2, "0,1,5": 3, "4": 1}).items():
            with self.subTest(heads=heads):
                self.record(Layer(), q, k, v, dump={"heads": heads})
                chosen = self.attributes("attention")["heads"]
                self.assertEqual(self.values("attention", "k").shape[1], left)
                self.check("attention", out[:, chosen])
        with self.assertRaisesRegex(DumpError, "--heads: attention has 6 heads, from 0 to 5"):
            self.record(Layer(), q, k, v, dump={"heads": [2, 6]})

    def stand_in_for_sdpa(self):
        """Before PyTorch 2: a function with the parameters of scaled_dot_product_attention."""
        if hasattr(nn.functional, "scaled_dot_product_attention"):
            return

        def stand_in(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                     enable_gqa=False):
            del dropout_p
            if enable_gqa:
                key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1)
                              for x in (key, value))
            return plain_attention(query, key, value, attn_mask, is_causal, scale)

        replaced = unittest.mock.patch.object(nn.functional, "scaled_dot_product_attention",
                                              stand_in, create=True)
        replaced.start()
        self.addCleanup(replaced.stop)

    def test_scaled_dot_product_attention(self):
        class Layer(nn.Module):
            def forward(self, q, k, v):
                return nn.functional.scaled_dot_product_attention(q, k, v, None, 0.0, True)

        self.stand_in_for_sdpa()
        model = nn.ModuleDict({"layer": Layer(), "other": nn.MultiheadAttention(8, 2)})
        q, k, v = (torch.randn(2, 4, 6, 8) for _ in "qkv")
        with recording(self.path, model):
            out = model["layer"](q, k, v)
            # Called outside the modules of the model.
            nn.functional.scaled_dot_product_attention(q, k, v)
            model["other"](q[0], k[0], v[0])  # it may call the function itself: once is enough
        self.assertEqual(self.groups(), ["layer", "other"])
        self.check("layer", out)
        self.assertEqual(self.attributes("layer")["attn_causal"], "top-left")

    def test_copies_of_functions_are_replaced(self):
        self.stand_in_for_sdpa()
        home = types.ModuleType("model_with_a_copy")
        home.nn, home.sdpa = nn, nn.functional.scaled_dot_product_attention
        exec("class Layer(nn.Module):\n  def forward(self, x): return sdpa(x, x, x)", vars(home))
        with unittest.mock.patch.dict(sys.modules, {"model_with_a_copy": home}):
            x = torch.randn(2, 4, 6, 8)
            original = home.sdpa
            out = self.record(home.Layer(), x)
            self.check("attention", out)
            self.assertIs(home.sdpa, original)

    def test_attention_that_is_not_seen_is_named(self):
        self.stand_in_for_sdpa()

        class Attention(nn.Module):
            def forward(self, x, seen=False):
                return nn.functional.scaled_dot_product_attention(x, x, x) if seen else x.softmax(-1) @ x.mT @ x

        class Projected(nn.Module):
            def __init__(self):
                super().__init__()
                self.q_proj, self.k_proj, self.v_proj, self.inner = *(nn.Linear(8, 8) for _ in "qkv"), Attention()

            def forward(self, x, seen=False):
                return self.inner(self.q_proj(x) + self.k_proj(x) + self.v_proj(x), seen)

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([Projected(), Projected(), Attention()])

            def forward(self, x, seen=(True, False, False)):
                for layer, one in zip(self.layers, seen):
                    x = layer(x, one)
                return x

        x, kind = torch.randn(1, 2, 5, 8), rf"{__name__}.Functions.*\.Attention"
        self.record(Model(), x, expect=[
            rf"^layers.1.inner and 1 more layer: not recorded: {kind} computes its attention by itself"])
        self.assertEqual(self.groups(), ["layers.0.inner"])
        self.record(Model(), x, dump={"layers": "0-1"}, expect=["^layers.1.inner: not recorded"])
        self.record(Model(), x, seen=(True, True, True))
        with self.assertRaisesRegex(DumpError, f"^no attention was recorded: layers.0.inner and 2 more layers: {kind}"):
            self.record(Model(), x, seen=(False, False, False))

    def test_a_call_that_cannot_be_recorded_is_named(self):
        class Layer(nn.Module):
            def forward(self, x):
                return own_attention(x, x, x)

        model = nn.Sequential(Layer())
        with unittest.mock.patch.object(sys.modules[__name__], "own_attention", lambda one, two, three: one):
            with self.assertRaisesRegex(DumpError, r"^0 \(.*\.Layer\): .*has no arguments query, key and value"):
                self.record(model, torch.randn(2, 4), dump={"functions": [self.NAME]})

    def test_inputs_of_functions(self):
        """x is what the projections see, after a normalisation; names of projections vary."""
        self.stand_in_for_sdpa()

        class Layer(nn.Module):
            def __init__(self, names, rotary=False, factor=1.0, by_head=False):
                super().__init__()
                self.names, self.rotary, self.factor, self.by_head = names, rotary, factor, by_head
                self.norm = nn.LayerNorm(24)
                for name in names:
                    setattr(self, name, nn.Linear(24, 24 * 3 if len(names) == 1 else 24))

            def forward(self, x, y=None):
                x = self.norm(x)
                y = x if y is None else y
                if len(self.names) == 1:
                    made = getattr(self, self.names[0])(x)
                    made = (made.unflatten(-1, (4, 3, 6)).unbind(-2) if self.by_head else
                            [part.unflatten(-1, (4, 6)) for part in made.chunk(3, -1)])
                else:
                    made = [getattr(self, name)(z).unflatten(-1, (4, 6))
                            for name, z in zip(self.names, (x, y, y))]
                q, k, v = (part.transpose(1, 2) for part in made)
                if self.rotary:
                    q, k = (part * torch.arange(1, part.shape[-2] + 1)[:, None] ** 0.1
                            for part in (q, k))
                scale = 6**-0.5 / self.factor
                return nn.functional.scaled_dot_product_attention(q * self.factor, k, v, scale=scale)

        x = torch.randn(2, 5, 24)
        for names, options in [(("q_proj", "k_proj", "v_proj"), {}), (("query", "key", "value"), {}),
                               (("to_q", "to_k", "to_v"), {"factor": 0.3}), (("qkv",), {}),
                               (("query_key_value",), {"by_head": True})]:
            with self.subTest(names=names):
                out = self.record(Layer(names, **options), x, dump={"inputs": True})
                self.assertNotIn("y", self.names("attention"))
                self.check("attention", out)
                self.check("attention", out, "--from=projection")
        out = self.record(Layer(("q", "k", "v")), x, torch.randn(2, 3, 24), dump={"inputs": True})
        self.assertEqual(self.values("attention", "y").shape, (2, 3, 24))
        self.check("attention", out, "--from=projection")
        self.record(Layer(("q", "k", "v")), x, dump={"inputs": True, "heads": "1,3"})
        self.assert_near("out", self.computed("attention", "--from=projection")["out"],
                         self.computed("attention")["out"], 1e-5)
        self.record(Layer(("q", "k", "v"), rotary=True), x, dump={"inputs": True},
                    expect=["q and k are not the projections"])
        self.record(Layer(("one", "two", "three")), x, dump={"inputs": True},
                    expect=["no linear modules"])

    def test_explain_away_uses_recorded_settings(self):
        self.follow(scale=0.7, is_causal=True)
        self.run_tool("explain-away-stats", "dump.h5:/own_attention", "--scheme=unas", "-o",
                      "stats.h5")
        sums = self.computed("own_attention", emit="weights")["weights"].sum(axis=-2)
        self.assert_near("col_sum", self.read("stats.h5")["unas_col_sum"], sums, 1e-5)

    def test_how_tensors_lie_in_memory_does_not_matter(self):
        # Small and large ones, each larger than what is written at once, and heads that are.
        for shape, axes in [((2, 40, 3, 8), (0, 2, 1, 3)), ((2, 700, 5, 64), (0, 2, 1, 3)),
                            ((1, 4500, 2, 64), (0, 2, 1, 3)), ((2, 3, 64, 900), (0, 1, 3, 2)),
                            ((64, 2, 3, 900), (1, 2, 3, 0))]:
            with self.subTest(shape=shape, axes=axes):
                q, k, v = (torch.randn(shape).permute(axes) for _ in range(3))
                with recording(self.path, functions=[self.NAME], force=True):
                    globals()["own_attention"](q[..., :9, :], k, v)
                for name, tensor in (("q", q[..., :9, :]), ("k", k), ("v", v)):
                    self.assertTrue(np.array_equal(self.values("own_attention", name), tensor))

    def test_compressed_dumps_are_smaller(self):
        q = torch.zeros(2, 4, 300, 64)
        sizes = []
        for compress in (None, "gzip:2"):
            with recording(self.path, functions=[self.NAME], force=True, compress=compress):
                out = globals()["own_attention"](q, q, q + 1)
            sizes.append(self.path.stat().st_size)
            self.check("own_attention", out)
        self.assertLess(sizes[1], sizes[0] / 20)
        with h5py.File(self.path) as file:
            self.assertEqual(file["own_attention/q"].compression_opts, 2)


if __name__ == "__main__":
    unittest.main()
