"""alignment-attention measure: weights and links against gold alignments, by plain sets in Python, and
the 447 pairs of ../shared/data/alignment."""

import csv
import io
import unittest

import numpy as np

from attn import SOURCE, ToolTest

PAIRS = SOURCE.parent / "shared/data/alignment"
TOOL = "alignment-attention"
SHIFTS = [(0, 0), *((n, 0) for n in (-2, -1, 1, 2)), *((0, n) for n in (-2, -1, 1, 2))]
LINKS = ("links", "sure", "links_sure", "links_possible")
MEASURES = ("aer", "precision", "recall", "match", "mass")


def ratio(part, whole):
    return part / whole if whole else None


def measured(answers, gold, matrices=None, heaviest=None):
    """The figures of every shift: links (source, target) from 0 as sets; gold as (sure, possible),
    where possible has all."""
    found = []
    for source, target in SHIFTS:
        def moved(links):
            return {(i + source, j + target) for i, j in links}
        links, sure, in_sure, in_possible, words, matches = np.zeros(6, int)
        weight = linked = 0.0
        for n, (answer, (certain, possible)) in enumerate(zip(answers, gold)):
            links += len(answer)
            sure += len(certain)
            in_sure += len(moved(answer) & certain)
            in_possible += len(moved(answer) & possible)
            if matrices is None:
                continue
            words += len(matrices[n])
            matches += len(moved(heaviest[n]) & possible)
            weight += matrices[n].sum()
            linked += sum(w for (j, i), w in np.ndenumerate(matrices[n])
                          if (i + source, j + target) in possible)
        total = ratio(in_sure + in_possible, links + sure)
        found.append({"source": source, "target": target, "links": links, "sure": sure,
                      "links_sure": in_sure, "links_possible": in_possible,
                      "aer": None if total is None else 1 - total,
                      "precision": ratio(in_possible, links), "recall": ratio(in_sure, sure),
                      "match": ratio(matches, words), "mass": ratio(linked, weight)})
    return found


def heaviest_links(matrix):
    return {(int(np.argmax(row)), j) for j, row in enumerate(matrix) if row.size and row.max() > 0}


