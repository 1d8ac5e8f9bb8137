"""The tools of benchmarks: the arithmetic of a comparison of two builds.
No time is tested."""

import math
import subprocess
import sys
import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

from attn import BIN, SOURCE

BENCH = SOURCE / "tests/bench"
BUILD = BIN.parent


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
        done = run("compare", str(BUILD), "--turns", "6", "--cases", "unas:2x64x16 unas:2x64x16:strange=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
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
        self.assertEqual(done.stderr, "compare: no-such-commit is neither a commit nor a folder with attn-bench\n")
        self.assertEqual(run("compare", str(BUILD), "--turns", "5").returncode, 2)


if __name__ == "__main__":
    unittest.main()
