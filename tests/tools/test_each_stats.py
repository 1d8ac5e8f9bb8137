"""explain-away-stats over whole dumps: the table of layers by heads and --tsv against the JSON."""

import csv
import io
import re
import unittest

import h5py
import numpy as np

from dumps import EACH, LAYERS, MAP, Dump


class Statistics(Dump):

    def table(self, text, title):
        """{label: cells} of one table."""
        lines = text.split(f"\n{title}\n", 1)[1].splitlines()
        rows = {}
        for line in lines[1:]:
            label, *cells = line.split()
            rows[label] = cells
            if label == "all":
                return rows
        self.fail(f"no end of {title}")

    def test_equals_one_run_per_group(self):
        options = [*MAP, "--causal=bottom-right", "--epsilon=0.5,1e-3"]
        pooled = self.stats(*EACH, *options, "dump.h5")
        self.assertEqual([group["group"] for group in pooled["groups"]], self.groups)
        self.assertEqual(pooled["status"], "ok")
        for group in pooled["groups"]:
            alone = self.stats(*options, f"dump.h5:/{group.pop('group')}")
            self.assertEqual(group, alone)

    def test_table(self):
        done = self.run_tool("explain-away-stats", *EACH, *MAP, "--epsilon=0.9", "dump.h5")
        text = done.out.decode()
        groups = self.stats(*EACH, *MAP, "--epsilon=0.9", "dump.h5")["groups"]
        self.assertIn("6 groups, names below text/\n", text)
        for scheme in ("unas", "dnas"):
            share = self.table(text, f"{scheme}: share of keys with c < 0.9")
            least = self.table(text, f"{scheme}: least c")
            entropy = self.table(text,
                                 f"{scheme}: mean entropy of the weights of a query, in nats")
            most = self.table(text, f"{scheme}: largest mean weight of a key, c/n")
            median = self.table(text, f"{scheme}: median c")
            first = self.table(text, f"{scheme}: share of the attention on the first key")
            tops = [self.table(text, f"{scheme}: share of the attention on the {words} with the "
                               "most") for words in ("key", "10 keys")]
            self.assertEqual(list(share), [f"{t}/{n}" for t in "ab" for n in LAYERS] + ["all"])
            count = keys = 0
            for group in groups:
                at = group["group"].removeprefix("text/")
                for column, found in enumerate([*group[scheme]["heads"], group[scheme]]):
                    explained = found["explained_away"][0]
                    self.assertEqual(
                        share[at][column],
                        f"{100 * explained['share']:.1f}%" if explained["count"] else "0")
                    for table, value in ((least, found["col_sum"]["min"]),
                                         (entropy, found["row_entropy"]["mean"]),
                                         (median, found["col_sum"]["median"]),
                                         (most, found["most_per_query"]["value"])):
                        self.assertLess(abs(float(table[at][column]) / value - 1), 0.006)
                    self.assertEqual(first[at][column], f"{100 * found['first_key_share']:.1f}%")
                    for table, top in zip(tops, found["top_shares"], strict=True):
                        self.assertEqual(table[at][column], f"{100 * top['share']:.1f}%")
                count += group[scheme]["explained_away"][0]["count"]
                keys += group[scheme]["keys"]
            self.assertEqual(share["all"][-1], f"{100 * count / keys:.1f}%")
            self.assertIn(f"{count} of {keys} keys", text)
            everything = [group[scheme] for group in groups]
            mean = np.average([g["row_entropy"]["mean"] for g in everything],
                              weights=[2 * 7] * 3 + [3 * 1] * 3)
            self.assertLess(abs(float(entropy["all"][-1]) / mean - 1), 0.006)
        least = min((group["dnas"] for group in groups), key=lambda found: found["margin"])
        self.assertIn(f"it holds, the least margin is {least['margin']:.6g} times", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        self.assertEqual(text.count("log10 c"), 1)
        long = self.run_tool("explain-away-stats", "-v", *EACH, *MAP, "dump.h5").out.decode()
        self.assertEqual(long.count("log10 c"), 7)
        self.assertIn("dump.h5:/text/b/layer10: 3 x 1 x 5", long)

    def test_wide_tables_and_long_names(self):
        name = "x" * 30 + "é" * 30
        with h5py.File(self.folder / "wide.h5", "w") as file:
            for layer in ("one", name):
                random = np.random.default_rng(0)
                file[f"model/{layer}/q"] = random.normal(size=(5, 6, 4, 2))
                file[f"model/{layer}/k"] = random.normal(size=(5, 6, 4, 2))
        text = self.run_tool("explain-away-stats", "--each=model/*", "wide.h5", "--full").out.decode()
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        self.assertIn("~" + "é" * 27 + " ", text)
        self.assertIn("every cell pools the batch\n", text)
        for title in ("unas: least c", "dnas: least c"):
            header = text.split(f"\n{title}\n")[1].splitlines()[0]
            self.assertEqual(re.findall(r"head (\d+)", header), [str(h) for h in range(6)])
            least = self.table(text, title)
            found = self.stats("--each=model/*", "wide.h5")["groups"]
            for group, row in zip(found, list(least.values())[:-1]):
                for head in range(6):
                    value = min(h["col_sum"]["min"] for h in group[title[:4]]["heads"]
                                if h["index"][1] == head)
                    self.assertLess(abs(float(row[head]) / value - 1), 0.006)

    def test_long_names_stay_distinct(self):
        names = [f"{stack}.block.{n}.layer.0.SelfAttention" for stack in ("encoder", "decoder")
                 for n in range(2)]
        random = np.random.default_rng(0)
        with h5py.File(self.folder / "t5.h5", "w") as file:
            for name in names:
                for vectors in "qk":
                    file[f"{name}/{vectors}"] = random.normal(size=(12, 4, 2))
        for command in (["explain-away-stats"], ["lambda-solve", "-o", "out.h5"]):
            text = self.run_tool(*command, "t5.h5").out.decode()
            self.assertLessEqual(max(map(len, text.splitlines())), 100)
            for name in names:
                self.assertRegex(text, rf"(?m)^{re.escape(name)} ")

    def rows(self, *options, status=0):
        done = self.run_tool("explain-away-stats", "--tsv", *options, status=status)
        return list(csv.DictReader(io.StringIO(done.out.decode()), delimiter="\t",
                                   quoting=csv.QUOTE_NONE))

    def test_tsv(self):
        with h5py.File(self.folder / "dump.h5", "a") as file:
            file["text/b/layer0/mask"] = np.array([[1, 1, 1, 0, 0]], bool)
            file["text/b/layer2/mask"] = np.zeros((3, 1, 5), bool)
        options = [*EACH, *MAP, "--epsilon=1e-8,0.75", "dump.h5"]
        rows = self.rows(*options)
        self.assertEqual(list(rows[0]),
                         ["file", "group", "batch", "head", "scheme", "keys", "masked_keys",
                          "empty_queries", "padded_keys", "padded_queries", "min_queries",
                          "enough_keys", "enough_min_c", "min_c", "median_c", "mean_c", "max_c", "share_below_1e-08", "share_below_0.75",
                          "enough_share_below_1e-08", "enough_share_below_0.75", "entropy",
                          "first_key_share", "top_1_share", "top_10_share", "sink_share",
                          "max_c_per_query", "max_c_per_query_key", "bound", "margin", "holds"])
        position = 0
        for group in self.stats(*options)["groups"]:
            for head in range(len(group["unas"]["heads"])):
                for scheme in ("unas", "dnas"):
                    row, found = rows[position], group[scheme]["heads"][head]
                    position += 1
                    self.assertEqual(
                        (row["file"], row["group"], row["batch"], row["head"], row["scheme"]),
                        ("dump.h5", group["group"], "", str(head), scheme))
                    self.assertEqual((row["keys"], row["masked_keys"]),
                                     (str(found["keys"]), str(found["masked_keys"])))
                    some = found["keys"] > 0
                    expected = {f"{n}_c": found["col_sum"][n]
                                for n in ("min", "median", "mean", "max")}
                    for name, e in zip(("share_below_1e-08", "share_below_0.75"),
                                       found["explained_away"]):
                        expected[name] = e["share"] if some else None
                        expected[f"enough_{name}"] = e["enough"]["share"] if some else None
                    expected |= {"empty_queries": found["empty_rows"],
                                 "enough_keys": found["enough_keys"], "enough_min_c": found["enough"]["min"],
                                 "min_queries": found["explained_away"][0]["enough"]["min_queries"],
                                 "first_key_share": found["first_key_share"]}
                    expected |= {f"top_{t['keys']}_share": t["share"]
                                 for t in found["top_shares"]}
                    most = found["most_per_query"] or {"value": None, "index": None}
                    expected |= {"max_c_per_query": most["value"],
                                 "max_c_per_query_key": most["index"]}
                    expected |= {n: found[n] for n in ("bound", "margin")}
                    expected["entropy"] = found["row_entropy"]["mean"]
                    for name, value in expected.items():
                        text = row[name]
                        self.assertEqual(float(text) if text else None, value, name)
                    self.assertEqual(row["holds"],
                                     {True: "true", False: "false", None: ""}[found["holds"]])
        self.assertEqual(position, len(rows))

    def test_tsv_of_one_bundle(self):
        rows = self.rows("-q", *MAP, "dump.h5:/text/a/layer0", "--json=figures.json")
        self.assertEqual([(row["group"], row["head"]) for row in rows],
                         [("", "0"), ("", "0"), ("", "1"), ("", "1")])
        self.assertTrue((self.folder / "figures.json").exists())

    def test_bundle(self):
        self.run_tool("explain-away-stats", "-q", *EACH, *MAP, "dump.h5", "-o", "out.h5")
        found = self.read("out.h5")
        for group in self.groups:
            self.run_tool("explain-away-stats", "-q", *MAP, f"dump.h5:/{group}", "--only",
                          "-o", "one.h5", "--force")
            expected = self.read("one.h5")
            self.assertEqual(len(expected), 5)
            self.assert_same_bits({n: found[f"{group}/{n}"] for n in expected}, expected)

    def test_stored_weights_of_a_run_with_each(self):
        options = [*EACH, *MAP, "--scheme=dnas", "--energy=dot", "--precision=f64"]
        self.run_tool("attn-compute", "-q", *options, "dump.h5", "-o", "made.h5")
        stored = self.stats(*EACH, *MAP, "--scheme=stored,dnas", "made.h5")
        for group in stored["groups"]:
            a, b = group["stored"]["col_sum"], group["dnas"]["col_sum"]
            self.assertLess(abs(a["min"] - b["min"]), 1e-12)
        # A parameter that differs between groups is listed with each group.
        with h5py.File(self.folder / "made.h5", "a") as file:
            file["text/b/layer2"].attrs["attn_scale"] = 2.0
        report = self.run_tool("explain-away-stats", *EACH, *MAP, "--json", "made.h5").json()
        self.assertIsNone(report["params"]["scale"])
        self.assertEqual(report["params"]["energy"], "dot")
        self.assertEqual([group["params"]["scale"] for group in report["result"]["groups"]],
                         [1, 1, 1, 1, 2, 1])

    def test_worst_status(self):
        made = ["--scheme=sinkhorn", "--tolerance=1e-3", "--iterations=2"]
        self.run_tool("attn-compute", "-q", *EACH, *MAP, *made, "dump.h5", "-o", "made.h5",
                      status=1)
        report = self.run_tool("explain-away-stats", *EACH, *MAP, "--scheme=sinkhorn", "--json",
                               "made.h5", status=1)
        self.assertEqual(report.json()["result"]["status"], "not_converged")
        self.assertIn("did not converge on every head of text/a/layer10: the error falls by", report.err)


if __name__ == "__main__":
    unittest.main()
