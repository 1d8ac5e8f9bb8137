"""claim-check: claims that can fail, and values that are texts, patterns and tests over seeds."""

import json
import time

import numpy as np

from claims import claim, ClaimTest


def student_tail(t, degrees):
    """P(T >= t), with t = sqrt(degrees) tan(angle): an integral of powers of the cosine, by the midpoint rule."""
    def area(low):
        width = (np.pi / 2 - low) / 10**6
        return (np.cos(low + width * (np.arange(10**6) + 0.5))**(degrees - 1)).sum() * width
    return area(np.arctan(t / degrees**0.5)) / area(-np.pi / 2)


class ClaimKinds(ClaimTest):

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
        self.assertEqual(table[1].split("\t")[1:7], ["equal", "tool", "= 3", "3", "0", "true"])
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
        # A report without the value: no mark of the library that reads JSON.
        self.claims(claim("gone", "echo '{\"x\": 1, \"z\": 2}' > r.json", "r.json:/x", 1,
                          'perturb = ["x", "y"]'))
        reason = self.falsify(status=1)[1]["gone"]["reason"]
        self.assertRegex(reason, r"no verdict: .*r\.json:/x: key 'x' not found \(there are: y, z\)$")
        self.assertNotIn("json.exception", reason + self.text)
        # An inequality says nothing when its expectation moves.
        self.claims(claim("constants", more='kind = "printed"').replace('"="', '">="'))
        found, each = self.falsify()
        self.assertIn("printed inequality", each["constants"]["reason"])
        # A claim that does not hold was not shown to be able to fail.
        self.claims(claim("false", expected=1, more='perturb = ["true", "exit 9"]\nstatus = [0, 9]'))
        self.assertIn("does not have its expected verdict", self.falsify(status=1)[1]["false"]["reason"])

    def test_kinds_are_counted(self):
        constants = claim("constants", more='kind = "printed"')
        self.claims(claim("one"), claim("two", expected=1), claim("sum", more='kind = "statistics"'), constants)
        results = self.check("--markdown=m.md", status=1)
        self.assertEqual([c["kind"] for c in results.values()], ["tool", "tool", "statistics", "printed"])
        counts = "By kind: 2 run a tool, 1 are statistics of printed tables, 1 compare printed constants\n"
        self.assertTrue(self.text.endswith("4 claims: 3 as expected, 1 not, 0 could not run\n" + counts), self.text)
        self.assertTrue((self.folder / "m.md").read_text().endswith(counts))
        report = json.loads((self.folder / "r.json").read_text())["result"]
        self.assertEqual(report["kinds"], {"tool": 2, "statistics": 1, "printed": 1})
        table = self.run_tool("claim-check", "claims.toml", "--tsv", status=1).out.decode().splitlines()
        at = table[0].split("\t").index("kind")
        self.assertEqual([row.split("\t")[at] for row in table[1:]], ["tool", "tool", "statistics", "printed"])
        # A selection counts its own; a statistic needs a perturbation, too.
        self.check("--select=constants,sum")
        self.assertIn("By kind: 0 run a tool, 1 are", self.text)
        self.refused("claim-check", "claims.toml", "--select=constants,sum", "--require-perturb", status=3,
                     says=["sum: perturb is missing"], output=None)
        self.claims(claim("other", more='kind = "computed"'))
        self.refused("claim-check", "claims.toml", status=3, says=["claims.toml:", "kind", "tool, statistics, printed"],
                     output=None)

    def test_required_perturbations(self):
        self.claims(claim("a", more='perturb = ["true", "exit 1"]'), claim("b"), claim("c"),
                    claim("d", more='kind = "printed"'), claim("e", more='unperturbed = "Why."'))
        self.refused("claim-check", "claims.toml", "--require-perturb", status=3,
                     says=["claims.toml:", "b: perturb is missing, and in 1 more claims"], output=None)
        self.check("--require-perturb", "--skip=b,c")

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
            claim("missing", make, "r.json:/by/*/v"),
            claim("many", f"echo '{json.dumps(dict.fromkeys('abcdefghijklmnopqrstuvw', 1))}' > r.json", "r.json:/x"))
        results = self.check(status=1)
        self.assertEqual({c["verdict"] for c in results.values()}, {"error"}, self.text)
        for name, says in (("no-group", "head*"), ("no-dataset", "c"), ("dataset", "groups, not for datasets"),
                           ("number", "elements of an array"), ("missing", "'v' not found (there are: u)"),
                           ("many", "'x' not found (there are: a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, ...)")):
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

    def test_patterns_that_match_in_many_ways(self):
        """Each takes a time that grows with the text, not with the number of ways."""
        line = f"printf '{'a' * 40}b\\n'"
        self.claims(*(claim(f"x{n}", line, "stdout", 0, f"pattern = '{pattern}'")
                      for n, pattern in enumerate(("(a+)+$", "(a|aa)+$", "(.*a){20}$", "(a?){40}a{41}"))),
                    claim("groups", "printf 'ä=1, ä=-2.5e1 b\\n'", "stdout", "[1, -25]", "pattern = 'ä=([-.e\\d]+)'"),
                    claim("starts", "printf '12\\n'", "stdout", 1, "pattern = '^\\d'"),
                    claim("empty", "printf 'a1\\n'", "stdout", 1, "pattern = 'b*'"))
        start = time.monotonic()
        results = self.check("-j", 2, status=1)
        self.assertLess(time.monotonic() - start, 20)
        self.assertEqual([c["id"] for c in results.values() if c["verdict"] == "holds"], ["groups", "starts"], self.text)
        self.assertIn("no number is there", results["x0"]["error"])
        self.assertIn("expected a number", results["empty"]["error"])

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
