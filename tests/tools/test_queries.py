"""--queries: rows of the weights and the results that belong to them, against slices of the
whole."""

import itertools
import unittest

import numpy as np

from attn import ToolTest, sample

BY_QUERY = ["out", "weights", "row_entropy"]
BY_KEY = ["col_potential", "col_sum", "row_potential"]
EVERYTHING = ",".join([*BY_QUERY, *BY_KEY])


def vectors(seed, heads, queries, keys, kind):
    random = np.random.default_rng(seed)
    lengths = {"q": queries, "k": keys, "v": keys}
    return {n: random.normal(size=(heads, length, 5)).astype(kind) for n, length in lengths.items()}


class Queries(ToolTest):

    def assert_rows(self, rows, arguments, status=0):
        """Checks that all results of `--queries rows` equal slices of the whole."""
        common = ["-q", "--only", "--emit", EVERYTHING, *arguments]
        whole = self.compute(*common, status=status)
        some = self.compute(*common, f"--queries={rows}", status=status)
        count = whole["row_potential"].shape[-1]
        names = np.zeros(count, bool)
        for item in rows.split(","):
            parts = [int(part) if part else None for part in item.split(":")]
            names[parts[0] if len(parts) == 1 else slice(*parts)] = True
        indices = np.flatnonzero(names)
        self.assertEqual(some["queries"].dtype, np.int64)
        np.testing.assert_array_equal(some["queries"], indices)
        self.assertEqual(some.labels["queries"], ["query"])
        axis = {"row_entropy": -1}
        expected = {n: np.take(whole[n], indices, axis.get(n, -2)) for n in BY_QUERY}
        self.assert_same_bits(some, expected)
        self.assert_same_bits(some, whole, [n for n in whole if n not in BY_QUERY])
        self.assertEqual(sorted(some), sorted([*whole, "queries"]))
        for name in whole:
            self.assertEqual(some.labels[name], whole.labels[name])
        alone = self.compute("-q", "--only", "--emit=weights", *arguments, f"--queries={rows}",
                             status=status)
        self.assert_same_bits(alone, {"weights": some["weights"]})

    def test_slices_of_the_whole(self):
        schemes = (["--scheme=unas"], ["--scheme=dnas"], ["--scheme=hnas", "--hybrid=0.3"],
                   ["--scheme=sinkhorn", "--iterations=3"],
                   ["--scheme=sinkhorn", "--tolerance=1e-2", "--iterations=9"])
        # One past a panel and past a tile, and a single query.
        sizes = ((129, 513, "0,17,100:108,-1"), (1, 3, "0"), (300, 65, ":129,::77,-3:"),
                 (65, 1, "64"), (7, 5, "6,0,0,2:100,-2"))
        cases = itertools.product(enumerate(sizes), (np.float32, np.float64), schemes)
        for (seed, (queries, keys, rows)), kind, scheme in sample(cases, 20):
            mask = np.random.default_rng(seed).random((queries, keys)) < 0.8
            mask[queries // 2] = False  # a query without allowed keys
            self.write("in.h5", mask=mask, **vectors(seed, 2, queries, keys, kind))
            # sinkhorn may fail to converge under a mask without a matching.
            with self.subTest(queries=queries, kind=kind, scheme=scheme):
                self.assert_rows(rows, [*scheme, "in.h5"], status=None)

    def test_threads_and_memory(self):
        self.write("in.h5", **vectors(3, 3, 200, 700, np.float32))
        runs = [self.compute("-q", "--only", "--scheme=dnas", "--emit=weights,out", "in.h5",
                             "--queries=199,3:9", *more)
                for more in ([], ["--threads=1"], ["--threads=2", "--memory=3M"])]
        for run in runs[1:]:
            self.assert_same_bits(run, runs[0])

    def test_default_emit_and_copied_datasets(self):
        self.write("in.h5", **vectors(0, 1, 6, 4, np.float32))
        made = self.run_tool("attn-compute", "-q", "--queries=1:3", "in.h5").bundle()
        self.assertEqual({n: a.shape for n, a in made.items() if n not in "qkv"},
                         {"out": (1, 2, 5), "row_potential": (1, 6), "col_potential": (1, 4),
                          "queries": (2,)})
        # A later run without --queries leaves no such dataset behind.
        (self.folder / "made.h5").write_bytes(
            self.run_tool("attn-compute", "-q", "--queries=1:3", "--emit=weights", "in.h5").out)
        again = self.compute("-q", "made.h5")
        self.assertNotIn("queries", again)
        self.assertNotIn("weights", again)

    def test_each(self):
        data = {f"{group}__{name}": values for group, queries in (("a", 9), ("b", 4))
                for name, values in vectors(0, 1, queries, 4, np.float32).items()}
        self.write("both.h5", **data)
        found = self.compute("-q", "--only", "--each=*", "--queries=-1,0", "--emit=weights",
                             "both.h5")
        np.testing.assert_array_equal(found["a/queries"], [0, 8])
        np.testing.assert_array_equal(found["b/queries"], [0, 3])
        self.refused("attn-compute", "--each=*", "--queries=4", "both.h5", status=2,
                     says=["--queries has 4, both.h5:/b has 4 queries"])

    def test_refused(self):
        self.write("in.h5", **vectors(0, 1, 6, 4, np.float32))
        for rows, says in (("6", "--queries has 6, in.h5 has 6 queries"),
                           ("0,-7", "--queries has -7, in.h5 has 6 queries"),
                           ("3:3", "3:3 selects none of the 6 queries"),
                           ("6:", "6: selects none"), ("1,,2", "''"), ("a", "'a'"),
                           ("1.5", "'1.5'"),
                           ("::0", "'::0'"), ("::-1", "'::-1'"), ("1:2:3:4", "'1:2:3:4'"),
                           ("1:b", "'1:b'"), ("99999999999999999999", "'99999999999999999999'")):
            with self.subTest(rows=rows):
                self.refused("attn-compute", f"--queries={rows}", "in.h5", status=2, says=[says])
        self.refused("attn-compute", "--queries=0", "--emit=col_sum", "in.h5", status=2,
                     says=["--queries applies to out, joined, weights"])
        huge = self.compute("-q", "--only", "--emit=weights", "in.h5",
                            "--queries=1::9223372036854775807,-9223372036854775808:1")
        np.testing.assert_array_equal(huge["queries"], [0, 1])

    def test_statistics_refuse_some_rows(self):
        self.write("in.h5", **vectors(0, 1, 6, 4, np.float32))
        for only in ([], ["--only"]):
            self.run_tool("attn-compute", *only, "--queries=0:2", "--emit=weights", "in.h5",
                          "-o", "some.h5", "--force")
            self.refused("explain-away-stats", "--scheme=stored", "some.h5", status=3,
                         says=["some.h5:/weights holds rows for only some queries"])

    def test_dry_run(self):
        self.write("in.h5", **vectors(0, 2, 100, 40, np.float32))
        cost = self.run_tool("attn-compute", "--dry-run", "--json", "--emit=weights",
                             "--queries=0:10", "in.h5").json()["result"]
        self.assertEqual(cost["result_bytes"], 2 * 10 * 40 * 4)


if __name__ == "__main__":
    unittest.main()
