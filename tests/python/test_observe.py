"""attnkit.torch.observe: the statistics of explain-away-stats on a dump, without the dump."""

import contextlib
import csv
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
import textwrap
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np

import attnkit

try:
    import torch
    from torch import nn
except ImportError:
    torch = None

SOURCE = Path(os.environ["ATTN_SOURCE"]).resolve()
BIN = Path(os.environ["ATTN_BIN"]).resolve()
NAMED = f"{__name__}:named_attention"
TIMEOUT = 120  # seconds per command: far more than any takes

if torch is not None:
    sys.path[:0] = [str(SOURCE / "scripts"), str(SOURCE / "tests/tools")]
    # pylint: disable=wrong-import-position
    import dump_attention
    from registry_models import T5, Decoder

    from attnkit.torch._observe import observe

    class Named(nn.Module):
        """Attention by a function of (B, L, H, d), as dump-attention takes it with --function."""

        def forward(self, q, k, v, causal=True):
            return named_attention(q, k, v, causal)

    def named_attention(q, k, v, causal):
        scores = torch.einsum("bihd,bjhd->bhij", q.float(), k.float()) * q.shape[-1] ** -0.5
        if causal:
            scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
        return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v.float()).to(q.dtype)


def setUpModule():
    if torch is None:
        raise unittest.SkipTest("PyTorch is not installed")


def read(path):
    """Arrays and attributes of a bundle by path, the attributes of its root under ""."""
    arrays, attributes = {}, {}
    with h5py.File(path) as file:
        attributes[""] = {name: value for name, value in file.attrs.items() if name != "history"}

        def take(name, item):
            if isinstance(item, h5py.Group):
                attributes[name] = {key: np.asarray(value).tolist() for key, value in item.attrs.items()}
            else:
                arrays[name] = item[()], [axis.label for axis in item.dims]

        file.visititems(take)
    return arrays, attributes


