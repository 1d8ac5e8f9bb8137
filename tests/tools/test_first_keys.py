"""explain-away-stats --sinks: figures of the first keys against NumPy; stored weights whose rows lack the part of a sink."""

import json
import unittest

import numpy as np

from attn import ToolTest

HEADS, QUERIES, KEYS, DEPTH, WIDTH = 2, 37, 41, 8, 5


def softmax(scores, axis=-1):
    weights = np.exp(scores - scores.max(axis, keepdims=True))
    return weights / weights.sum(axis, keepdims=True)


def dnas(scores):
    weights = softmax(scores, 0)
    return weights / weights.sum(1, keepdims=True)


def stable_rank(output):
    singular = np.linalg.svd(output, compute_uv=False)
    return (singular ** 2).sum() / singular[0] ** 2


def figures(weights, v, keys, scores=None):
    """The columns of the table, of one head."""
    rest = np.setdiff1d(np.flatnonzero(weights.sum(0)), keys)
    without = weights.copy()
    without[:, keys] = 0
    norms = np.linalg.norm(v, axis=-1)
    found = {"first_share": weights[:, keys].sum() / len(weights), "first_value_norm": norms[keys].mean(),
             "other_value_norm": norms[rest].mean(), "stable_rank": stable_rank(weights @ v),
             "stable_rank_without": stable_rank(without @ v)}
    if scores is not None:
        found["largest_score"] = abs(scores[np.isfinite(scores)]).max()
    return found


