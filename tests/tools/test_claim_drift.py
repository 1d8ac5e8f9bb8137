"""claim-check: headroom, records of numbers and their differences, the cache."""

import json
import shutil
import subprocess
import time

from attn import BIN
from claims import claim, ClaimTest


class ClaimDrift(ClaimTest):

    def record(self, *claims, commit="one", status=0):
        self.claims(*claims)
        self.check("--record=records", f"--commit={commit}", status=status)
        return max((self.folder / "records").iterdir())

    def drift(self, *words, status=0):
        done = self.run_tool("claim-check", *words, "--json=d.json", status=status)
        self.text = done.out.decode()
        return json.loads((self.folder / "d.json").read_text())["result"]

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

    def test_records_of_one_moment(self):
        """Many runs that end at once keep a record each."""
        self.claims(claim("x", "until [ -e $CLAIMS/go ]; do sleep 0.001; done"))
        for n in range(3):
            folder = f"records{n}"
            runs = [subprocess.Popen([BIN / "claim-check", "claims.toml", f"--record={folder}", "--commit=x"],
                                     cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL)
                    for _ in range(30)]
            while len(list(self.tmp.glob("attn-claims-*/x"))) < 30:
                time.sleep(0.01)
            (self.folder / "go").touch()
            self.assertEqual({run.wait() for run in runs}, {0})
            (self.folder / "go").unlink()
            self.assertEqual(len(list((self.folder / folder).glob("*.jsonl"))), 30)
            dates = [r["date"] for r in self.drift("history", folder)["records"]]
            self.assertEqual(dates, sorted(dates))

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
