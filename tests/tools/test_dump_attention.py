"""dump-attention as a module: attn-compute applied to a dump reproduces what PyTorch computed, for
nn.MultiheadAttention and for functions of query, key and value."""

import importlib.util
import sys
import types
import unittest
import unittest.mock

import numpy as np

from attn import SOURCE

WITHOUT_TORCH = importlib.util.find_spec("torch") is None

if WITHOUT_TORCH:
    print("test_dump_attention: no torch for this Python, so it is not tested", file=sys.stderr)
    DumpTest = unittest.TestCase
else:
    import h5py
    import torch
    from torch import nn
    from torch_dumps import DumpTest, plain_attention, recording
    from dump_attention import DumpError


class SomethingRuns(unittest.TestCase):
    """Makes a run without torch say that it skips the tests."""

    def test_torch_is_installed(self):
        if WITHOUT_TORCH:
            self.skipTest("torch is not installed")

    def test_is_valid_python(self):
        for path in (SOURCE / "scripts/dump_attention").glob("*.py"):
            compile(path.read_text(), path, "exec")


@unittest.skipIf(WITHOUT_TORCH, "torch is not installed")
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


@unittest.skipIf(WITHOUT_TORCH, "torch is not installed")
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

    def test_refusals(self):
        for name in ("nothing", "no.such.module:f", f"{__name__}:no_such_function", ":", "torch:"):
            with self.subTest(name=name), self.assertRaisesRegex(DumpError, "module:function"):
                with recording(self.path, functions=[name]):
                    pass
        with self.assertRaisesRegex(DumpError, "no attention was called"):
            with recording(self.path):
                pass
        with self.assertRaises(ZeroDivisionError):
            with recording(self.path):
                raise ZeroDivisionError
        module = nn.MultiheadAttention(8, 2)
        for options, says in [({"layers": "1-0"}, "--layers: 1-0 is empty"), ({"heads": "x"}, "--heads: 'x'"),
                              ({"dtype": "f8"}, "--dtype"), ({"compress": "zstd"}, "--compress"),
                              ({"layers": "other.*"}, "leave out all of attention")]:
            with self.subTest(says), self.assertRaisesRegex(DumpError, says) as caught:
                x = torch.randn(4, 1, 8)
                with recording(self.path, module, **options):
                    module(x, x, x)
            self.assertEqual(caught.exception.status, 2)
        for name in ("dump.npz", "dump.safetensors"):
            with self.assertRaisesRegex(DumpError, "only HDF5"), recording(self.folder / name):
                pass
        self.assertEqual(list(self.folder.iterdir()), [])
        self.path.write_text("mine")
        with self.assertRaisesRegex(DumpError, "exists") as caught, recording(self.path):
            pass
        self.assertEqual(caught.exception.status, 5)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["dump.h5"])
        self.assertEqual(self.path.read_text(), "mine")

    def test_layers_and_calls(self):
        model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 4).eval()
        for layers, calls, expected in [("0,2-3", "1", ["0", "2", "3"]), ([1], "2", ["1@2"]),
                                        ("layers.3.*", None, ["3", "3@2"]), (3, 2, ["3@2"])]:
            with self.subTest(layers=layers), torch.no_grad():
                with recording(self.path, model, layers=layers, calls=calls, force=True):
                    model(torch.randn(1, 3, 8))
                    model(torch.randn(1, 3, 8))
                self.assertEqual(self.groups(), [f"layers.{n[0]}.self_attn{n[1:]}" for n in expected])

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


if not WITHOUT_TORCH:
    def own_attention(q, k, v, attn_mask=None, is_causal=False, scale=None):
        return plain_attention(q, k, v, attn_mask, is_causal, scale)

    def causal_by_default(q, k, v, is_causal=True):
        return plain_attention(q, k, v, is_causal=is_causal)


