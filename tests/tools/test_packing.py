"""Packed sequences: each gets the results that it has alone, by cu_seqlens and by segment_ids, under every scheme."""

import unittest

import numpy as np

from attn import ToolTest, sample

SCHEMES = {"unas": [], "dnas": [], "hnas": ["--hybrid=0.4"], "sinkhorn": ["--iterations=7"],
           "fenchel": ["--alpha=0.7"]}
PLACES = {"plain": [], "causal": ["--causal"], "window": ["--window=3:2"], "alibi": ["--causal", "--relative-bias=alibi"]}
BY_QUERY = ("out", "row_potential", "unas_row_potential", "row_entropy", "grad_q")
BY_KEY = ("col_potential", "col_sum", "grad_k", "grad_v")
LENGTHS = [4, 0, 130, 1, 67]


def starts(lengths):
    return np.concatenate([[0], np.cumsum(lengths)])


class Packing(ToolTest):

    def problem(self, queries, keys, kind=np.float64, seed=20):
        """q, k, v, grad_out and preference of sequences with these lengths, one after the other."""
        random = np.random.default_rng(seed)
        shapes = {"q": (4, sum(queries), 8), "k": (2, sum(keys), 8), "v": (2, sum(keys), 5),
                  "grad_out": (4, sum(queries), 5)}
        data = {name: random.normal(size=shape).astype(kind) for name, shape in shapes.items()}
        data["preference"] = random.uniform(0.1, 1, size=(1, sum(keys))).astype(kind)
        return data

    def emit(self, scheme, places):
        names = ["out", "weights", "row_potential", "col_potential", "col_sum", "row_entropy", "grad_q", "grad_k", "grad_v"]
        return [f"--scheme={scheme}", *SCHEMES[scheme], *places, "--emit=" + ",".join(names), "--only"]

    def alone(self, data, rows, cols, arguments):
        parts = {"q": (slice(None), rows), "k": (slice(None), cols), "v": (slice(None), cols),
                 "grad_out": (slice(None), rows), "preference": (slice(None), cols)}
        self.write("alone.h5", **{name: data[name][part] for name, part in parts.items()})
        return self.compute("alone.h5", *arguments)

    def check(self, data, queries, keys, packing, arguments, limit):
        self.write("packed.h5", **data, **packing)
        found = self.compute("packed.h5", *arguments)
        inside = np.zeros(found["weights"].shape[-2:], bool)
        q, k = starts(queries), starts(keys)
        for s in range(len(queries)):
            rows, cols = slice(q[s], q[s + 1]), slice(k[s], k[s + 1])
            inside[rows, cols] = True
            if queries[s] == 0 or keys[s] == 0:
                self.assertTrue((found["out"][:, rows] == 0).all())
                self.assertTrue((found["row_potential"][:, rows] == -np.inf).all())
                self.assertTrue((found["col_sum"][:, cols] == 0).all())
                continue
            alone = self.alone(data, rows, cols, arguments)
            for name, expected in alone.items():
                part = found[name][:, rows, cols] if name == "weights" else found[name][:, rows if name in BY_QUERY else cols]
                self.assertTrue(name == "weights" or name in BY_QUERY + BY_KEY, name)
                self.assert_near(f"{name} of sequence {s}", part, expected, limit)
        self.assertTrue((found["weights"][:, ~inside] == 0).all())

    def test_each_sequence_as_if_it_were_alone(self):
        cases = [(scheme, place) for scheme in SCHEMES for place in PLACES]
        data = self.problem(LENGTHS, LENGTHS)
        packing = {"cu_seqlens": starts(LENGTHS).astype(np.int32)}
        for scheme, place in sample(cases, 7):
            with self.subTest(scheme=scheme, place=place):
                # Rounding of sums over some hundred terms.
                self.check(data, LENGTHS, LENGTHS, packing, self.emit(scheme, PLACES[place]), 1e-12)

    def test_float32(self):
        data = self.problem(LENGTHS, LENGTHS, np.float32)
        for scheme in ("unas", "dnas"):
            self.check(data, LENGTHS, LENGTHS, {"cu_seqlens": starts(LENGTHS)}, self.emit(scheme, ["--causal"]), 2e-5)

    def test_unequal_lengths(self):
        """As in FlashAttention: bottom-right in each sequence, where queries before all keys see nothing."""
        queries, keys = [5, 0, 3, 80, 2], [3, 4, 3, 100, 0]
        data = self.problem(queries, keys)
        packing = {"cu_seqlens_q": starts(queries), "cu_seqlens_k": starts(keys)}
        for scheme in ("unas", "dnas", "hnas", "fenchel"):
            for place in ([], ["--causal=bottom-right"], ["--causal=top-left"], ["--causal=bottom-right", "--window=4:0"]):
                with self.subTest(scheme=scheme, place=place):
                    self.check(data, queries, keys, packing, self.emit(scheme, place), 1e-12)

    def test_segment_ids(self):
        """The same by a number for each token, also by batch, and beside cu_seqlens."""
        data = self.problem([4, 5], [4, 5])
        ids = np.repeat([9, 2], [4, 5])
        arguments = self.emit("dnas", ["--causal"])
        for packing in ({"segment_ids": ids}, {"q_segment_ids": ids, "kv_segment_ids": ids.astype(np.uint8)},
                        {"segment_ids": ids, "cu_seqlens": np.array([0, 4, 4, 9])}):
            self.check(data, [4, 5], [4, 5], packing, arguments, 1e-13)
        queries, keys = [4, 5, 0], [3, 5, 2]
        self.check(self.problem(queries, keys), queries, keys,
                   {"q_segment_ids": np.repeat([1, 2], [4, 5]), "kv_segment_ids": np.repeat([1, 2, 3], [3, 5, 2])},
                   self.emit("unas", []), 1e-13)
        batch = {name: np.stack([values, values[::-1]]) for name, values in data.items() if name != "preference"}
        others = np.repeat([1, 2, 3], [2, 6, 1])
        found = self.compute(self.write_named("batch.h5", **batch, segment_ids=np.stack([ids, others])), "--emit=out,grad_k", "--only")
        for b, segments in enumerate((ids, others)):
            one = {name: values[b] for name, values in batch.items()}
            expected = self.compute(self.write_named("one.h5", **one, segment_ids=segments), "--emit=out,grad_k", "--only")
            self.assert_same_bits({name: found[name][b] for name in expected}, expected)

    def write_named(self, name, **datasets):
        self.write(name, **datasets)
        return name

    def test_memory_and_threads_change_no_bit(self):
        lengths = [700, 1, 0, 900, 400]
        data = self.problem(lengths, lengths, np.float32)
        self.write("in.h5", **data, cu_seqlens=starts(lengths))
        for scheme in ("unas", "dnas"):
            runs = [self.compute("in.h5", f"--scheme={scheme}", "--causal", "--emit=out,col_sum,grad_q,grad_k", "--only", *more)
                    for more in ([], ["--threads=1"], ["--memory=6M"])]
            for run in runs[1:]:
                self.assert_same_bits(run, runs[0])

    def test_statistics_of_each_sequence(self):
        """They are those of the sequence alone, to the last bit; vectors are written where the sequences lie."""
        data = self.problem(LENGTHS, LENGTHS)
        del data["preference"], data["grad_out"]
        cuts = starts(LENGTHS)
        self.write("in.h5", **data, cu_seqlens=cuts, tokens=np.arange(sum(LENGTHS)))
        arguments = ["--scheme=unas,dnas", "--causal", "--only", "--force", "--tsv"]
        rows = self.table("in.h5", *arguments, "-o", "found.h5")
        self.assertEqual(len(rows), 2 * 4 * len(LENGTHS))
        vectors = self.read("found.h5")
        for s, length in enumerate(LENGTHS):
            if length == 0:
                continue
            own = slice(cuts[s], cuts[s + 1])
            self.write("alone.h5", **{name: values[:, own] for name, values in data.items()}, tokens=np.arange(own.start, own.stop))
            expected_rows = self.table("alone.h5", *arguments, "-o", "alone-found.h5")
            for name, expected in self.read("alone-found.h5").items():
                self.assertEqual(vectors[name][:, own].tobytes(), expected.tobytes(), name)
            for row, expected in zip([row for row in rows if row["batch"] == str(s)], expected_rows, strict=True):
                for name in set(row) - {"file", "batch"}:
                    self.assertEqual(row[name], expected[name], (s, name))
        self.refused("explain-away-stats", "in.h5", "--shard=1/2", status=2, says=["packed sequences"])
        keys = self.table("in.h5", "--scheme=unas", "--causal", "--rows=keys", "--tsv")
        self.assertEqual([row["token"] for row in keys if row["head"] == "1"], [str(n) for n in range(sum(LENGTHS))])
        # Stored results of a packed run, and the tokens of a batch.
        self.run_tool("attn-compute", "in.h5", "--causal", "--emit=weights,row_potential,col_potential", "-o", "stored.h5")
        for left in ([], ["-i", "weights=stored.h5:/weights", "-i", "cu_seqlens=stored.h5:/cu_seqlens"]):
            again = self.table(*(left or ["stored.h5"]), "--scheme=stored", "--tsv")
            for row, expected in zip(again, [row for row in rows if row["scheme"] == "unas"], strict=True):
                for name in ("keys", "min_c", "entropy"):
                    self.assert_near(name, float(row[name] or "nan"), float(expected[name] or "nan"), 1e-12) if row[name] else \
                        self.assertEqual(expected[name], "")
        batch = {name: np.stack([values, values]) for name, values in data.items()}
        self.write("named.h5", **batch, cu_seqlens=cuts, tokens=np.array([[f"{b}-{n}" for n in range(sum(LENGTHS))] for b in "ab"], "S"))
        keys = self.table("named.h5", "--scheme=unas", "--rows=keys", "--tsv")
        self.assertEqual([row["token"] for row in keys if row["batch"] == "2,1" and row["head"] == "0"],
                         [f"b-{n}" for n in range(cuts[2], cuts[3])])
        self.write("front.h5", **data, cu_seqlens=cuts, bias=np.zeros((len(LENGTHS), 1, 1, sum(LENGTHS))))
        self.refused("explain-away-stats", "front.h5", "--scheme=unas", status=3, says=["front.h5:/bias has shape"])

    def test_statistics_take_the_memory_of_the_longest_sequence(self):
        """Two thousand sequences of ten tokens: all keys of each would be 0.6 GB."""
        lengths = [10] * 2000
        data = self.problem(lengths, lengths, np.float32)
        self.write("in.h5", q=data["q"][:1], k=data["k"][:1], cu_seqlens=starts(lengths))
        self.run_tool("explain-away-stats", "in.h5", "--scheme=unas", "--memory=64M", "--quiet")

    def test_statistics_by_segment_ids(self):
        data = self.problem(LENGTHS, LENGTHS)
        del data["preference"], data["grad_out"]
        total = sum(LENGTHS)
        segments = np.stack([np.repeat(np.arange(len(LENGTHS)), LENGTHS), np.zeros(total, int),
                             np.repeat([7, 1, 4], [1, total - 3, 2])])
        batch = {name: np.stack([values, values[::-1], 2 * values]) for name, values in data.items()}
        self.write("all.h5", **batch, segment_ids=segments, tokens=np.arange(total))
        arguments = ["--scheme=unas,dnas", "--causal", "--only", "--force", "--tsv"]
        rows = self.table("all.h5", *arguments, "-o", "found.h5")
        vectors = self.read("found.h5")
        keys = self.table("all.h5", "--scheme=unas", "--causal", "--rows=keys", "--tsv")
        for b, ids in enumerate(segments):
            self.write("one.h5", **{name: values[b] for name, values in batch.items()}, segment_ids=ids, tokens=np.arange(total))
            expected_rows = self.table("one.h5", *arguments, "-o", "one-found.h5")
            for name, expected in self.read("one-found.h5").items():
                self.assertEqual(vectors[name][b].tobytes(), expected.tobytes(), name)
            own = [row for row in rows if row["batch"].endswith(f",{b}") and row["keys"] != "0"]
            expected_rows = [row for row in expected_rows if row["keys"] != "0"]
            for row, expected in zip(own, expected_rows, strict=True):
                self.assertEqual(row["batch"], f"{expected['batch']},{b}")
                for name in set(row) - {"file", "batch"}:
                    self.assertEqual(row[name], expected[name], (b, name))
            named = [row["token"] for row in keys if row["batch"].endswith(f",{b}") and row["head"] == "1"]
            self.assertEqual(named, [str(n) for n in range(total)])

    def table(self, *arguments):
        """The rows of explain-away-stats --tsv."""
        lines = self.run_tool("explain-away-stats", *arguments).out.decode().splitlines()
        names = lines[0].split("\t")
        return [dict(zip(names, line.split("\t"))) for line in lines[1:]]

    def unseen(self, packing, places, kind):
        """The problem, and which queries see a key and which keys a query sees."""
        queries, keys = [5, 2, 70, 0, 4], [7, 0, 70, 3, 2]
        q, k = starts(queries), starts(keys)
        data = self.problem(queries, keys, kind)
        may = np.zeros((sum(queries), sum(keys)), bool)
        if packing is None:
            # Fewer keys, so that the first queries stand before all of them, or fewer queries.
            names = ("k", "v", "preference") if "--causal=bottom-right" in places else ("q", "grad_out")
            data |= {name: data[name][:, :60] for name in names}
            may = np.ones((data["q"].shape[1], data["k"].shape[1]), bool)
            parts, bounds = [(slice(None), slice(None))], {}
        elif packing == "ids":
            parts = [(slice(*q[s:s + 2]), slice(*k[s:s + 2])) for s in range(5)]
            bounds = {"q_segment_ids": np.repeat(np.arange(5), queries), "kv_segment_ids": np.repeat(np.arange(5), keys)}
        else:  # what lies behind the third sequence is padding
            parts = [(slice(*q[s:s + 2]), slice(*k[s:s + 2])) for s in range(3)]
            bounds = {"cu_seqlens_q": q[:4], "cu_seqlens_k": k[:4]}
        for rows, cols in parts:
            part = may[rows, cols]
            part[:] = True
            apart = np.arange(part.shape[0])[:, None] - np.arange(part.shape[1])
            if "--causal=top-left" in places:
                part &= apart >= 0
            if "--causal=bottom-right" in places:
                part &= apart + part.shape[1] - part.shape[0] >= 0
            if "--window=1:2" in places:
                part &= (apart <= 1) & (apart >= -2)
        return data, bounds, may.any(1), may.any(0)

    def test_numbers_that_nothing_sees(self):
        """Any numbers in queries that see no key, and keys that no query sees: the bits of zeros there."""
        cases = [(packing, places, kind, scheme) for packing in (None, "ids", "starts")
                 for places in (["--causal=top-left"], ["--causal=bottom-right"], ["--window=1:2"])
                 for kind in (np.float32, np.float64) for scheme in SCHEMES]
        for packing, places, kind, scheme in sample(cases, 13):
            if scheme == "sinkhorn":
                continue  # which needs as many keys as queries in each sequence
            with self.subTest(packing=packing, places=places, kind=kind, scheme=scheme):
                data, bounds, sees, seen = self.unseen(packing, places, kind)
                self.assertFalse(sees.all() and seen.all())
                runs = []
                for number in (0, np.nan, np.inf, np.finfo(kind).max):
                    for name, hidden in (("q", ~sees), ("grad_out", ~sees), ("k", ~seen), ("v", ~seen)):
                        data[name][:, hidden] = number
                    self.write("in.h5", **data, **bounds)
                    runs.append(self.compute("in.h5", *self.emit(scheme, places),
                                             *(["--threads=1", "--memory=5M"] if number == np.inf else [])))
                for run in runs[1:]:
                    self.assert_same_bits(run, runs[0])
                for name in ("out", "grad_q"):
                    self.assertTrue((runs[0][name][:, ~sees] == 0).all())
                for name in ("col_sum", "grad_k", "grad_v"):
                    self.assertTrue((runs[0][name][:, ~seen] == 0).all())
                self.assertTrue((runs[0]["col_potential"][:, ~seen] == -np.inf).all())
                tables = []
                for number in (0, np.nan):
                    data["q"][:, ~sees] = data["k"][:, ~seen] = data["v"][:, ~seen] = number
                    self.write("in.h5", **{name: data[name] for name in "qkv"}, **bounds)
                    tables.append(self.table("in.h5", "--scheme=unas,dnas", *places, "--tsv"))
                self.assertEqual(tables[1], tables[0])
                for name, rows in (("q", sees), ("k", seen)):
                    one = data | {name: data[name].copy()}
                    row = np.flatnonzero(rows)[-1]
                    one[name][1, row, 0] = np.nan
                    self.write("in.h5", **one, **bounds)
                    done = self.run_tool("attn-compute", *places, "in.h5", "-o", "o.h5", status=3)
                    self.assertIn(f"/{name} has nan at [1, {row}, 0]", done.err)

    def test_projected_numbers_that_nothing_sees(self):
        """Rows of x and y, also if queries, keys and values share them."""
        random = np.random.default_rng(5)
        weights = {name: random.normal(size=(3, 6, 4)) for name in ("wq", "wk", "wv")}
        ids = {"q_segment_ids": np.repeat([1, 2, 3], [4, 3, 5]), "kv_segment_ids": np.repeat([1, 4, 3], [4, 3, 5])}
        x, y = random.normal(size=(2, 12, 6))
        grad_out = random.normal(size=(3, 12, 4))
        for rows in ({"x": x, "y": y}, {"x": x}):
            runs = []
            for number in (0, np.nan):
                for array in (*rows.values(), grad_out.swapaxes(0, 1)):
                    array[4:7] = number
                self.write("in.h5", **rows, **weights, **ids, grad_out=grad_out)
                names = ["out", "col_sum", *(f"grad_{name}" for name in (*rows, *weights))]
                runs.append(self.compute("--from=projection", "in.h5", "--only", "--emit=" + ",".join(names)))
            self.assert_same_bits(runs[1], runs[0])

    def test_costs_of_points_that_nothing_sees(self):
        """Points that nothing sees have no part in the common mean, nor in the unit of distances."""
        data, bounds, sees, seen = self.unseen("ids", ["--causal=top-left"], np.float32)
        for energy in ("gaussian", "euclidean", "l1"):
            runs = []
            for number in (0, np.nan, 1e4, 1e30):
                data["q"][:, ~sees] = data["k"][:, ~seen] = number
                self.write("in.h5", **data, **bounds)
                runs.append(self.compute("in.h5", *self.emit("unas", ["--causal=top-left", f"--energy={energy}"])))
            for run in runs[1:]:
                self.assert_same_bits(run, runs[0])
        # Energies are of all pairs.
        data["k"][:, ~seen] = 1e4
        self.write("in.h5", **data, **bounds)
        found = self.compute("in.h5", "--causal=top-left", "--energy=l1", "--only", "--emit=energies")
        self.assertLess(found["energies"].min(), -7e4)
        data["k"][:, ~seen] = np.nan
        self.write("in.h5", **data, **bounds)
        self.refused("attn-compute", "in.h5", "--causal=top-left", "--emit=energies", status=3, says=["in.h5:/k has nan"])

    def test_masks_that_hide_numbers(self):
        """A mask is not read beforehand: the hint names what is."""
        data = {name: np.ones((1, 4, 2)) for name in "qkv"}
        data["v"][0, 3, 1] = np.nan
        mask = np.ones((4, 4), bool)
        mask[:, 3] = False
        self.write("in.h5", **data, mask=mask)
        self.refused("attn-compute", "in.h5", status=3, says=["in.h5:/v has nan at [0, 3, 1]"], hint="key_length")
        self.write("in.h5", **data, mask=mask, key_length=np.array([3]))
        self.compute("in.h5")

    def test_sequences_that_end_early(self):
        """What lies behind is padding, under every scheme, and a warning says so."""
        lengths = [4, 0, 30]
        data = self.problem(lengths + [5], lengths + [7])
        packing = {"cu_seqlens_q": starts(lengths), "cu_seqlens_k": starts(lengths)}
        for scheme in SCHEMES:
            self.check(data, lengths, lengths, packing, self.emit(scheme, ["--causal=bottom-right"]), 1e-12)
        found = self.compute("packed.h5", *self.emit("dnas", []))
        for name, empty in (("out", 0), ("grad_q", 0), ("row_potential", -np.inf), ("grad_k", 0), ("col_potential", -np.inf)):
            self.assertTrue((found[name][:, 34:] == empty).all(), name)
        done = self.run_tool("attn-compute", "packed.h5", "-o", "o.h5")
        self.assertIn("packed.h5:/cu_seqlens_q ends at 34 of 39 queries: the rest counts as padding", done.err)
        self.assertIn("packed.h5:/cu_seqlens_k ends at 34 of 41 keys: the rest counts as padding", done.err)
        del data["preference"], data["grad_out"]
        self.write("packed.h5", **data, **packing)
        self.write("cut.h5", **{name: values[:, :34] for name, values in data.items()}, **packing)
        arguments = ["--scheme=unas,dnas", "--only", "--force", "--tsv"]
        rows = [[row | {"file": ""} for row in self.table(name, *arguments, "-o", "s-" + name)] for name in ("packed.h5", "cut.h5")]
        self.assertEqual(rows[0], rows[1])
        whole, cut = self.read("s-packed.h5"), self.read("s-cut.h5")
        for name, values in cut.items():
            self.assertEqual(whole[name][:, :34].tobytes(), values.tobytes(), name)
            self.assertTrue(np.isin(whole[name][:, 34:], [0, -np.inf]).all(), name)

    def test_refusals(self):
        data = self.problem([4, 5], [4, 5])
        ids = np.repeat([9, 2], [4, 5])
        for packing, options, status, says in [
            ({"cu_seqlens": np.array([0, 4, 10])}, [], 3, "in.h5:/cu_seqlens is 10 at [2], expected at most the number of queries, 9"),
            ({"cu_seqlens": np.array([1, 9])}, [], 3, "is 1 at [0], expected 0"),
            ({"cu_seqlens": np.array([0, 5, 4, 9])}, [], 3, "is 4 at [2], expected at least 5"),
            ({"cu_seqlens": np.array([0.0, 9.0])}, [], 3, "expected an integer type"),
            ({"cu_seqlens": np.array([[0, 9]])}, [], 3, "expected (sequences + 1)"),
            ({"cu_seqlens_q": np.array([0, 9])}, [], 2, "is there without cu_seqlens_k"),
            ({"cu_seqlens_q": np.array([0, 9]), "cu_seqlens_k": np.array([0, 4, 9])}, [], 3, "expected as many"),
            ({"segment_ids": ids[:8]}, [], 3, "expected a last axis of 9 queries"),
            ({"segment_ids": np.array([1, 1, 2, 2, 1, 1, 3, 3, 3])}, [], 3, "has 1 at 0 and again at 4"),
            ({"segment_ids": ids, "cu_seqlens": np.array([0, 5, 9])}, [], 3, "different sequences"),
            ({"q_segment_ids": ids, "kv_segment_ids": np.repeat([9, 2], [5, 4])}, ["--causal"], 2, "ambiguous for 4 queries and 5 keys"),
            ({"q_segment_ids": ids, "kv_segment_ids": np.repeat([9, 2], [5, 4])}, ["--scheme=sinkhorn", "--iterations=3"], 2, "as many keys as queries"),
            ({"cu_seqlens": np.array([0, 9]), "cu_seqlens_q": np.array([0, 4, 9]), "cu_seqlens_k": np.array([0, 4, 9])}, [], 2, "both place"),
            ({"cu_seqlens": np.array([0, 9]), "key_length": np.array([4])}, [], 2, "in.h5:/key_length has no effect"),
            ({"cu_seqlens": np.array([0, 9])}, ["--causal", "--query-offset=1"], 2, "--query-offset"),
        ]:
            with self.subTest(says=says):
                (self.folder / "in.h5").unlink(missing_ok=True)
                self.write("in.h5", **data, **packing)
                self.refused("attn-compute", *options, "in.h5", "--only", status=status, says=[says])


if __name__ == "__main__":
    unittest.main()
