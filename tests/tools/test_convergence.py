"""What tools say if an iteration did not converge: a rate that was measured, and a number of
iterations that is enough."""

import re
import unittest

import numpy as np

from attn import ToolTest


class Convergence(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(0)
        x, y = random.normal(size=(2, 40, 2))
        self.cost = ((x[:, None] - y[None]) ** 2).sum(-1)
        self.write("cost.h5", cost=self.cost)
        self.write("qkv.h5", **{n: 3 * random.normal(size=(2, 30, 4)) for n in "qkv"})
        self.write("dual.h5", t=3 * random.normal(size=(40, 5)), z=5 * random.normal(size=(6, 5)))

    def unconverged(self, *command, form=r"factor of (1 - )?[\d.e-]+ per iteration; at "
                                         r"this rate --(max-)?iterations \d+ suffices"):
        done = self.run_tool(*command, "-o", "out.h5", "--force", "--json=report.json", status=1)
        if form:
            self.assertRegex(done.err, "not converge.*: the error falls by a " + form)
        return done.err, self.read_json("report.json")["result"]

    def follow(self, *command, iterations, option="--iterations"):
        """Runs the command with that number of iterations, which must be enough."""
        self.run_tool(*command, option, iterations, "-o", "out.h5", "--force", "-q")

    def test_sinkhorn_iter(self):
        base = ["sinkhorn-iter", "cost.h5", "--epsilon", "0.1", "--tolerance", "1e-8"]
        error, result = self.unconverged(*base, "--iterations", "60", "--emit", "error")
        errors = self.read("out.h5")["error"]
        # The rate is the geometric mean over the later half of the iterations.
        self.assertAlmostEqual(result["rate"], (errors[-1] / errors[-31]) ** (1 / 30), places=12)
        more = np.ceil(np.log(1e-8 / errors[-1]) / np.log(result["rate"]))
        self.assertEqual(result["predicted_iterations"], 60 + more)
        self.assertEqual(result["problems"][0]["rate"], result["rate"])
        self.assertIn("--relax", error)
        self.assertIn("--anneal", error)
        needed = self.run_tool(*base, "--iterations", "100000", "-o", "-", "--json=r.json").err
        needed = int(re.search(r"(\d+) iterations", needed).group(1))
        # Once the rate is steady, the prediction is right, and what is suggested is enough.
        start = int(0.7 * needed)
        error, result = self.unconverged(*base, "--iterations", start)
        self.assertLess(abs(needed / result["predicted_iterations"] - 1), 0.05)
        said = int(re.search(r"--iterations (\d+)", error).group(1))
        self.assertGreaterEqual(said, result["predicted_iterations"])
        self.follow(*base, iterations=int(1.05 * said))
        # Options in use are not suggested.
        error, _ = self.unconverged(*base, "--iterations", "60", "--relax", "1.2")
        self.assertNotIn("--relax", error)
        error, _ = self.unconverged(*base, "--iterations", "3", "--anneal", form=None)
        self.assertNotIn("--anneal", error)

    def test_a_single_iteration_has_no_rate(self):
        error, result = self.unconverged("sinkhorn-iter", "cost.h5", "--epsilon", "0.1",
                                         "--tolerance", "1e-8", "--iterations", "1", form=None)
        self.assertIn("not converged; try more --iterations", error)
        self.assertIsNone(result["rate"])
        self.assertIsNone(result["predicted_iterations"])

    def test_an_error_that_does_not_fall(self):
        error, result = self.unconverged(
            "sinkhorn-iter", "cost.h5", "--epsilon", "1", "--tolerance", "1e-12", "--precision",
            "f32", "--iterations", "2000", form=None)
        self.assertIn("the error does not fall any more; try a larger --tolerance", error)
        self.assertIn("--precision f64", error)
        self.assertEqual(result["rate"], 1)
        self.assertIsNone(result["predicted_iterations"])

    def test_unequal_masses(self):
        self.write("masses.h5", cost=self.cost, a=np.ones(40), b=np.full(40, 2.0))
        self.refused("sinkhorn-iter", "masses.h5", "--epsilon", "1", status=4,
                     says=["masses.h5:/a", "40", "80"], hint="normalise a and b")

    def test_attention(self):
        base = ["attn-compute", "qkv.h5", "--scheme", "sinkhorn", "--tolerance", "1e-9"]
        error, result = self.unconverged(*base, "--iterations", "100")
        self.assertTrue(0 < result["rate"] < 1)
        self.assertGreater(result["predicted_iterations"], 100)
        said = int(re.search(r"--iterations (\d+)", error).group(1))
        self.follow(*base, iterations=2 * said)
        self.run_tool("attn-compute", "qkv.h5", "-o", "out.h5", "--force", "--json=report.json")
        self.assertNotIn("rate", self.read_json("report.json")["result"])

    def test_column_sums(self):
        self.write("recorded.h5", {"attn_iterations": 5, "attn_tolerance": 1e-9},
                   **self.read("qkv.h5"))
        done = self.run_tool("explain-away-stats", "recorded.h5", "--scheme", "sinkhorn", status=1)
        self.assertRegex(done.err, r"did not converge on every head: the error falls by a factor "
                                   r"of [\d.]+ per iteration; at this rate attn-compute --scheme "
                                   r"sinkhorn --iterations \d+ suffices; --scheme stored reads its "
                                   r"results\n")
        found = self.run_tool("explain-away-stats", "recorded.h5", "--scheme", "sinkhorn,unas",
                              "--json", status=1).json()["result"]
        self.assertTrue(0 < found["sinkhorn"]["rate"] < 1)
        self.assertGreater(found["sinkhorn"]["predicted_iterations"], 5)
        self.assertNotIn("rate", found["unas"])

    def test_dual(self):
        base = ["lambda-solve", "dual.h5"]
        error, result = self.unconverged(*base, "--max-iterations", "3")
        said = int(re.search(r"--max-iterations (\d+)", error).group(1))
        self.assertTrue(0 < result["rate"] < 1)
        # Newton's method becomes faster near the end.
        self.follow(*base, iterations=said, option="--max-iterations")

    def test_simulation(self):
        base = ["mode-collapse-sim", "simulate", "--counts", "50,40", "--centres", "1,1;-1,-1",
                "--variance", "1", "--steps", "3", "--scheme", "sinkhorn", "--tolerance", "1e-9"]
        error, result = self.unconverged(*base, "--iterations", "6")
        found = result["schemes"]["sinkhorn"]
        self.assertTrue(0 < found["rate"] < 1)
        said = int(re.search(r"--iterations (\d+)", error).group(1))
        self.follow(*base, iterations=2 * said)


class Destinations(ToolTest):
    """Tables go to standard output, or to standard error if a bundle goes to the former; all else
    is one line on standard error."""

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(0)
        self.write("in.h5", **{n: random.normal(size=(2, 9, 4)) for n in "qkv"})
        self.write("cost.h5", cost=abs(random.normal(size=(5, 6))))
        self.write("dual.h5", t=random.normal(size=(6, 3)), z=random.normal(size=(4, 3)))
        self.write("paths.h5", wq=random.normal(size=(4, 3)), wk=random.normal(size=(4, 3)))

        (self.folder / "claims.toml").write_text(
            '[[claim]]\nid = "one"\nsource = "test"\nstatement = "True succeeds."\n'
            'command = "true"\nvalue = "status"\nrelation = "="\nexpected = 0\n')

    def destination(self, command, table, quiet=False):
        """Where the table, found by a word of it, is printed."""
        tool, *arguments = command.split()
        done = self.run_tool(tool, *arguments, *(["-q"] if quiet else []), status=None)
        self.assertIn(done.status, (0, 1), done.err)
        text = b"" if done.out.startswith(b"\x89HDF") else done.out
        return table in text.decode(), table in done.err, done

    def test_tables(self):
        simulate = "mode-collapse-sim simulate --counts 5,4 --centres 1,1;-1,-1 --variance 0.1"
        for command, table, writes in (
                ("explain-away-stats in.h5", "median c", False),
                ("lambda-solve dual.h5", "gradient", True),
                (simulate + " --steps 2", "distance", True),
                ("mode-collapse-sim curve --r 1:10:5 --a 1", "peaks", True),
                ("tensor-info in.h5", "dataset", False),
                ("tensor-compare in.h5 in.h5", "same", False),
                ("basis-paths check paths.h5", "rank", False),
                ("claim-check claims.toml", "one", False)):
            with self.subTest(command=command):
                to_file = " -o out.h5 --force" if writes or "stats" in command else ""
                out, err, _ = self.destination(command + to_file, table)
                self.assertTrue(out, command)
                self.assertFalse(err, command)
                _, _, done = self.destination(command + to_file, table, quiet=True)
                self.assertEqual((done.out, done.err), (b"", ""))
                if not to_file:
                    continue
                out, err, done = self.destination(command + " -o -", table)
                self.assertEqual((out, err), (False, True))
                self.assertTrue(done.out.startswith(b"\x89HDF"))

    def test_one_line(self):
        for command in ("attn-compute in.h5", "sinkhorn-iter cost.h5 --epsilon 1",
                        "basis-paths values paths.h5", "tensor-gen normal q=4x4",
                        "tensor-convert in.h5"):
            for output in ("-o out.h5 --force", "-o -"):
                with self.subTest(command=command, output=output):
                    tool, *arguments = f"{command} {output}".split()
                    done = self.run_tool(tool, *arguments)
                    self.assertRegex(done.err, rf"\A{tool}: [^\n]+\n\Z")
                    self.assertEqual(done.out[:4], b"" if "out.h5" in output else b"\x89HDF")

    def test_dry_run(self):
        for command in ("attn-compute in.h5", "lambda-solve dual.h5", "explain-away-stats in.h5"):
            out, err, _ = self.destination(command + " --dry-run", "working memory")
            self.assertEqual((out, err), (True, False))


if __name__ == "__main__":
    unittest.main()