class FirstKeys(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(51)
        self.q, self.k, self.v = (random.normal(size=(HEADS, n, w)) for n, w in
                                  ((QUERIES, DEPTH), (KEYS, DEPTH), (KEYS, WIDTH)))
        self.q[:, :, 0] += 3
        self.k[:, 0, 0] += 4
        self.scores = self.q @ self.k.swapaxes(-1, -2) / np.sqrt(DEPTH)

    def rows(self, *arguments):
        lines = self.run_tool("explain-away-stats", *arguments, "--tsv").out.decode().splitlines()
        return [dict(zip(lines[0].split("\t"), line.split("\t"))) for line in lines[1:]]

    def check(self, rows, expected, limit):
        self.assertEqual(len(rows), len(expected))
        for row, of_head in zip(rows, expected):
            for name, value in of_head.items():
                self.assert_near(name, float(row[name]), value, limit * abs(value))

    def test_figures(self):
        for kind, limit in ((np.float64, 1e-9), (np.float32, 1e-4)):
            self.write(f"{kind.__name__}.h5", q=self.q.astype(kind), k=self.k.astype(kind), v=self.v.astype(kind))
            for scheme, normalised in (("unas", softmax), ("dnas", dnas)):
                rows = self.rows(f"{kind.__name__}.h5", f"--scheme={scheme}", "--sinks=2")
                expected = [figures(normalised(s), v, np.array([0, 1]), s) for s, v in zip(self.scores, self.v)]
                self.check(rows, expected, limit)

    def test_masked_keys_are_no_first_keys(self):
        """Nor do their scores count."""
        self.k[:, 0] *= 100
        mask = np.arange(KEYS) > 0
        self.write("in.h5", q=self.q, k=self.k, v=self.v, mask=mask[None])
        scores = np.where(mask, self.scores, -np.inf)
        expected = [figures(softmax(s), v, np.array([1]), s) for s, v in zip(scores, self.v)]
        self.check(self.rows("in.h5", "--scheme=unas", "--sinks=1"), expected, 1e-9)
        self.write("alone.h5", q=self.q[:, :, :], k=self.k[:, :1], v=self.v[:, :1])
        row = self.rows("alone.h5", "--scheme=unas", "--sinks=3")[0]
        self.assertEqual((row["first_share"], row["other_value_norm"], row["stable_rank_without"]), ("1", "", ""))

    def test_without_values(self):
        self.write("in.h5", q=self.q, k=self.k)
        row = self.rows("in.h5", "--scheme=unas", "--sinks=1")[0]
        self.assertEqual([row[name] for name in ("first_value_norm", "stable_rank", "stable_rank_without")], ["", "", ""])
        self.assert_near("largest", float(row["largest_score"]), abs(self.scores[0]).max(), 1e-12)

    def test_shards(self):
        """Joined, they have the report and the table of one run."""
        vectors = {n: np.tile(a, (3, 1, 1, 1)) * np.arange(1, 4)[:, None, None, None]
                   for n, a in (("q", self.q), ("k", self.k), ("v", self.v))}
        for more in ({}, {"v": None}, {"key_length": np.array([41, 0, 7])}):
            self.write("in.h5", **{n: a for n, a in (vectors | more).items() if a is not None})
            options = ["--scheme=unas,dnas", "--sinks=2"]
            self.run_tool("explain-away-stats", "in.h5", *options, "--json=whole.json", "-o", "whole.csv", "--force")
            parts = [f"part.{n:04}-of-0004.h5" for n in range(1, 5)]
            for n in range(1, 5):
                self.run_tool("explain-away-stats", "in.h5", *options, f"--shard={n}/4", "-o", "part.h5", "--force")
            self.run_tool("tensor-join", *parts, "--json=joined.json", "-o", "joined.h5", "--force")
            self.run_tool("tensor-join", *parts, "-o", "joined.csv", "--force")
            whole, joined = (json.loads((self.folder / f"{name}.json").read_text())["result"]
                             for name in ("whole", "joined"))
            self.assertEqual(joined["report"]["result"], whole)
            self.assertIn("largest_score", whole["unas"]["heads"][0]["sinks"])
            self.assertEqual(*((self.folder / f"{name}.csv").read_text() for name in ("whole", "joined")))

    def test_comparison(self):
        self.write("base.h5", q=self.q, k=self.k, v=self.v)
        self.write("tuned.h5", q=self.q, k=self.k, v=2 * self.v)
        options = ["--scheme=unas", "--sinks=1"]
        base = self.rows("base.h5", *options)
        changes = {(row["head"], row["figure"]): row for row in self.rows("tuned.h5", *options, "--against", "base.h5")}
        for row in base:
            for name, by in (("first_share", 0), ("first_value_norm", 1), ("other_value_norm", 1), ("stable_rank", 0),
                             ("stable_rank_without", 0), ("largest_score", 0)):
                change = changes[row["head"], name]
                self.assert_near(name, float(change["base"]), float(row[name]), 0)
                self.assert_near(name, float(change["change"]), by * float(row[name]), 1e-12)
        self.run_tool("explain-away-stats", "tuned.h5", *options, "--against", "base.h5", "--threshold",
                      "first_value_norm=0.1", status=1)
        plain = self.rows("tuned.h5", "--scheme=unas", "--against", "base.h5")
        self.assertNotIn("first_share", [row["figure"] for row in plain])

    def test_sweep(self):
        """The text pools heads; the table has each."""
        self.write("in.h5", q=self.q, k=self.k, v=self.v)
        options = ["--scheme=unas", "--scale=0.5,1", "--sinks=2"]
        titles, *lines = [line.split() for line in self.run_tool("explain-away-stats", "in.h5", *options)
                          .out.decode().splitlines() if "unas" in line or "first_share" in line]
        self.assertEqual(titles[-4:], ["first_share", "first_value_norm", "other_value_norm", "largest_score"])
        rows = self.rows("in.h5", *options)
        for scale, line in zip(("0.5", "1"), lines, strict=True):
            own = [row for row in rows if row["scale"] == scale]
            self.assertEqual(len(own), HEADS)
            found = dict(zip(titles[-4:], map(float, line[-4:])))
            for name, value in found.items():
                pool = max if name == "largest_score" else np.mean
                self.assert_near(name, value, pool([float(row[name]) for row in own]), 5e-3 * value)

    def test_stored_weights_with_a_sink(self):
        sink = 1.5
        raised = np.exp(self.scores)
        weights = raised / (raised.sum(-1, keepdims=True) + np.exp(sink))
        self.write("in.h5", weights=weights, v=self.v)
        self.refused("explain-away-stats", "in.h5", status=3, says=["add up to"], hint="--rest sink")
        rows = self.rows("in.h5", "--rest=sink", "--sinks=1")
        self.write("scored.h5", q=self.q, k=self.k, v=self.v, sink=np.float64(sink))
        for row, known in zip(rows, self.rows("scored.h5", "--scheme=unas", "--sinks=1"), strict=True):
            for name in ("sink_share", "entropy", "first_share", "stable_rank", "stable_rank_without"):
                self.assert_near(name, float(row[name]), float(known[name]), 1e-9 * abs(float(known[name])))
            self.assertEqual(row["largest_score"], "")
        self.refused("explain-away-stats", "scored.h5", "--scheme=unas", "--rest=sink", status=2, says=["--rest has no effect"])
        error = self.run_tool("explain-away-stats", "in.h5", "--rest=sink", "--sinks=1", "--rows=keys", "--tsv",
                              status=2).err
        self.assertIn("--sinks has no figures by keys", error)
        self.write("more.h5", weights=weights * 2)
        self.refused("explain-away-stats", "more.h5", "--rest=sink", status=3, says=["add up to"])


if __name__ == "__main__":
    unittest.main()
