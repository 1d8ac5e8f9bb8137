"""Norms and rotary positions of projected queries and keys: where they count from, what they do not depend on, and
what is refused. test_gradients.py has the gradients, test_model_scores.py the models."""

import unittest

import h5py
import numpy as np

import formulas
from attn import SOURCE, ToolTest
from problems import Problem, long, rotated

MODEL = SOURCE.parent / "shared/data/model/stories260K_attention.h5"
FROM = ["-q", "--only", "--from=projection"]


class HeadTransforms(ToolTest):

    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(23)

    def normal(self, *shape):
        return self.random.normal(size=shape).astype(np.float32).astype(np.float64)

    def layer(self, length=9, heads=4, groups=2, d=6, whole=True):
        """x, projections, norms over all heads, and rotary positions of 4 channels of 6."""
        return {"x": self.normal(length, 8), "wq": self.normal(heads, 8, d), "wk": self.normal(groups, 8, d),
                "wv": self.normal(groups, 8, 3), "bq": self.normal(heads, d), "bk": self.normal(groups, d),
                "q_norm": self.normal(heads * d) if whole else self.normal(heads, d),
                "k_layer_norm": self.normal(groups * d) if whole else self.normal(d), "norm_epsilon": np.array(1e-3),
                "rotary": np.array([[1.0, 0.1], [1.1, 1.2]])}

    def near(self, problem, data, precision="f64", limit=1e-12):
        self.write("in.h5", **data)
        found = self.compute("in.h5", *FROM, "--emit=scores,weights,out", f"--precision={precision}",
                             *problem.options())
        scores = problem.scores(long(data))
        allowed = scores > formulas.FORBIDDEN
        self.assert_near("scores", found["scores"][allowed], scores[allowed], limit * np.abs(scores[allowed]).max())
        self.assert_near("out", found["out"], problem.out(long(data)), 10 * limit)

    def test_scores(self):
        for whole in (False, True):
            data = self.layer(whole=whole)
            for precision, limit in (("f64", 1e-12), ("f32", 1e-5)):
                self.near(Problem(causal="top-left"), data, precision, limit)
                self.near(Problem("dnas", "gaussian"), data | {"y": self.normal(7, 8)}, precision, limit)
            batch = data | {"x": self.normal(3, 5, 8)}
            batch["rotary_interleaved"] = batch.pop("rotary")[:1, :1][0]
            self.near(Problem(), batch)
            # A head without an axis of heads; the type of the angles does not count.
            alone = {n: data[n][0] for n in ("wq", "wk", "wv")} | {"x": data["x"], "rotary": data["rotary"]}
            self.write("in.h5", **{n: a.astype(np.float32) if n != "rotary" else a for n, a in alone.items()})
            self.assertEqual(self.compute("in.h5", *FROM)["out"].dtype, np.float32)
            self.near(Problem(), alone)

    def test_positions_of_a_cache(self):
        """Queries behind a cache are rows of the whole sequence, and far positions lose what float64 loses."""
        data = self.layer(length=9)
        self.write("in.h5", **data)
        whole = self.compute("in.h5", *FROM, "--emit=scores,out", "--causal")
        self.write("end.h5", **data | {"x": data["x"][6:], "y": data["x"]})
        for options in (["--causal=bottom-right"], ["--causal=top-left", "--query-offset=6"]):
            found = self.compute("end.h5", *FROM, "--emit=scores,out", *options)
            np.testing.assert_array_equal(found["scores"], whole["scores"][:, 6:])
            np.testing.assert_array_equal(found["out"], whole["out"][:, 6:])
        # Without a mask, too, by option or dataset.
        plain = self.compute("in.h5", *FROM, "--emit=scores")["scores"]
        found = self.compute("end.h5", *FROM, "--emit=scores", "--query-offset=6")
        np.testing.assert_array_equal(found["scores"], plain[:, 6:])
        self.write("end.h5", **data | {"x": data["x"][6:], "y": data["x"], "query_offset": np.array(6)})
        np.testing.assert_array_equal(self.compute("end.h5", *FROM, "--emit=scores")["scores"], plain[:, 6:])
        for far in (10**6, 2**40):
            given = data | {"query_offset": np.array(far)}
            self.write("in.h5", **given)
            found = self.compute("in.h5", *FROM, "--emit=scores")["scores"]
            exact = Problem().scores(long(given) | {"query_offset": far})
            self.assert_near(far, found, exact, (far * 2**-52 + 1e-12) * np.abs(exact).max())
        self.write("in.h5", **{n: a for n, a in data.items() if n != "rotary"})
        self.refused("attn-compute", "in.h5", "--from=projection", "--query-offset=1", status=2,
                     says=["--query-offset", "no effect", "rotary"])

    def test_sequences_are_alone(self):
        """Packed and padded sequences have the bits that they have alone."""
        data = self.layer(length=11)
        shared = {n: a for n, a in data.items() if n != "x"}
        bounds = [0, 4, 4, 5, 11]
        self.write("packed.h5", **data, cu_seqlens=np.array(bounds), grad_out=self.normal(4, 11, 3))
        summed = ("grad_wq", "grad_bk", "grad_q_norm", "grad_k_layer_norm")
        emit = "--emit=" + ",".join(("out", "grad_x", *summed))
        packed = self.compute("packed.h5", *FROM, "--causal", emit)
        with h5py.File(self.folder / "packed.h5") as file:
            upstream = file["grad_out"][()]
        padded = {n: np.zeros((3, *shape)) for n, shape in (("x", (8, 8)), ("grad_out", (4, 8, 3)))}
        starts, lengths = np.array([4, 0, 2]), np.array([4, 1, 6])
        parts = [(0, 4), (4, 5), (5, 11)]
        for b, (first, last) in enumerate(parts):
            own = slice(starts[b], starts[b] + lengths[b])
            padded["x"][b, own], padded["grad_out"][b][:, own] = data["x"][first:last], upstream[:, first:last]
        self.write("padded.h5", **shared, **padded, query_start=starts, key_start=starts, query_length=lengths,
                   key_length=lengths)
        found = self.compute("padded.h5", *FROM, "--causal", emit)
        sums = dict.fromkeys(summed, 0)
        for b, (first, last) in enumerate(parts):
            self.write("alone.h5", **shared, x=data["x"][first:last], grad_out=upstream[:, first:last])
            alone = self.compute("alone.h5", *FROM, "--causal", emit)
            own = slice(starts[b], starts[b] + lengths[b])
            np.testing.assert_array_equal(found["out"][b][:, own], alone["out"])
            np.testing.assert_array_equal(found["grad_x"][b][own], alone["grad_x"])
            self.assert_near("packed", packed["out"][:, first:last], alone["out"], 1e-14)
            self.assert_near("packed", packed["grad_x"][first:last], alone["grad_x"], 1e-12)
            for name in summed:
                sums[name] = sums[name] + alone[name]
        for name in summed:
            for whole in (packed, found):
                self.assert_near(name, whole[name], sums[name], 1e-12 * (1 + np.abs(sums[name]).max()))

    def test_heads_of_unequal_lengths(self):
        """A norm over all heads has rows that only some of them take."""
        data, upstream = self.layer(), self.normal(4, 9, 3)
        emit = "--emit=grad_x,grad_wq,grad_wk,grad_bq,grad_q_norm,grad_k_layer_norm"
        lengths = np.array([9, 0, 4, 7])
        self.write("in.h5", **data, grad_out=upstream, query_length=lengths)
        found = self.compute("in.h5", *FROM, emit)
        # Rows of softmax are apart: those without an upstream gradient have none.
        upstream[np.arange(9) >= lengths[:, None]] = 0
        self.write("in.h5", **data, grad_out=upstream)
        for name, gradient in self.compute("in.h5", *FROM, emit).items():
            self.assert_near(name, found[name], gradient, 1e-12 * np.abs(gradient).max())
        self.write("in.h5", **data, grad_out=upstream, query_length=0 * lengths)
        for name, gradient in self.compute("in.h5", *FROM, emit).items():
            np.testing.assert_array_equal(gradient, 0)

    def test_rows_that_no_head_sees(self):
        """Their numbers are 0, forward and in gradients, also where a norm without epsilon has no scale for them."""
        gradients = "grad_x,grad_wq,grad_wk,grad_q_norm,grad_k_layer_norm"
        apart = {f"{side}_{what}": np.array(numbers) for side in ("query", "key")
                 for what, numbers in (("start", [0, 6, 0, 6]), ("length", [3, 3, 3, 3]))}
        ids = {"q_segment_ids": np.repeat([1, 2, 3], [2, 4, 3]), "kv_segment_ids": np.repeat([1, 4, 3], [4, 3, 2])}
        cases = [(5, 9, {"y": slice(5, 9)}, {}, ["--causal=top-left"]),
                 (9, 5, {"x": slice(0, 4)}, {}, ["--causal=bottom-right"]),
                 (9, 20, {"y": slice(12, 20)}, {}, ["--window=1:2"]),
                 (9, 9, {"x": slice(2, 6), "y": slice(4, 7)}, ids, []),
                 (9, 9, {"x": slice(4, 6), "y": slice(2, 7)}, ids, ["--causal=top-left"]),
                 (9, 9, {"x": slice(3, 6), "y": slice(3, 6)}, apart, []),
                 (9, None, {"x": slice(3, 6)}, apart, [])]
        for queries, keys, hidden, bounds, options in cases:
            for whole, epsilon in ((True, 0.0), (True, 1e-3), (False, 0.0)):
                with self.subTest(options=options, bounds=list(bounds), hidden=hidden, whole=whole, epsilon=epsilon):
                    data = self.layer(queries, whole=whole) | bounds | {"norm_epsilon": np.array(epsilon)}
                    del data["bq"], data["bk"]
                    if keys is not None:
                        data["y"] = self.normal(keys, 8)
                    emit = f"--emit=out,{gradients}" + ("" if keys is None else ",grad_y")
                    data["grad_out"] = self.normal(4, queries, 3)
                    runs = []
                    for number in (0, 7, 1e200, np.nan):
                        for name, rows in hidden.items():
                            data[name][rows] = number
                        self.write("in.h5", **data)
                        runs.append(self.compute("in.h5", *FROM, emit, *options))
                    for run in runs[1:]:
                        self.assert_same_bits(run, runs[0])
                    for name, rows in hidden.items():
                        np.testing.assert_array_equal(runs[0][f"grad_{name}"][rows], 0)

    def test_bits(self):
        """Threads, memory and shards do not matter."""
        data = {n: a.astype(np.float32) for n, a in self.layer(length=600, heads=6, groups=2).items()}
        self.write("long.h5", **data, grad_out=self.normal(6, 600, 3).astype(np.float32))
        options = [*FROM, "--causal", "--emit=out,col_sum,grad_x,grad_wq,grad_wk,grad_bq,grad_q_norm,grad_k_layer_norm"]
        first = self.compute("long.h5", *options, "--threads=1")
        for more in (["--threads=3"], ["--memory=8M"], ["--memory=9M", "--threads=2"]):
            self.assert_same_bits(self.compute("long.h5", *options, *more), first)
        options = [*FROM, "--causal", "--emit=out,col_sum"]
        for part in (1, 2, 3):
            self.run_tool("attn-compute", "long.h5", *options, f"--shard={part}/3", "-o", "part.h5")
        self.run_tool("tensor-join", *(f"part.{part:04}-of-0003.h5" for part in (1, 2, 3)), "-o", "joined.h5")
        found = self.read("joined.h5")
        for name in ("out", "col_sum"):
            self.assertEqual(found[name].tobytes(), first[name].tobytes())
        # Sequences with weights of their own.
        layers = [self.layer() for _ in range(3)]
        data = {n: layers[0][n] if n.endswith("norm") else np.stack([layer[n] for layer in layers])
                for n in ("x", "wq", "wk", "wv", "bq", "bk", "q_norm", "k_layer_norm")}
        self.write("in.h5", **data, norm_epsilon=np.array(1e-3), grad_out=self.normal(3, 4, 9, 3))
        options = [*FROM, "--emit=grad_x,grad_wq,grad_bk"]
        whole = self.compute("in.h5", *options)
        self.assertEqual(whole["grad_wq"].shape, (3, 4, 8, 6))
        for part in (1, 2):
            self.run_tool("attn-compute", "in.h5", *options, f"--shard={part}/2", "-o", "part.h5")
        self.run_tool("tensor-join", "part.0001-of-0002.h5", "part.0002-of-0002.h5", "-o", "joined.h5", "--force")
        for name, gradient in self.read("joined.h5").items():
            self.assertEqual(gradient.tobytes(), whole[name].tobytes())
        for names in ("grad_q_norm", "grad_x,grad_q_norm", "grad_q_norm,grad_x"):
            self.refused("attn-compute", "in.h5", *FROM, f"--emit={names}", "--shard=1/2", status=2,
                         says=["all 12 add into grad_q_norm"])
        report = self.run_tool("explain-away-stats", "long.h5", "--from=projection", "--causal", "--scheme=unas",
                               "--json").json()
        self.assertAlmostEqual(report["result"]["unas"]["col_sum"]["min"], first["col_sum"].min(), places=12)

    def test_results_are_of_their_angles(self):
        data = self.layer()
        self.write("in.h5", **data)
        self.run_tool("attn-compute", "in.h5", "--from=projection", "-o", "made.h5")
        self.write("other.h5", rotary=data["rotary"] / 2)
        for given, left in ((["-i", "rotary=other.h5:/rotary"], False), ([], True)):
            self.run_tool("attn-compute", "made.h5", "--from=projection", *given, "--emit=col_sum", "-o", "again.h5",
                          "--force")
            self.assertEqual("out" in self.read("again.h5"), left)
        # Ready-made q and k have no projection.
        more = {"q": self.normal(4, 5, 6), "k": self.normal(2, 5, 6)}
        self.write("both.h5", **data | more)
        self.write("plain.h5", **more)
        found = [self.compute(name, "-q", "--only", "--emit=scores")["scores"] for name in ("both.h5", "plain.h5")]
        np.testing.assert_array_equal(*found)

    def test_flops(self):
        """Norms over all heads: the products of all once more, forward and for gradients, which also take, for the
        sequence, four products of each of them and those of the moments again."""
        found = []
        for whole in (False, True):
            self.write("in.h5", **self.layer(whole=whole), grad_out=self.normal(4, 9, 3))
            done = self.run_tool("attn-compute", "in.h5", *FROM, "--emit=grad_x", "--dry-run", "--json")
            found.append(done.json()["result"]["flops"])
        product = 2 * 9 * 8 * 6
        self.assertEqual(found[1] - found[0], 2 * 4 * product * (1 + 1) + product * 5 * (4 + 2))

    def test_refusals(self):
        data = self.layer()
        infinite = data["rotary"].copy()
        infinite[0, 1] = np.inf
        rows = [
            ({"q_norm": np.ones(5)}, ["q_norm has shape (5)", "(6)", "(4, 6)", "(24)"]),
            ({"q_norm": np.ones((1, 24))}, ["q_norm has shape (1, 24)"]),
            ({"k_norm": np.ones(12)}, ["k_norm and k_layer_norm"]),
            ({"k_layer_norm_bias": np.ones(6)}, ["k_layer_norm_bias has shape (6)", "(12)"]),
            ({"q_layer_norm_bias": np.ones(6)}, ["q_layer_norm_bias has no effect without q_layer_norm"]),
            ({"norm_epsilon": None}, ["q_norm needs a dataset norm_epsilon"]),
            ({"norm_epsilon": np.array(-1.0)}, ["norm_epsilon is -1"]),
            ({"norm_epsilon": np.ones(2)}, ["norm_epsilon has shape (2)"]),
            ({"norm_epsilon": np.array(np.nan)}, ["norm_epsilon", "nan"]),
            ({"rotary": np.ones(4)}, ["rotary has shape (4)", "at most 3"]),
            ({"rotary": np.ones((3, 2))}, ["rotary has shape (3, 2)"]),
            ({"rotary": np.ones((2, 0))}, ["rotary has shape (2, 0)"]),
            ({"rotary": np.array(1.0)}, ["rotary has shape ()"]),
            ({"rotary": infinite}, ["rotary has inf at [0, 1]"]),
            ({"rotary": np.ones(2, int)}, ["rotary has type int64"]),
            ({"rotary_interleaved": np.ones(2)}, ["rotary and rotary_interleaved"]),
            ({"bq": np.ones(6)}, ["bq has shape (6)", "(4, 6)", "over all heads"]),
        ]
        for more, says in rows:
            with self.subTest(says=says):
                self.write("in.h5", **{n: a for n, a in (data | more).items() if a is not None})
                self.refused("attn-compute", "in.h5", "--from=projection", status=3, says=says)
        zero = {n: data[n] for n in ("x", "wk", "wv")} | {"wq": 0 * data["wq"], "q_norm": np.ones(6),
                                                          "norm_epsilon": np.array(0.0)}
        self.write("in.h5", **zero)
        self.refused("attn-compute", "in.h5", "--from=projection", status=4, says=["row 0 of", "norm"])
        self.write("in.h5", **data)
        self.refused("lambda-solve", "in.h5", "--from=projection", status=2, says=["q_norm is not read"])
        vectors = {"q": data["x"], "k": data["x"]}
        self.write("qk.h5", **vectors, rotary=np.ones(2))
        self.refused("attn-compute", "qk.h5", status=2, says=["rotary is not read", "--from projection"])
        self.write("qk.h5", **{n: data[n] for n in ("x", "wq", "wk")}, norm_epsilon=np.array(1e-6))
        self.refused("attn-compute", "qk.h5", "--from=projection", status=3, says=["norm_epsilon has no effect"])
        self.write("in.h5", **self.layer(groups=4))
        self.refused("basis-paths", "check", "in.h5", status=2, says=["q_norm is not read"], output=None)

    @unittest.skipUnless(MODEL.exists(), f"{MODEL} is not there")
    def test_a_trained_decoder(self):
        """The whole layer of a model from its input: rotary positions in pairs of neighbours, theta 10⁴."""
        angles = 1e4 ** (-np.arange(0, 8, 2) / 8)
        self.write("angles.h5", rotary_interleaved=angles)
        with h5py.File(MODEL) as file:
            for layer in (0, 3):
                place, weights = f"text/wikitext2_valid/layer{layer}", f"weights/layer{layer}"
                found = self.compute("angles.h5", *FROM, "--causal", "--emit=out,col_sum", f"-ix={MODEL}:/{place}/X",
                                     *(f"-iw{n}={MODEL}:/{weights}/W_{n.upper()}" for n in "qkv"))
                # The model took its angles in float32.
                for name, source in (("out", "O"), ("col_sum", "colsum")):
                    expected = file[place][source][()]
                    self.assert_near(name, found[name], expected, 3e-5 * np.abs(expected).max())
                # The stored queries are the rotated ones.
                q = file[place]["X"][()].astype(formulas.LONG) @ file[weights]["W_Q"][()]
                q = rotated({"rotary_interleaved": angles}, q, np.arange(q.shape[-2]))
                self.assert_near("Q", q, file[place]["Q"][()], 1e-5 * np.abs(q).max())


if __name__ == "__main__":
    unittest.main()
