"""attn-plot training: curves over steps, u by layer and head, rate searches, deviations."""

import importlib.util
import re
import sys
import unittest

import numpy as np

from attn import SOURCE
from figure import FigureTest
from train_logs import write_log

RATE = "schedule.rate"
PATHS = "optimizer.paths"
SCHEME = "encoder.self.scheme"


class Training(FigureTest):

    def log(self, name, recipe, losses, **more):
        return write_log(self.folder / f"{name}.jsonl", recipe, losses, **more)

    def training(self, *words):
        return self.words("training", *words)

    def bad(self, *words, status=3, says):
        self.refused("training", *words, "-o", "f", status=status, says=[says])

    def seeds(self, name, recipe, losses):
        """A log for each list of losses."""
        return [self.log(f"{name}-{seed}", recipe | {"seed": seed}, one) for seed, one in enumerate(losses)]

    def paths(self, *words):
        """The vertices of the lines in the SVG, in points, and of the bands, counted from the bottom."""
        self.plot("training", *words, "-o", "figure.svg")
        svg = (self.folder / "figure.svg").read_text()
        self.height = float(re.search(r'<svg [^>]*?height="([\d.]+)pt"', svg)[1])
        axes = svg.partition('id="axes_1"')[2]
        return [np.array(re.findall(r"[ML] (\S+) (\S+)", path), float)
                for path in re.findall(r' d="([^"]*)"', axes)]

    def test_lines_are_named_by_what_differs(self):
        a = self.seeds("a", {PATHS: [], "optimizer.rule": "sgd", "model.layers": 1}, [[4, 3], [4.5, 3.5]])
        b = self.seeds("b", {PATHS: ["decoder.self"], "optimizer.rule": "adam", "model.layers": 1},
                       [[4, 2], [4, 3]])
        words = self.training(*a, *b)
        self.assertTrue({"no paths, sgd", "paths decoder.self, adam", "least to largest seed", "step",
                         "training loss (nats)"} <= set(words), words)
        words = self.training(*a, *b, "--by", "optimizer.rule", "--quantity", "valid.loss", "--band=deviation")
        self.assertTrue({"sgd", "adam", "validation loss (nats)", "± deviation of seeds"} <= set(words), words)
        words = self.training(*a, *b, "--label", "plain", "--label", "in paths", "--band", "none")
        self.assertTrue({"plain", "in paths"} <= set(words) and "least to largest seed" not in words, words)
        scheme = [self.log(name, {f"{part}.self.scheme": name, "decoder.self.scheme": "unas"}, [3, 2])
                  for part, name in (("encoder", "dnas"), ("encoder", "hnas"))]
        self.assertTrue({"dnas", "hnas"} <= set(self.training(*scheme)))

    def test_schemes_have_colours_and_the_rest_dashes(self):
        logs = [self.log(f"{scheme}-{rate}", {SCHEME: scheme, RATE: rate}, [3, 2])
                for scheme in ("unas", "dnas", "hnas") for rate in (0.1, 0.5, 2)]
        words = self.training(*logs)
        self.assertIn("dnas, rate 0.1", words)
        lines = self.looks_of_legend()
        self.assertEqual([len(set(part)) for part in (lines, *zip(*lines))], [9, 3, 3])
        self.training(*logs[::3])
        self.assertEqual([len(set(part)) for part in zip(*self.looks_of_legend())], [3, 3])

    def test_mean_and_band_of_seeds(self):
        logs = self.seeds("a", {}, [[1.0, 5.0, 2.0], [2.0, 3.0, 4.0], [6.0, 1.0, 9.0]])
        values = np.array([[1, 5, 2], [2, 3, 4], [6, 1, 9]], float)
        axis = values.mean(axis=0)  # 3, 3, 5: the first two are at one height
        for band, (low, high) in (("range", (values.min(axis=0), values.max(axis=0))),
                                  ("deviation", (axis - values.std(axis=0), axis + values.std(axis=0)))):
            drawn = self.paths(*logs, f"--band={band}")
            line = next(path for path in drawn if len(path) == 3 and np.ptp(path[:, 0]) > 100)
            unit = (line[0, 1] - line[2, 1]) / (axis[2] - axis[0])
            self.assertGreater(unit, 0)
            self.assert_near("mean", line[:, 1], line[0, 1] - unit * (axis - axis[0]), 1e-3)
            edges = next(path for path in drawn if len(path) > 6 and np.ptp(path[:, 0]) > 100)
            for place in range(3):
                heights = edges[np.isclose(edges[:, 0], line[place, 0], atol=0.01), 1] + self.height
                expected = line[place, 1] - unit * (np.array([low, high])[:, place] - axis[place])
                self.assert_near(band, np.array([heights.max(), heights.min()]), expected, 2e-3)

    def attention(self, line):
        return [{"group": f"layer{layer}", "u": [0.5 + 0.1 * layer, 0.6], "least_column_sum": 1e-3 * (line + 1),
                 "explained_away": 0.0} for layer in (0, 1, 10)]

    def test_layers_and_heads(self):
        logs = [self.log(f"{scheme}-{seed}", {SCHEME: scheme, "seed": seed}, [3, 2, 1], attention=self.attention)
                for scheme in ("dnas", "hnas") for seed in (1, 2)]
        words = self.training(*logs[2:], "--quantity", "u")
        self.assertTrue({"layer 0", "layer 1", "layer 10", "u, the share of dnas",
                         "least to largest seed and head"} <= set(words), words)
        words = self.training(*logs, "--quantity", "least_column_sum")
        self.assertTrue({"dnas", "hnas", "least to largest seed"} <= set(words), words)
        self.assertIn("least column sum (attention of one query = 1)", " ".join(words))
        words = self.training(*logs[2:], "--quantity", "u", "--heads")
        self.assertTrue({"layer 0", "layer 10", "head 0", "head 1", "least to largest seed"} <= set(words), words)
        words = self.training(logs[0], "--quantity", "explained_away")
        self.assertIn("keys explained away (%)", words)
        self.assertFalse(any(word.startswith("least to") for word in words), words)

    def test_rate_search(self):
        for rule, by in (("sgd", 1), ("adam", 2)):
            for rate in (0.1, 0.5, 2):
                lost = rule == "adam" and rate == 2
                self.log(f"{rule}-{rate}", {"optimizer.rule": rule, RATE: rate}, [3, by + rate],
                         steps=40 if lost else None)
        logs = sorted(path.name for path in self.folder.glob("*.jsonl"))
        words = self.training(*logs, "--over", RATE, "--quantity", "valid.loss")
        self.assertTrue({"sgd", "adam", "0.1", "0.5", "2", RATE, "last validation loss (nats)",
                         "did not reach the last step"} <= set(words), words)
        self.log("nan", {"optimizer.rule": "lamb", RATE: 0.5}, [3, None])
        self.assertIn("did not reach the last step", self.training(
            "sgd-0.5.jsonl", "sgd-2.jsonl", "nan.jsonl", "--over", RATE))
        # A loss that is finite, but far from the others, whose median is 4.
        self.log("far", {"optimizer.rule": "lamb", RATE: 0.5}, [3, 1e9])
        self.assertIn("did not reach the last step, or ended above 40", self.training(
            "sgd-0.5.jsonl", "sgd-2.jsonl", "far.jsonl", "--over", RATE, "--quantity", "valid.loss"))

    def test_deviation_from_the_most_similar_run(self):
        # Differences of 1, 0.1 and of 0.01, 0.001: on a logarithmic axis, parallel lines.
        for name, paths, plain, scaled in (("sgd", [], [3, 2], [4, 2.1]), ("si", ["a"], [5, 5], [5.01, 5.001])):
            self.log(f"plain-{name}", {PATHS: paths, "optimizer.rescale": "none"}, plain)
            self.log(f"scaled-{name}", {PATHS: paths, "optimizer.rescale": "factors"}, scaled)
        words = ["scaled-sgd.jsonl", "scaled-si.jsonl", "--deviation-from", "plain-sgd.jsonl",
                 "--deviation-from", "plain-si.jsonl"]
        lines = [path for path in self.paths(*words) if len(path) == 2 and np.ptp(path[:, 0]) > 100
                 and np.ptp(path[:, 1]) > 1]
        said = self.words_of_figure()
        self.assertTrue({"|difference| of training loss (nats)", "no paths", "paths a"} <= set(said), said)
        self.assertEqual(len(lines), 2)
        # A decade down each, two decades apart.
        decade = lines[0][1, 1] - lines[0][0, 1]
        self.assert_near("slope", lines[1][1, 1] - lines[1][0, 1], decade, 1e-2)
        self.assert_near("apart", lines[1][0, 1] - lines[0][0, 1], 2 * decade, 1e-2)
        self.bad(words[0], "--deviation-from", self.log("other", {"seed": 9}, [1, 2]),
                 says="no log of --deviation-from has its seed, 1")
        self.bad(words[0], *words[2:], "--deviation-from", self.log("twin",
                                                                    {PATHS: [], "optimizer.rescale": "none"},
                                                                    [1, 1]),
                 says="are alike")

    def test_bad_logs(self):
        good = self.log("good", {}, [3, 2])
        for text, says in (("", "is no log of attn-train"), ("{}\n", "its first line has no recipe"),
                           ("a\n", "line 1 is no JSON"),
                           ('{"recipe": {}}\n{"loss": 1}\n', "line 2 has no step"),
                           ('{"recipe": {}}\n{"step": 1, "loss": "a"}\n', "loss of step 1 is no number"),
                           ('{"recipe": {}}\n{"step": 1, "loss": 1}\n[1]\n', "line 3 is no JSON object"),
                           ('{"recipe": {}}\n{"step": 3, "loss": 1}\n', "the runs have no step in common")):
            (self.folder / "bad.jsonl").write_text(text)
            with self.subTest(text=text):
                self.bad(*([good] if "common" in says else []), "bad.jsonl", says=says)
        self.bad(good, "--quantity", "valid.los",
                 says="no line has valid.los; there are epoch, loss, rate, valid.loss")
        self.bad(good, "--quantity", "u", says="no run logs u")
        self.bad("none.jsonl", says="none.jsonl: No such file")
        self.bad(good, "--over", "optimizer.rate", status=2, says="optimizer.rate is no key")
        self.bad(good, good, status=2, says="one log is given twice")
        self.bad(good, "--label=a", "--label=b", status=2, says="2 --label for 1 lines")
        self.bad(good, "--quantity", "u,loss", status=2, says="u has a figure of its own")
        self.bad(good, "--heads", status=2, says="--heads needs")
        self.bad(self.log("none", {}, [], steps=9), says="none.jsonl: made no step")
        run = self.plot("training", good, "none.jsonl", "-o", "g.svg")
        self.assertIn("attn-plot: warning: none.jsonl: made no step, and is left out\n", run.err)
        # NaN is a gap in the line, not a failure of the figure.
        self.training(self.log("nan", {}, [3, None, 2]))

    def test_standard_input(self):
        text = (self.folder / self.log("good", {}, [3, 2])).read_bytes()
        self.assertIn("training loss (nats)", self.words("training", stdin=text))


@unittest.skipUnless(importlib.util.find_spec("numpy"), "no NumPy")
class Names(unittest.TestCase):
    """Names of lines, without drawing."""

    def test_words_of_recipes(self):
        sys.path.insert(0, str(SOURCE / "scripts/plot"))
        self.addCleanup(sys.path.pop, 0)
        run_logs = importlib.import_module("run_logs")
        said = run_logs._short_keys(["a.scheme", "b.scheme", "b.rate"])  # pylint: disable=protected-access
        self.assertEqual(said, {"a.scheme": "a.scheme", "b.scheme": "b.scheme", "b.rate": "rate"})
        for key, value, expected in (("schedule.rate", 0.25, "rate 0.25"), ("optimizer.clip", 0.0, "clip 0"),
                                     ("model.tied", True, "tied yes"), ("optimizer.paths", [], "no paths"),
                                     ("optimizer.rule", "sgd", "sgd"), ("data.text", "a/b.txt", "b.txt"),
                                     ("optimizer.paths", ["x", "y"], "paths x+y"),
                                     ("run.steps", None, "no steps")):
            self.assertEqual(run_logs._word(key, key.split(".")[-1], value),
                             expected)  # pylint: disable=protected-access


if __name__ == "__main__":
    unittest.main()
