"""explain-away-stats --against: the statistics of two bundles by layer and head."""

import csv
import io
import unittest

import h5py
import numpy as np

from attn import ToolTest

LAYERS, HEADS, LENGTH, DEPTH = 3, 4, 30, 8
SHARP, SINK = (1, 2), (2, 1)  # layer and head of what differs between the files


class Against(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(5)
        self.arrays = {f"net/layer{layer}/{name}": random.normal(size=(1, HEADS, LENGTH, DEPTH))
                       for layer in range(LAYERS) for name in "qk"}
        self.save("base.h5", self.arrays)
        changed = {path: array.copy() for path, array in self.arrays.items()}
        changed[f"net/layer{SHARP[0]}/q"][0, SHARP[1]] *= 12
        changed[f"net/layer{SINK[0]}/k"][0, SINK[1], 5] *= 4
        self.save("new.h5", changed)

    def save(self, name, arrays):
        with h5py.File(self.folder / name, "w") as file:
            for path, array in arrays.items():
                file[path] = array

    def compare(self, *words, status=0):
        return self.run_tool("explain-away-stats", *words, status=status)

    def rows(self, *words, status=0):
        text = self.compare("--tsv", *words, status=status).out.decode()
        return list(csv.DictReader(io.StringIO(text), delimiter="\t"))

    def heads_of(self, file):
        """The figures of --tsv by group, head and scheme."""
        return {(row["group"], int(row["head"]), row["scheme"]): row for row in self.rows(file)}

    def test_rows_are_the_tables_of_both_files(self):
        base, new = self.heads_of("base.h5"), self.heads_of("new.h5")
        rows = self.rows("new.h5", "--against=base.h5")
        figures = {row["figure"] for row in rows}
        self.assertEqual(figures, {"enough_min_c", "enough_share_below_1e-08", "entropy", "first_key_share",
                                   "top_1_share", "top_10_share", "sink_share", "max_c_per_query"})
        self.assertEqual(len(rows), LAYERS * HEADS * 2 * len(figures))
        changed = set()
        for row in rows:
            place = row["group"], int(row["head"]), row["scheme"]
            before, now = float(row["base"]), float(row["value"])
            self.assertEqual((before, now), (float(base[place][row["figure"]]), float(new[place][row["figure"]])))
            expected = np.log10(now / before) if row["figure"] == "enough_min_c" else now - before
            self.assert_near("change", float(row["change"]), expected, 1e-14 * max(1, abs(expected)))
            self.assertEqual(float(row["abs_change"]), abs(float(row["change"])))
            if float(row["change"]) != 0:
                changed.add((int(place[0][-1]), place[1]))
        self.assertEqual(changed, {SHARP, SINK})

    def test_other_tokens_are_told(self):
        def with_tokens(name, tokens):
            arrays = dict(self.arrays)
            for layer in range(LAYERS):
                arrays[f"net/layer{layer}/tokens"] = np.array(tokens, dtype=object)
            self.save(name, arrays)

        words = [f"w{n}" for n in range(LENGTH)]
        with_tokens("base.h5", words)
        with_tokens("new.h5", words)
        self.assertNotIn("tokens", self.compare("new.h5", "--against=base.h5").err)
        with_tokens("new.h5", words[::-1])
        self.assertIn("have different tokens: is it the same text?", self.compare("new.h5", "--against=base.h5").err)

    def test_chosen_heads_keep_their_numbers(self):
        whole = self.rows("new.h5", "--against=base.h5")
        chosen = self.rows("new.h5", "--against=base.h5", "--heads=3,1")
        self.assertEqual({row["head"] for row in chosen}, {"1", "3"})
        for row in chosen:
            self.assertIn(row, whole)

    def test_text(self):
        text = self.compare("new.h5", "--against=base.h5", "--epsilon=1e-3,1e-8").out.decode()
        keys = LAYERS * HEADS * LENGTH
        counts, means = [], []
        for file in ("base.h5", "new.h5"):
            heads = [row for place, row in self.heads_of(file).items() if place[2] == "unas"]
            means.append(np.mean([float(row["entropy"]) for row in heads]))
            groups = self.stats("--epsilon=1e-3", file)["groups"]
            counts.append(sum(group["unas"]["explained_away"][0]["count"] for group in groups))
        self.assertGreater(counts[1], counts[0])
        self.assertTrue(text.startswith("new.h5 against base.h5: 3 groups, 12 heads\n\nUnder unas, base.h5 explains away "
                                        f"{counts[0]} of {keys} keys (c < 1e-3), new.h5 {counts[1]} of {keys}; the "
                                        f"mean entropy went from {means[0]:.3g} to {means[1]:.3g}.\nUnder dnas, "), text)
        self.assertRegex(text, rf"(?m)^entropy +2 of 12 .* net/layer{SHARP[0]}, head 0,{SHARP[1]} ")
        self.assertRegex(text, rf"(?m)^top_1_share +2 of 12 .*, head 0,\d .* \+0\.\d+$")
        self.assertNotIn("sink_share", text)
        self.assertNotIn("--threshold", text)
        same = self.compare("base.h5", "--against=base.h5").out.decode()
        self.assertIn("\nunas: no figure differs.\n\ndnas: no figure differs.\n", same)

    def test_threshold(self):
        words = ["new.h5", "--against=base.h5", "--each=/net/*"]
        self.compare("base.h5", "--against=base.h5", "--threshold=0")
        rows = self.rows(*words)
        changes = {figure: max(float(row["abs_change"]) for row in rows if row["figure"] == figure)
                   for figure in {row["figure"] for row in rows}}
        most = changes["entropy"]
        self.assertIn("\nNo change is beyond --threshold.\n",
                      self.compare(*words, f"--threshold=entropy={most * 1.01}").out.decode())
        found = self.compare(*words, f"--threshold=entropy={most * .99}", status=1)
        self.assertIn(f"\n1 change is beyond --threshold:\n  net/layer{SHARP[0]}, head 0,{SHARP[1]}, ", found.out.decode())
        self.compare(*words, f"--threshold={max(changes.values()) * 1.01}")
        self.compare(*words, f"--threshold={most * .99},enough_min_c=99", status=1)
        self.compare(*words, f"--threshold=99,entropy={most * .99}", status=1)
        json = self.compare(*words, "--json", f"--threshold=entropy={most * .99}", status=1).json()
        self.assertEqual((json["status"], json["result"]["beyond"]), ("no", 1))
        self.assertEqual(json["result"]["thresholds"], {"entropy": most * .99})
        self.assertIn("1 change is beyond --threshold",
                      self.compare(*words, "--tsv", f"--threshold=entropy={most * .99}", status=1).err)
        for text, says in (("entropie=1", "--threshold has entropie, which is no figure"),
                           ("x", "--threshold has x, expected X or FIGURE=X"),
                           ("entropy=-1", "--threshold has entropy=-1, expected"), ("1,", "--threshold has , expected")):
            self.refused("explain-away-stats", *words, f"--threshold={text}", output=None, status=2, says=[says])
        self.refused("explain-away-stats", "new.h5", "--threshold=1", output=None, status=2,
                     says=["--threshold has no effect without --against"])

    def test_json_and_sorted_table(self):
        result = self.compare("new.h5", "--against=base.h5", "--json", "--scheme=unas").json()["result"]
        self.assertEqual((result["against"], len(result["heads"])), ("base.h5", LAYERS * HEADS))
        rows = self.rows("new.h5", "--against=base.h5", "--scheme=unas", "--sort=abs_change", "--top=3")
        sizes = [float(row["abs_change"]) for row in rows]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        for row in rows:
            (head,) = [head for head in result["heads"] if head["group"] == row["group"] and
                       head["index"] == [0, int(row["head"])]]
            figure = head[row["figure"]]
            self.assertEqual((figure["base"], figure["value"], figure["change"]),
                             tuple(float(row[name]) for name in ("base", "value", "change")))
        self.compare("new.h5", "--against=base.h5", "-o", "out.csv")
        self.assertEqual((self.folder / "out.csv").read_text().count("\n"), 1 + LAYERS * HEADS * 2 * 8)

    def test_written_bundles_threads_memory_and_groups(self):
        expected = self.compare("new.h5", "--against=base.h5", "--tsv").out
        for name in ("new", "base"):
            self.run_tool("explain-away-stats", f"{name}.h5", "-o", f"{name}-stats.h5", "-q")
        self.assertEqual(self.compare("new-stats.h5", "--against=base-stats.h5", "--tsv").out.replace(b"-stats", b""),
                         expected)
        # Their datasets differ, too, but only as a whole.
        whole = self.run_tool("tensor-compare", "--tsv", "new-stats.h5", "base-stats.h5", status=1).out.decode()
        self.assertEqual(sum("_col_sum" in line for line in whole.splitlines()), 2 * LAYERS)
        self.assertEqual(self.compare("new.h5", "--against=base.h5", "--tsv", "--threads=3", "--memory=2M").out, expected)
        one = self.rows("new.h5:/net/layer1", "--against=base.h5:/net/layer1")
        other = [row for row in self.rows("new.h5", "--against=base.h5") if row["group"] == "net/layer1"]
        for a, b in zip(one, other, strict=True):
            self.assertEqual((a["head"], a["figure"], a["change"]), (b["head"], b["figure"], b["change"]))
        with open(self.folder / "base.h5", "rb") as stream:
            self.assertEqual(self.run_tool("explain-away-stats", "new.h5", "--against=-", "--tsv", stdin=stream).out,
                             expected)

    def test_what_only_one_has(self):
        def without(predicate, change=lambda array: array):
            return {path: change(array) for path, array in self.arrays.items() if predicate(path)}
        self.save("less.h5", without(lambda path: "layer1" not in path))
        self.save("few.h5", {path: array[:, :3] if "layer1" in path else array for path, array in self.arrays.items()})
        self.save("batch.h5", without(lambda path: True, lambda array: np.repeat(array, 2, axis=0)))
        for new, base, says in (("new", "less", "new.h5:/net/layer1 is not in less.h5"),
                                ("less", "new", "new.h5:/net/layer1 is not in less.h5"),
                                ("new", "few", "head 3 of new.h5:/net/layer1 is not in few.h5:/net/layer1"),
                                ("few", "new", "head 3 of new.h5:/net/layer1 is not in few.h5:/net/layer1"),
                                ("new", "batch", "new.h5:/net/layer0 has the heads (1, 4), batch.h5:/net/layer0 has")):
            self.refused("explain-away-stats", f"{new}.h5", f"--against={base}.h5", "--each=/net/*", output=None, status=3, says=[says])
        self.save("other.h5", {path.replace("layer", "block"): array for path, array in self.arrays.items()})
        self.save("whole.h5", {"q": self.arrays["net/layer0/q"], "k": self.arrays["net/layer0/k"]})
        for new, base, says, hint in (
                ("new", "other", "new.h5:/net/layer0, net/layer1, net/layer2 are not in other.h5", "such as other.h5:/net/block0"),
                ("new", "whole", "whole.h5 is no dump of groups, new.h5 has 3 groups", "name one of them: new.h5:/net/layer0"),
                ("whole", "new", "whole.h5 is no dump of groups, new.h5 has 3 groups", "name one of them: new.h5:/net/layer0")):
            self.refused("explain-away-stats", f"{new}.h5", f"--against={base}.h5", output=None, status=3, says=says, hint=hint)
        self.refused("explain-away-stats", "new.h5:/net/layer1", "--against=few.h5:/net/layer1", output=None, status=3,
                     says="head 3 of new.h5:/net/layer1 is not", hint="'q=FILE:/q[:,:3]' 'k=FILE:/k[:,:3]'")
        self.compare("new.h5:/net/layer0", "--against=whole.h5")
        self.compare("less.h5", "--against=new.h5", "--each=/net/layer2")
        self.save("short.h5", without(lambda path: True, lambda array: array[:, :, :20]))
        said = self.compare("new.h5", "--against=short.h5").err
        self.assertEqual(said.count("has 30 queries and 30 keys, short.h5:/net/layer0 has 20 and 20"), 1)
        self.assertEqual(said.count("warning"), 1)
        self.run_tool("explain-away-stats", "base.h5", "--only", "-o", "only.h5", "-q")
        self.refused("explain-away-stats", "new.h5", "--against=only.h5", "--each=/net/*", output=None, status=3, says=["only.h5"])
        self.write("weights.h5", weights=np.full((4, 6, 6), 1 / 6))
        self.save("plain.h5", {"q": self.arrays["net/layer0/q"][0], "k": self.arrays["net/layer0/k"][0]})
        self.refused("explain-away-stats", "plain.h5", "--against=weights.h5", output=None, status=3,
                     says=["plain.h5 has statistics under unas, dnas, weights.h5 under stored"],
                     hint="--scheme says which ones")

    def test_options_without_a_meaning(self):
        for words, says in ((["--shard=1/2", "-o", "s.h5"], "--shard has"), (["--checkpoint=c"], "--checkpoint has"),
                            (["--rows=keys", "--tsv"], "--rows has"), (["--full"], "--full has"),
                            (["--scale=1,2"], "a sweep over"), (["--dry-run"], "--dry-run has"),
                            (["-o", "s.h5"], "-o of a bundle has"), (["base.h5"], "more than one INPUT has"),
                            (["-i", "q=new.h5:/net/layer0/q"], "-i has")):
            with self.subTest(words=words):
                self.refused("explain-away-stats", "new.h5", "--against=base.h5", *words, output=None, status=2,
                             says=[says])
        self.refused("explain-away-stats", "--each=/net/*", "new.h5", "--against=none.h5", output=None, status=3,
                     says=["no such file: none.h5"])


if __name__ == "__main__":
    unittest.main()
