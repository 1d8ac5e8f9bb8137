"""Every kind of figure of attn-plot, as wide as a column of a paper and as a page: nothing is cut,
texts do not touch each other and can be read."""

import itertools
import re
import unittest

import numpy as np

from attn import LONG, sample
from figure import CLUSTERS, PASSAGE, FigureTest, matplotlib
from train_logs import write_log

DPI = 200 if LONG else 100  # the layout is that of any resolution, of which there is a test
TOUCH = 0.5 / 72  # inches: boxes of texts are larger than their letters


def meet(one, other):
    """Whether two boxes (x0, y0, x1, y1) overlap."""
    return (min(one[2], other[2]) - max(one[0], other[0]) > TOUCH and
            min(one[3], other[3]) - max(one[1], other[1]) > TOUCH)


class Layout(FigureTest):

    def check(self, *arguments, lines=None, title=True):
        """Draws as wide as a column and, in long runs, as a page; checks and returns the texts of the widest."""
        for width in sample((3.3, 7), 1):
            with self.subTest(kind=arguments[0], width=width):
                more = ["--title", "A title of several words that is longer than a column is wide"]
                run = self.plot(*arguments, "-o", "f.png", "--width", width, "--dpi", DPI,
                                *(more if title else []), layout=self.folder / "layout.json")
                self.assertNotIn("warning", run.err)
                picture = matplotlib.image.imread(self.folder / "f.png")[..., :3]
                self.assertEqual(picture.shape[1], round(width * DPI))
                # What is cut reaches the edge.
                for edge in (picture[0], picture[-1], picture[:, 0], picture[:, -1]):
                    self.assertEqual(edge.min(), 1, "something is drawn at the edge")
                layout = self.read_json("layout.json")
                texts = layout["texts"]
                self.assertGreater(len(texts), 4)
                for text, size, *box in texts:
                    self.assertGreaterEqual(size, 4.9, text)
                    self.assertGreaterEqual(min(box[:2]), 0, text)
                    self.assertLessEqual(box[2], layout["size"][0], text)
                    self.assertLessEqual(box[3], layout["size"][1], text)
                for (one, _, *box), (other, _, *there) in itertools.combinations(texts, 2):
                    self.assertFalse(meet(box, there), f"{one!r} and {other!r} overlap")
                if lines is not None:
                    self.assertIn(lines, layout["lines"])
        return [text for text, *_ in texts]

    def table(self, name, *arguments):
        (self.folder / name).write_bytes(
            self.run_tool("explain-away-stats", "--tsv", *arguments).out)
        return name

    def test_training(self):
        def attention(line):
            return [{"group": f"layer{layer}", "u": [0.1 * layer, 0.2, 0.3, 0.5 + 0.01 * line]} for layer in range(6)]

        for scheme in ("unas", "dnas", "hnas"):
            for seed in (1, 2):
                for rate in (0.1, 0.25, 2):
                    write_log(self.folder / f"{scheme}-{rate}-{seed}.jsonl", {
                        "seed": seed, "encoder.self.scheme": scheme, "schedule.rate": rate,
                        "optimizer.paths": ["encoder.self", "decoder.self"]}, [4 + seed, 3, 2.5],
                        attention=attention, every=200)
        logs = sorted(path.name for path in self.folder.glob("*.jsonl"))
        hybrid = [log for log in logs if log.startswith("hnas-2-")]
        for arguments in sample(((*logs, "--quantity", "loss,valid.loss"), (*logs, "--over", "schedule.rate"),
                                 (*(log for log in logs if "-2-" in log), "--quantity", "u"),
                                 (*hybrid, "--quantity", "u", "--heads")), 2):
            self.check("training", *arguments)

    def test_heatmap(self):
        self.check("heatmap", self.table("heads.tsv", PASSAGE))
        # As of a large model: many layers with long names, and heads.
        rows = ["group\thead\tscheme\tmin_c"] + [
            f"model.decoder.block.{layer}.attention.self\t{head}\tunas\t{10.0 ** -(layer + head):g}"
            for layer in range(24) for head in range(32)]
        (self.folder / "large.tsv").write_text("\n".join(rows) + "\n")
        self.check("heatmap", "large.tsv", "--statistic", "min_c")

    def test_temperature(self):
        rows = ["scale\tgroup\thead\tscheme\tkeys\tentropy\tshare_below_1e-08"] + [
            f"{scale}\tlayer0\t{head}\t{scheme}\t64\t{1 / scale + head}\t{0.01 * head}"
            for scale in (0.125, 0.25, 0.5, 0.7, 1, 1.4, 2, 4) for head in range(8)
            for scheme in ("unas", "dnas")]
        (self.folder / "sweep.tsv").write_text("\n".join(rows) + "\n")
        for lines, *by in sample(((16, "--by", "head"), (2,)), 1):
            self.check("temperature", "sweep.tsv", *by, lines=lines)

    def test_column_sums(self):
        for cap in ("1", "40"):
            self.run_tool("explain-away-stats", PASSAGE, "--only", "--softcap", cap, "-o",
                          f"a_rather_long_name_of_{cap}.h5")
        names = [f"a_rather_long_name_of_{cap}.h5" for cap in ("1", "40")]
        self.check("column-sums", names[0], "--epsilon", "3e-3")  # close to the bound, 1/256
        self.check("column-sums", *names)

    def test_column_sums_of_few_keys_and_small_sums(self):
        # A folded label on the left, and numbers of several digits below.
        self.write("s.h5", unas_col_sum=10.0 ** np.linspace(-20, 0, 12)[None, :])
        self.check("column-sums", "s.h5", "--epsilon", "0.03")
        for width in sample((3.3, 7), 1):
            self.plot("column-sums", "s.h5", "-o", "f.png", "--width", width,
                      layout=self.folder / "layout.json")
            boxes = sorted(box for text, _, *box in self.read_json("layout.json")["texts"]
                           if re.fullmatch(r"−?\d+(\.\d+)?", text))
            below = [box for box in boxes if box[1] == min(box[1] for box in boxes)]
            self.assertGreaterEqual(len(below), 3)
            for one, other in zip(below, below[1:]):  # else −20.0−17.5 reads as one
                self.assertGreater(other[0] - one[2], 5 / 72)

    def test_attention_map(self):
        for scheme in ("unas", "dnas"):
            self.run_tool("attn-compute", PASSAGE, "--scheme", scheme, "--emit", "weights", "--causal",
                          "-o", f"{scheme}.h5")
        # All tokens, of which some are named; few of them; and in short runs something between.
        maps = ["unas.h5", "dnas.h5", "--head", "1"]
        for words in sample(((*maps, "--queries", ":60", "--keys", ":70"), maps,
                             ("unas.h5", "--head", "1", "--queries", ":20", "--keys", ":30")), 1):
            self.check("attention-map", *words)

    def test_relative_deviation(self):
        self.run_tool("lambda-solve", PASSAGE, "-o", "d.h5")
        self.check("relative-deviation", "d.h5")
        deviations = self.read("d.h5")["relative_deviation"]
        self.write("layers.h5", **{f"encoder.layers.{layer}.self_attn__relative_deviation":
                                   deviations[:, :8] for layer in range(24)})
        self.check("relative-deviation", "layers.h5", "--average", "heads")

    def test_the_layout_does_not_depend_on_the_resolution(self):
        # It is made once, for the PNG and the PDF.
        self.write("d.h5", relative_deviation=np.linspace(0.1, 0.9, 24).reshape(2, 12))
        found = []
        for dpi in sample((72, 600, 200), 2):
            self.plot("relative-deviation", "d.h5", "--average", "heads", "-o", "f.png", "--width", 3.3,
                      "--dpi", dpi, layout=self.folder / "layout.json")
            found.append(self.read_json("layout.json")["texts"])
        for texts in found[1:]:
            self.assertEqual([text for text, *_ in texts], [text for text, *_ in found[0]])
            for (text, _, *boxes), (_, _, *expected) in zip(texts, found[0]):
                for one, other in zip(boxes, expected):
                    self.assertLess(abs(one - other), 0.5 / 72, text)

    def test_evidence(self):
        self.run_tool("tensor-gen", "normal", "t=30x3", "z=4x3", "-o", "problem.h5")
        for alpha in ("1", "10", "100"):
            self.run_tool("lambda-solve", "problem.h5", "--alpha", alpha, "-o", f"a{alpha}.h5")
        self.check("evidence", "a1.h5", "a10.h5", "a100.h5")

    def test_sinkhorn_error(self):
        self.run_tool("tensor-gen", "uniform", "q=30x2", "k=30x2", "-o", "points.h5")
        for epsilon in ("0.5", "0.1"):
            self.run_tool("sinkhorn-iter", "points.h5", "--epsilon", epsilon, "-o", f"e{epsilon}.h5")
        self.check("sinkhorn-error", "e0.5.h5", "e0.1.h5")

    def test_collapse(self):
        self.run_tool("mode-collapse-sim", "curve", "--r", "1:1e8:801", "--a", "0.5,1,2", "-o", "c.h5")
        self.check("collapse-curves", "c.h5")
        self.run_tool("mode-collapse-sim", "simulate", "--counts", "500,50", *CLUSTERS, "-o", "s.h5")
        self.check("collapse-steps", "s.h5")

    def test_a_caption_has_room(self):
        self.run_tool("explain-away-stats", PASSAGE, "--only", "-o", "s.h5")
        self.check("column-sums", "s.h5", "--caption")

    def test_what_cannot_fit_is_said(self):
        self.write("s.h5", unas_col_sum=[[0.25, 0.5, 2]])
        for letters, told in ((10, 0), (100, 1)):
            run = self.plot("column-sums", "s.h5", "-o", "f.svg", "--title", "w" * letters)
            self.assertEqual(run.err.count("attn-plot: warning: the figure is too small"), told)


if __name__ == "__main__":
    unittest.main()
