"""claim-check: claims stored as data, with commands of the real tools."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree as xml

import numpy as np

from attn import BIN, ToolTest

HOLDS = """
[[claim]]
id = "{id}"
source = "A paper, (1)"
statement = "A number is what it is."
command = '''{command}'''
value = "{value}"
relation = "="
expected = {expected}
{more}
"""


PRINT = "/usr/bin/python3 -c 'print({})' > r.json"
NUMPY = "/usr/bin/python3 -c 'import numpy as np; np.save(\"x.npy\", {})'"


def student_tail(t, degrees):
    """P(T >= t), with t = sqrt(degrees) tan(angle): an integral of powers of the cosine, by the midpoint rule."""
    def area(low):
        width = (np.pi / 2 - low) / 10**6
        return (np.cos(low + width * (np.arange(10**6) + 0.5))**(degrees - 1)).sum() * width
    return area(np.arctan(t / degrees**0.5)) / area(-np.pi / 2)


def claim(name, command="true", value="status", expected=0, more=""):
    return HOLDS.format(id=name, command=command, value=value, expected=expected, more=more)


class ClaimCheck(ToolTest):

    def claims(self, *texts, name="claims.toml", top=""):
        (self.folder / name).write_text(top + "".join(texts))

    def check(self, *arguments, status=0):
        done = self.run_tool("claim-check", "claims.toml", *arguments, "--json=r.json", status=status)
        self.text = done.out.decode()
        report = json.loads((self.folder / "r.json").read_text())
        return {c["id"]: c for c in report["result"]["list"]}

    def test_values(self):
        self.write("in.h5", q=np.arange(12.0).reshape(1, 3, 4), k=np.zeros((1, 2, 4)))
        run = "attn-compute $CLAIMS/in.h5 --only --emit weights -o out.h5"
        make = """echo '{"a":[1,{"b":2.5}],"t":true,"l":[3,1],"m":[[1,2],[3,4]]}' > r.json"""
        self.claims(
            claim("sliced", run, "out.h5:/weights[0,1,0]", 0.5),
            claim("all", run, "out.h5:/weights", 0.5),
            claim("each", run, "out.h5:/weights[0,0]", "[0.5, 0.5]"),
            claim("sum", run, "out.h5:/weights", 3, 'reduce = "sum"'),
            claim("pointer", make, "r.json:/a/1/b", 2.5),
            claim("true", make, "r.json:/t", 1),
            claim("rows", make, "r.json:/m", "[1, 2, 3, 4]"),
            claim("row", make, "r.json:/m/1", "[3, 4]"),
            claim("list", make, "r.json:/l", 1, 'reduce = "min"'),
            claim("place", make, "r.json:/l", '"r.json:/l"'),
            claim("status", "exit 3", "status", 3, "status = [0, 3]"))
        results = self.check()
        self.assertEqual({c["verdict"] for c in results.values()}, {"holds"}, self.text)
        self.assertEqual(results["sum"]["measured"], 3)
        self.assertIn("11 claims: 11 as expected, 0 not, 0 could not run", self.text)

    def test_a_failed_command_is_never_a_pass(self):
        refuted = 'expect = "refuted"\nright = "fine"'
        self.claims(
            claim("fine"),
            claim("fails", "exit 1", more=refuted),
            claim("pipe", "cat nothing | cat", more=refuted),
            claim("missing", "true", "out.h5:/x", more=refuted),
            claim("unmade", "true", "r.json:/x", more=refuted),
            claim("null", """echo '{"x":null}' > r.json""", "r.json:/x", more=refuted),
            claim("word", """echo '{"x":"ok"}' > r.json""", "r.json:/x", more=refuted),
            claim("part", """echo '{"x":[[1],[2,"3"]]}' > r.json""", "r.json:/x", more=refuted),
            claim("none", """echo '{"x":[[],[]]}' > r.json""", "r.json:/x", more=refuted),
            claim("deep", PRINT.format('"[" * 10**6 + "]" * 10**6'), "r.json:/0", more=refuted),
            claim("nan", NUMPY.format("[np.nan]"), "x.npy", more=refuted),
            claim("empty", NUMPY.format("[]"), "x.npy", more='reduce = "sum"\n' + refuted),
            claim("shape", NUMPY.format("np.ones((2, 3))); np.save(\"y.npy\", np.ones((3, 2))"), "x.npy",
                  '"y.npy"', more=refuted),
            claim("fifo", "mkfifo r.json", "r.json:/x", more=refuted),
            claim("endless", "ln -s /dev/zero z.h5", "z.h5:/x", more=refuted),
            claim("no-such-tool", "attn-nonsense", more=refuted),
            claim("slow", "sleep 30", more="time-limit = 0.3\n" + refuted))
        start = time.monotonic()
        results = self.check("-j", 3, status=1)
        self.assertLess(time.monotonic() - start, 25)
        self.assertEqual(results.pop("fine")["verdict"], "holds")
        for name, result in results.items():
            self.assertEqual((name, result["verdict"], result["as_expected"]), (name, "error", False))
        self.assertIn("x.npy is (2, 3), y.npy is (3, 2)", self.text)
        self.assertIn("No such file", self.text)
        self.assertIn("nested too deeply", self.text)
        self.assertIn("more than 0.3 seconds", self.text)
        self.assertIn("17 claims: 1 as expected, 0 not, 16 could not run", self.text)

    def test_refuted(self):
        self.claims(claim("right"), claim("wrong", expected=1, more='expect = "refuted"\nright = "right"'))
        results = self.check()
        self.assertEqual(results["wrong"]["verdict"], "refuted")
        self.assertTrue(results["wrong"]["as_expected"])
        # A refuted claim that holds is as wrong as a claim that does not hold.
        self.claims(claim("right", expected=1), claim("wrong", more='expect = "refuted"\nright = "right"'))
        results = self.check(status=1)
        self.assertEqual([c["as_expected"] for c in results.values()], [False, False])
        self.assertEqual(results["right"]["margin"], -1)

    def falsify(self, *arguments, status=0):
        self.check("--falsify", *arguments, status=status)
        found = json.loads((self.folder / "r.json").read_text())["result"]["falsify"]
        return found, {c["id"]: c for c in found["list"]}

    def test_claims_that_can_fail(self):
        echo = "echo '{\"x\": [1, 2]}' > r.json"
        self.claims(
            claim("equal", "exit 3", expected=3, more='status = [0, 3]\nperturb = ["3", "0"]'),
            claim("list", echo, "r.json:/x", "[1, 2]", 'perturb = ["2", "2.5"]'),
            claim("wrong", "exit 3", more='status = [0, 3]\nexpect = "refuted"\nright = "equal"\n'
                                          'perturb = ["exit 3", "true"]'),
            claim("constants", echo, "r.json:/x/0", 1, 'kind = "printed"'),
            claim("excused", more='unperturbed = "It is so by definition."'))
        found, each = self.falsify()
        self.assertEqual({name for name, c in each.items() if c["can_fail"]}, set(each) - {"excused"})
        self.assertEqual(each["equal"]["perturbed"], 0)
        self.assertEqual(each["excused"]["reason"], "It is so by definition.")
        self.assertEqual([found[k] for k in ("computed", "computed_can_fail", "excused", "printed",
                                             "printed_can_fail", "share")], [4, 3, 1, 1, 1, 0.75])
        self.assertIn("4 computed claims: 3 can fail (75.0%), 1 say why they cannot", self.text)
        table = self.run_tool("claim-check", "claims.toml", "--falsify", "--tsv").out.decode().splitlines()
        self.assertEqual(table[0].split("\t"), ["file", "id", "kind", "expected", "measured", "perturbed", "can_fail",
                                               "reason"])
        self.assertEqual(table[1].split("\t")[1:7], ["equal", "computed", "= 3", "3", "0", "true"])
        # Without --falsify nothing is perturbed.
        self.assertEqual(len(self.check("--keep=kept")), 5)
        self.assertEqual({f.name for f in (self.folder / "kept").iterdir()}, set(each))

    def test_claims_that_cannot_fail(self):
        for name, more, says in (
                ("unnamed", "", "names no perturb"),
                ("deaf", 'perturb = ["true", "true; true"]', "does not fail when perturbed: measured 0"),
                ("broken", 'perturb = ["true", "exit 9"]', "the perturbed command has no verdict"),
                ("wide", 'perturb = ["true", "exit 9"]\nstatus = [0, 9]\ntolerance = 2\nwhy = "w"',
                 "does not fail when its expectation moves to 1")):
            with self.subTest(name=name):
                self.claims(claim(name, more=more))
                found, each = self.falsify(status=1)
                self.assertFalse(each[name]["can_fail"])
                self.assertIn(says, each[name]["reason"])
                self.assertIn(says, self.text)
        # An inequality says nothing when its expectation moves.
        self.claims(claim("constants", more='kind = "printed"').replace('"="', '">="'))
        found, each = self.falsify()
        self.assertIn("printed inequality", each["constants"]["reason"])
        # A claim that does not hold was not shown to be able to fail.
        self.claims(claim("false", expected=1, more='perturb = ["true", "exit 9"]\nstatus = [0, 9]'))
        self.assertIn("has not the verdict", self.falsify(status=1)[1]["false"]["reason"])

    def test_required_perturbations(self):
        self.claims(claim("a", more='perturb = ["true", "exit 1"]'), claim("b"), claim("c"),
                    claim("d", more='kind = "printed"'), claim("e", more='unperturbed = "Why."'))
        self.refused("claim-check", "claims.toml", "--require-perturb", status=3,
                     says=["claims.toml:", "b: perturb is missing, and in 1 more claims"], output=None)
        self.check("--require-perturb", "--skip=b,c")

    def bounded(self, name, relation, expected, more="", command="echo '{\"x\": 1}' > r.json"):
        return claim(name, command, "r.json:/x", expected, more).replace('"="', f'"{relation}"')

    def test_headroom(self):
        tolerance = 'tolerance = 0.5\nwhy = "w"'
        self.claims(
            self.bounded("inside", "within", 1.125, tolerance),
            self.bounded("edge", "within", 1.4375, tolerance),
            self.bounded("outside", "within", 2, tolerance),
            self.bounded("relative", "within", 2, 'relative-tolerance = 1\nwhy = "w"'),
            self.bounded("bound", "<", 4),
            self.bounded("scaled", "<", 4, "scale = 2"),
            self.bounded("zero", ">", 0),
            self.bounded("exact", "=", 1),
            self.bounded("wrong", ">", 4, 'expect = "refuted"\nright = "bound"'))
        rooms = {name: c["headroom"] for name, c in self.check(status=1).items()}
        self.assertEqual(rooms, {"inside": 0.75, "edge": 0.125, "outside": -1, "relative": 0.5, "bound": 0.75,
                                 "scaled": 1.5, "zero": None, "exact": None, "wrong": 0.75})
        warned = json.loads((self.folder / "r.json").read_text())["warnings"]
        self.assertEqual(warned, ["edge: headroom 0.12: measured 1, expected 1.4375 ± 0.5"])

    def record(self, *claims, commit="one", status=0):
        self.claims(*claims)
        self.check("--record=records", f"--commit={commit}", status=status)
        return max((self.folder / "records").iterdir())

    def drift(self, *words, status=0):
        done = self.run_tool("claim-check", *words, "--json=d.json", status=status)
        self.text = done.out.decode()
        return json.loads((self.folder / "d.json").read_text())["result"]

    def test_records(self):
        say = "echo '{{\"x\": {}}}' > r.json"
        tolerance = 'tolerance = 0.5\nwhy = "w"'
        near = self.bounded("near", "within", 1, tolerance, say.format(1))
        first = self.record(near, claim("stays"), claim("goes"))
        lines = [json.loads(line) for line in first.read_text().splitlines()]
        self.assertEqual([line["id"] for line in lines], ["near", "stays", "goes"])
        self.assertEqual({k: lines[0][k] for k in ("commit", "measured", "expected", "unit", "headroom", "verdict")},
                         {"commit": "one", "measured": 1, "expected": 1, "unit": 0.5, "headroom": 1, "verdict": "holds"})
        self.assertRegex(lines[0]["date"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertTrue(lines[0]["cpu"] and lines[0]["version"])
        # By a quarter of its tolerance, then by more than all of it.
        second = self.record(near.replace('"x": 1', '"x": 1.125'), claim("stays"), commit="two")
        found = self.drift("diff", str(first), "records", status=1)
        self.assertEqual({c["id"]: (c["moved"], c["of_tolerance"], c["verdict_after"]) for c in found["differing"]},
                         {"near": (0.125, 0.25, "holds"), "goes": (None, None, "")})
        self.assertIn("3 claims: 2 differ", self.text)
        third = self.record(near.replace('"x": 1', '"x": 1.75'), claim("stays"), commit="three", status=1)
        found = self.drift("diff", str(second), str(third), status=1)
        self.assertEqual([(c["id"], c["verdict_before"], c["verdict_after"]) for c in found["differing"]],
                         [("near", "holds", "refuted")])
        self.assertEqual(self.drift("diff", str(third), str(third))["differing"], [])
        found = self.drift("history", "records")
        self.assertEqual([r["commit"] for r in found["records"]], ["one", "two", "three"])
        self.assertRegex(self.text, r"near +1 +0.75 +-0.5\nstays +- +- +-\ngoes +-\n")
        table = self.run_tool("claim-check", "history", "records", "--tsv").out.decode().splitlines()
        self.assertEqual(len(table), 8)

    def test_records_that_are_none(self):
        (self.folder / "empty").mkdir()
        (self.folder / "x.jsonl").write_text('{"id": "x"}\n')
        for words, status, says in ((["diff", "x.jsonl", "x.jsonl"], 3, ["x.jsonl:1", "--record"]),
                                    (["diff", "x.jsonl"], 2, ["two records"]),
                                    (["history", "empty"], 3, ["empty", "no record"]),
                                    (["history", "gone"], 3, ["gone"])):
            self.refused("claim-check", *words, status=status, says=says, output=None)

    def test_commit_of_a_record(self):
        self.record(claim("x"), commit="feature/x")
        git = ["git", "-C", str(self.folder), "-c", "user.name=n", "-c", "user.email=e"]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "add", "claims.toml"], check=True)
        subprocess.run([*git, "commit", "-qm", "c"], check=True)
        self.check("--record=records")
        commits = {json.loads(f.read_text().splitlines()[0])["commit"] for f in (self.folder / "records").iterdir()}
        self.assertIn("feature/x", commits)
        self.assertRegex(" ".join(commits - {"feature/x"}), "^[0-9a-f]{12}$")

    def test_cache(self):
        (self.folder / "input.txt").write_text("1")
        (self.folder / "sub").mkdir()
        (self.folder / "sub/below.txt").write_text("1")
        (self.folder / "claims").mkdir()
        show = "echo '{\"x\": '$(cat $CLAIMS/%s)'}' > r.json; echo >> $CLAIMS/../ran.txt"
        own = claim("own", show % "own.txt", "r.json:/x", 1)
        (self.folder / "claims/own.txt").write_text("1")
        texts = [own, claim("far", show % "../input.txt", "r.json:/x", 1),
                 claim("timed", show % "own.txt", "r.json:/x", 1, "alone = true"),
                 claim("folder", (show % "own.txt") + "; ls $CLAIMS/../sub", "r.json:/x", 1)]

        def run(*texts, status=0):
            (self.folder / "claims/claims.toml").write_text("".join(texts))
            (self.folder / "ran.txt").unlink(missing_ok=True)
            done = self.run_tool("claim-check", "claims/claims.toml", "--cache=cache", "--json=r.json", status=status)
            self.text = done.out.decode()
            report = json.loads((self.folder / "r.json").read_text())["result"]
            cached = {c["id"] for c in report["list"] if c["cached"]}
            ran = self.folder / "ran.txt"
            self.assertEqual(len(ran.read_text()) if ran.exists() else 0, len(texts) - len(cached))
            return cached

        self.assertEqual(run(*texts), set())
        # What measures time, and what names a folder, is not kept.
        self.assertEqual(run(*texts), {"own", "far"})
        self.assertIn("4 as expected, 0 not, 0 could not run; 2 from the cache", self.text)
        # Another expectation is judged anew, without a run.
        self.assertEqual(run(own.replace("expected = 1", "expected = 2"), status=1), {"own"})
        self.assertIn("measured 1, expected = 2", self.text)
        self.assertEqual(run(own.replace("expected = 1", "expected = [1, 2]"), status=1), {"own"})
        self.assertIn("1 number against 2 expected ones", self.text)
        # A file that the command names, and others.
        (self.folder / "input.txt").write_text("1.0")
        self.assertEqual(run(*texts), {"own"})
        self.assertEqual(run(*texts), {"own", "far"})
        (self.folder / "claims/other.txt").write_text("")
        self.assertEqual(run(*texts), {"own", "far"})
        # A module that the command names, and one that this module names.
        script = claim("script", "PYTHONPATH=$CLAIMS /usr/bin/python3 -B -c 'import one' > r.json; "
                                 "echo >> $CLAIMS/../ran.txt", "r.json:/x", 1)
        (self.folder / "claims/one.py").write_text("from two import x\nprint('{\"x\":', x, '}')\n")
        (self.folder / "claims/two.py").write_text("x = 1\n")
        self.assertEqual((run(script), run(script)), (set(), {"script"}))
        (self.folder / "claims/two.py").write_text("x = 1.0\n")
        self.assertEqual((run(script), run(script)), (set(), {"script"}))
        # The text, and a damaged entry.
        self.assertEqual(run(own.replace("echo >>", "echo  >>")), set())
        (self.folder / "cache/own.json").write_text("{")
        self.assertEqual(run(own), set())
        self.assertEqual(run(own), {"own"})
        # A failed claim is run again.
        broken = claim("broken", "echo >> $CLAIMS/../ran.txt; exit 7")
        self.assertEqual((run(broken, status=1), run(broken, status=1)), (set(), set()))
        for more in (["--keep=kept", "--cache=cache"], ["--cache="], ["--commit=x"]):
            self.refused("claim-check", "claims/claims.toml", *more, status=2, output=None)
        (self.folder / "file").write_text("")
        for option in ("--cache", "--record"):
            self.refused("claim-check", "claims/claims.toml", f"{option}=file/x", status=5, says=["file/x"], output=None)

    def test_cache_of_changed_tools(self):
        tools = self.folder / "tools"
        tools.mkdir()
        shutil.copy(BIN / "claim-check", tools)
        for name in ("one", "two", "three"):
            (tools / name).write_text("#!/bin/sh\ntrue\n")
            (tools / name).chmod(0o755)
        (self.folder / "script.sh").write_text("two\n")
        self.claims(claim("x", "one"), claim("y", "bash $CLAIMS/script.sh"))

        def run():
            done = subprocess.run([tools / "claim-check", "claims.toml", "--cache=cache", "--json=r.json"],
                                  cwd=self.folder, capture_output=True, check=True)
            self.assertEqual(done.stderr, b"")
            report = json.loads((self.folder / "r.json").read_text())["result"]
            return {c["id"] for c in report["list"] if c["cached"]}

        self.assertEqual((run(), run()), (set(), {"x", "y"}))
        for name, kept in (("one", {"y"}), ("two", {"x"}), ("three", {"x", "y"})):
            with open(tools / name, "a", encoding="ascii") as file:
                file.write("true\n")
            self.assertEqual((name, run(), run()), (name, kept, {"x", "y"}))

    def test_wildcards(self):
        groups = {f"layer{n}": {"a": np.full(2, float(n)), "b": np.ones(n)} for n in (1, 2, 10)}
        self.write("in.h5", **{f"{group}/{name}": x for group, one in groups.items() for name, x in one.items()})
        link = "ln -s $CLAIMS/in.h5 ."
        make = """echo '{"heads":[{"u":1},{"u":2}],"by":{"x":{"u":[3,4]},"y":{"u":5}}}' > r.json"""
        self.claims(
            claim("groups", link, "in.h5:/layer*/a", "[1, 1, 2, 2, 10, 10]"),
            claim("sliced", link, "in.h5:/layer?/a[0]", "[1, 2]"),
            claim("count", link, "in.h5:/*/b", 13, 'reduce = "count"'),
            claim("list", make, "r.json:/heads/*/u", "[1, 2]"),
            claim("object", make, "r.json:/by/*/u", "[3, 4, 5]"),
            claim("end", make, "r.json:/by/x/u/*", "[3, 4]"))
        self.assertEqual({c["verdict"] for c in self.check().values()}, {"holds"}, self.text)
        self.claims(
            claim("no-group", link, "in.h5:/head*/a"),
            claim("no-dataset", link, "in.h5:/layer*/c"),
            claim("dataset", link, "in.h5:/layer1/*"),
            claim("number", make, "r.json:/heads/0/u/*"),
            claim("missing", make, "r.json:/by/*/v"))
        results = self.check(status=1)
        self.assertEqual({c["verdict"] for c in results.values()}, {"error"}, self.text)
        for name, says in (("no-group", "head*"), ("no-dataset", "c"), ("dataset", "groups, not for datasets"),
                           ("number", "elements of an array"), ("missing", "'v' not found")):
            self.assertIn(says, results[name]["error"])

    def test_any(self):
        make = "echo '{\"x\": [1, 5, 3]}' > r.json"
        one = 'quantifier = "any"'
        self.claims(self.bounded("any", ">", 4, one, make), self.bounded("all", ">", 4, 'quantifier = "all"', make),
                    self.bounded("none", ">", 5, one, make), self.bounded("equal", "=", 3, one, make),
                    self.bounded("listed", "=", "[0, 0, 3]", one, make))
        results = self.check(status=1)
        self.assertEqual({name: (c["verdict"], c["measured"]) for name, c in results.items()},
                         {"any": ("holds", 5), "all": ("refuted", 1), "none": ("refuted", 5), "equal": ("holds", 3),
                          "listed": ("holds", 3)})

    def test_text(self):
        say = "printf 'begin 2\\ngap 0.25 of 3\\ngap -1e-3 of 4\\nend\\n'"
        table = "printf 'scheme\\tmin_c\\tn\\nunas\\t0\\t3\\ndnas\\t0.5\\t4\\n'"
        self.claims(
            claim("line", say, "stdout", "[0.25, 3]", "line = 2"),
            claim("last", f"{say} | head -n 1", "stdout", 2, "line = -1"),
            claim("pattern", say, "stdout", "[0.25, -0.001]", 'pattern = \'gap (\\S+)\''.replace("\\\\", "\\")),
            claim("both", say, "stdout", 4, "line = 3\npattern = 'of (.*)'"),
            claim("whole", say, "stdout", "[3, 4]", "pattern = '[34]$'"),
            claim("column", f"{table} > t.tsv", "t.tsv", "[0, 0.5]", 'column = "min_c"'),
            claim("numbered", f"{table} > t.tsv", "t.tsv", "[3, 4]", "column = 3"),
            claim("row", f"{table} > t.tsv", "t.tsv", 0.5, "column = 'min_c'\npattern = '^dnas'"),
            claim("row-number", f"{table} > t.tsv", "t.tsv", 3, "column = 'n'\nline = 1"),
            claim("commas", "printf 'a,b\\r\\n\"x, y\",7\\r\\n' > t.csv", "t.csv", 7, "column = 'b'"),
            claim("spaces", "printf 'a  b\\n1   7\\n'", "stdout", 7, "column = 'b'"))
        self.assertEqual({c["verdict"] for c in self.check().values()}, {"holds"}, self.text)
        self.claims(
            claim("no-match", say, "stdout", 0, "pattern = 'ga+p ([a-z]+)'"),
            claim("nothing", say, "stdout", 0, "pattern = 'nothing'"),
            claim("no-line", say, "stdout", 0, "line = 9"),
            claim("no-column", f"{table} > t.tsv", "t.tsv", 0, "column = 'max_c'"),
            claim("word", f"{table} > t.tsv", "t.tsv", 0, "column = 'scheme'"),
            claim("short", "printf 'a\\tb\\n1\\n'", "stdout", 0, "column = 'b'"),
            claim("long", "head -c 5000 /dev/zero | tr '\\0' x", "stdout", 0, "pattern = 'x'"),
            claim("fifo", "mkfifo t", "t", 0, "line = 1"))
        results = self.check(status=1)
        self.assertEqual({c["verdict"] for c in results.values()}, {"error"}, self.text)
        for name, says in (("nothing", "no number"), ("no-line", "not line 9"), ("short", "stdout:2"),
                           ("no-column", "scheme, min_c, n"), ("word", 't.tsv:2: "unas"'), ("long", "longer than"),
                           ("fifo", "not a regular file")):
            self.assertIn(says, results[name]["error"])

    def test_significance(self):
        make = """echo '{"a":[1,2,3,4.5],"b":[3,4,5,6],"wins":[1,1,1,1,1,1,1,0],"same":[2,2]}' > r.json"""

        def tested(name, test, alternative, against, value="a", level=0.05, more=""):
            return claim(name, make, f"r.json:/{value}", level,
                         f'test = "{test}"\nalternative = "{alternative}"\nagainst = {against}\n{more}').replace(
                             'relation = "="', 'relation = "p<"')

        other = '"r.json:/b"'
        self.claims(tested("welch", "welch", "less", other),
                    tested("welch-other", "welch", "greater", other),
                    tested("welch-two", "welch", "two-sided", other),
                    tested("one", "one-sample", "greater", 0),
                    tested("paired", "paired", "less", other),
                    tested("sign", "sign", "less", "[3, 4, 5, 4.5]"),
                    tested("share", "proportion", "greater", 0.5, "wins"))
        results = self.check(status=1)
        p = {name: c["measured"] for name, c in results.items()}
        # Var a = 6.6875/3, var b = 5/3, and Welch's formula by hand.
        squares = np.array([6.6875, 5]) / 3 / 4
        degrees = squares.sum()**2 / (squares**2 / 3).sum()
        self.assertAlmostEqual(p["welch"], student_tail(1.875 / squares.sum()**0.5, degrees), places=9)
        self.assertAlmostEqual(p["welch"] + p["welch-other"], 1, places=12)
        self.assertAlmostEqual(p["welch-two"], 2 * p["welch"], places=12)
        self.assertAlmostEqual(p["sign"], 1 / 8, places=14)
        self.assertAlmostEqual(p["share"], 9 / 256, places=14)
        self.assertLess(p["one"], 0.02)
        self.assertLess(p["paired"], 0.001)
        self.assertEqual({k: results["welch"]["test"][k] for k in ("kind", "n", "n_against", "estimate")},
                         {"kind": "welch", "n": 4, "n_against": 4, "estimate": -1.875})
        low, high = results["welch"]["test"]["interval"]
        self.assertTrue(low < -1.875 < high)
        self.assertEqual(results["sign"]["test"]["n"], 3)
        self.assertEqual(results["share"]["verdict"], "holds")
        self.assertAlmostEqual(results["share"]["headroom"], (0.05 - 9 / 256) / 0.05, places=12)
        self.assertRegex(self.text, r"\nshare: binomial test, n = 8, share 0.875, 95% interval \[0.4735, 0.9968\], greater")
        self.claims(tested("constant", "one-sample", "less", 3, "same"), tested("no-pairs", "paired", "less", other, "wins"),
                    tested("no-shares", "proportion", "less", 0.5), tested("ties", "sign", "less", 2, "same"),
                    tested("few", "welch", "less", "[1]"))
        results = self.check(status=1)
        self.assertEqual({c["verdict"] for c in results.values()}, {"error"}, self.text)

    def test_a_failed_command_can_be_run_again(self):
        command = "cat <<'CLAIM' > r.json\n{\"x\": 3}\nCLAIM\ncat > copy.txt < r.json\necho $CLAIMS > where.txt\n"
        self.claims(claim("x", command, "r.json:/x", 4), claim("fine"))
        results = self.check(status=1)
        self.assertNotIn("again", results["fine"])
        self.assertEqual(results["x"]["files"], ["copy.txt (9 bytes)", "r.json (9 bytes)", "where.txt (%d bytes)" % (
            len(str(self.folder.resolve())) + 1)])
        self.assertIn(results["x"]["again"], self.text)
        again = subprocess.run(["bash", "-c", results["x"]["again"] + "cat r.json where.txt"], capture_output=True,
                               text=True, check=True, env={**os.environ, "TMPDIR": str(self.folder)})
        self.assertEqual(again.stdout, '{"x": 3}\n' + str(self.folder.resolve()) + "\n")

    def test_its_own_directory(self):
        self.claims(claim("one", "test ! -e x && touch x && echo ${PWD} > $CLAIMS/one"),
                    claim("two", "test ! -e x && touch x && echo ${PWD} > $CLAIMS/two"),
                    claim("threads", "test $ATTN_NUM_THREADS = 1"),
                    claim("alone", "test $ATTN_NUM_THREADS = 2", more="alone = true"),
                    claim("input", "test $(wc -c) = 0"))
        self.check("--threads=2")
        places = [(self.folder / name).read_text().strip() for name in ("one", "two")]
        self.assertNotEqual(*places)
        self.assertFalse(any(os.path.exists(place) for place in places))
        self.check("--keep=kept")
        self.assertTrue((self.folder / "kept/one/x").exists())
        # Existing files are not overwritten.
        self.refused("claim-check", "claims.toml", "--keep=kept", status=5, says=["one"], output=None)

    def test_processes_left_running_are_ended(self):
        # Also processes in another group, and processes that only SIGKILL ends.
        stubborn = """setsid bash -c 'trap "" TERM; sleep 97.5; true'"""
        self.claims(claim("one", f"sleep 97.25 & setsid sleep 97.75 & {stubborn} & sleep 0.2"),
                    claim("limit", f"{stubborn} & sleep 97.25", more="time-limit = 0.3"))
        self.check(status=1)
        self.assertIn("more than 0.3 seconds", self.text)
        self.assertNotIn(b"sleep 97.", self.processes())

    def test_the_environment_does_not_matter(self):
        """Options of a shell, functions, and ignored signals, as under make, CI and nohup."""
        self.claims(claim("fails", "false", expected=1, more="status = [0, 1]"),
                    claim("trap", "trap 'exit 7' INT; kill -INT $$; sleep 1", expected=7,
                          more="status = [7]"))
        for name, value in (("SHELLOPTS", "noexec"), ("SHELLOPTS", "errexit:pipefail"),
                            ("POSIXLY_CORRECT", "1"), ("BASH_ENV", "/dev/full")):
            with self.subTest(name=name, value=value):
                self.environment |= {name: value}
                self.assertEqual({c["verdict"] for c in self.check().values()}, {"holds"})
                del self.environment[name]
        ignoring = ("import os, signal, sys\n"
                    "for number in (signal.SIGCHLD, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)\n"
                    "os.execv(sys.argv[1], sys.argv[1:])")
        self.claims(claim("limit", "setsid sleep 1000 & echo $! >$CLAIMS/pid; sleep 1000",
                          more="time-limit = 1"), claim("holds"))
        done = subprocess.run([sys.executable, "-c", ignoring, BIN / "claim-check", "claims.toml"],
                              cwd=self.folder, env=self.environment, capture_output=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"1 as expected, 0 not, 1 could not run", done.stdout)
        self.assertTrue(self.soon(lambda: not os.path.exists(
            f"/proc/{(self.folder / 'pid').read_text().strip()}")))

    def test_directories_that_cannot_be_removed_at_once(self):
        self.claims(claim("shut", "mkdir -p d/e; touch d/e/f; chmod 000 d"))
        # TearDown looks for leftover processes.
        self.assertEqual(self.check()["shut"]["verdict"], "holds")

    def processes(self):
        return subprocess.run(["ps", "-eo", "args"], stdout=subprocess.PIPE, check=True).stdout

    def soon(self, holds):
        """Whether the condition becomes true within 20 seconds."""
        for _ in range(2000):
            if holds():
                return True
            time.sleep(0.01)
        return False

    def test_interrupted(self):
        # While the command runs, and while its results are read.
        numbers = PRINT.format('"[" + "0.1234567890123456," * 3000000 + "0]"')
        for command in ("touch $CLAIMS/begun; setsid sleep 98.75 & sleep 98.25 | sleep 98.5",
                        f"{numbers}; touch $CLAIMS/begun"):
            for number in (signal.SIGINT, signal.SIGKILL):
                with self.subTest(command=command, number=number):
                    (self.folder / "begun").unlink(missing_ok=True)
                    self.claims(claim("one", command, "r.json:/0"))
                    process = subprocess.Popen([BIN / "claim-check", "claims.toml", "--tmpdir=."],
                                               cwd=self.folder, stderr=subprocess.PIPE)
                    self.assertTrue(self.soon((self.folder / "begun").exists))
                    time.sleep(0.1)
                    process.send_signal(number)
                    process.communicate()
                    self.assertEqual(process.returncode, -number)
                    self.assertTrue(self.soon(lambda: b"sleep 98." not in self.processes()))
                    self.assertTrue(self.soon(lambda: not list(self.folder.glob("attn-claim*"))))

    def test_selection_and_list(self):
        self.claims(claim("one", more='tags = ["a"]'), claim("two", more='tags = ["a", "b"]'),
                    claim("three"), top='tags = ["all"]\n')
        self.assertEqual(list(self.check("--select=a")), ["one", "two"])
        self.assertEqual(list(self.check("--select=b,three")), ["two", "three"])
        self.assertEqual(len(self.check("--select=all")), 3)
        self.assertEqual(list(self.check("--skip=b")), ["one", "three"])
        self.assertEqual(list(self.check("--select=a", "--skip=one")), ["two"])
        self.refused("claim-check", "claims.toml", "--skip=all", status=2, says=["--skip"],
                     output=None)
        self.refused("claim-check", "claims.toml", "--skip=zz", status=2, says=["zz"], output=None)
        self.refused("claim-check", "claims.toml", "--select=a,zz", status=2, says=["zz"], output=None)
        done = self.run_tool("claim-check", "claims.toml", "--list")
        self.assertIn("two  A paper, (1)  [all a b]", done.out.decode())

    def test_junit_and_markdown(self):
        self.claims(claim("good"), claim("bad", expected=1),
                    claim("error", "printf '\\001<&\\377'; exit 2"))
        self.check("--junit=j.xml", "--markdown=m.md", status=1)
        suites = xml.parse(self.folder / "j.xml").getroot()
        self.assertEqual(suites.tag, "testsuites")
        suite, = suites
        self.assertEqual({k: suite.get(k) for k in ("name", "tests", "failures", "errors")},
                         {"name": "claims.toml", "tests": "3", "failures": "1", "errors": "1"})
        cases = {case.get("name"): case for case in suite}
        self.assertEqual(len(cases["good"]), 0)
        self.assertIsNotNone(cases["bad"].find("failure"))
        self.assertIn("<&", cases["error"].find("error").text)
        markdown = (self.folder / "m.md").read_text()
        self.assertIn("| `bad`: A number is what it is. | A paper, (1) | = 1 | 0 | -1 | - | REFUTED |", markdown)

    def test_latex(self):
        make = "echo '{\"x\": -1.25e-7}' > r.json"
        self.claims(claim("dnas-bound_2", make, "r.json:/x", -1.25e-7), claim("whole", "exit 3", expected=3, more="status = 3"),
                    claim("wrong", expected=1))
        done = self.run_tool("claim-check", "claims.toml", "--format=latex", status=1)
        self.assertEqual(done.out.decode(), """% dnas-bound_2: A number is what it is.
