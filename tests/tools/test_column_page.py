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
        for (layer, head), why in [(EXPLAINED, r"explains away 25\.0% of its keys, dnas 0\.0%"),
                                   (SINK, r"key 5 gets \d+\.\d% of a query's weight"),
                                   (SHARP, r"entropy \S+: a query sees some \S+ keys")]:
            self.assertRegex(text, rf"(?m)^layer{layer} +{head} +{why}$")
        # The first of each kind, before the second of any.
        named = re.findall(r"(?m)^layer(\d) +(\d+) +\S", text.split("stand out")[1].split("\n\n")[0])
        self.assertEqual([tuple(map(int, place)) for place in named[:2]], [EXPLAINED, SINK])
        self.assertEqual(len(set(named)), 10)

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

    def test_tables_for_few_heads_and_on_request(self):
        self.assertIn("unas: least c\n", self.report("--full"))
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
