"""attn-plot attention-map: tokens, pairs that are not allowed, and padded sequences."""

import re
import sys
import unittest

import h5py
import numpy as np

from attn import SOURCE, sample
from figure import PASSAGE, FigureTest, matplotlib


class AttentionMaps(FigureTest):

    def test_one_key_of_many_is_seen(self):
        weights = np.full((3, 2000), 1e-6)
        weights[:, 1234] = 1
        self.write("w.h5", weights=weights)
        self.plot("attention-map", "w.h5", "-o", "w.png")
        picture = matplotlib.image.imread(self.folder / "w.png")[..., :3]
        # Three rows of the map, a third of the way down the figure and more. All is dark but one key, which is a
        # light yellow; paper is white.
        row = picture[picture.shape[0] // 2]
        self.assertGreater((row.sum(axis=1) < 0.2).sum(), 1000)
        self.assertTrue(((row[:, :2].min(axis=1) > 0.9) & (row[:, 2] < 0.85)).any(), row.max(axis=0))

    def test_attention_map_names_tokens_that_can_be_read(self):
        for scheme in ("unas", "dnas"):
            self.run_tool("attn-compute", PASSAGE, "--scheme", scheme, "--emit", "weights", "-o",
                          f"{scheme}.h5")
        part = ["--queries", ":9", "--keys", "3:12", "--head", "1"]
        words = self.words("attention-map", "unas.h5", "dnas.h5", *part)
        with h5py.File(PASSAGE) as file:
            tokens = [token.decode() for token in file["tokens"][:12]]
        for token in tokens[:9]:
            self.assertIn(token, words)
        self.assertTrue({"unas, head 1", "dnas, head 1", "query", "key"} <= set(words))
        # 256 names do not fit: some of them are there, and the axis says how many.
        words = self.words("attention-map", "unas.h5")
        label = next(text for text in words if text.startswith("key (1"))
        step = int(re.fullmatch(r"key \(1 of (\d+) is named\)", label)[1])
        self.assertGreater(step, 1)
        self.assertLessEqual(words.index(label), -(-256 // step))

    def test_maps_share_the_axis_of_their_column_sums(self):
        generator = np.random.default_rng(1)
        even = np.full((8, 8), 1 / 8)
        for name, sums, ticks in (("linear", [0.5, 5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.5], ["2", "4"]),
                                  ("log", [1e-5, 3, *[(5 - 1e-5) / 6] * 6], ["10^{0}", "10^{-3}"])):
            uneven = np.tile(generator.permutation(sums), (8, 1)) / 8
            for file, weights in (("even.h5", even), (f"{name}.h5", uneven)):
                self.write(file, weights=weights, tokens=list("abcdefgh"))
            self.plot("attention-map", "even.h5", f"{name}.h5", "-o", "f.svg", layout=self.folder / "layout.json")
            texts = [text.removeprefix("$\\mathdefault{").removesuffix("}$")
                     for text, *_ in self.read_json("layout.json")["texts"]]
            for tick in ticks:
                self.assertEqual(texts.count(tick), 2, (name, tick, texts))

    def test_ids_of_tokens_are_names(self):
        self.write("w.h5", weights=np.full((3, 4), 0.25), tokens=np.arange(50250, 50254))
        self.assertTrue({"50250", "50251", "50252", "50253"} <= set(self.words("attention-map", "w.h5")))

    def height_of_figure(self):
        svg = (self.folder / "figure.svg").read_text()
        return float(re.search(r'<svg [^>]*?height="([\d.]+)pt"', svg)[1])

    MASKED = "the query may not attend to the key"

    def test_masked_cells_differ_from_zeros(self):
        weights = np.zeros((1, 1, 4, 4))
        weights[..., 0] = 1  # zeros that are allowed
        self.write("zeros.h5", weights=weights)
        self.assertNotIn(self.MASKED, self.words("attention-map", "zeros.h5"))
        height = self.height_of_figure()
        full = np.ones((4, 4))
        for name, more, attributes in sample((
                ("causal", {}, {"attn_causal": "top-left"}),
                ("mask", {"mask": np.tril(full)}, {}), ("bias", {"bias": np.where(np.tril(full) > 0, 0, -np.inf)}, {}),
                ("scores", {"scores": np.where(np.tril(full) > 0, full, -np.inf)}, {}),
                ("window", {}, {"attn_window": "3:0"}),
                ("old", {}, {"attn_window": 2}), ("open", {}, {"attn_window": ":1"})), 3):
            with self.subTest(by=name):
                self.write(f"{name}.h5", attributes, weights=weights, **more)
                self.assertIn(self.MASKED, self.words("attention-map", f"{name}.h5"))
                self.assertGreater(self.height_of_figure(), height)  # by the legend
        # A window or offset of another meaning is refused.
        self.write("bad.h5", {"attn_window": "a:b"}, weights=weights)
        self.refused("attention-map", "bad.h5", "-o", "f", status=3, says=["attn_window", "a:b"])

    def test_offsets_and_blocks_of_allowed_pairs(self):
        sys.path.insert(0, str(SOURCE / "scripts/plot"))
        try:
            from allowed import allowed, own_part  # pylint: disable=import-outside-toplevel
            from bundle import Bundle  # pylint: disable=import-outside-toplevel
        finally:
            sys.path.pop(0)
        generator = np.random.default_rng(3)
        rows, keys = 6, 9
        for case in range(40):
            lengths = {"query": int(generator.integers(0, rows + 1)),
                       "key": int(generator.integers(0, keys + 1))}
            starts = {"query": int(generator.integers(0, rows - lengths["query"] + 1)),
                      "key": int(generator.integers(0, keys - lengths["key"] + 1))}
            causal = ("none", "top-left", "bottom-right")[case % 3]
            window = ("none", "2:1", "1:", "3")[case % 4]
            datasets = {f"{side}_{what}": [values[side]] for what, values in
                        (("length", lengths), ("start", starts)) for side in values}
            offset = int(generator.integers(-2, 4)) if case % 5 == 0 else None
            if offset is not None:
                datasets["query_offset"] = [offset]
            self.write("b.h5", {"attn_causal": causal, "attn_window": window},
                       weights=np.zeros((1, rows, keys)), **datasets)
            bundle = Bundle(str(self.folder / "b.h5"))
            own = tuple(own_part(bundle, (0,), side, count)
                        for side, count in (("query", rows), ("key", keys)))
            found = allowed(bundle, (0,), (rows, keys), own)
            bundle.file.close()
            left, right = {"none": (99, 99), "2:1": (2, 1), "1:": (1, 99), "3": (2, 2)}[window]
            for i, j in np.ndindex(rows, keys):
                query, key = i - starts["query"], j - starts["key"]
                place = query + (offset if offset is not None else lengths["key"] - lengths["query"]
                                 if causal == "bottom-right" else 0)
                expected = (0 <= query < lengths["query"] and 0 <= key < lengths["key"] and
                            (causal == "none" or key <= place) and
                            place - left <= key <= place + right)
                self.assertEqual(found[i, j], expected, (case, i, j))

    def test_a_map_of_a_padded_sequence_shows_its_own_block(self):
        weights = np.zeros((2, 3, 5, 6))
        weights[0, :, :2, :3] = 1 / 3
        weights[1, :, 2:, 2:] = 1 / 4
        tokens = [["a", "b", "c", "<pad>", "<pad>", "<pad>"], ["<pad>", "<pad>", "d", "e", "f", "g"]]
        self.write("p.h5", weights=weights, tokens=tokens, key_length=[3, 4], key_start=[0, 2],
                   query_length=[2, 3], query_start=[0, 2])
        for head, names in (("0,1", "abc"), ("1,2", "defg")):
            words = self.words("attention-map", "p.h5", "--head", head)
            self.assertIn(f"p.h5, batch {head[0]}, head {head[2]}", words)
            self.assertEqual([word for word in words if word in set("abcdefg")], list(names))
            self.assertNotIn("<pad>", words)
        self.refused("attention-map", "p.h5", "--head", "2,0", "-o", "f", status=2, says=["(2, 3)"])

    def test_labels_of_strange_tokens(self):
        self.write("w.h5", weights=np.eye(5), tokens=[" the", "\t", "\u4e2d", "", "x" * 40])
        words = self.words("attention-map", "w.h5")
        # An empty token has its place for a name.
        for text in ("␣the", "\\t", "\\u4e2d", "3", "x" * 13 + "…"):
            self.assertEqual(words.count(text), 2, (text, words))

    def test_how_many_weights_a_dot_stands_for(self):
        for shape, said in (((2, 900), "; largest of 3 neighbours"), ((401, 900), "; largest of 2 × 3 neighbours")):
            self.write("w.h5", weights=np.full(shape, 1 / shape[1]))
            words = self.words("attention-map", "w.h5")
            self.assertTrue([word for word in words if word.endswith(said)], words)


if __name__ == "__main__":
    unittest.main()
