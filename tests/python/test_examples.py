"""The example loss_of_schemes.py: a short run of it, and what its comparison rests on."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, List, Tuple

EXAMPLE = Path(__file__).resolve().parents[2] / "lib/python/examples/loss_of_schemes.py"
SCHEMES = ("unas", "dnas", "hnas")
HEADER = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def run(*words: Any, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "MPLBACKEND": "Agg", **variables}
    return subprocess.run([sys.executable, str(EXAMPLE), *map(str, words)], env=environment,
                          capture_output=True, text=True, timeout=300, check=False)


@unittest.skipUnless(is_there("torch"), "PyTorch is not there")
class LossOfSchemes(unittest.TestCase):

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_short_run(self) -> None:
        picture = self.folder / "loss.png"
        done = run("--steps", 21, "--plot", picture)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.losses_fall(done.stdout)
        shares = self.shares(done.stdout)
        self.assertEqual([len(row) for row in shares], [8, 8, 8])
        for row in shares:
            self.assertTrue(all(0 < share < 1 for share in row), row)
            # Adam moves a logit by about its rate, 0.05, at each step whose gradients have one sign.
            self.assertGreater(max(abs(share - 0.5) for share in row), 0.02)
        if is_there("matplotlib"):
            self.is_picture(picture.read_bytes())
        else:
            self.assertIn("There is no plot: ", done.stdout)
            self.assertFalse(picture.exists())

    def losses_fall(self, text: str) -> None:
        """The largest loss of a seed at the last step is below the least at the start."""
        self.assertIn("step" + "".join(f"{scheme:>25}" for scheme in SCHEMES), text)
        lines = [line for line in text.splitlines() if re.match(r" *\d+ ", line)]
        rows: List[List[Tuple[str, str, str]]] = [
            re.findall(r"(\d\.\d{3}) \((\d\.\d{3}) to (\d\.\d{3})\)", line) for line in lines]
        self.assertEqual({len(row) for row in rows}, {3})
        for scheme, start, end in zip(SCHEMES, rows[0], rows[-1]):
            self.assertLess(float(end[2]), float(start[1]), scheme)

    def shares(self, text: str) -> List[List[float]]:
        """The learned u of each seed."""
        lines = text.partition("u by head")[2].splitlines()[2:5]
        return [[float(share) for share in line.split()] for line in lines]

    def is_picture(self, data: bytes) -> None:
        """A PNG of 7.5 × 3.4 inches with 150 dots each, which is not blank."""
        self.assertEqual(data[:len(HEADER)], HEADER)
        size = [int.from_bytes(data[at:at + 4], "big") for at in (16, 20)]
        self.assertEqual(size, [1125, 510])
        self.assertGreater(len(data), 10_000)  # a blank one of this size has below 3000 bytes

    def test_text_of_a_file(self) -> None:
        text = self.folder / "text.txt"
        text.write_text("ναι και όχι, " * 200, "utf-8")
        done = run("--steps", 1, "--seed", 5, "--text", text)
        self.assertEqual(done.returncode, 0, done.stderr)
        text.write_text("too short")
        done = run("--text", text)
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected --steps of 1 or more, and a --text of 960 or more letters", done.stderr)

    def test_without_matplotlib(self) -> None:
        (self.folder / "matplotlib.py").write_text("raise ImportError('no matplotlib')")
        path = os.pathsep.join([str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = run("--steps", 1, "--plot", self.folder / "loss.png", PYTHONPATH=path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.endswith("There is no plot: no matplotlib\n"), done.stdout)

    def test_same_start(self) -> None:
        """All schemes start from the same weights and read the same letters, whatever was drawn before."""
        import torch

        spec = importlib.util.spec_from_file_location("loss_of_schemes", EXAMPLE)
        assert spec is not None and spec.loader is not None
        example = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(example)
        weights = []
        for scheme in SCHEMES:
            torch.manual_seed(3)
            weights.append(dict(example.Encoder(scheme, 5).named_parameters()))
        learned = {f"layers.{layer}.attention.hybrid_logit" for layer in (0, 1)}
        self.assertEqual(weights[1].keys(), weights[0].keys())
        self.assertEqual(weights[2].keys(), weights[0].keys() | learned)
        for name, weight in weights[0].items():
            for other in weights[1:]:
                self.assertTrue(torch.equal(weight, other[name]), name)

        text = torch.arange(1000) % 7
        losses = {scheme: example.train(scheme, text, [0, 2], 3)[0] for scheme in SCHEMES}
        left = torch.get_rng_state()
        for scheme in SCHEMES:
            torch.rand(5)
            self.assertEqual(example.train(scheme, text, [0, 2], 3)[0], losses[scheme])
            self.assertTrue(torch.equal(torch.get_rng_state(), left), scheme)
        self.assertEqual(len({tuple(one) for one in losses.values()}), 3, "the schemes do not differ")


if __name__ == "__main__":
    unittest.main()