class Measure(ToolTest):

    def text(self, name, *lines):
        (self.folder / name).write_text("".join(line + "\n" for line in lines))
        return name

    def links_file(self, name, pairs, base):
        """Writes (sure, possible) of each pair in any order."""
        lines = []
        for sure, possible in pairs:
            words = [f"{i + base}{'-' if (i, j) in sure else 'p'}{j + base}" for i, j in possible]
            lines.append(" ".join(words[::-1]))
        return self.text(name, *lines)

    def measure(self, *arguments, **more):
        return self.run_tool(TOOL, "measure", *arguments, "--json", **more).json()["result"]

    def assert_figures(self, found, expected):
        self.assertEqual([(one["source"], one["target"]) for one in found], SHIFTS)
        for one, want in zip(found, expected):
            for name in LINKS:
                self.assertEqual(one[name], want[name], (name, want))
            for name in MEASURES:
                if want[name] is None:
                    self.assertIsNone(one[name], name)
                else:
                    self.assert_near(name, one[name], want[name], 1e-12)

    def refused_measure(self, *arguments, status=3, **more):
        self.refused(TOOL, "measure", *arguments, status=status, output=None, **more)

    # --- Figures

    def random_pairs(self, seed, count=12, base=1):
        """Lengths and gold links of pairs, some of them empty or without sure links."""
        random = np.random.default_rng(seed)
        lengths = random.integers(0, 8, (count, 2))
        gold = []
        for targets, sources in lengths:
            all_pairs = [(i, j) for i in range(sources) for j in range(targets)]
            possible = {pair for pair in all_pairs if random.random() < 0.3}
            gold.append(({pair for pair in possible if random.random() < 0.6}, possible))
        return random, lengths, gold, self.links_file("gold.txt", gold, base)

    def test_weights(self):
        random, lengths, gold, file = self.random_pairs(1)
        weights = random.dirichlet(np.full(7, 0.5), (len(lengths), 7))
        weights[3, 2] = 0  # a word that looks at nothing
        weights[4, :, :3] = 0.25  # equal weights: the first one links
        own = [matrix[:j, :i] for matrix, (j, i) in zip(weights, lengths)]
        padded = weights.copy()
        for matrix, (j, i) in zip(padded, lengths):
            matrix[j:], matrix[:, i:] = np.nan, np.nan
        heaviest = [heaviest_links(matrix) for matrix in own]
        expected = measured(heaviest, gold, own, heaviest)
        for names in (("target_length", "source_length"), ("query_length", "key_length")):
            self.write("w.h5", weights=padded, **dict(zip(names, lengths.T)))
            found = self.measure("w.h5", "--gold", file)
            self.assertEqual((found["pairs"], found["words"]), (12, int(lengths[:, 0].sum())))
            self.assertEqual(len(found["heads"]), 1)
            self.assert_figures(found["heads"][0]["shifts"], expected)
        above = [{(i, j) for (j, i), w in np.ndenumerate(matrix) if w > 0.2} for matrix in own]
        found = self.measure("w.h5", "--gold", file, "--threshold", "0.2")
        self.assert_figures(found["heads"][0]["shifts"], measured(above, gold, own, heaviest))
        # A few rows at a time: the same to the last digit.
        few = self.measure("w.h5", "--gold", file, "--threshold", "0.2", "--memory=12K")
        self.assertEqual(few, found)

    def test_links(self):
        random, lengths, gold, file = self.random_pairs(2, base=0)
        answers = [{pair for pair in {(i, j) for i in range(8) for j in range(8)}
                    if random.random() < 0.1} for _ in gold]
        # Whether an answer is sure does not matter, nor how often it stands there.
        lines = [" ".join(f"{i + 1}{'-p'[i % 2]}{j + 1}" for i, j in [*answer, *answer])
                 for answer in answers]
        self.text("answer.txt", *lines)
        found = self.measure("--links", "answer.txt", "--links-base", "1", "--gold", file,
                             "--gold-base", "0")
        self.assert_figures(found["heads"][0]["shifts"], measured(answers, gold))
        self.assertNotIn("words", found)

    def test_heads_and_types(self):
        random, lengths, gold, file = self.random_pairs(3, 5)
        weights = random.dirichlet(np.ones(7), (5, 2, 3, 7)).astype(np.float32)
        self.write("w.h5", weights=weights, target_length=lengths[:, 0],
                   source_length=lengths[:, 1])
        found = self.measure("w.h5", "--gold", file)["heads"]
        self.assertEqual([head["index"] for head in found], [[h, k] for h in range(2) for k in range(3)])
        for head in found:
            own = [matrix[:j, :i].astype(float) for matrix, (j, i)
                   in zip(weights[:, head["index"][0], head["index"][1]], lengths)]
            heaviest = [heaviest_links(matrix) for matrix in own]
            self.assert_figures(head["shifts"], measured(heaviest, gold, own, heaviest))
        rows = list(csv.DictReader(io.StringIO(self.run_tool(
            TOOL, "measure", "w.h5", "--gold", file, "--tsv").out.decode()), delimiter="\t"))
        self.assertEqual(len(rows), 6 * len(SHIFTS))
        row = rows[len(SHIFTS) + 2]
        self.assertEqual((row["batch"], row["head"], row["axis"], row["shift"]), ("0", "1", "source", "-1"))
        self.assertEqual(float(row["mass"]), found[1]["shifts"][2]["mass"])
        self.assertEqual(int(row["links"]), found[1]["shifts"][2]["links"])
        text = self.run_tool(TOOL, "measure", "w.h5", "--gold", file).out.decode()
        self.assertRegex(text, r"(?m)^head +links +aer +precision +recall +match +mass$")
        self.assertRegex(text, r"(?m)^1,2 ")

    def test_one_pair_and_groups(self):
        identity = np.eye(3)
        self.text("gold.txt", "1-1 2-2 3-3")
        self.write("w.h5", layer0__weights=identity, layer1__weights=np.roll(identity, 1, axis=1))
        found = self.measure("w.h5", "--gold", "gold.txt")["groups"]
        first, second = (group["heads"][0]["shifts"] for group in found)
        self.assertEqual([one["aer"] for one in first[:3]], [0, 1, 1])
        # The second layer is late by one: moved back, two of three words are right.
        self.assertEqual([one["aer"] for one in second[:3]], [1, 1, 1 - 4 / 6])
        text = self.run_tool(TOOL, "measure", "w.h5:/layer1", "--gold", "gold.txt").out.decode()
        self.assertIn("w.h5:/layer1/weights\nsentence pairs 1, target words 3, sure links 3\n", text)
        self.assertTrue(text.endswith("The aer is least with the words moved: source -1.\n"), text)
        self.assertNotIn("least", self.run_tool(
            TOOL, "measure", "w.h5:/layer0", "--gold", "gold.txt").out.decode())
        only = self.measure("w.h5:/layer0", "--gold", "gold.txt", "--shift=0")
        self.assertEqual(len(only["heads"][0]["shifts"]), 1)

    def test_agreement(self):
        random = np.random.default_rng(4)
        there, back = random.dirichlet(np.ones(6), (3, 4)), random.dirichlet(np.ones(4), (3, 6))
        lengths = np.array([[4, 6], [2, 5], [0, 3]])
        self.write("there.h5", weights=there, target_length=lengths[:, 0],
                   source_length=lengths[:, 1])
        self.write("back.h5", weights=back)
        expected = -sum((a[:j, :i] * b[:i, :j].T).sum() for a, b, (j, i) in zip(there, back, lengths))
        found = self.measure("there.h5", "-ireverse_weights=back.h5:/weights")
        self.assert_near("agreement", found["heads"][0]["agreement"], expected, 1e-14)
        self.assertNotIn("shifts", found["heads"][0])
        self.text("gold.txt", "1-1", "", "")
        both = self.measure("there.h5", "-ireverse_weights=back.h5:/weights", "--gold=gold.txt")
        self.assertEqual(both["heads"][0]["agreement"], found["heads"][0]["agreement"])
        self.assertEqual(len(both["heads"][0]["shifts"]), len(SHIFTS))
        self.assertEqual(self.measure("there.h5", "-ireverse_weights=back.h5:/weights", "--memory=100"),
                         found)

    def test_of_what_the_tool_computes(self):
        self.shell(f"tensor-gen normal source=3x7x6 target=3x5x4 w_source=8x6 w_target=8x4 v=8 -o in.h5; "
                   f"{TOOL} in.h5 -o measure")
        self.text("gold.txt", "1-1", "2p2", "")
        weights = self.read("measure")["weights"]
        expected = [heaviest_links(matrix) for matrix in weights]
        found = self.measure("./measure", "--gold", "gold.txt")["heads"][0]["shifts"][0]
        self.assertEqual(found["links"], 15)
        self.assertEqual(found["links_possible"], ((0, 0) in expected[0]) + ((1, 1) in expected[1]))
        # A file of the verb's name is not the verb.
        again = self.run_tool(TOOL, "./measure", "--emit=weights", "--only").bundle()
        np.testing.assert_array_equal(again["weights"], weights)

    @unittest.skipUnless(PAIRS.exists(), f"{PAIRS} is not there")
    def test_447_pairs(self):
        answer, gold = PAIRS / "enfr.awesome-align.out", PAIRS / "enfr.gold"
        found = self.measure("--links", answer, "--links-base=0", "--gold", gold)
        shifts = {(one["source"], one["target"]): one["aer"] for one in found["heads"][0]["shifts"]}
        self.assertEqual(found["pairs"], 447)
        self.assertEqual(f"{shifts[0, 0]:.6f}", "0.040691")
        for shift, aer in (((-1, 0), "0.8522"), ((1, 0), "0.8542"), ((0, -1), "0.8219"),
                           ((0, 1), "0.8520")):
            self.assertEqual(f"{shifts[shift]:.4f}", aer, shift)

        def pairs(file, base):
            for line in file.read_text().splitlines():
                links = [(word.replace("p", "-").split("-"), "-" in word) for word in line.split()]
                yield [((int(i) - base, int(j) - base), sure) for (i, j), sure in links]
        certain = [({link for link, sure in links if sure}, {link for link, _ in links})
                   for links in pairs(gold, 1)]
        self.assert_figures(found["heads"][0]["shifts"],
                            measured([{link for link, _ in links} for links in pairs(answer, 0)], certain))
        # Half of the measures again, from weights that are 1 at these links.
        lengths = np.array([[len(side.split()) for side in line.split("|||")][::-1] for line
                            in (PAIRS / "enfr.src-tgt").read_text().splitlines()])
        weights = np.zeros((447, *lengths.max(axis=0)), np.float32)
        for matrix, links in zip(weights, pairs(answer, 0)):
            for (i, j), _ in links:
                matrix[j, i] = 1
        self.write("w.h5", weights=weights, target_length=lengths[:, 0], source_length=lengths[:, 1])
        again = self.measure("w.h5", "--gold", gold, "--threshold=0.5")["heads"][0]["shifts"]
        for one, other in zip(again, found["heads"][0]["shifts"]):
            self.assertEqual([one[name] for name in (*LINKS, "aer")],
                             [other[name] for name in (*LINKS, "aer")])
            self.assertEqual(one["mass"], one["precision"])

    # --- Files of links

    def test_lines(self):
        self.text("gold.txt", "1-1", "")
        (self.folder / "unix.txt").write_bytes(b"1-1\n\n")
        (self.folder / "dos.txt").write_bytes(b" 1-1\t1-1 1p1 \r\n\r\n")
        (self.folder / "open.txt").write_bytes(b"1-1\n ")
        for name in ("unix.txt", "dos.txt", "open.txt"):
            found = self.measure("--links", name, "--links-base=1", "--gold", "gold.txt")
            self.assertEqual((found["pairs"], found["heads"][0]["shifts"][0]["aer"]), (2, 0), name)

    def test_nothing_linked(self):
        (self.folder / "empty.txt").write_text("")
        self.text("none.txt", "", "")
        for name, pairs in (("empty.txt", 0), ("none.txt", 2)):
            done = self.run_tool(TOOL, "measure", "--links", name, "--links-base=0", "--gold", name,
                                 "--json")
            found = done.json()["result"]
            self.assertEqual(found["pairs"], pairs)
            self.assertIsNone(found["heads"][0]["shifts"][0]["aer"])
            text = self.run_tool(TOOL, "measure", "--links", name, "--links-base=0", "--gold", name)
            self.assertIn(f"{name}\nsentence pairs {pairs}, sure links 0\n", text.out.decode())

    def test_broken_links(self):
        self.write("w.h5", weights=np.full((3, 2, 4), 0.25))
        for word in ("1", "1+1", "1-", "-1", "a-b", "1-1-1", "1--1", "1.0-1", "1-+1", "1P1",
                     "99999999999-1", "9" * 30 + "-1", "\x1b[1-1"):
            self.text("gold.txt", "1-1", f"1-1 {word} 2-2", "1-1")
            with self.subTest(word=word):
                self.refused_measure("w.h5", "--gold=gold.txt",
                                     says=["gold.txt: line 2: ", " is no link, expected I-J or IpJ"])
        for word in ("0-1", "1-0", "0p0"):
            self.text("gold.txt", "1-1", "1-1", f"2-2 {word}")
            self.refused_measure("w.h5", "--gold=gold.txt",
                                 says=[f"gold.txt: line 3: {word} has a word 0, but --gold-base is 1"],
                                 hint="--gold-base 0")
        for word, base, length, hint in (("5-1", 1, "4 source", "source-target"),
                                         ("1p3", 1, "2 target", "source-target"),
                                         ("4-0", 0, "4 source", "--gold-base 1"),
                                         ("0-2", 0, "2 target", "--gold-base 1")):
            self.text("gold.txt", "1-1", word, "1-1")
            self.refused_measure("w.h5", "--gold=gold.txt", f"--gold-base={base}", hint=hint,
                                 says=[f"gold.txt: line 2: {word} is beyond the {length} words of "
                                       "w.h5:/weights[1]"])
        # Own lengths count, not the axis.
        self.text("gold.txt", "4-2", "4-2", "4-2")
        np.save(self.folder / "own.npy", [4, 4, 3])
        self.refused_measure("w.h5", "-isource_length=own.npy", "--gold=gold.txt",
                             says=["gold.txt: line 3: 4-2 is beyond the 3 source words"])

    def test_files_that_do_not_fit(self):
        self.write("w.h5", weights=np.full((3, 2, 4), 0.25))
        self.text("two.txt", "1-1", "1-1")
        self.text("three.txt", "1-1", "1-1", "1-1")
        self.refused_measure("w.h5", "--gold=two.txt",
                             says=["two.txt has 2 lines, but w.h5:/weights has 3 sentence pairs"])
        self.refused_measure("--links=three.txt", "--links-base=1", "--gold=two.txt",
                             says=["two.txt has 2 lines, but three.txt has 3"])
        self.refused_measure("w.h5", "--gold=missing.txt", says=["no such file: missing.txt"])
        self.refused_measure("w.h5", "--gold=.", says=[". is a folder, expected links of words"])
        self.refused_measure("w.h5", "--gold=three.txt", "--memory=100", status=6,
                             says=["the links of three.txt"])

    # --- Weights

    def test_bad_weights(self):
        self.text("gold.txt", "1-1", "1-1")
        for value, shown in ((np.nan, "nan"), (np.inf, "inf"), (-0.5, "-0.5")):
            weights = np.full((2, 3, 4), 0.25)
            weights[1, 2, 3] = value
            self.write("w.h5", weights=weights, reverse_weights=np.full((2, 4, 3), 0.2))
            says = [f"w.h5:/weights has {shown} at [1, 2, 3], expected numbers >= 0"]
            self.refused_measure("w.h5", "--gold=gold.txt", says=says)
            self.refused_measure("w.h5", says=says)
            self.write("w.h5", weights=np.full((2, 3, 4), 0.25),
                       reverse_weights=np.swapaxes(weights, 1, 2))
            self.refused_measure("w.h5", says=[f"reverse_weights has {shown} at [1, 3, 2]"])
        self.write("w.h5", weights=np.full((2, 3, 4), 1e308))
        self.refused_measure("w.h5", "--gold=gold.txt", status=4, says=["beyond the range of float64"])

    def test_bad_shapes(self):
        self.text("gold.txt", "1-1", "1-1")
        weights = np.full((2, 3, 4), 0.25)
        self.write("v.h5", weights=weights[0, 0])
        self.refused_measure("v.h5", "--gold=gold.txt", says=["(4)", "(..., J, I)"])
        self.write("none.h5", q=weights)
        self.refused_measure("none.h5", "--gold=gold.txt", says=["weights"])
        self.write("r.h5", weights=weights, reverse_weights=weights)
        self.refused_measure("r.h5", says=["reverse_weights has the shape (2, 3, 4), expected (2, 4, 3)"])
        self.write("l.h5", weights=weights, source_length=np.array([4, 5]))
        self.refused_measure("l.h5", "--gold=gold.txt", says=["source_length has 5 at [1]", "[0, 4]"])
        self.write("s.h5", weights=weights, key_start=np.array([0, 1]))
        self.refused_measure("s.h5", "--gold=gold.txt", says=["s.h5:/key_start: padding on the left"])

    def test_options(self):
        self.text("gold.txt", "1-1")
        self.write("w.h5", weights=np.ones((1, 1, 1)))
        for arguments, says in (
                (["w.h5"], "--gold is missing"),
                (["w.h5", "--shift=1"], "--shift has no effect without --gold"),
                (["--links=gold.txt", "--links-base=1"], "--links has no effect without --gold"),
                (["--links=gold.txt", "--gold=gold.txt"], "--links-base is missing: 0 or 1"),
                (["w.h5", "--links-base=1", "--gold=gold.txt"], "--links-base has no effect"),
                (["w.h5", "--links=gold.txt", "--links-base=1", "--gold=gold.txt"], "place of an input"),
                (["--links=gold.txt", "--links-base=1", "--gold=gold.txt", "--threshold=0"],
                 "--threshold has no effect with --links"),
                (["w.h5", "--gold=gold.txt", "--gold-base=2"], "--gold-base is 2"),
                (["w.h5", "--gold=gold.txt", "--json=gold.txt"], "--json and --gold both name gold.txt"),
                (["w.h5", "--gold", "gold.txt", "--json=./gold.txt"], "--json and --gold both name"),
                (["w.h5", "--gold=gold.txt", "-ox.h5"], "--output is not an option of measure"),
                (["w.h5", "--gold=gold.txt", "--emit=weights"], "--emit is not an option of measure")):
            with self.subTest(arguments=arguments):
                self.refused_measure(*arguments, status=2, says=[says])
        self.refused(TOOL, "w.h5", "--gold=gold.txt", status=2, output=None,
                     says=["--gold is an option of measure only"])
        self.assertEqual((self.folder / "gold.txt").read_text(), "1-1\n")
        # Without the verb, the tool has no table to write.
        self.refused(TOOL, "w.h5", status=2, output="x.csv", says=["x.csv"])


if __name__ == "__main__":
    unittest.main()
