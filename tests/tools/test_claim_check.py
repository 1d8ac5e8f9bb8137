"""claim-check: claims stored as data, with commands of the real tools."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree as xml

import numpy as np

from attn import BIN
from claims import claim, ClaimTest, NUMPY, PRINT


class ClaimCheck(ClaimTest):

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
        self.assertIn("two  A paper, (1)  [all a b]\n    A number is what it is.\n    > true\n", done.out.decode())

    def test_commands_are_shown_without_a_run(self):
        hostile = r'''"touch $CLAIMS/ran\nprintf '\u001b[31m\u007f'"'''
        self.claims(claim("one", "ran", more='perturb = ["ran", "other"]').replace("'''ran'''", hostile),
                    claim("two", "touch $CLAIMS/ran"), claim("three"))
        before = sorted(os.listdir(self.folder))
        where = f"CLAIMS={self.folder.resolve()}\n"
        one = "    touch $CLAIMS/ran\n    printf '?[31m?'\n"
        for arguments, shown in (
                (["--skip=three"], f"one  claims.toml:2  {where}{one}two  claims.toml:12  {where}    touch $CLAIMS/ran\n"
                                   "\n2 commands, not run\n"),
                (["--select=one", "--falsify", "--record=records", "--cache=cache"],
                 f"one  claims.toml:2  {where}{one}one~  claims.toml:2  {where}{one.replace('ran', 'other')}\n"
                 "2 commands, not run\n")):
            done = self.run_tool("claim-check", "claims.toml", "--dry-run", *arguments)
            self.assertEqual(done.out.decode(), shown)
        report = self.run_tool("claim-check", "claims.toml", "--dry-run", "--json").json()["result"]
        self.assertEqual([c["command"] for c in report["list"]][1:], ["touch $CLAIMS/ran", "true"])
        self.assertEqual(sorted(os.listdir(self.folder)), before)

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
                (("expected = 0", "expected = \"0.09\""), [":9:", "expected", "without quotes"]),
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
                (("value = \"status\"", "value = \"t\"\npattern = \"(\""),
                 [":8:", "pattern", "no regular expression", "missing ): ("]),
                (("value = \"status\"", "value = \"t\"\npattern = '(a)\\1'"), [":8:", "invalid escape sequence: \\1"]),
                (("value = \"status\"", "value = \"t\"\npattern = 'a(?=b)'"), [":8:", "invalid perl operator: (?="]),
                (("value = \"status\"", "value = \"t\"\npattern = '((a{1000}){1000}){9}'"), [":8:", "repetition"]),
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
