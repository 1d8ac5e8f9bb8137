"""attn-plot heatmap and temperature: figures of tables of statistics."""

import json
import re
import sys
import unittest

import h5py
import numpy as np

from attn import LONG, SANITIZED, SOURCE, sample
from figure import PASSAGE, FigureTest, matplotlib

HEADER = ["group", "batch", "head", "scheme", "keys", "min_c", "share_below_1e-08", "entropy"]
DARK = "; dark: ignored"


def tsv(rows, header=None, separator="\t"):
    """A table as text."""
    return "\n".join(separator.join(map(str, row)) for row in [header or HEADER, *rows]) + "\n"


class TableTest(FigureTest):

    def put(self, name, rows, header=None, separator="\t"):
        (self.folder / name).write_text(tsv(rows, header, separator))
        return name


class Heatmap(TableTest):

    ROWS = [[f"encoder.layer{layer}", "", head, scheme, 100, 0.5 * scheme.count("d") + layer / 100,
             0.01 * (layer + head) if scheme == "unas" else 0, 1 + layer + head / 8]
            for layer in (10, 2, 0) for head in range(3) for scheme in ("unas", "dnas")]

    def test_values_are_where_they_belong(self):
        words = self.words("heatmap", self.put("t.tsv", self.ROWS))
        # Layers in natural order, heads, the values of two panels, and the quantity with its unit.
        self.assertIn("encoder.layer", words)
        places = [words.index(name) for name in ("unas", "dnas")]
        self.assertLess(*places)
        self.assertIn("keys explained away, c < 1e-8 (%)" + DARK, words)
        panel = words[:words.index("dnas")]
        layers = [word for word in panel if word in ("0", "2", "10")]
        self.assertEqual([word for word in layers if word == "10"], ["10"] * len(
            [word for word in layers if word == "10"]))
        for value in ("3", "11", "12"):  # percent, of layers 2 and 10
            self.assertIn(value, panel)

    def test_least_sums_where_no_key_is_explained_away(self):
        self.put("t.tsv", [[*row[:6], 0, row[7]] for row in self.ROWS])
        words = self.words("heatmap", "t.tsv")
        self.assertIn("least column sum c (attention of one query = 1)" + DARK, words)
        self.assertIn("0.52", words)  # layer 2, dnas
        self.put("some.tsv", self.ROWS)
        self.assertIn("keys explained away, c < 1e-8 (%)" + DARK, self.words("heatmap", "t.tsv", "some.tsv"))
        self.assertIn("keys explained away, c < 1e-8 (%)" + DARK, self.words(
            "heatmap", "t.tsv", "--statistic", "share_below_1e-08"))

    def test_dark_is_what_is_ignored(self):
        header, low, high = [*HEADER, "masked_keys", "first_key_share"], 0.25, 1
        self.put("t.tsv", [["", "", head, "unas", 9, value, value, value, value, value]
                           for head, value in enumerate((low, high))], header)
        for column, ignored, said in sample((
                ("min_c", low, True), ("share_below_1e-08", high, True), ("masked_keys", high, True),
                ("entropy", low, False), ("first_key_share", low, False)), 3):
            self.plot("heatmap", "t.tsv", "--statistic", column, "-o", "f.png", "--dpi", 50, placed=LONG)
            picture = matplotlib.image.imread(self.folder / "f.png")[..., :3].sum(axis=2)
            # The left half of the map has the low value.
            line = picture[picture.shape[0] // 4]
            left, right = (np.median(half) for half in np.split(line, 2))
            self.assertEqual(low if left < right else high, ignored, column)
            words = self.words("heatmap", "t.tsv", "--statistic", column)
            self.assertEqual(any(word.endswith(DARK) for word in words), said, words)

    def test_keys_with_few_queries_left_out(self):
        header = [*HEADER[:5], "enough_keys", "enough_min_c", *HEADER[5:7], "enough_share_below_1e-08", "entropy"]
        rows = [[*row[:5], 90, 0.77, *row[5:7], 0.37, row[7]] for row in self.ROWS]
        words = self.words("heatmap", self.put("t.tsv", rows, header))
        self.assertIn("keys explained away, c < 1e-8 (% of those with enough queries)" + DARK, words)
        self.assertIn("37", words)
        rows = [[*row[:9], 0, row[10]] for row in rows]
        words = self.words("heatmap", self.put("t.tsv", rows, header))
        self.assertIn("least column sum c of keys with enough queries (attention of one query = 1)" + DARK, words)
        self.assertIn("0.77", words)
        # All keys have enough queries.
        rows = [[*row[:5], 100, *row[6:]] for row in rows]
        words = self.words("heatmap", self.put("t.tsv", rows, header))
        self.assertIn("keys explained away, c < 1e-8 (%)" + DARK, words)

    REPORT = {"groups": [{"group": "layer0", "unas": {"heads": [{
        "index": [1, 2], "keys": 4, "holds": None, "bound": None,
        "col_sum": {"min": 0.25, "median": 1, "mean": 1, "max": 2, "quantiles": {}},
        "explained_away": [{"epsilon": 1e-8, "count": 1, "share": 0.25,
                            "enough": {"min_queries": 1, "count": 1, "share": 0.5}}],
        "row_entropy": {"mean": 1.5}, "top_shares": [{"keys": 10, "share": 0.75}],
        "most_per_query": {"head": [1, 2], "index": 3, "key": "x", "value": 0.375}}]}}]}

    def test_what_a_json_report_holds(self):
        statistics = (
            ("share_below_1e-08", "keys explained away, c < 1e-8 (%)" + DARK, "25"),
            ("enough_share_below_1e-08", "keys explained away, c < 1e-8 (% of those with enough queries)" + DARK, "50"),
            ("entropy", "mean entropy of a query (nats)", "1.5"),
            ("top_10_share", "attention on the 10 most attended keys (%)", "75"),
            ("max_c_per_query", "largest weight of a key, mean over its queries (%)", "38"),
            ("min_c", "least column sum c (attention of one query = 1)" + DARK, "0.25"))
        sweep = {"sweep": [{"scale": 2, "hybrid": None, "result": self.REPORT}]}
        for result, drawn in ((self.REPORT, sample(statistics, 4)), (sweep, sample(statistics, 1))):
            (self.folder / "r.json").write_text(json.dumps({"result": result}))
            for statistic, label, value in drawn:
                words = self.words("heatmap", "r.json", "--statistic", statistic)
                self.assertTrue({label, value, "2", "layer0"} <= set(words), (statistic, words))
            self.refused("heatmap", "r.json", "--statistic", "bound", "-o", "f", status=3,
                         says=["no column bound"])

    def test_formats_agree(self):
        layers = self.write("layers.h5")
        with h5py.File(PASSAGE) as source, h5py.File(self.folder / layers, "a") as target:
            for layer in (0, 1):
                for name in "qk":
                    target[f"layer{layer}/{name}"] = source[name][()] * (1 + layer)
        run = ["explain-away-stats", "--each", "/*", layers]
        table = self.run_tool(*run, "--tsv").out
        (self.folder / "t.tsv").write_bytes(table)
        rows = [line.split("\t") for line in table.decode().splitlines()]
        self.put("t.csv", rows[1:], rows[0], ",")
        (self.folder / "t.json").write_bytes(self.run_tool(*run, "--json").out)
        self.run_tool(*run, "--only", "-o", "sums.h5")
        sums = (self.folder / "sums.h5").read_bytes()
        least = self.stats(*run[1:])["groups"][1]["unas"]["heads"][1]["col_sum"]["min"]
        for statistic in sample((["--statistic", "min_c"], [], ["--statistic", "entropy"]), 1):
            with self.subTest(statistic=statistic):
                expected = self.words("heatmap", "t.tsv", *statistic)
                self.assertIn("layer", expected)
                if "min_c" in statistic:
                    self.assertIn(f"{least:.2g}".replace("e-0", "e-"), expected)
                for other in ("t.csv", "t.json", *(["sums.h5"] if LONG else [])):
                    self.assertEqual(self.words("heatmap", other, *statistic), expected, other)
                self.assertEqual(self.words("heatmap", *statistic, stdin=table), expected)
                self.assertEqual(self.words("heatmap", "-", *statistic, stdin=sums), expected)

    def test_a_batch_is_pooled(self):
        rows = [["layer0", batch, 0, "unas", 10 * (batch + 1), 0.25 * (batch + 1), 0.3 * batch, 2.5]
                for batch in (0, 1)]
        self.put("t.tsv", rows)
        # 10 keys with a share of 0 and 20 with 0.3.
        self.assertIn("20", self.words("heatmap", "t.tsv"))
        self.assertIn("0.25", self.words("heatmap", "t.tsv", "--statistic", "min_c"))
        self.assertIn("30", self.words("heatmap", "t.tsv", "--where", "batch=1"))
        # Rows that are totals already are not mixed with what they are totals of.
        self.put("totals.tsv", [*rows, ["layer0", "", 0, "unas", 30, 0.25, 0.2, 2.5],
                                ["layer0", "", "", "unas", 30, 0.25, 0.9, 2.5]])
        words = self.words("heatmap", "totals.tsv")
        self.assertIn("20", words)
        self.assertNotIn("90", words)

    def test_padding_is_left_out(self):
        sums = np.ones((2, 1, 6))
        sums[0, 0, 4:] = 0  # padding on the right
        sums[1, 0, :3] = 0  # and on the left
        self.write("p.h5", unas_col_sum=sums, key_length=[4, 3], key_start=[0, 3])
        words = self.words("heatmap", "p.h5", "--statistic", "min_c")
        self.assertIn("1", words)
        self.assertIn("unas: least 1, 0% below 1e-8", self.words("column-sums", "p.h5"))
        self.write("long.h5", unas_col_sum=sums, key_length=[4, 9])
        for kind in ("heatmap", "column-sums"):
            self.refused(kind, "long.h5", "-o", "f", status=3, says=["key_length 9", "6"])

    def test_cells_without_a_value(self):
        self.put("t.tsv", [row for row in self.ROWS if row[:3] != ["encoder.layer2", "", 1]])
        self.assertIn("no value", self.words("heatmap", "t.tsv"))
        self.assertNotIn("no value", self.words("heatmap", self.put("all.tsv", self.ROWS)))

    def test_several_inputs_have_panels(self):
        for name in ("a.tsv", "b.tsv"):
            self.put(name, self.ROWS)
        words = self.words("heatmap", "a.tsv", "b.tsv", "--scheme", "unas")
        self.assertTrue({"a.tsv, unas", "b.tsv, unas"} <= set(words), words)
        # So have several files in one table.
        self.put("c.tsv", [[file, *row] for file in ("/x/one.h5", "/x/two.h5") for row in self.ROWS],
                 ["file", *HEADER])
        words = self.words("heatmap", "c.tsv", "--scheme", "unas")
        self.assertTrue({"one.h5, unas", "two.h5, unas"} <= set(words), words)

    def test_a_file_without_groups_has_no_tick_for_its_row(self):
        for group, ticks in (("", 0), ("layer0", 1)):
            self.put("t.tsv", [[group, *row[1:]] for row in self.ROWS[:6]])
            self.words("heatmap", "t.tsv", "--scheme", "unas")
            svg = (self.folder / "figure.svg").read_text()
            self.assertEqual(len(re.findall(r'<g id="ytick_\d+">', svg.split('<g id="axes_2">')[0])), ticks)

    def test_panels_of_many_heads_stand_side_by_side(self):
        for heads, beside in ((32, True), (90, False)):
            self.put("t.tsv", [[f"layer_{layer:02d}", "", head, scheme, 64, 10.0 ** -layer, 0, 1]
                               for layer in range(32) for head in range(heads) for scheme in ("unas", "dnas")])
            self.plot("heatmap", "t.tsv", "-o", "figure.svg", layout=self.folder / "layout.json", placed=LONG)
            layout = self.read_json("layout.json")
            places = {text: box for text, _, *box in layout["texts"]}
            self.assertEqual(places["unas"][1] == places["dnas"][1], beside)
            self.assertEqual(layout["size"][0], 7)
            if beside:
                self.assertLess(layout["size"][1], 7)
            self.assertTrue({"layer", "head", "30"} <= set(places), places)

    def test_refused(self):
        self.put("t.tsv", self.ROWS)
        self.refused("heatmap", "t.tsv", "--statistic", "minimum", "-o", "f", status=3,
                     says=["t.tsv", "minimum", "min_c", "share_below_1e-08", "entropy"])
        self.refused("heatmap", "t.tsv", "--scheme", "hnas", "-o", "f", status=3,
                     says=["hnas", "unas, dnas"])
        self.refused("heatmap", "t.tsv", "--where", "layer=1", "-o", "f", status=3,
                     says=["layer", "group, batch, head"])
        self.refused("heatmap", "t.tsv", "--where", "head", "-o", "f", status=2, says=["--where head"])
        self.put("sweep.tsv", [[scale, *row] for scale in (1, 2) for row in self.ROWS],
                 ["scale", *HEADER])
        self.refused("heatmap", "sweep.tsv", "-o", "f", status=2, says=["scale", "--where scale=1"])
        self.plot("heatmap", "sweep.tsv", "--where", "scale=2", "-o", "f.png")
        (self.folder / "f.png").unlink()
        (self.folder / "broken.tsv").write_text("group\thead\tmin\nlayer0\t1\n")
        self.refused("heatmap", "broken.tsv", "-o", "f", status=3, says=["broken.tsv", "line 2"])
        (self.folder / "other.json").write_text(json.dumps({"result": {}}))
        (self.folder / "binary").write_bytes(b"\xff\xfe\x00\x01")
        (self.folder / "text").write_text("some words\n")
        (self.folder / "empty").write_text("")
        for name in ("other.json", "binary", "text", "empty", "none.tsv"):
            self.refused("heatmap", name, "-o", "f", status=3, says=[name])
        self.write("qk.h5", q=np.ones((2, 3)), k=np.ones((2, 3)))
        self.refused("heatmap", "qk.h5", "-o", "f", status=3,
                     says=["qk.h5", "col_sum", "explain-away-stats --tsv qk.h5"])


class Labels(TableTest):
    """What the rows of a heat map are called."""

    T5 = [f"{stack}.block.{layer}.layer.{place}.{one}" for layer in (0, 1, 10) for stack, place, one in (
        ("encoder", 0, "SelfAttention"), ("decoder", 0, "SelfAttention"),
        ("decoder", 1, "EncDecAttention"))]

    def labels(self, names, most=20):
        sys.path.insert(0, str(SOURCE / "scripts/plot"))
        try:
            from group_names import group_labels  # pylint: disable=import-outside-toplevel
        finally:
            sys.path.pop(0)
        kind, found = group_labels(names, most)
        self.assertEqual(len(set(found)), len(names), (names, found))
        return kind, found

    def test_a_heat_map_names_the_layers_of_two_stacks(self):
        self.put("t.tsv", [[name, "", head, "unas", 100, 0.5, 0.01, 1] for name in self.T5
                           for head in (0, 1)])
        for width in sample((3.3, 7), 1):
            words = self.words("heatmap", "t.tsv", "--width", width)
            for layer in (0, 1, 10):
                for name in ("encoder {}", "decoder {} Self", "decoder {} EncDec"):
                    self.assertIn(name.format(layer), words)

    def test_families_of_names(self):
        stacks = [f"{stack}.layers.{layer}.{one}" for layer in (3, 11) for stack, one in (
            ("encoder", "self_attn"), ("decoder", "self_attn"), ("decoder", "multihead_attn"))]
        words = ["encoder {}", "decoder {} self", "decoder {} multihead"]
        for names, kind, expected in (
                (stacks, "", [word.format(layer) for layer in (3, 11) for word in words]),
                # The layer is the same everywhere, and says nothing.
                (stacks[:3], "", ["encoder", "decoder self", "decoder multihead"]),
                # One family has only one layer, another one.
                ([*stacks[::3], stacks[4]], "", ["encoder 3", "encoder 11", "decoder 11"]),
                (["h.0.attn", "h.12.attn"], "h.N.attn", ["0", "12"]),
                (["model/text/layer0", "model/text/layer2"], "layer", ["0", "2"]),
                (["m/layers/0/cross_attn", "m/layers/7/cross_attn"], "layers/N/cross_attn", ["0", "7"]),
                (["s.0.b.1", "s.1.b.1", "s.1.b.0"], "s.N.b.N", ["0 1", "1 1", "1 0"]),
                (["m.0.attn", "m.0.attn@2", "m.1.attn"], "", ["0", "0 @2", "1"]),
                (["text_model.l.0", "vision_model.l.0", "vision_model.l.1"], "",
                 ["text 0", "vision 0", "vision 1"]),
                (["text", "text/a", "text/b"], "", ["text", "a", "b"]),
                (["layer0"], "", ["layer0"]), (["decoder.block.7.layer.1.EncDecAttention"], "",
                                               ["decoder 7 EncDecAt."])):
            self.assertEqual(self.labels(names), (kind, expected))
            self.assertLessEqual(max(map(len, expected)), 20)

    def test_long_words_are_abbreviated_and_numbers_are_not(self):
        names = [f"{stack}_with_a_long_name.{layer}.{one}_of_the_component" for layer in (0, 123456)
                 for stack, one in (("first", "convolution"), ("first", "normalisation"),
                                    ("second", "convolution"))]
        for name, label in zip(names, self.labels(names, 16)[1]):
            self.assertLessEqual(len(label), 16)
            self.assertIn(name.split(".")[1], label.split())

    def test_labels_differ(self):
        generator = np.random.default_rng(1)
        for letters in ("ab.", "a1.", "ab1/._@", "aB_12. "):
            for _ in range(100):
                sizes = generator.integers(0, generator.choice([4, 40]), size=generator.integers(1, 9))
                self.labels(sorted({"".join(generator.choice(list(letters), size)) for size in sizes}))


class Temperature(TableTest):

    SCALES = (0.5, 1, 2)

    def rows(self, schemes=("unas", "dnas")):
        return [[scale, "layer0", "", head, scheme, 100, 0.1, 0.1 * head, 3 / scale + head]
                for scale in self.SCALES for head in (0, 1) for scheme in schemes]

    def sweep(self, name="sweep.tsv", **more):
        return self.put(name, self.rows(**more), ["scale", *HEADER])

    def layout(self, *arguments):
        """The numbers of lines in the panels of figure.svg."""
        self.plot("temperature", *arguments, "-o", "figure.svg", layout=self.folder / "layout.json", placed=LONG)
        return self.read_json("layout.json")["lines"]

    def test_a_line_for_each_scheme_or_head(self):
        self.assertEqual(self.layout(self.sweep(), "--by", "head"), [4, 4])
        self.assertEqual(self.layout("sweep.tsv", "--by", "head", "--scheme", "unas"), [2, 2])
        words = self.words_of_figure()
        self.assertTrue({"head 0", "head 1", "temperature (1/scale)", "0.5", "1", "2",
                         "mean entropy of a query (nats)",
                         "keys explained away, c < 1e-8 (%)"} <= set(words), words)
        self.assertEqual(self.layout("sweep.tsv"), [2, 2])
        words = self.words_of_figure()
        self.assertTrue({"unas", "dnas", "least to largest head"} <= set(words), words)

    def test_no_colour_and_dashes_twice(self):
        # Heads differ by colour, schemes by dashes.
        for heads in (3, 8):
            self.put("t.tsv", [[scale, "", "", head, scheme, 9, 0.5, 0.5, 1] for scale in self.SCALES
                               for head in range(heads) for scheme in ("unas", "dnas")], ["scale", *HEADER])
            self.words("temperature", "t.tsv", "--by", "head")
            lines = self.looks_of_legend()
            self.assertEqual(len(lines), 2 * heads)
            self.assertEqual(len(set(lines)), 2 * heads)
            self.assertEqual(len({colour for colour, _ in lines}), heads)

    def test_a_line_for_each_input_and_share(self):
        for name in ("a.tsv", "b.tsv"):
            self.sweep(name, schemes=["unas"])
        words = self.words("temperature", "a.tsv", "b.tsv")
        self.assertTrue({"a.tsv", "b.tsv"} <= set(words), words)
        self.put("hybrid.tsv", [[share, *row] for share in (0, 0.5) for row in self.rows(["hnas"])],
                 ["hybrid", "scale", *HEADER])
        words = self.words("temperature", "hybrid.tsv")
        self.assertTrue({"u = 0", "u = 0.5"} <= set(words), words)

    def test_files_that_hold_the_points_of_a_sweep(self):
        rows = [[f"{row[0]}_{share}.h5", share, *row] for share in (0.25, 0.5, 0, 1) for row in self.rows(["hnas"])]
        self.put("cells.tsv", rows, ["file", "hybrid", "scale", *HEADER])
        self.assertEqual(self.layout("cells.tsv"), [4, 4])
        words = self.words_of_figure()
        self.assertEqual([word for word in words if word.startswith("u = ")],
                         ["u = 0", "u = 0.25", "u = 0.5", "u = 1"])

    def test_a_line_for_each_bundle(self):
        for files in (["dec.h5:/layer4", "dec2.h5:/layer4"], ["dec.h5", "sub/dec.h5"],
                      # Longer than the legend has room for.
                      [f"{'a' * 40}{one}{'b' * 40}.h5" for one in "xy"]):
            self.put("t.tsv", [[file, *row] for file in files for row in self.rows(["unas"])],
                     ["file", "scale", *HEADER])
            words = self.words("temperature", "t.tsv")
            legend = {word for word in words if word.endswith((".h5", "layer4")) or "…" in word}
            self.assertEqual(len(legend), 2, words)
            if len(files[0]) < 20:
                self.assertEqual(legend, set(files))
        # Inputs of one name, and bundles of one name within them.
        (self.folder / "x").mkdir()
        for name in ("t.tsv", "x/t.tsv"):
            self.put(name, [[file, *row] for file in ("a.h5", "b.h5") for row in self.rows(["unas"])],
                     ["file", "scale", *HEADER])
        words = self.words("temperature", "t.tsv", "x/t.tsv")
        self.assertTrue({f"{one}t.tsv, {two}.h5" for one in ("", "x/") for two in "ab"} <= set(words),
                        words)

    def test_a_line_for_each_group(self):
        for names, expected in ((["layer0", "layer1"], {"layer0", "layer1"}),
                                (Labels.T5[:3], {"encoder", "decoder Self", "decoder EncDec"})):
            self.put("t.tsv", [[row[0], name, *row[2:]] for name in names for row in self.rows(["unas"])],
                     ["scale", *HEADER])
            self.assertTrue(expected <= set(self.words("temperature", "t.tsv", "--by", "group")))

    def test_no_key_is_explained_away(self):
        rows = [[scale, "", "", 0, "unas", 9, 0.5, 0, 2] for scale in self.SCALES]
        self.put("zeros.tsv", rows, ["scale", *HEADER])
        self.assertIn("least column sum c (attention of one query = 1)", " ".join(self.words("temperature", "zeros.tsv")))
        words = self.words("temperature", "zeros.tsv", "--statistic", "share_below_1e-08")
        self.assertIn("1.0", words)  # percent: not a scale of nothing

    @unittest.skipIf(SANITIZED, "runs the tool as other tests do")
    def test_of_a_tool(self):
        tables = []
        for scale in self.SCALES:
            lines = self.run_tool("explain-away-stats", PASSAGE, "--scale", scale,
                                  "--tsv").out.decode().splitlines()
            tables += [line.split("\t") for line in lines[1:]]
            header = lines[0].split("\t")
            tables[-len(lines) + 1:] = [[scale, *row] for row in tables[-len(lines) + 1:]]
        self.put("t.tsv", tables, ["scale", *header])
        self.assertEqual(self.layout("t.tsv"), [2, 2])

    def test_refused(self):
        self.put("plain.tsv", Heatmap.ROWS)
        self.refused("temperature", "plain.tsv", "-o", "f", status=3,
                     says=["plain.tsv", "no column scale", "--scale 0.25,0.5,1,2"])
        self.put("zero.tsv", [[0, *row] for row in Heatmap.ROWS], ["scale", *HEADER])
        self.refused("temperature", "zero.tsv", "-o", "f", status=3, says=["scale", "> 0"])
        self.sweep()
        self.refused("temperature", "sweep.tsv", "--statistic", "x", "-o", "f", status=3,
                     says=["no column x", "entropy"])


if __name__ == "__main__":
    unittest.main()
