"""Tables of the reports (--tsv, --csv, --sort, -o FILE.csv), several INPUTs, and groups that stand in
for a file without datasets of its own."""

import csv
import io
import unittest

import h5py
import numpy as np

from attn import ToolTest
from dumps import MAP, Dump


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text.decode(), newline=""), strict=True))


def read_tsv(text):
    return list(csv.DictReader(io.StringIO(text.decode()), delimiter="\t", quoting=csv.QUOTE_NONE))


class Tables(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(2)
        for name in ("a", "b"):
            self.write(f"{name}.h5", q=3 * random.normal(size=(2, 3, 8, 4)),
                       k=3 * random.normal(size=(2, 3, 8, 4)))

    def table(self, *options, **more):
        return self.run_tool("explain-away-stats", *options, **more).out

    def test_csv_is_the_same_table(self):
        odd = 'odd,"name"\n.h5'
        (self.folder / "a.h5").rename(self.folder / odd)
        text = self.table("--csv", odd)
        self.assertEqual(text.count(b"\r\n"), 1 + 2 * 3 * 2)
        rows = read_csv(text)
        tabs = read_tsv(self.table("--tsv", odd))
        # A line break would begin a line of a terminal.
        for table in (rows, tabs):
            self.assertEqual([row.pop("file") for row in table], 12 * ['odd,"name"\\n.h5'])
        self.assertEqual(rows, tabs)
        self.assertEqual([(row["batch"], row["head"]) for row in rows[::2]],
                         [(str(b), str(h)) for b in range(2) for h in range(3)])

    def test_csv_file_in_place_of_a_bundle(self):
        done = self.run_tool("explain-away-stats", "a.h5", "-o", "out.csv")
        self.assertIn(b"log10 c", done.out)
        self.assertEqual((self.folder / "out.csv").read_bytes(), self.table("--csv", "a.h5"))
        self.refused("explain-away-stats", "a.h5", output="out.csv", status=5,
                     says=["out.csv exists"], hint="--force")
        self.run_tool("explain-away-stats", "b.h5", "-o", "out.csv", "--force", "-q")
        self.assertEqual((self.folder / "out.csv").read_bytes(), self.table("--csv", "b.h5"))
        self.refused("explain-away-stats", "a.h5", "--only", output="new.csv", status=2,
                     says=["--only has no effect on a table"])
        self.refused("explain-away-stats", "missing.h5", output="new.csv", status=3)
        self.refused("attn-compute", "a.h5", output="new.csv", status=2, says=["not .csv"])

    def test_sort_and_top(self):
        rows = read_tsv(self.table("--tsv", "--scheme=unas", "--sort=min_c", "a.h5"))
        values = [float(row["min_c"]) for row in rows]
        self.assertEqual(values, sorted(values, reverse=True))
        self.assertEqual(len(values), 6)
        rows = read_tsv(self.table("--tsv", "--scheme=unas", "--sort=-min_c", "--top=2", "a.h5"))
        self.assertEqual([float(row["min_c"]) for row in rows], sorted(values)[:2])
        # Rows without a value come last, in either order.
        for by in ("bound", "-bound"):
            rows = read_tsv(self.table("--tsv", f"--sort={by}", "a.h5"))
            self.assertEqual([row["scheme"] for row in rows], 6 * ["dnas"] + 6 * ["unas"])
        text = self.table("--sort=scheme", "--top=3", "a.h5").decode().splitlines()
        self.assertEqual(len(text), 4)
        self.assertEqual(text[0].split()[:5], ["file", "batch", "head", "scheme", "min_c"])
        self.assertEqual({line.split()[3] for line in text[1:]}, {"dnas"})
        self.refused("explain-away-stats", "--sort=minimum", "a.h5", output=None, status=2,
                     says=["--sort is minimum, expected one of file, group, batch, head, scheme"])
        self.refused("explain-away-stats", "--tsv", "--csv", "a.h5", output=None, status=2,
                     says=["both --tsv and --csv"])

    def test_several_inputs(self):
        rows = read_tsv(self.table("--tsv", "a.h5", "b.h5"))
        single = [row for name in ("a.h5", "b.h5") for row in read_tsv(self.table("--tsv", name))]
        self.assertEqual(rows, single)
        self.assertEqual({row["file"] for row in rows}, {"a.h5", "b.h5"})
        groups = self.stats("a.h5", "b.h5")["groups"]
        for name, group in zip(("a.h5", "b.h5"), groups, strict=True):
            self.assertEqual((group.pop("file"), group.pop("group")), (name, ""))
            self.assertEqual(group, self.stats(name))
        text = self.table("a.h5", "b.h5").decode()
        self.assertIn("2 files: 2 groups; every cell pools the batch\n", text)
        self.refused("explain-away-stats", "a.h5", "b.h5", output="out.h5", status=2,
                     says=["--output is out.h5, but several INPUTs make no bundle"],
                     hint="-o FILE.csv")
        self.table("-q", "a.h5", "b.h5", "-o", "both.csv")
        self.assertEqual((self.folder / "both.csv").read_bytes(),
                         self.table("--csv", "a.h5", "b.h5"))
        self.refused("explain-away-stats", "-", "-", output=None, status=2,
                     says=["two INPUTs are standard input"])
        self.refused("attn-compute", "a.h5", "b.h5", status=2, says=["unexpected argument b.h5"])


class Groups(Dump):

    def test_groups_stand_in_for_the_file(self):
        names = "--map=q=Q,k=K"
        done = self.run_tool("explain-away-stats", names, "--tsv", "dump.h5")
        chosen = self.run_tool("explain-away-stats", names, "--tsv", "--each=/text/*/*", "dump.h5")
        self.assertEqual(done.out, chosen.out)
        self.assertEqual(chosen.err, "")
        self.assertEqual(done.err,
                         "explain-away-stats: note: dump.h5 holds nothing to compute from outside "
                         "its groups: the results are those of its 6 groups that do (--each "
                         "chooses groups)\n")
        self.assertEqual(self.run_tool("explain-away-stats", "-q", *MAP, "dump.h5").err, "")
        # Those of a group of the file, too.
        rows = read_tsv(self.run_tool("explain-away-stats", *MAP, "--tsv", "dump.h5:/text/b").out)
        self.assertEqual({row["group"] for row in rows}, {"layer0", "layer2", "layer10"})

    def test_only_groups_that_suffice(self):
        with h5py.File(self.folder / "dump.h5", "a") as file:
            del file["text/a/layer2/K"]
            file["weights/layer0"] = np.zeros(3)
        rows = read_tsv(self.run_tool("explain-away-stats", "--map=q=Q,k=K", "--tsv",
                                      "dump.h5").out)
        self.assertEqual(sorted({row["group"] for row in rows}),
                         sorted(set(self.groups) - {"text/a/layer2"}))
        # A file whose root suffices is not searched.
        with h5py.File(self.folder / "dump.h5", "a") as file:
            file["Q"] = file["K"] = np.eye(4)
        done = self.run_tool("explain-away-stats", "--map=q=Q,k=K", "--tsv", "dump.h5")
        self.assertEqual((len(read_tsv(done.out)), done.err), (2, ""))
        # Where no group suffices either, the error names what INPUT lacks.
        with h5py.File(self.folder / "dump.h5", "a") as file:
            del file["weights"]
        self.refused("explain-away-stats", "dump.h5", status=3,
                     says=["no dataset q (there are: K, Q, embedding)"])
        self.write("groups.h5", **{"a/x": np.ones(3), "b/x": np.ones(3)})
        for tool in ("explain-away-stats", "lambda-solve", "attn-compute"):
            self.refused(tool, "groups.h5", status=3,
                         says=["groups.h5: no dataset q (there are only groups: a, b)"],
                         hint="groups.h5:/a is the first of them")

    def test_other_tools(self):
        for command, result in ((["attn-compute", "--emit=col_sum"], "col_sum"),
                                (["lambda-solve", "--emit=gap"], "gap"),
                                (["sinkhorn-iter", "--iterations=2", "--emit=row_potential"],
                                 "row_potential")):
            done = self.run_tool(*command, *MAP, "dump.h5", "-o", "out.h5", "--force")
            self.assertIn("its 6 groups that do", done.err)
            bundle = self.read("out.h5")
            for group in self.groups:
                self.assertIn(f"{group}/{result}", bundle)
            self.assertNotIn(result, bundle)

    def test_pooled_report(self):
        with h5py.File(self.folder / "dump.h5", "a") as file:
            for group in self.groups:
                keys = file[f"{group}/K"].shape[-2]
                file[f"{group}/tokens"] = [f"{group[5]}{group[12:]}_{j}" for j in range(keys)]
        options = [*MAP, "--top=4", "dump.h5"]
        text = self.run_tool("explain-away-stats", *options).out.decode()
        groups = self.stats(*options)["groups"]
        keys = [(low["value"], group["group"], low) for group in groups
                for low in group["unas"]["lowest"]]
        listed = text.split("keys with the least attention under unas\n")[1].splitlines()[1:5]
        for line, (_, group, key) in zip(listed, sorted(keys, key=lambda entry: entry[0])):
            fields = line.split()
            self.assertEqual(fields[:4], [group.removeprefix("text/"), str(key["head"][0]),
                                          str(key["index"]), key["key"]])
            self.assertEqual(fields[4], str(key["queries"]))
        # The histogram pools the keys of all groups.
        bars = text.split("log10 c")[1].split("\n\n")[0]
        counts = sum(int(word) for line in bars.splitlines()[1:]
                     for word in line.split("..")[-1].replace("#", "").split()[1:])
        self.assertEqual(counts, 2 * sum(group["unas"]["keys"] for group in groups))


class Sweeps(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(3)
        self.write("in.h5", q=3 * random.normal(size=(3, 20, 4)), k=random.normal(size=(3, 20, 4)),
                   preference=random.uniform(0.5, 1, size=20))
        self.options = ["--scheme=unas,dnas,hnas,fenchel", "--causal", "in.h5"]

    def test_each_point_is_a_run_of_its_own(self):
        scales, shares = [0.25, 1.0, 2.0], [0.0, 0.3]
        swept = self.stats("--scale=0.25,1,2", "--hybrid=0,0.3", *self.options)["sweep"]
        self.assertEqual([(p["scale"], p["hybrid"]) for p in swept],
                         [(s, u) for s in scales for u in shares])
        table = read_tsv(self.run_tool("explain-away-stats", "--tsv", "--scale=0.25,1,2",
                                       "--hybrid=0,0.3", *self.options).out)
        self.assertEqual(list(table[0])[4:7], ["scale", "hybrid", "scheme"])
        position = 0
        for point in swept:
            at = [f"--scale={point['scale']}", f"--hybrid={point['hybrid']}", *self.options]
            self.assertEqual(point["result"], self.stats(*at))
            for row in read_tsv(self.run_tool("explain-away-stats", "--tsv", *at).out):
                found = table[position]
                self.assertEqual((float(found.pop("scale")), float(found.pop("hybrid"))),
                                 (point["scale"], point["hybrid"]))
                self.assertEqual(found, row)
                position += 1
        self.assertEqual(position, len(table))

    def test_one_value_is_no_sweep(self):
        self.assertIn("unas", self.stats("--scale=2", "--scheme=unas", "in.h5"))
        report = self.run_tool("explain-away-stats", "--json", "--scale=2,3", "--scheme=unas",
                               "in.h5").json()
        self.assertEqual(report["params"]["scale"], [2, 3])
        self.assertEqual([p["hybrid"] for p in report["result"]["sweep"]], [None, None])
        report = self.run_tool("explain-away-stats", "--json", "--hybrid=0.5", "--scheme=hnas",
                               "in.h5").json()
        self.assertEqual((report["params"]["scale"], report["params"]["hybrid"]), (1, 0.5))

    def test_a_decimal_with_a_comma(self):
        for scales, said in (("0,5", True), ("1,5", False), ("0,0.5", False), ("0,1,2", False)):
            done = self.run_tool("explain-away-stats", "--scale", scales, "--scheme=unas", "in.h5")
            self.assertEqual("note: --scale has two values, 0 and 5; a decimal has a point" in done.err, said)

    def test_text_and_refusals(self):
        text = self.run_tool("explain-away-stats", "--scale=0.5,1", "--scheme=unas,dnas",
                             "in.h5").out.decode().splitlines()
        self.assertEqual(text[0], "in.h5: every row pools the heads")
        self.assertEqual([line.split()[:2] for line in text[3:]],
                         [[s, n] for s in ("0.5", "1") for n in ("unas", "dnas")])
        self.refused("explain-away-stats", "--scale=1,2", "in.h5", status=2,
                     says=["--output is out.h5, but a sweep makes no bundle"])
        self.refused("explain-away-stats", "--hybrid=0,1", "--scheme=unas", "in.h5", output=None,
                     status=2, says=["--hybrid requires --scheme hnas"])
        self.run_tool("attn-compute", "-q", "in.h5", "-o", "made.h5")
        self.refused("explain-away-stats", "--scale=1,2", "--scheme=stored", "made.h5", output=None,
                     status=2, says=["a sweep has no effect on stored weights"])

    def test_over_groups(self):
        with h5py.File(self.folder / "dump.h5", "w") as file:
            for layer in range(2):
                file[f"layer{layer}/q"] = file[f"layer{layer}/k"] = np.eye(5) * (layer + 1)
        groups = self.stats("--scale=1,2", "dump.h5")["groups"]
        for group in groups:
            alone = self.stats("--scale=1,2", f"dump.h5:/{group['group']}")
            self.assertEqual(group["sweep"], alone["sweep"])


class OtherReports(ToolTest):

    def test_tensor_info(self):
        with h5py.File(self.folder / "in.h5", "w") as file:
            file["model/layer0/q"] = np.array([[1.0, np.nan], [-2.5, np.inf]])
            file["model/layer0/name"] = ["a", "b"]
            file["empty"] = np.zeros((0, 3), np.float32)
        done = self.run_tool("tensor-info", "--csv", "in.h5", "-o", "out.csv")
        self.assertEqual(done.out, (self.folder / "out.csv").read_bytes())
        rows = read_csv(done.out)
        expected = {
            ("", "empty"): ("(0, 3)", "float32", "", "", "0", "0"),
            ("model/layer0", "name"): ("(2)", "strings", "", "", "", ""),
            ("model/layer0", "q"): ("(2, 2)", "float64", "-2.5", "1", "1", "1"),
        }
        self.assertEqual({(row["group"], row["dataset"]): tuple(list(row.values())[3:])
                          for row in rows}, expected)
        self.assertEqual({row["file"] for row in rows}, {"in.h5"})
        first = self.run_tool("tensor-info", "--sort=min", "--top=1", "in.h5").out.decode()
        self.assertEqual(len(first.splitlines()), 2)
        self.refused("tensor-info", "in.h5", output="out.h5", status=2,
                     says=["--output is out.h5, but tensor-info writes only tables, FILE.csv"],
                     hint="-o FILE.csv, --tsv or --json")
        self.refused("tensor-info", "in.h5", output="out.csv", status=5, says=["out.csv exists"])
        done = self.run_tool("tensor-info", "--tsv", "--json", "in.h5", status=2)
        self.assertIn("--tsv and --json", done.json()["error"]["message"])

    def test_tensor_compare(self):
        self.write("a.h5", x=np.arange(4.0), only=np.zeros(2), text=["a"])
        self.write("b.h5", x=np.array([0, 1, 2.5, 3]), more=np.zeros(2), text=["a"])
        done = self.run_tool("tensor-compare", "--tsv", "a.h5", "b.h5", "-o", "out.csv", status=1)
        rows = {row["name"]: row for row in read_tsv(done.out)}
        self.assertEqual(list(rows), ["text", "x", "only", "more"])
        self.assertEqual([rows[n]["same"] for n in rows], ["true", "false", "false", "false"])
        self.assertEqual((rows["x"]["differing"], rows["x"]["max_abs_error"], rows["x"]["a"]),
                         ("1", "0.5", "a.h5"))
        self.assertEqual((rows["only"]["note"], rows["more"]["note"]), ("only in A", "only in B"))
        self.assertEqual([dict(row) for row in read_csv((self.folder / "out.csv").read_bytes())],
                         list(rows.values()))

    def test_claim_check(self):
        (self.folder / "claims.toml").write_text("""
[[claim]]
id = "one"
source = "a, book"
statement = "One is one."
command = "true"
value = "status"
relation = "="
expected = 0

[[claim]]
id = "two"
source = "b"
statement = "One is two."
command = "true"
value = "status"
relation = ">="
expected = 2
""")
        done = self.run_tool("claim-check", "--csv", "claims.toml", "-o", "out.csv", status=1)
        rows = read_csv(done.out)
        self.assertEqual([(r["id"], r["source"], r["measured"], r["margin"], r["verdict"],
                           r["as_expected"]) for r in rows],
                         [("one", "a, book", "0", "0", "holds", "true"),
                          ("two", "b", "0", "-2", "refuted", "false")])
        self.assertEqual(done.out, (self.folder / "out.csv").read_bytes())


if __name__ == "__main__":
    unittest.main()