\\newcommand{\\claimDnasBoundTwo}{\\ensuremath{-1.25\\times10^{-7}}}
% whole: A number is what it is.
\\newcommand{\\claimWhole}{\\ensuremath{3}}
% wrong: A number is what it is.
% It did not come out as expected.
""")
        self.claims(claim("a-b"), claim("a_b"))
        self.refused("claim-check", "claims.toml", "--format=latex", status=3, says=["a_b", "a-b", "claimAB"], output=None)
        self.refused("claim-check", "claims.toml", "--format=latex", "--tsv", status=2, output=None)

    def test_sarif(self):
        self.claims(claim("good"), claim("bad", "printf '\\377' >&2", expected=1), claim("error", "exit 2"),
                    self.bounded("near", "<", 1.125), name="some claims.toml")
        self.run_tool("claim-check", "some claims.toml", "--sarif=s.sarif", status=1)
        run, = json.loads((self.folder / "s.sarif").read_text())["runs"]
        self.assertEqual([rule["id"] for rule in run["tool"]["driver"]["rules"]], ["good", "bad", "error", "near"])
        found = {r["ruleId"]: r for r in run["results"]}
        self.assertEqual({name: r["level"] for name, r in found.items()}, {"bad": "error", "error": "error", "near": "warning"})
        self.assertIn("measured 0, expected = 1", found["bad"]["message"]["text"])
        place = found["bad"]["locations"][0]["physicalLocation"]
        self.assertEqual(place["artifactLocation"]["uri"], "some%20claims.toml")
        line = (self.folder / "some claims.toml").read_text().splitlines()[place["region"]["startLine"]:][0]
        self.assertEqual(line, 'id = "bad"')

    def test_schema(self):
        good = claim("x")
        for change, says in (
                (("relation = \"=\"", "relation = \"==\""), [":8:", "relation", "expected one of"]),
                (("relation = \"=\"", ""), ["relation", "is missing"]),
                (("relation = \"=\"", "relation = \"within\""), ["tolerance", "needs one"]),
                (("relation = \"=\"", "relation = \"slope\"\ntolerance = 1\nwhy = \"w\""), ["over"]),
                (("relation = \"=\"", "relation = \"increasing\""), ["expected", "no meaning"]),
                (("expected = 0", "expected = nan"), [":9:", "expected", "nan"]),
                (("expected = 0", "expected = []"), ["expected", "empty"]),
                (("expected = 0", "expected = [true]"), ["expected"]),
                (("expected = 0", "expected = 0\ntolerance = 0.1"), ["why", "is missing"]),
                (("expected = 0", "expected = 0\ntolerance = -1"), [":10:", "tolerance", ">= 0"]),
                (("expected = 0", "expected = 0\nstatement = \"again\""), [":10:"]),
                (("expected = 0", "expected = 0\ntime-limit = 0"), [":10:", "time-limit"]),
                (("expected = 0", "expected = 0\nexpct = 1"), [":10:", "expct", "no such key"]),
                (("expected = 0", "expected = 0\nexpect = \"refuted\""), ["right", "is missing"]),
                (("expected = 0", "expected = 0\nright = \"x\""), ["right"]),
                (("expected = 0", "expected = 0\nexpect = \"refuted\"\nright = \"y\""), ["right", "y"]),
                (("expected = 0", "expected = 0\nexpect = \"refuted\"\nright = \"x\""),
                 ["right", "itself marked as refuted"]),
                (("expected = 0", "expected = 0\nstatus = []"), [":10:", "status"]),
                (("expected = 0", "expected = 0\nstatus = [true]"), [":10:", "status"]),
                (("expected = 0", "expected = 0\nquantifier = \"some\""), [":10:", "quantifier"]),
                (("expected = 0", "expected = 0\nquantifier = \"any\"\nreduce = \"min\""), [":10:", "quantifier"]),
                (("expected = 0", "expected = 0\nline = 0"), [":10:", "line"]),
                (("expected = 0", "expected = 0\nline = 1"), ["value", "text file"]),
                (("value = \"status\"", "value = \"stdout\""), [":7:", "stdout needs"]),
                (("value = \"status\"", "value = \"t\"\npattern = \"(\""), [":8:", "no regular expression"]),
                (("expected = 0", "expected = 0\ntest = \"welch\""), [":10:", "test", "p<"]),
                (("relation = \"=\"", "relation = \"p<\""), ["test", "is missing"]),
                (("relation = \"=\"", "relation = \"p<\"\ntest = \"sign\"\nalternative = \"less\"\nagainst = 0"),
                 ["expected", "no level"]),
                (("expected = 0", "expected = 0\nscale = 1"), [":10:", "scale", "inequalities"]),
                (("expected = 0", "expected = 0\nalone = 1"), [":10:", "alone"]),
                (("expected = 0", "expected = 0\nperturb = \"true\""), [":10:", "perturb", "two texts"]),
                (("expected = 0", "expected = 0\nperturb = [\"false\", \"\"]"), [":10:", "no part of the command"]),
                (("expected = 0", "expected = 0\nperturb = [\"true\", \"true\"]"), [":10:", "changes nothing"]),
                (("expected = 0", "expected = 0\nperturb = [\"true\", \"\"]\nunperturbed = \"x\""),
                 [":11:", "unperturbed", "contradicts"]),
                (("expected = 0", "expected = 0\nkind = \"printed\"\nunperturbed = \"x\""), [":11:", "unperturbed"]),
                (("value = \"status\"", "value = \"../r.json:/x\""), [":7:", "leaves"]),
                (("id = \"x\"", "id = \"../x\""), [":3:", "id"]),
                (("id = \"x\"", "id = 3"), [":3:", "id", "a text"]),
                (("command = '''true'''", "command = \"\""), ["command", "empty"]),
                (("source = \"A paper, (1)\"", ""), ["source", "is missing"]),
                (("[[claim]]", "[claim]"), ["claim", "[[claim]]"]),
                (("[[claim]]", "[[claim]"), [":2:"])):
            with self.subTest(change=change):
                self.assertIn(change[0], good)
                self.claims(good.replace(*change))
                self.refused("claim-check", "claims.toml", status=3, says=["claims.toml", *says],
                             output=None)
        self.claims(good, good)
        self.refused("claim-check", "claims.toml", status=3, says=["claims.toml:12: id: x"], output=None)
        self.claims("")
        self.refused("claim-check", "claims.toml", status=3, says=["[[claim]]"], output=None)
        self.refused("claim-check", "nothing.toml", status=3, says=["no such file"], output=None)
        self.refused("claim-check", ".", status=3, says=["a folder"], output=None)
        self.refused("claim-check", status=2, says=["FILE"], output=None)

    def test_files_that_cannot_be_written(self):
        self.claims(claim("x", "touch $CLAIMS/ran"))
        self.refused("claim-check", "claims.toml", "--junit=no/j.xml", status=5, says=["no/j.xml"], output=None)
        for more in (["--junit=claims.toml"], ["--sarif=claims.toml"], ["--junit=j", "--markdown=j"], ["--keep="]):
            self.refused("claim-check", "claims.toml", *more, status=2, output=None)
        self.assertFalse((self.folder / "ran").exists())


if __name__ == "__main__":
    unittest.main()
