"""claim-check: headroom, records of numbers and their differences."""

import json
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
        self.claims(claim("x", "until [ -e $CLAIMS/go ]; do sleep 0.02; done"))
        for n in range(3):
            folder = f"records{n}"
            runs = [subprocess.Popen([BIN / "claim-check", "claims.toml", f"--record={folder}", "--commit=x"],
                                     cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL)
                    for _ in range(30)]
            while len(list(self.tmp.glob("attn-claims-*/x"))) < 30:
                self.assertFalse([run.args for run in runs if run.poll() is not None], "ended before the others began")
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
