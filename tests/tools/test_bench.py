"""The tools of benchmarks: the arithmetic of a comparison of two builds, the commands whose start is
measured, and the tables of the page. No time is tested."""

import json
import math
import shutil
import subprocess
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

from attn import BIN, SOURCE

BENCH = SOURCE / "tests/bench"
BUILD = BIN.parent


# Where the scripts find what they share.
sys.path.insert(0, str(BENCH))


def script(name):
    """A script without an ending, as a module."""
    loader = SourceFileLoader(name, str(BENCH / name))
    module = module_from_spec(spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def run(name, *words):
    return subprocess.run([sys.executable, str(BENCH / name), *words], capture_output=True, text=True)


class Comparison(unittest.TestCase):
    compare = script("compare")

    def test_the_interval_is_the_narrowest_of_95_percent(self):
        for count in range(6, 40):
            low, high, probability = self.compare.ranks(count)
            self.assertEqual(low + high, count + 1)

            def inside(low, count=count):
                """That from `low` to count - low of the values are below the median."""
                return sum(math.comb(count, below) for below in range(low, count - low + 1)) / 2**count

            self.assertAlmostEqual(probability, inside(low))
            self.assertGreaterEqual(probability, 0.95)
            self.assertLess(inside(low + 1), 0.95)
        # As in tables of the sign test.
        self.assertEqual(self.compare.ranks(9)[:2], (2, 8))
        self.assertEqual(self.compare.ranks(15)[:2], (4, 12))

    def test_ratios_are_those_of_each_turn(self):
        # The machine becomes slower from turn to turn; the new build always takes 1.1 to 1.3 times as long.
        base = [2.0**turn for turn in range(9)]
        factors = [1.2, 1.1, 1.3, 1.15, 1.25, 1.2, 1.18, 1.22, 1.21]
        found = self.compare.summary(base, [b * f for b, f in zip(base, factors)])
        self.assertAlmostEqual(found["ratio"], 1.2)
        for end, expected in zip(found["interval"], (1.15, 1.25)):
            self.assertAlmostEqual(end, expected)
        self.assertEqual(found["base"], 16)
        self.assertEqual(self.compare.verdict(found["interval"]), "slower")
        self.assertEqual(self.compare.verdict((0.9, 0.99)), "faster")
        self.assertEqual(self.compare.verdict((0.99, 1.01)), "")

    def test_a_build_with_itself(self):
        done = run("compare", str(BUILD), "--turns", "6", "--cases", "unas:2x64x16 unas:2x64x16:strange=1",
                   "--commands", "start")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertTrue(lines[-1].startswith("| start |"), lines[-1])
        self.assertIn("ranks 1 and 6", lines[0])
        case, base, new, ratio, interval, _ = (cell.strip() for cell in lines[4].strip("|").split("|"))
        self.assertEqual(case, "unas:2x64x16")
        for number in (base, new, ratio):
            self.assertGreater(float(number), 0)
        low, high = map(float, interval.split(" to "))
        self.assertLessEqual(low, float(ratio))
        self.assertLessEqual(float(ratio), high)
        self.assertIn("base: attn-bench: error: unas:2x64x16:strange=1", lines[5])

    def test_wrong_use(self):
        done = run("compare", "no-such-commit")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "base_build: no-such-commit is neither a commit nor a folder with a build\n")
        self.assertEqual(run("compare", str(BUILD), "--turns", "5").returncode, 2)


