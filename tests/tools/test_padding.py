"""A padded batch gives each sequence's own results, to the last bit, whatever lies in the padding."""

import unittest

import numpy as np

from attn import LONG, ToolTest

SCHEMES = {
    "unas": [], "dnas": [], "hnas": ["--hybrid=0.4"], "sinkhorn": ["--tolerance=1e-5"],
}
BY_QUERY = ("out", "row_potential", "unas_row_potential", "row_entropy")
BY_KEY = ("col_potential", "col_sum")


def emitted(scheme):
    names = ["out", "weights", "row_potential", "col_potential", "col_sum", "row_entropy"]
    return names + (["unas_row_potential"] if scheme == "hnas" else [])


class Padding(ToolTest):

    def batch(self, random, sizes, left, kind=np.float32, longest=None):
        """q, k, v, bias and grad_out of sequences of (queries, keys), padded by NaN."""
        queries, keys = (longest or max(s[side] for s in sizes) for side in (0, 1))
        heads, key_heads, depth, width = 4, 2, 16, 8
        data = {"q": (heads, queries, depth), "k": (key_heads, keys, depth),
                "v": (key_heads, keys, width), "bias": (1, queries, keys),
                "grad_out": (heads, queries, width)}
        data = {n: np.full((len(sizes),) + shape, np.nan, kind) for n, shape in data.items()}
        places = []
        for b, (own_queries, own_keys) in enumerate(sizes):
            first = (queries - own_queries, keys - own_keys) if left else (0, 0)
            rows, cols = (slice(f, f + n) for f, n in zip(first, (own_queries, own_keys)))
            places.append((rows, cols))
            for name, part in (("q", (rows,)), ("k", (cols,)), ("v", (cols,)),
                               ("bias", (rows, cols)), ("grad_out", (rows,))):
                # An array by query or by key, or by both.
                at = (b, slice(None)) + part
                data[name][at] = random.normal(size=data[name][at].shape)
        bounds = {"query_length": [s[0] for s in sizes], "key_length": [s[1] for s in sizes]}
        if left:
            bounds["query_start"] = [p[0].start for p in places]
            bounds["key_start"] = [p[1].start for p in places]
        return data, {n: np.array(values) for n, values in bounds.items()}, places

    def own(self, data, b, place):
        rows, cols = place
        parts = {"q": (rows,), "k": (cols,), "v": (cols,), "bias": (rows, cols),
                 "grad_out": (rows,)}
        return {n: np.ascontiguousarray(data[n][(b, slice(None)) + part])
                for n, part in parts.items() if n in data}

    def compare(self, found, alone, b, place, names):
        rows, cols = place
        for name in names:
            all_of_it = found[name][b]
            if name == "weights":
                inside, outside = all_of_it[:, rows, cols], all_of_it.copy()
                outside[:, rows, cols] = 0
            else:
                part = rows if name in BY_QUERY or name in ("grad_q",) else cols
                inside, outside = all_of_it[:, part], np.delete(
                    all_of_it, np.arange(part.start, part.stop), axis=1)
            with self.subTest(name=name, sequence=b):
                self.assertEqual(inside.tobytes(), alone[name].tobytes())
                expected = -np.inf if name.endswith("potential") else 0
                self.assertTrue((outside == expected).all())

    def check(self, random, sizes, left, options, schemes=SCHEMES, **more):
        data, bounds, places = self.batch(random, sizes, left, **more)
        self.write("batch.h5", **data, **bounds)
        for scheme in schemes:
            names = emitted(scheme)
            asked = [n for n in names if n != "unas_row_potential"]  # comes with row_potential
            arguments = [f"--scheme={scheme}", *SCHEMES[scheme], *options, "-q",
                         "--emit=" + ",".join(asked + ["grad_q"])]
            self.run_tool("attn-compute", "batch.h5", *arguments, "--force", "-o", "found.h5")
            found = self.read("found.h5")
            for b, (size, place) in enumerate(zip(sizes, places)):
                if 0 in size:
                    for name in names:
                        expected = -np.inf if name.endswith("potential") else 0
                        self.assertTrue((found[name][b] == expected).all(), (scheme, name, b))
                    continue
                self.write("own.h5", **self.own(data, b, place))
                alone = self.run_tool("attn-compute", "own.h5", *arguments).bundle()
                self.compare(found, alone, b, place, names + ["grad_q"])

    def test_every_scheme_at_awkward_lengths(self):
        random = np.random.default_rng(1)
        sizes = [(1, 1), (7, 7), (40, 33), (0, 5), (5, 0), (130, 129), (64, 200)]
        for left in (False, True):
            self.check(random, sizes, left, [], schemes=SCHEMES if LONG or left else ["hnas"])
            self.check(random, sizes, left, ["--causal=bottom-right", "--window=9:20",
                                             "--relative-bias=alibi", "--softcap=5"],
                       schemes=["unas", "dnas"] if LONG else ["unas"] if left else ["dnas"])

    def test_a_batch_of_sequences_of_1_to_512(self):
        random = np.random.default_rng(2)
        lengths = random.integers(1, 513, 64 if LONG else 16)
        lengths[:2] = 1, 512
        data, bounds, places = self.batch(random, [(n, n) for n in lengths], False, longest=512)
        del data["bias"], data["grad_out"]
        self.write("batch.h5", **data, **bounds)
        self.write("alone.h5", **{f"s{b}__{name}": values for b in range(len(lengths))
                                  for name, values in self.own(data, b, places[b]).items()})
        for scheme, options in SCHEMES.items():
            arguments = [f"--scheme={scheme}", *options, "-q", "--only", "--emit=out,col_sum"]
            self.run_tool("attn-compute", "batch.h5", *arguments, "--force", "-o", "found.h5")
            self.run_tool("attn-compute", "alone.h5", "--each=s*", *arguments, "--force", "-o", "each.h5")
            found, each = self.read("found.h5"), self.read("each.h5")
            for b in range(len(lengths)):
                alone = {name: each[f"s{b}/{name}"] for name in ("out", "col_sum")}
                self.compare(found, alone, b, places[b], ["out", "col_sum"])

    def test_summed_gradients_are_those_of_the_sequences(self):
        random = np.random.default_rng(3)
        sizes = [(9, 12), (20, 5), (3, 31)]
        for left in (False, True):
            data, bounds, places = self.batch(random, sizes, left, kind=np.float64)
            shared = random.normal(size=(2, data["k"].shape[2], 16))
            data["k"] = shared
            self.write("batch.h5", **data, **bounds)
            for scheme in SCHEMES:
                options = [f"--scheme={scheme}", *SCHEMES[scheme], "-q"]
                found = self.run_tool("attn-compute", "batch.h5", *options,
                                      "--emit=grad_k,grad_v,grad_bias").bundle()
                total = np.zeros_like(shared)
                for b, place in enumerate(places):
                    own = self.own({n: v for n, v in data.items() if n != "k"}, b, place)
                    self.write("own.h5", **own, k=shared[:, place[1]])
                    alone = self.run_tool("attn-compute", "own.h5", *options,
                                          "--emit=grad_k,grad_v,grad_bias").bundle()
                    total[:, place[1]] += alone["grad_k"]
                    self.compare(found, alone, b, place, ["grad_v"])
                    rows, cols = place
                    self.assertEqual(found["grad_bias"][b][:, rows, cols].tobytes(),
                                     alone["grad_bias"].tobytes())
                self.assert_near("grad_k", found["grad_k"], total, 1e-12 * np.abs(total).max())

    def test_projections_cut_their_input_first(self):
        random = np.random.default_rng(4)
        lengths = np.array([13, 1, 40])
        x = np.full((3, 40, 24), np.nan, np.float32)
        for b, n in enumerate(lengths):
            x[b, :n] = random.normal(size=(n, 24))
        weights = {n: random.normal(size=(2, 24, 8)).astype(np.float32) for n in ("wq", "wk", "wv")}
        self.write("batch.h5", x=x, **weights, query_length=lengths, key_length=lengths)
        options = ["--from=projection", "--scheme=dnas", "-q", "--emit=out,col_sum"]
        found = self.run_tool("attn-compute", "batch.h5", *options).bundle()
        for b, n in enumerate(lengths):
            self.write("own.h5", x=x[b, :n], **weights)
            alone = self.run_tool("attn-compute", "own.h5", *options).bundle()
            self.compare(found, alone, b, (slice(0, n), slice(0, n)), ["out", "col_sum"])

    def test_memory_and_threads_change_no_bit(self):
        random = np.random.default_rng(5)
        data, bounds, _ = self.batch(random, [(300, 257), (64, 100), (1, 300)], True)
        self.write("batch.h5", **data, **bounds)
        for scheme, options in SCHEMES.items():
            arguments = ["batch.h5", f"--scheme={scheme}", *options, "-q", "--emit=out,weights,grad_k"]
            first = self.run_tool("attn-compute", *arguments, "--threads=1").bundle()
            for more in (["--threads=2"], ["--threads=2", "--memory=40M"]):
                self.assert_same_bits(self.run_tool("attn-compute", *arguments, *more).bundle(),
                                      first, ["out", "weights", "grad_k"])

    def test_selected_queries_and_counts(self):
        random = np.random.default_rng(6)
        data, bounds, places = self.batch(random, [(4, 6), (9, 3)], True)
        self.write("batch.h5", **data, **bounds)
        everything = self.run_tool("attn-compute", "batch.h5", "-q", "--emit=out,weights").bundle()
        chosen = self.run_tool("attn-compute", "batch.h5", "-q", "--emit=out,weights",
                               "--queries=0,5:8").bundle()
        rows = [0, 5, 6, 7]
        for name in ("out", "weights"):
            self.assertEqual(chosen[name].tobytes(),
                             np.ascontiguousarray(everything[name][:, :, rows]).tobytes())
        self.run_tool("attn-compute", "batch.h5", "-o", "found.h5", "--json=found.json")
        report = self.read_json("found.json")["result"]
        self.assertEqual((report["padded_queries"], report["padded_keys"]), (4 * 5, 4 * 3))

    def test_every_tool_counts_padding(self):
        random = np.random.default_rng(8)
        data, bounds, _ = self.batch(random, [(4, 4), (9, 9)], True)
        self.write("batch.h5", **{n: data[n] for n in "qkv"}, **bounds)
        heads, words = data["q"].shape[1], []
        for command in (["attn-compute"], ["sinkhorn-iter", "--iterations=3"], ["lambda-solve"]):
            done = self.run_tool(*command, "batch.h5", "-o", "found.h5", "--json=found.json",
                                 "--force")
            found = self.read_json("found.json")["result"]
            self.assertEqual((found["padded_queries"], found["padded_keys"]), (5 * heads, 5 * heads))
            words.append(f"without {5 * heads} queries and {5 * heads} keys of padding")
            self.assertIn(words[-1], done.err)

    def test_bare_causality_of_sequences_that_are_not_square(self):
        data = {n: np.ones((2, 1, 6, 4)) for n in "qkv"}
        self.write("in.h5", **data, query_length=np.array([6, 2]), key_length=np.array([6, 6]))
        for tool in ("attn-compute", "explain-away-stats", "sinkhorn-iter"):
            self.refused(tool, "in.h5", "--causal", status=2, hint="--causal=top-left",
                         says=["in.h5, head [1, 0]: --causal is ambiguous for 2 queries and 6 keys"])
        self.compute("in.h5", "-q", "--causal", "--query-offset=0")
        self.write("in.h5", **data, query_length=np.array([6, 2]), key_length=np.array([6, 2]))
        self.compute("in.h5", "-q", "--causal")

    def test_nothing_of_an_empty_sequence_is_looked_at(self):
        data = {n: np.ones((2, 3, 1 if n == "q" else 6, 4)) for n in "qkv"}
        for name, shape in (("gate", (2, 3, 1, 4)), ("bias", (2, 1, 1, 6)), ("mask", None)):
            values = np.zeros(shape or (2, 1, 1, 6))
            values[0] = np.nan if shape else 0
            self.write("in.h5", **data, **{name: values if shape else values > 0},
                       query_length=np.array([0, 1]))
            with self.subTest(name):
                out = self.compute("in.h5", "-q", "--emit=out")["out"]
                self.assertTrue(np.all(out[0] == 0))
                self.assertTrue(np.all(np.isfinite(out[1])))

    def test_transport_and_duals_of_padded_batches(self):
        random = np.random.default_rng(7)
        sizes = [(5, 5), (8, 8), (2, 2)]
        data, bounds, places = self.batch(random, sizes, True, kind=np.float64)
        data = {n: data[n] for n in ("q", "k", "v")}
        self.write("batch.h5", **data, **bounds)
        plan = self.run_tool("sinkhorn-iter", "batch.h5", "-q", "--tolerance=1e-9",
                             "--emit=plan,row_potential").bundle()
        dual = self.run_tool("lambda-solve", "batch.h5", "-q", "--emit=lambda,p,out").bundle()
        for b, place in enumerate(places):
            rows, cols = place
            self.write("own.h5", **self.own(data, b, place))
            alone = self.run_tool("sinkhorn-iter", "own.h5", "-q", "--tolerance=1e-9",
                             "--emit=plan,row_potential").bundle()
            self.assertEqual(plan["plan"][b][:, rows, cols].tobytes(), alone["plan"].tobytes())
            self.assertEqual(plan["row_potential"][b][:, rows].tobytes(),
                             alone["row_potential"].tobytes())
            solved = self.run_tool("lambda-solve", "own.h5", "-q", "--emit=lambda,p,out").bundle()
            self.assertEqual(dual["lambda"][b][:, rows].tobytes(), solved["lambda"].tobytes())
            self.assertEqual(dual["out"][b][:, rows].tobytes(), solved["out"].tobytes())
            self.assertEqual(dual["p"][b][:, rows, cols].tobytes(), solved["p"].tobytes())
            for matrix in (plan["plan"][b], dual["p"][b]):
                self.assertEqual(np.count_nonzero(matrix),
                                 np.count_nonzero(matrix[:, rows, cols]))

    def test_bounds_that_do_not_fit(self):
        data = {n: np.ones((2, 1, 6, 4)) for n in "qkv"}
        for bounds, says in (
                ({"query_length": [7, 1]}, ["query_length has 7 at [0]", "in [0, 6]"]),
                ({"key_start": [-1, 0]}, ["key_start has -1 at [0]"]),
                ({"key_start": [0, 4], "key_length": [6, 3]}, ["key_start is 4 and key_length 3",
                                                               "at most 6"]),
                ({"query_length": [1.5, 2]}, ["query_length has type"]),
                ({"query_length": [1, 2, 3]}, ["query_length has shape (3)"])):
            self.write("in.h5", **data, **{n: np.array(v) for n, v in bounds.items()})
            self.refused("attn-compute", "in.h5", status=3, says=["in.h5", *says])
        self.write("in.h5", **data, key_length=np.ones((2, 6), int))
        self.refused("attn-compute", "in.h5", status=3, says=["key_length has shape (2, 6)"], hint="mask.sum(-1)")

    def test_nan_inside_a_sequence_is_refused(self):
        data = {n: np.ones((2, 1, 6, 4)) for n in "qkv"}
        data["q"][1, 0, 3, 2] = np.nan
        self.write("in.h5", **data, query_length=np.array([6, 3]))
        self.compute("in.h5", "-q")
        self.write("in.h5", **data, query_length=np.array([6, 4]))
        self.refused("attn-compute", "in.h5", status=3, says=["in.h5:/q has nan at [1, 0, 3, 2]"])


if __name__ == "__main__":
    unittest.main()