@unittest.skipIf(WITHOUT_TORCH, "torch is not installed")
class Tokens(DumpTest):

    class Model(nn.Module if not WITHOUT_TORCH else object):
        """A Transformer: an encoder and a decoder with words and places."""

        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(40, 16), nn.Embedding(20, 16)
            self.both = nn.Transformer(16, 2, 1, 1, 16, batch_first=True)

        def embed(self, ids):
            return self.places(torch.arange(ids.shape[1])[None]) + self.words(ids)

        def forward(self, ids, decoder_ids, pad=None):
            return self.both(self.embed(ids), self.embed(decoder_ids), src_key_padding_mask=pad)

    class Tokenizer:
        def convert_ids_to_tokens(self, ids):
            return [f"wört{one}" for one in ids]

    def test_each_attention_has_its_own(self):
        model = self.Model().eval()
        for lengths in ((7, 5), (6, 6)):
            one, two = (torch.randint(0, 40, (2, n)) for n in lengths)
            with self.subTest(lengths=lengths):
                self.record(model, one, two, dump={"tokenizer": self.Tokenizer()})
                for layer, ids in [("encoder.layers.0.self_attn", one), ("decoder.layers.0.self_attn", two),
                                   ("decoder.layers.0.multihead_attn", one)]:
                    group = f"both.{layer}"
                    np.testing.assert_array_equal(self.values(group, "token_ids"), ids)
                    words = [[f"wört{n}" for n in row] for row in ids.tolist()]
                    stored = self.values(group, "tokens")
                    self.assertEqual([[w.decode() for w in row] for row in stored], words)
                stats = self.stats("dump.h5:/both.encoder.layers.0.self_attn", "--scheme=unas")
                self.assertIn(stats["unas"]["lowest"][0]["key"], [w for row in words for w in row] +
                              [f"wört{n}" for n in one.flatten().tolist()])

    def test_kinds_of_tokenizers(self):
        class Pieces:
            def decode(self, ids):
                return "".join(f"<{one}>" for one in ids)

        words = [f"<{n}>" for n in range(40)]
        ids = torch.tensor([[3, 1, 4], [1, 5, 9]])
        model = self.Model().eval()
        for tokenizer in (words, dict(enumerate(words)), {w: n for n, w in enumerate(words)}, Pieces(),
                          Pieces().decode):
            with self.subTest(kind=type(tokenizer).__name__):
                self.record(model, ids, ids, dump={"tokenizer": tokenizer})
                stored = self.values("both.encoder.layers.0.self_attn", "tokens")
                self.assertEqual(stored.tolist(), [[b"<3>", b"<1>", b"<4>"], [b"<1>", b"<5>", b"<9>"]])
        for tokenizer, says in ((words[:4], "no string for an id"), (3, "names no tokens")):
            with self.assertRaisesRegex(DumpError, says):
                self.record(model, ids, ids, dump={"tokenizer": tokenizer})

    def test_given_strings(self):
        model = self.Model().eval()
        one, two = torch.randint(0, 40, (2, 4)), torch.randint(0, 40, (2, 3))
        self.record(model, one, two, dump={"tokens": list("abcd")})
        self.assertEqual(self.values("both.encoder.layers.0.self_attn", "tokens").tolist(),
                         [b"a", b"b", b"c", b"d"])
        self.assertNotIn("tokens", self.names("both.decoder.layers.0.self_attn"))
        self.record(model, one, two, dump={"tokens": [list("abc"), list("def")]})
        self.assertEqual(self.values("both.decoder.layers.0.self_attn", "tokens").tolist(),
                         [[b"a", b"b", b"c"], [b"d", b"e", b"f"]])
        with self.assertRaisesRegex(DumpError, "no layer has as many keys"):
            self.record(model, one, two, dump={"tokens": list("abcde")})

    def test_a_model_of_the_older_order(self):
        class Older(nn.Module):
            def __init__(self):
                super().__init__()
                self.words = nn.Embedding(40, 16)
                self.layer = nn.MultiheadAttention(16, 2)

            def forward(self, ids):
                x = self.words(ids)
                return self.layer(x, x, x)[0]

        ids = torch.randint(0, 40, (5, 3))  # (L, B)
        self.record(Older(), ids)
        np.testing.assert_array_equal(self.values("layer", "token_ids"), ids.T)


if __name__ == "__main__":
    unittest.main()
