"""explain-away-stats on many heads: one page in place of a table with a line for each head."""

import re
import unittest

import h5py
import numpy as np

from attn import ToolTest

LAYERS, HEADS, LENGTH, DEPTH = 3, 12, 40, 8
SINK, EXPLAINED, SHARP = (1, 4), (2, 7), (0, 3)  # layer and head


class ColumnPage(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(3)
        with h5py.File(self.folder / "model.h5", "w") as file:
            for layer in range(LAYERS):
                q, k = random.normal(size=(2, HEADS, LENGTH, DEPTH)) / 4
                q[..., 0] = 4
                if layer == SINK[0]:
                    k[SINK[1], 5] = [9] + [0] * (DEPTH - 1)  # what every query looks at
                if layer == EXPLAINED[0]:
                    k[EXPLAINED[1], 10:20, 0] = -30  # what no query looks at
                if layer == SHARP[0]:
                    q[SHARP[1]] = k[SHARP[1]] = 30 * np.linalg.qr(random.normal(size=(LENGTH, LENGTH)))[0][:, :DEPTH]
                file[f"net/layer{layer}/q"], file[f"net/layer{layer}/k"] = q, k

    def report(self, *options):
        return self.run_tool("explain-away-stats", "--each=/net/*", "model.h5", *options).out.decode()

    def test_page(self):
        text = self.report()
        self.assertLessEqual(len(text.splitlines()), 30)
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        self.assertTrue(text.startswith("model.h5: 3 groups, 36 heads, names below net/; --full prints the tables"))
        count = self.stats("--each=/net/*", "model.h5")["groups"]
        count = sum(group["unas"]["explained_away"][0]["count"] for group in count)
        self.assertEqual(count, 10)
        self.assertIn("\nunas explains away 10 of 1440 keys (c < 1e-8), dnas none.\n", text)
        for (layer, head), why in [(EXPLAINED, "explains away 10 of 40 keys, dnas none"),
                                   (SINK, r"key 5 gets \d+\.\d% of a query's weight"),
                                   (SHARP, r"entropy \S+, close to one key per query")]:
            self.assertRegex(text, rf"(?m)^layer{layer} +{head} +{why}(;.*)?$")
        # The first of each kind, before the second of any.
        named = re.findall(r"(?m)^layer(\d) +(\d+) +\S", text.split("stand out")[1].split("\n\n")[0])
        self.assertEqual([tuple(map(int, place)) for place in named[:2]], [EXPLAINED, SINK])
        self.assertEqual(len(named), 3)  # no other head is remarkable

    def test_lines_of_groups(self):
        text = self.report("--scheme=unas,dnas,hnas", "--hybrid=0.5")
        groups = self.stats("--each=/net/*", "model.h5", "--scheme=unas,dnas,hnas", "--hybrid=0.5")["groups"]
        lines = re.findall(r"(?m)^layer(\d) +(\S+%) +(\S+) +(\S+) +(\S+%) +(\S+)", text)
        for layer, share, least, entropy, first, most in lines[:LAYERS]:
            found = groups[int(layer)]["unas"]
            self.assertEqual(share, f"{100 * found['explained_away'][0]['share']:.1f}%")
            self.assertEqual(first, f"{100 * found['first_key_share']:.1f}%")
            for shown, value in ((least, found["col_sum"]["min"]), (entropy, found["row_entropy"]["mean"]),
                                 (most, found["most_per_query"]["value"])):
                self.assertLessEqual(abs(float(shown) - value), 0.06 * abs(value))  # at least two digits
        self.assertEqual(len(re.findall("(?m)^group ", text)), 3)  # the heads, and two tables
        self.assertIn("dnas: c >= 0.025 is proven; it holds", text)

    def test_sinks_several_reasons_and_nothing(self):
        random = np.random.default_rng(8)
        q, k = random.normal(size=(2, 30, LENGTH, DEPTH)) / 4
        self.write("plain.h5", q=q, k=k)
        text = self.run_tool("explain-away-stats", "plain.h5").out.decode()
        self.assertIn("\nNo head stands out under unas.\n", text)
        self.assertNotIn("sink", text)
        q[..., 0], k[3, 5], k[3, 10, 0] = 4, [9] + [0] * (DEPTH - 1), -30
        sink = np.full(30, -np.inf)
        sink[6] = 9
        self.write("sink.h5", q=q, k=k, sink=sink)
        text = self.run_tool("explain-away-stats", "--scheme=unas", "--epsilon=1e-8,0.1", "sink.h5").out.decode()
        self.assertRegex(text, r"(?m)^3 +explains away key 10 of 40 keys; key 5 gets \d+\.\d% of a query's weight$")
        self.assertRegex(text, r"(?m)^6 +the sink gets 9\d\.\d% of the attention$")
        header = next(line for line in text.splitlines() if "least c" in line)
        self.assertEqual(header.split(), "c<1e-8 c<0.1 least c entropy first sink max c/n".split())

    def test_names_of_keys(self):
        random = np.random.default_rng(8)
        q, k = random.normal(size=(2, 30, LENGTH, DEPTH)) / 4
        q[..., 0], k[3, 5], k[4, 10, 0] = 4, [9] + [0] * (DEPTH - 1), -30
        k[6, 11:13, 0] = -30
        tokens = [f"w{n}" for n in range(LENGTH)]
        self.write("named.h5", q=q, k=k, tokens=tokens)
        text = self.run_tool("explain-away-stats", "named.h5").out.decode()
        self.assertRegex(text, r"(?m)^3 +key 5 'w5' gets \d+\.\d% of a query's weight")
        self.assertRegex(text, r"(?m)^4 +explains away key 10 'w10' of 40 keys, dnas none$")
        self.assertRegex(text, r"(?m)^6 +explains away 2 of 40 keys, dnas none$")
        self.assertNotIn(" more\n", text)
        self.write("bare.h5", q=q, k=k)
        text = self.run_tool("explain-away-stats", "bare.h5").out.decode()
        self.assertRegex(text, r"(?m)^4 +explains away key 10 of 40 keys, dnas none$")

    def test_more_heads_than_are_listed(self):
        q, k = np.random.default_rng(8).normal(size=(2, 30, LENGTH, DEPTH)) / 4
        q[..., 0] = 4
        k[:17, 10:12, 0] = -30
        self.write("many.h5", q=q, k=k)
        text = self.run_tool("explain-away-stats", "many.h5").out.decode()
        listed = text.split("stand out under unas\n")[1].split("\n\n")[0].splitlines()
        self.assertEqual(len(listed), 1 + 10 + 1)
        self.assertEqual(listed[-1], "and 7 more")

    def test_causality_and_soft_cap(self):
        text = self.report("--causal", "--softcap=50")
        self.assertRegex(text, r"\A.*tables by head\ncausal top-left, softcap 50\n\n")
        text = self.report("--causal", "--softcap=50", "--full")
        self.assertRegex(text, r"\A.*\ncausal top-left, softcap 50\n\n")
        self.assertRegex(self.report(), r"\A.*tables by head\n\n")
        with h5py.File(self.folder / "model.h5", "a") as file:
            file["net/layer1"].attrs["attn_causal"] = "top-left"
            file["net/layer1"].attrs["attn_window"] = "5:0"
        self.assertRegex(self.report(), r"tables by head\ncausal top-left, window 5:0 \(1 group\); none \(2 groups\)\n\n")
        one = self.run_tool("explain-away-stats", "model.h5:/net/layer1").out.decode()
        self.assertIn("12 x 40 x 40, scaled-dot, causal top-left, window 5:0, float", one)

    def test_groups_with_other_schemes(self):
        with h5py.File(self.folder / "model.h5", "a") as file:
            weights = np.random.default_rng(9).uniform(size=(30, LENGTH, LENGTH))
            weights[..., 0] = 0
            file["net/stored/weights"] = weights / weights.sum(-1, keepdims=True)
        text = self.report()
        named = re.findall(r"(?m)^(\S+) +\d+ +\S", text.split("stand out under unas")[1].split("\n\n")[0])
        self.assertNotIn("stored", named)
        self.assertIn("unas explains away 10 of 1440 keys (c < 1e-8), dnas none, stored 30 of 1200 keys.", text)

    def test_tables_for_few_heads_and_on_request(self):
        self.assertIn("unas: least c\n", self.report("--full"))
        self.assertIn("unas: least c\n", self.report("--top=2"))
        self.assertNotIn("unas: least c\n", self.report("--top=0"))
        self.assertIn("unas: least c\n",
                      self.run_tool("explain-away-stats", "--each=/net/layer[01]", "model.h5").out.decode())
        one = self.run_tool("explain-away-stats", "-i", "q=model.h5:/net/layer0/q", "-i",
                            "k=model.h5:/net/layer0/k").out.decode()
        self.assertIn("head       ", one)
        self.assertNotIn("--full", one)

    def test_one_section_and_a_tail(self):
        with h5py.File(self.folder / "model.h5") as file:
            q, k = file["net/layer1/q"][...], file["net/layer1/k"][...]
        k[:, 38:, 0] = -30
        self.write("one.h5", q=np.tile(q, (3, 1, 1)), k=np.tile(k, (3, 1, 1)))
        text = self.run_tool("explain-away-stats", "--causal", "one.h5").out.decode()
        self.assertIn("36 heads; --full prints the tables by head", text)
        self.assertIn("Among the 1332 keys with at least 4 queries, unas explains away none (c < 1e-8), dnas none.\n"
                      "Among all 1440 keys: unas 72, dnas none.\n", text)
        self.assertRegex(text, r"(?m)^all +0\.0% ")


if __name__ == "__main__":
    unittest.main()