class ObserveTest(unittest.TestCase):

    def setUp(self):
        torch.manual_seed(0)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_tool(self, tool, *words):
        return self.run_program(BIN / tool, *map(str, words))

    def run_program(self, *words):
        done = subprocess.run(words, capture_output=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode()

    def run_stats(self, *words):
        return self.run_tool("explain-away-stats", *words)

    def encoder(self, layers=2, **options):
        layer = nn.TransformerEncoderLayer(16, 2, 16, dropout=0.0, batch_first=True, **options)
        return nn.TransformerEncoder(layer, layers)

    def observed(self, model, run, **options):
        """What observe sees of run(), whose result must not change by a bit; no warnings may come."""
        alone = run()
        with warnings.catch_warnings():
            warnings.simplefilter("error", attnkit.Warning)
            with observe(model, **options) as seen:
                together = run()
        self.assertTrue(torch.equal(alone, together))
        return seen


class SameAsDump(ObserveTest):
    """Names, arrays, attributes and tables are those of dump-attention and explain-away-stats."""

    def check(self, model, run, words=(), **options):
        """`options` are those of observe; `words` are the same options of the tool."""
        dump, stats, mine = (self.folder / name for name in ("dump.h5", "stats.h5", "mine.h5"))
        recorded = {name: options[name] for name in ("function", "heads", "calls") if name in options}
        with torch.no_grad(), dump_attention.recording(dump, model, force=True, **recorded):
            run()
        self.run_stats(dump, "--each=/*", *words, "--only", "-o", stats, "--force", "-q")
        seen = self.observed(model, run, **options)
        seen.save(mine, force=True)
        (arrays, attributes), (expected, its_attributes) = read(mine), read(stats)
        self.assertEqual(attributes, its_attributes)
        for name in [name for name in arrays if name.endswith("largest_logit")]:
            self.check_largest(dump, Path(name).parent, arrays.pop(name)[0])
        self.assertEqual(list(arrays), list(expected))
        for name, (array, labels) in expected.items():
            self.assertEqual((arrays[name][0].dtype, arrays[name][1]), (array.dtype, labels), name)
            self.assertEqual(arrays[name][0].tobytes(), array.tobytes(), name)
        self.check_table(seen, self.run_stats(dump, "--each=/*", *words, "--csv"))
        return seen

    def check_largest(self, dump, group, found):
        """The largest logit against the scores that attn-compute writes."""
        path = self.folder / "scores.h5"
        words = f"{dump}:/{group} --emit=scores --only -q --force -o".split()
        self.run_tool("attn-compute", *words, path)
        scores = read(path)[0]["scores"][0]
        # Both sum d products of float32, with at most d = 16 rounding errors of 6e-8 each.
        limit = 1e-6 * np.abs(scores[np.isfinite(scores)]).max()
        np.testing.assert_allclose(found, scores.max((-2, -1)), rtol=0, atol=limit)

    def check_table(self, seen, text):
        table = seen.table()
        rows = list(csv.DictReader(io.StringIO(text)))
        self.assertEqual(len(rows), len(table["layer"]))
        self.assertGreater(len(rows), 0)
        calls = zip(table["layer"], table["call"])
        names = [layer if call == 1 else f"{layer}@{call}" for layer, call in calls]
        self.assertEqual(sorted(set(names)), sorted(seen))
        places = zip(names, table["batch"], table["head"], table["scheme"])
        at = {place: n for n, place in enumerate(places)}
        for row in rows:
            heads = seen[row["group"]].attributes.get("heads")
            head = int(row["head"]) if heads is None else heads[int(row["head"])]
            n = at[row["group"], int(row["batch"]), head, row["scheme"]]
            for name in set(row) - {"file", "group", "head"}:
                mine = table[name][n]
                self.assertEqual("" if mine is None else str(mine), _plain(row[name]), name)

    def test_transformer_with_padding_and_causality(self):
        model = nn.Transformer(16, 2, 2, 1, 16, dropout=0.0, batch_first=True)
        x, y = torch.randn(3, 9, 16), torch.randn(3, 7, 16)
        padding = torch.arange(9) >= torch.tensor([9, 4, 6])[:, None]
        causal = torch.ones(7, 7).triu(1).bool()
        seen = self.check(model, lambda: model(x, y, tgt_mask=causal, src_key_padding_mask=padding,
                                               memory_key_padding_mask=padding))
        self.assertEqual(seen.layers, ["encoder.layers.0.self_attn", "encoder.layers.1.self_attn",
                                       "decoder.layers.0.self_attn", "decoder.layers.0.multihead_attn"])

    def test_masks_and_biases_of_multihead_attention(self):
        model = nn.MultiheadAttention(16, 4, add_bias_kv=True, add_zero_attn=True, batch_first=True)
        x = torch.randn(2, 6, 16)
        mask = torch.randn(8, 6, 6).masked_fill(torch.rand(8, 6, 6) < 0.2, -torch.inf)
        self.check(model, lambda: model(x, x, x, attn_mask=mask)[0])

    def test_models_of_a_registry(self):
        ids, real = torch.randint(0, 50, (3, 12)), torch.arange(12) < torch.tensor([12, 5, 8])[:, None]
        for attention, options in [("eager", {"sinks": True, "softcap": 2.0}), ("sdpa", {"scaling": 0.3}),
                                   ("flash_attention_2", {"window": 4})]:
            with self.subTest(attention, **options):
                model = Decoder(attention, **options).eval()
                seen = self.check(model, lambda: model(input_ids=ids, attention_mask=real.long()))
                shares = seen.table()["sink_share"]
                self.assertEqual(all(share > 0 for share in shares), "sinks" in options)

    def test_t5(self):
        model, real = T5().eval(), torch.arange(9) < torch.tensor([9, 5])[:, None]
        one, two = torch.randint(0, 50, (2, 9)), torch.randint(0, 50, (2, 6))
        self.check(model, lambda: model(one, two, real.long()))

    def test_named_functions_and_types(self):
        for dtype in (torch.bfloat16, torch.float16, torch.float64):
            with self.subTest(dtype=dtype):
                q, k, v = (torch.randn(2, 9, 3, 8).to(dtype) for _ in range(3))
                model = Named()
                self.check(model, lambda: model(q, k, v), function=NAMED)

    def test_options(self):
        model = self.encoder()
        x = torch.randn(2, 9, 16)
        options = {"scheme": ("unas", "sinkhorn"), "epsilon": (0.9, 1e-8), "min_queries": 3, "top_shares": 2}
        words = ["--scheme=unas,sinkhorn", "--epsilon=0.9,1e-8", "--min-queries=3", "--top-shares=2"]
        self.check(model, lambda: model(x), words, **options)

    def test_chosen_layers_heads_and_calls(self):
        model = nn.MultiheadAttention(16, 4, batch_first=True)
        x = torch.randn(2, 9, 16)

        def run():
            return torch.stack([model(y, y, y)[0] for y in (x, -x, 2 * x)])

        seen = self.check(model, run, heads=[1, 3], calls="2-3")
        self.assertEqual(list(seen), ["attention@2", "attention@3"])
        self.assertEqual(set(seen.table()["head"]), {1, 3})
        model = self.encoder()
        seen = self.observed(model, lambda: model(x), layers="1")
        self.assertEqual(seen.layers, ["layers.1.self_attn"])


def _plain(text):
    """The text of a number as Python writes it."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return str(kind(text))
    return text


class Unchanged(ObserveTest):
    """The model computes the same bits, and is left as it was."""

    def test_gradients(self):
        model, x = self.encoder(), torch.randn(2, 9, 16)

        def gradients():
            model.zero_grad()
            model(x).square().sum().backward()
            return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

        seen = self.observed(model, gradients)
        self.assertEqual(len(seen), 2)

    def test_encoders_that_run_as_one_kernel(self):
        """Their attention is found too: in the first layer, to the bit as where modules run one by one."""
        x = torch.randn(3, 9, 16)
        padding = torch.arange(9) >= torch.tensor([9, 4, 6])[:, None]
        mask = torch.ones(9, 9).triu(1).bool()
        for norm_first, given in [(False, {}), (True, {}), (False, {"src_key_padding_mask": padding}),
                                  (True, {"src_key_padding_mask": padding}), (False, {"mask": mask})]:
            with self.subTest(norm_first=norm_first, given=list(given)), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*nested tensors")
                model = self.encoder(norm_first=norm_first).eval()
                slow = self.observed(model, lambda: model(x, **given))  # with gradients
                with torch.no_grad():
                    fast = self.observed(model, lambda: model(x, **given))
                self.assertEqual(list(fast), list(slow))
                first, second = slow.layers
                for name in slow[first]:
                    np.testing.assert_array_equal(fast[first][name], slow[first][name])
                    # The inputs of the second layer differ by some rounding errors of 6e-8 each.
                    np.testing.assert_allclose(fast[second][name], slow[second][name], rtol=0, atol=1e-5)

    def test_dropout_is_the_same(self):
        model, x = self.encoder().train(), torch.randn(2, 9, 16)
        for layer in model.layers:
            layer.self_attn.dropout = 0.5
        torch.manual_seed(1)
        alone = model(x)
        torch.manual_seed(1)
        with self.assertWarnsRegex(attnkit.Warning, "^layers.0.self_attn and 1 more layer: dropout is on"):
            with observe(model):
                self.assertTrue(torch.equal(model(x), alone))

    def test_all_is_restored(self):
        before = nn.Module.__call__
        model = self.encoder()
        for error in (None, ZeroDivisionError):
            with contextlib.suppress(ZeroDivisionError), observe(model):
                model(torch.randn(1, 4, 16))
                self.assertIsNot(nn.Module.__call__, before)
                if error is not None:
                    raise error
            self.assertIs(nn.Module.__call__, before)


    def test_threads_that_share_a_model(self):
        model = nn.MultiheadAttention(16, 2, batch_first=True).eval()
        inputs = [torch.randn(1, 40 + n, 16) for n in range(6)]
        with observe(model) as seen, ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda x: model(x, x, x), inputs))
        self.assertEqual(len(seen), 6)
        lengths = sorted(call.queries_of_key.shape[-1] for call in seen.values())
        self.assertEqual(lengths, [len(x[0]) for x in inputs])
        copied = pickle.loads(pickle.dumps(seen))
        self.assertEqual(list(copied), list(seen))


class Tables(ObserveTest):

    def seen_model(self, **options):
        model, ids = Decoder("sdpa").eval(), torch.randint(0, 50, (2, 12))
        return self.observed(model, lambda: model(input_ids=ids), **options)

    def test_least(self):
        """The keys and their order are those of the tool."""
        model, x = Named(), torch.randn(3, 2, 40, 3, 8)
        seen = self.observed(model, lambda: model(*x), function=NAMED, top=5)
        dump = self.folder / "dump.h5"
        with dump_attention.recording(dump, model, function=NAMED):
            model(*x)
        (group,) = json.loads(self.run_stats(dump, "--each=/*", "--top=5", "--json"))["result"]["groups"]
        least = seen.least()
        rows = [dict(zip(least, values)) for values in zip(*least.values())]
        self.assertEqual(len(rows), 2 * 2 * 3 * 5)
        for scheme in ("unas", "dnas"):
            for head in group[scheme]["heads"]:
                mine = [row for row in rows if [row["batch"], row["head"]] == head["index"]
                        and row["scheme"] == scheme]
                expected = head["enough"]["lowest"]
                self.assertEqual([row["key"] for row in mine], [key["index"] for key in expected])
                for row, key in zip(mine, expected):
                    self.assertEqual((row["col_sum"], row["queries"], row["col_sum_per_query"]),
                                     (key["value"], key["queries"], key["value_per_query"]))
                    self.assertGreaterEqual(row["queries"], 4)  # a tenth
        self.assertEqual(len(seen.least(1)["key"]), 2 * 2 * 3)

    def test_ignored(self):
        seen = self.seen_model(epsilon=0.5, min_queries=2)
        found = seen.ignored()
        mine = set(zip(*(found[name] for name in ("layer", "batch", "head", "scheme", "key"))))
        expected = {(name, b, h, scheme, j) for name in seen for scheme in ("unas", "dnas")
                    for b, h, j in np.argwhere((seen[name][f"{scheme}_col_sum"] < 0.5) &
                                               (seen[name].queries_of_key >= 2)).tolist()}
        self.assertEqual(mine, expected)
        self.assertGreater(len(mine), 0)
        self.assertEqual(seen.ignored(epsilon=0), {name: [] for name in found})

    def test_summary_names_heads_and_tokens(self):
        """A key that lies opposite to all queries of one head is ignored there under softmax, not dnas."""
        q = torch.full((1, 8, 2, 4), 5.0)
        k, v = torch.zeros(1, 8, 2, 4), torch.randn(1, 8, 2, 4)
        k[0, 3, 1] = -10
        model = Named()
        seen = self.observed(model, lambda: model(q, k, v, causal=False), tokens=list("abcdefgh"),
                             function=NAMED)
        text = seen.summary()
        self.assertRegex(text, r"unas ignores 1 of 16 keys \(c < 1e-08\), in 1 of 2 heads:\n"
                               r"  attention, head 1: 1 key: 'd'\n")
        self.assertRegex(text, r"dnas ignores none of 16 keys")
        self.assertEqual(seen.ignored()["token"], ["d"])
        self.assertEqual(str(seen), text)

    def test_pages_without_names(self):
        text = self.seen_model(epsilon=0.9).summary()
        self.assertRegex(text, r"head \d: \d+ keys?( in 2 sequences)?: key \d+")


class Tokens(ObserveTest):

    def run_model(self, tokens=None, batches=((2, 6),), **options):
        model = Decoder("sdpa", layers=1).eval()
        with observe(model, **options) as seen:
            for n, shape in enumerate(batches):
                if tokens is not None:
                    seen.tokens = tokens[n]
                model(input_ids=torch.arange(shape[0] * shape[1]).reshape(shape))
        return seen

    def names(self, seen, call="layers.0.self_attn"):
        return [[seen[call].token((b, 0), j) for j in range(6)] for b in range(2)]

    def test_lists(self):
        words, rows = list("uvwxyz"), [list("abcdef"), list("ghijkl")]
        for given, expected in [(words, [words, words]), (rows, rows),
                                ({"layers.0.self_attn": words}, [words, words]),
                                ({"layers.1.self_attn": words}, [[None] * 6] * 2)]:
            with self.subTest(given=given), warnings.catch_warnings():
                warnings.simplefilter("ignore", attnkit.Warning)
                self.assertEqual(self.names(self.run_model(tokens=[given])), expected)
        seen = self.run_model(tokens=[words, rows], batches=((2, 6), (2, 6)))
        self.assertEqual(self.names(seen), [words, words])
        self.assertEqual(self.names(seen, "layers.0.self_attn@2"), rows)

    def test_tokenizer(self):
        words = [f"w{n}" for n in range(50)]
        seen = self.run_model(tokenizer=words)
        self.assertEqual(self.names(seen), [words[:6], words[6:12]])
        seen.save(self.folder / "seen.h5")
        with h5py.File(self.folder / "seen.h5") as file:
            self.assertEqual(file["layers.0.self_attn/tokens"].asstr()[()].tolist(), [words[:6], words[6:12]])

    def test_names_that_fit_nothing(self):
        with self.assertWarnsRegex(attnkit.Warning, "tokens names no layer's keys; here there are 6"):
            self.run_model(tokens=[list("abc")])


class Refused(ObserveTest):

    def refused(self, kind, says, model=None, run=None, **options):
        model = self.encoder() if model is None else model
        with self.assertRaisesRegex(kind, says) as caught, observe(model, **options):
            (run or (lambda: model(torch.randn(1, 4, 16))))()
        return caught.exception

    def test_options(self):
        error = self.refused(attnkit.UsageError, r"^observe\(\) has no argument epsilo$", epsilo=1)
        self.assertIn("epsilon", error.hint)
        for name in ("causal", "each", "mask", "output"):  # what the model says, or is about files
            self.refused(attnkit.UsageError, rf"^observe\(\) has no argument {name}$", **{name: True})
        self.refused(attnkit.UsageError, r"^layers.0.self_attn: .*epsilon", epsilon=-1)
        self.refused(attnkit.UsageError, r"^heads: layers.0.self_attn has 2 heads, from 0 to 1$", heads=[2])
        self.refused(attnkit.UsageError, "^calls: 'x' is not a number", calls="x")
        self.refused(attnkit.UsageError, "none:f: .*package.module:function", function="none:f")
        self.refused(attnkit.UsageError, "no call was recorded: layers, heads and calls leave", layers="7")
        self.refused(attnkit.UsageError, "the model is a int, expected a torch.nn.Module", model=3)
        with self.assertRaisesRegex(attnkit.UsageError, "top is -1, expected 0 or more"):
            model, x = self.encoder(), torch.randn(1, 4, 16)
            self.observed(model, lambda: model(x)).least(-1)

    def test_numbers_that_are_none(self):
        x = torch.full((1, 4, 16), torch.nan)
        model = self.encoder()
        self.refused(attnkit.Error, "^layers.0.self_attn: q has nan at", model, lambda: model(x))

    def test_attention_that_is_not_seen(self):
        error = self.refused(attnkit.InputError, "no attention was called", nn.Linear(2, 2),
                             lambda: None)
        self.assertIn("function=", error.hint)

        class OwnAttention(nn.Module):
            def forward(self, x):
                return (x @ x.mT).softmax(-1) @ x

        error = self.refused(attnkit.InputError, "OwnAttention computes its attention by", OwnAttention())
        self.assertIn("function=", error.hint)
        both = nn.Sequential(self.encoder(1), OwnAttention())
        with self.assertWarnsRegex(attnkit.Warning, "^1: not recorded: .*OwnAttention"):
            with observe(both) as seen:
                both(torch.randn(1, 4, 16))
        self.assertEqual(seen.layers, ["0.layers.0.self_attn"])

    def test_files(self):
        model, x = self.encoder(), torch.randn(1, 4, 16)
        seen = self.observed(model, lambda: model(x))
        path = self.folder / "seen.h5"
        seen.save(path)
        with self.assertRaisesRegex(attnkit.OutputError, "seen.h5 exists"):
            seen.save(path)
        seen.save(path, force=True)
        with self.assertRaisesRegex(attnkit.UsageError, "only HDF5"):
            seen.save(self.folder / "seen.npz")
        self.assertEqual(os.listdir(self.folder), ["seen.h5"])
        with self.assertRaisesRegex(AttributeError, "no array col_sum; the arrays are queries_of_key, unas"):
            seen["layers.0.self_attn"].col_sum


class Memory(ObserveTest):

    def test_no_array_of_all_weights(self):
        """At 4096 tokens, the weights of one head take 64 MiB, and those of all heads 1.5 GiB."""
        script = textwrap.dedent(f"""
            import sys
            sys.path.insert(0, {str(SOURCE / "tests/bench")!r})
            from observe import Blocks, peak_bytes
            import torch
            from attnkit.torch._observe import observe
            torch.set_num_threads(1)
            model = Blocks(layers=6, heads=4, depth=64).eval()
            x = torch.randn(1, 4096, 256)
            with torch.no_grad():
                model(x)
                before = peak_bytes()
                with observe(model, function="observe:attend", threads=1):
                    model(x)
                print(peak_bytes() - before)
            """)
        more = int(self.run_program(sys.executable, "-c", script))
        # Tiles and blocks of logits take 12 MiB, and gaps in the heap up to 30 MiB. If the queries, keys,
        # values and inputs of all layers were kept, they would take 96 MiB.
        self.assertLess(more, 60 << 20)


class Example(ObserveTest):

    def test_ignored_tokens(self):
        example = SOURCE / "lib/python/examples/ignored_tokens.py"
        text = self.run_program(sys.executable, example)
        self.assertRegex(text, r"(?m)^unas ignores \d+ of 2048 keys .*\n  encoder\.layers\.\d\.self_attn")
        # 0.03 is below the least column sum that dnas allows, 1/32.
        self.assertRegex(text, r"(?m)^dnas ignores none of 2048 keys \(c < 0\.03\)")


if __name__ == "__main__":
    unittest.main()