class Startup(unittest.TestCase):
    def test_all_commands_work(self):
        with tempfile.TemporaryDirectory(prefix="attn-test-") as folder:
            # A process of its own: modules of both folders have the same names.
            code = """if True:
                import sys
                from pathlib import Path
                import startup
                binaries, folder = map(Path, sys.argv[1:])
                startup.write_inputs(folder)
                assert set(startup.TINY) <= {path.name for path in binaries.iterdir()}
                for command in startup.commands(binaries, folder).values():
                    startup.milliseconds(command)
                """
            done = subprocess.run([sys.executable, "-c", code, str(BIN), folder], cwd=BENCH,
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


class Page(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="attn-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("README.md", "figures.json"):
            shutil.copy(BENCH / name, self.folder)

    def page(self, *words):
        return run("page", *words, "--folder", str(self.folder))

    def text(self):
        return (self.folder / "README.md").read_text(encoding="utf-8")

    def figures(self, runs=9, target="", **parts):
        machine = {"cpu": "A CPU", "simd": "avx2", "threads": 3, "target": target, "core_type": "Zen",
                   "date": "2030-01-02", "runs": runs}
        path = self.folder / "bench.json"
        path.write_text(json.dumps({"machine": machine, **parts}), encoding="utf-8")
        return str(path)

    def test_the_page_is_what_the_figures_give(self):
        done = run("page", "--check")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        before = self.text()
        self.assertEqual(self.page().returncode, 0)
        self.assertEqual(self.text(), before)

    def test_new_figures_replace_those_of_their_parts(self):
        forward = [{"scheme": "unas", "shape": [12, 512, 64, 512], "of_sgemm": 0.987654,
                    "gflops": {"attnkit": 300.4, "tool": 250.6, "NumPy": 100.2, "sgemm": 304},
                    "speedup": {"attnkit": 1, "tool": 1.2, "NumPy": 2.998, "sgemm": 9}}]
        pipe = {"median": {"files": 1.5, "cp": 0.5, "pipes": 0.76543}}
        done = self.page(self.figures(forward=forward, pipe=pipe))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        text = self.text()
        self.assertIn("| unas | 12 × 512 | 300 | 0.99 | 251 | 100 (3.00) | | |\n<!-- end of table -->", text)
        self.assertIn("*A CPU, AVX2, 3 threads, OpenBLAS' kernels of the peers: Zen; 2030-01-02*", text)
        self.assertIn("| `cat IN \\| basis-paths step … \\| cat > OUT` | 0.765 | 1.53 |", text)
        # The others are kept.
        kept = json.loads((self.folder / "figures.json").read_text(encoding="utf-8"))
        before = json.loads((BENCH / "figures.json").read_text(encoding="utf-8"))
        for name, entry in before.items():
            if name not in ("forward", "pipe"):
                self.assertEqual(kept[name], entry)
        self.assertEqual(self.page("--check").returncode, 0)
        (self.folder / "README.md").write_text(text.replace("100 (3.00)", "100 (9.00)"), encoding="utf-8")
        done = self.page("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("README.md is not what figures.json gives", done.stderr)

    def test_figures_of_another_instruction_set_have_their_own_table(self):
        backward = [{"scheme": "dnas", "shape": [8, 2048, 64, 2048], "of_sgemm": 0.5, "gflops": {"attnkit": 77.7},
                     "speedup": {"attnkit": 1}}]
        forward = [{**backward[0], "gflops": {"attnkit": 77.7, "PyTorch": 40}, "speedup": {"PyTorch": 2}}]
        done = self.page(self.figures(target="avx2", forward=forward))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("*A CPU, avx2, 3 threads, OpenBLAS' kernels of the peers: Zen; 2030-01-02*", self.text())
        self.assertIn("| dnas | 8 × 2048 | 78 | 0.50 | | | 40 (2.00) | |", self.text())
        done = self.page(self.figures(target="avx2", backward=backward))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no <!-- table backward@avx2 -->", done.stderr)

    def test_what_is_refused(self):
        self.assertIn("medians of 1, expected 9 or more", self.page(self.figures(runs=1)).stderr)
        self.assertIn("no-such.json: [Errno 2]", self.page("no-such.json").stderr)
        self.assertIn("no figures of tests/bench/run", self.page(str(self.folder / "figures.json")).stderr)


if __name__ == "__main__":
    unittest.main()
