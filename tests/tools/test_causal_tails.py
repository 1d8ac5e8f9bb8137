"""explain-away-stats on keys with few queries: the counts among keys with enough, the warning of the
tail, what few keys get, and the warning of the leak, which every tool gives."""

import unittest

import numpy as np

from attn import ToolTest

LEAK = "each query depends on later ones through the column normalisation"


class Tails(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(5)
        # The last keys have few queries, and scores far below those of the first ones.
        self.q = np.ones((2, 30, 4))
        self.k = random.normal(size=(2, 30, 4))
        self.k[1, 26:] = -12
        self.write("in.h5", q=self.q, k=self.k, v=self.k)
        s = np.einsum("hid,hjd->hij", self.q, self.k) / 2
        s = np.where(np.tril(np.ones((30, 30), bool)), s, -np.inf)
        weights = np.exp(s - s.max(-1, keepdims=True))
        self.c = (weights / weights.sum(-1, keepdims=True)).sum(axis=1)
        self.n = 30 - np.arange(30)

    def test_counts_and_note(self):
        done = self.run_tool("explain-away-stats", "--causal", "--scheme=unas", "--epsilon=1e-8,0.2",
                             "--min-queries=6", "--json=out.json", "in.h5")
        found = self.read_json("out.json")["result"]["unas"]
        for of, c in ((found, self.c), (found["heads"][1], self.c[1:])):
            for e in of["explained_away"]:
                enough = c[:, self.n >= 6]
                self.assertEqual(e["count"], int((c < e["epsilon"]).sum()))
                self.assertEqual(e["enough"],
                                 {"min_queries": 6, "count": int((enough < e["epsilon"]).sum()),
                                  "share": float((enough < e["epsilon"]).mean())})
            self.assertEqual(of["enough_keys"], c[:, self.n >= 6].size)
            per_query = np.where(self.n >= 6, c / self.n, 0)
            self.assertAlmostEqual(of["most_per_query"]["value"], per_query.max(), delta=1e-12)
            self.assertAlmostEqual(of["enough"]["min"], c[:, self.n >= 6].min(), delta=1e-12)
            ranks = np.where(self.n >= 6, c / self.n, np.nan).ravel()
            for name, order in (("lowest", np.argsort(ranks)), ("highest", np.argsort(-ranks))):
                expected = [int(at) % 30 for at in order[:10]]
                self.assertEqual([key["index"] for key in of["enough"][name]], expected)
            self.assertEqual(sum(of["enough"]["histogram"]["counts"]), of["enough_keys"])
        self.assertEqual(found["explained_away"][0]["count"], 4)
        for key in found["lowest"]:
            self.assertEqual(key["queries"], self.n[key["index"]])
            self.assertEqual(key["value_per_query"], key["value"] / key["queries"])
        self.assertIn("4 of the 4 keys with c < 1e-8 under unas do not have at least 6 queries, so their small "
                      "sums say little", done.err)
        text = done.out.decode()
        self.assertIn("Among the 50 keys with at least 6 queries, unas explains away none (c < 1e-8).\n"
                      "Among all 60 keys: unas 4.\n", text)
        self.assertIn("enough: the same share among the 50 of 60 keys to which at least 6 queries "
                      "may attend", text)
        # Where the threshold is 1, no key lacks queries, and nothing is said.
        done = self.run_tool("explain-away-stats", "--causal", "--scheme=unas", "--min-queries=1",
                             "in.h5")
        self.assertNotIn("enough", done.out.decode() + done.err)
        self.assertEqual(done.err, "")

    def test_default_and_queries_in_the_bundle(self):
        found = self.stats("--causal=none", "--scheme=unas", "in.h5")["unas"]
        self.assertEqual(found["explained_away"][0]["enough"]["min_queries"], 3)
        self.write("few.h5", q=self.q[:, :7], k=self.k)
        found = self.stats("--scheme=unas", "few.h5")["unas"]
        self.assertEqual(found["explained_away"][0]["enough"]["min_queries"], 1)
        self.run_tool("explain-away-stats", "-q", "--causal", "in.h5", "--only", "-o", "out.h5")
        queries = self.read("out.h5")["queries_of_key"]
        self.assertEqual((queries.dtype, queries.tolist()), (np.int64, [self.n.tolist()] * 2))

    def test_each_sequence_has_its_own_default(self):
        q, k = (np.stack([x, x]) for x in (self.q, self.k))
        self.write("batch.h5", q=q, k=k, query_length=[30, 15], key_length=[30, 15])
        done = self.run_tool("explain-away-stats", "--causal", "--scheme=unas", "batch.h5")
        text = done.out.decode()
        # A tenth of 30 queries is 3, of 15 it is 1: of two heads 28 and 15 keys have enough.
        self.assertIn("among the 86 of 90 keys to which at least a tenth of the sequence's queries",
                      text)
        self.assertIn("30 keys and 30 queries are padding, and counted nowhere else.\n", text)
        found = self.stats("--causal", "--scheme=unas", "batch.h5")["unas"]
        self.assertIsNone(found["explained_away"][0]["enough"]["min_queries"])
        for head, (enough, keys) in zip(found["heads"], ((3, 28), (3, 28), (1, 15), (1, 15))):
            self.assertEqual(head["explained_away"][0]["enough"]["min_queries"], enough)
            self.assertEqual(head["enough_keys"], keys)
        found = self.stats("--causal", "--scheme=unas", "--min-queries=5", "batch.h5")["unas"]
        self.assertEqual(found["explained_away"][0]["enough"]["min_queries"], 5)

    def test_few_keys(self):
        k = self.k.copy()
        k[0, 3] = 5  # every query attends to it
        mask = np.ones((30, 30), bool)
        mask[:, 0] = False
        self.write("sink.h5", q=self.q, k=k, mask=mask, tokens=[f"w{j}" for j in range(30)])
        done = self.run_tool("explain-away-stats", "--scheme=unas", "--top-shares=1,3",
                             "--json=out.json", "sink.h5")
        found = self.read_json("out.json")["result"]["unas"]
        self.assertEqual(found["concentrated_heads"], {"above": 0.3, "count": 1, "heads": [[0]]})
        most = found["most_per_query"]
        self.assertEqual((most["head"], most["index"], most["key"]), ([0], 3, "w3"))
        self.assertIn("unas: 1 of 2 heads gives one key a mean weight above 0.3: head 0 (key 3 w3, "
                      "0.9", done.out.decode())
        c = found["heads"][0]["col_sum"]["max"]
        self.assertAlmostEqual(found["heads"][0]["top_shares"][0]["share"], c / 30, delta=1e-12)
        # The first key that is not masked is key 1.
        self.run_tool("explain-away-stats", "-q", "--scheme=unas", "sink.h5", "-o", "out.h5")
        sums = self.read("out.h5")["unas_col_sum"]
        for head in range(2):
            self.assertAlmostEqual(found["heads"][head]["first_key_share"], sums[head, 1] / 30,
                                   delta=1e-12)

    def test_every_tool_warns_of_the_leak(self):
        for command in (["attn-compute", "--scheme=dnas"], ["attn-compute", "--scheme=sinkhorn", "--iterations=2"],
                        ["attn-compute", "--scheme=hnas", "--hybrid=0.5"],
                        ["explain-away-stats", "--scheme=unas,dnas"], ["sinkhorn-iter", "--iterations=2"]):
            done = self.run_tool(*command, "--causal", "in.h5", "-o", "out.h5", "--force")
            self.assertEqual(done.err.count(LEAK), 1, command)
            done = self.run_tool(*command, "in.h5", "-o", "out.h5", "--force", status=None)
            self.assertNotIn(LEAK, done.err)
        # A window without a right side is as good as causality.
        for window, times in (":0", 1), ("3:0", 1), (":1", 0), ("0:", 0):
            for command in (["attn-compute", "--scheme=dnas"], ["explain-away-stats", "--scheme=dnas"],
                            ["sinkhorn-iter", "--iterations=2"]):
                done = self.run_tool(*command, f"--window={window}", "in.h5", "-o", "out.h5",
                                     "--force", status=None)
                self.assertEqual(done.err.count(LEAK), times, (window, command))
        self.run_tool("attn-compute", "--scheme=dnas", "--causal", "in.h5", "-o", "made.h5")
        done = self.run_tool("explain-away-stats", "--scheme=stored", "made.h5")
        self.assertEqual(done.err.count(LEAK), 1)
        # Without --scheme, explain-away-stats shows dnas for comparison.
        for command in (["attn-compute"], ["explain-away-stats", "--scheme=unas"], ["explain-away-stats"]):
            done = self.run_tool(*command, "--causal", "in.h5", "-o", "out.h5", "--force")
            self.assertNotIn(LEAK, done.err)


if __name__ == "__main__":
    unittest.main()
