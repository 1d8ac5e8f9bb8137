"""explain-away-stats --sinks: figures of the first keys against NumPy; stored weights whose rows lack the part of a sink."""

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
        for more in (["--against", "in.h5"], ["--rows=keys", "--tsv"], ["--shard=1/2", "-o", "part.h5"]):
            error = self.run_tool("explain-away-stats", "in.h5", "--rest=sink", "--sinks=1", *more, status=2).err
            self.assertIn("--sinks has no figures", error)
        self.write("more.h5", weights=weights * 2)
        self.refused("explain-away-stats", "more.h5", "--rest=sink", status=3, says=["add up to"])


if __name__ == "__main__":
    unittest.main()
