"""explain-away-stats --heads: figures of some heads, under their own numbers."""

import csv
import io
import unittest

import numpy as np

from attn import ToolTest

HEADS, KEY_HEADS, LENGTH = 6, 2, 12


class HeadChoice(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(5)
        q = 3 * random.normal(size=(2, HEADS, LENGTH, 8)).astype(np.float32)
        k = random.normal(size=(2, KEY_HEADS, LENGTH, 8)).astype(np.float32)
        tokens = np.array([[f"t{b}.{n}" for n in range(LENGTH)] for b in range(2)])
        self.write("in.h5", q=q, k=k, tokens=tokens.tolist())

    def rows(self, *options, source="in.h5"):
        done = self.run_tool("explain-away-stats", source, "--csv", *options)
        return list(csv.DictReader(io.StringIO(done.out.decode())))

    def test_figures_are_those_of_all_heads(self):
        everything = self.rows()
        for text, chosen in (("1,4", [1, 4]), ("4,1,1", [1, 4]), ("-1", [5]), ("2:4", [2, 3]),
                             ("::3", [0, 3]), ("0:99", [0, 1, 2, 3, 4, 5])):
            wanted = [row for row in everything if int(row["head"]) in chosen]
            self.assertEqual(self.rows("--heads", text), wanted, text)
            self.assertEqual(self.rows("--heads", text, "--threads", "2"), wanted, text)
            self.assertEqual(self.rows("--heads", text, "--memory", "1M"), wanted, text)

    def test_keys_and_queries_of_chosen_heads(self):
        for of in ("keys", "queries"):
            wanted = [row for row in self.rows("--rows", of) if row["head"] in "14"]
            self.assertEqual(self.rows("--rows", of, "--heads", "1,4"), wanted)
        self.assertEqual(self.rows("--rows", "keys", "--heads", "4")[-1]["token"], "t1.11")

    def test_json(self):
        whole = self.stats("in.h5")["unas"]
        done = self.run_tool("explain-away-stats", "in.h5", "--heads", "1,4", "--json").json()
        self.assertEqual(done["params"]["heads"], "1,4")
        found = done["result"]["unas"]
        self.assertEqual([head["index"] for head in found["heads"]],
                         [[0, 1], [0, 4], [1, 1], [1, 4]])
        of = {tuple(head["index"]): head for head in whole["heads"]}
        for head in found["heads"]:
            same = of[tuple(head["index"])]
            self.assertEqual(head["col_sum"], same["col_sum"])
            self.assertEqual(head["lowest"], same["lowest"])
        self.assertEqual(found["keys"], 4 * LENGTH)
        least = min((of[place] for place in of if place[1] in (1, 4)),
                    key=lambda head: head["col_sum"]["min"])
        self.assertEqual(found["lowest"][0], least["lowest"][0])

    def test_report(self):
        text = self.run_tool("explain-away-stats", "in.h5", "--heads", "1,4").out.decode()
        self.assertIn("in.h5: 2 x 2 x 12 x 12, scaled-dot, float32, 2 heads of 6\n", text)
        labels = [line.split()[0] for line in text.splitlines() if line[:1].isdigit()]
        self.assertEqual(labels[:4], ["0,1", "0,4", "1,1", "1,4"])
        # Of several groups, a table has a column for each chosen head.
        data = {name: self.read("in.h5")[name] for name in "qk"}
        self.write("dump.h5", **{f"layer{n}__{name}": value
                                 for n in range(2) for name, value in data.items()})
        text = self.run_tool("explain-away-stats", "dump.h5", "--each", "/layer*", "--heads",
                             "1,4").out.decode()
        heading = next(line for line in text.splitlines() if line.startswith("group"))
        self.assertEqual(heading.split(), ["group", "head", "1", "head", "4", "all"])
        self.assertNotIn("head 0", text)

    def test_a_single_head(self):
        self.write("one.h5", q=np.eye(3), k=np.eye(3))
        self.assertEqual(self.rows("--heads", "0", source="one.h5"), self.rows(source="one.h5"))

    def test_refused(self):
        counting = "heads are counted from 0, the last one is 5"
        for text, says, hint in (("6", "--heads has 6, in.h5 has 6 heads", counting),
                                 ("-7", "--heads has -7, in.h5 has 6 heads", counting),
                                 ("3:3", "--heads 3:3 selects none of the 6 heads of in.h5", counting),
                                 ("a", "--heads has 'a', expected indices and ranges", ""),
                                 ("all", "--heads has 'all'", "leave out --heads for all"),
                                 ("0 1", "--heads has '0 1'", "a list has commas and no blanks"),
                                 ("", "--heads needs a value", "")):
            self.refused("explain-away-stats", "in.h5", f"--heads={text}", status=2, says=says, hint=hint,
                         output=None)
        self.refused("explain-away-stats", "in.h5", "--heads", "8-11", status=2,
                     says="--heads has '8-11'", hint="for 8 to 11 write 8:12", output=None)
        self.refused("explain-away-stats", "in.h5", "--heads", "1", status=2,
                     says="--heads only chooses heads of a report", hint="-o FILE.csv")
        self.refused("explain-away-stats", "in.h5", "--heads", "1", "--shard", "1/2", status=2,
                     says="--heads has no effect on a shard")
        self.refused("explain-away-stats", "in.h5", "--head", "1", status=2,
                     says="--head", hint="--heads", output=None)
        self.run_tool("explain-away-stats", "in.h5", "--heads", "1", "-o", "some.csv")


if __name__ == "__main__":
    unittest.main()
