"""explain-away-stats --rows: tables with a row for each key, or query, which data frames read as they are."""

import csv
import io
import unittest

import h5py
import numpy as np

from attn import ToolTest

HEADS, QUERIES, KEYS = 3, 5, 7


class LineTable(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(6)
        with h5py.File(self.folder / "in.h5", "w") as file:
            for layer in range(2):
                for name, length in (("q", QUERIES), ("k", KEYS)):
                    file[f"layer{layer}/{name}"] = random.normal(size=(2, HEADS, length, 4))
                file[f"layer{layer}/tokens"] = [f"to\tken{n}" for n in range(KEYS)]
                file[f"layer{layer}/key_length"] = [KEYS, 4]

    def rows(self, *options, separator="\t"):
        text = self.run_tool("explain-away-stats", "in.h5", *options).out.decode()
        return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=separator))

    def test_keys(self):
        rows = self.rows("--rows=keys", "--tsv", "--causal=top-left")
        self.assertEqual(list(rows[0]), ["file", "group", "batch", "head", "scheme", "index", "token", "queries", "c",
                                         "c_per_query", "share"])
        self.assertEqual(len(rows), 2 * HEADS * 2 * (KEYS + 4))  # groups, heads, schemes, keys without padding
        for layer in range(2):
            self.run_tool("explain-away-stats", f"in.h5:/layer{layer}", "-q", "--causal=top-left", "--only", "-o",
                          f"out{layer}.h5")
            out = self.read(f"out{layer}.h5")
            own = [row for row in rows if row["group"] == f"layer{layer}"]
            self.assertEqual([row["scheme"] for row in own[:8]], ["unas"] * 7 + ["dnas"])
            for row in own:
                at = int(row["batch"]), int(row["head"]), int(row["index"])
                c = out[f"{row['scheme']}_col_sum"]
                queries = int(out["queries_of_key"][at])
                self.assertEqual((float(row["c"]), int(row["queries"])), (c[at], queries))
                self.assertEqual(row["token"], f"to\\tken{at[2]}")
                self.assertEqual(row["c_per_query"], "" if queries == 0 else repr(float(c[at] / queries)))
                self.assertAlmostEqual(float(row["share"]), c[at] / c[at[:2]].sum(), delta=1e-15)

    def test_queries(self):
        rows = self.rows("--rows=queries", "--csv", "--scheme=dnas", separator=",")
        self.assertEqual(len(rows), 2 * 2 * HEADS * QUERIES)
        self.run_tool("explain-away-stats", "in.h5:/layer1", "-q", "--scheme=dnas", "--only", "-o", "out.h5")
        entropy = self.read("out.h5")["dnas_row_entropy"]
        for row in rows[len(rows) // 2:]:
            at = int(row["batch"]), int(row["head"]), int(row["index"])
            self.assertEqual((row["group"], float(row["entropy"])), ("layer1", entropy[at]))

    def test_file_and_resumed_run(self):
        text = self.run_tool("explain-away-stats", "in.h5", "--rows=keys", "--csv").out
        self.run_tool("explain-away-stats", "in.h5", "--rows=keys", "-o", "keys.csv", "-q")
        self.assertEqual((self.folder / "keys.csv").read_bytes(), text)

    def test_refusals(self):
        for options, says in [(["--rows=keys"], "--rows keys has no effect without a table"),
                              (["--rows=keys", "--tsv", "--sort=share"], "--sort has no effect on --rows keys"),
                              (["--rows=keys", "--tsv", "--top=3"], "--top has no effect on --rows keys"),
                              (["--rows=keys", "--tsv", "--shard=1/2", "-o", "p.h5"], "--rows keys has no effect on a shard"),
                              (["--rows=queries", "--tsv", "--scale=1,2"], "--rows queries has no effect on a sweep"),
                              (["--sort=min_c", "-q"], "--sort has no effect with --quiet")]:
            self.refused("explain-away-stats", "in.h5:/layer0", *options, status=2, output=None, says=says)
        # The text of the table counts as memory.
        q = np.zeros((1, 1), np.float32)
        self.write("long.h5", q=q, k=np.zeros((300000, 1), np.float32))
        done = self.run_tool("explain-away-stats", "long.h5", "--rows=keys", "--tsv", "--memory=64M", status=None)
        self.assertEqual(done.status, 6, done.err)
        self.run_tool("explain-away-stats", "long.h5", "--memory=64M", "-q")


if __name__ == "__main__":
    unittest.main()
