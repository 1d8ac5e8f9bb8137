"""scripts/experiments: their Makefiles, and the scripts that make tables of logs."""

import importlib.util
import json
import random
import re
import shutil
import subprocess
import sys
import tarfile
import unittest

import h5py
import numpy as np
from attn import BIN, LONG, SOURCE, TIMEOUT, ToolTest
from train_logs import write_log

HERE = SOURCE / "scripts/experiments"
HAS_TRAINING = (BIN / "attn-train").is_file() and importlib.util.find_spec("matplotlib")


class Script(ToolTest):

    def setUp(self):
        super().setUp()
        self.environment |= {"PYTHONDONTWRITEBYTECODE": "1"}

    def script(self, name, *words, status=0, folder=HERE):
        done = subprocess.run([sys.executable, str(folder / name), *map(str, words)], cwd=self.folder,
                              env=self.environment, capture_output=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, status, f"{name} {words}: {done.stderr.decode()}")
        return done.stdout.decode() if status == 0 else done.stderr.decode()

    def log(self, name, recipe, losses, **more):
        return write_log(self.folder / f"{name}.jsonl", recipe, losses, **more)


class Bars(Script):
    """comparisons.py and attention_claims.py, through write-findings with settings of the test's own."""

    def setUp(self):
        super().setUp()
        self.copy = self.folder / "experiments"
        shutil.copytree(HERE, self.copy, ignore=shutil.ignore_patterns("__pycache__", "kept"))
        (self.folder / "of/logs").mkdir(parents=True)

    def runs(self, kind, values, steps=None, attention=None, **recipe):
        """A log for each value, the last validation loss less 1."""
        for seed, value in enumerate(values):
            write_log(self.folder / f"of/logs/{kind}_{seed}.jsonl", recipe | {"seed": seed}, [9.0, value], attention,
                      steps)

    def findings(self, bars, status=0):
        (self.copy / "bars.toml").write_text("[x]\n" + bars)
        return self.script("write-findings", "x", "--of", self.folder / "of", folder=self.copy, status=status)

    def tables(self, bars):
        """The tables of the page, as lists of rows."""
        found = []
        for table in self.findings(bars).strip().split("\n\n"):
            header, _, *lines = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines())
            found.append([dict(zip(header, line)) for line in lines])
        return found

    BARS = """columns = ["layers", "variant"]
seeds = 3
tests = ["*_si/*_sgd", "*_far/*_sgd"]
metrics = [{ name = "valid.loss", better = "lower", bars = ["trigram - 0.5", "*_none", 6.5] }]
"""

    def test_kinds_are_judged_by_bars_and_by_seed_test(self):
        for layers in "12":
            self.runs(f"{layers}_sgd", [4, 4.5, 4.25])
            self.runs(f"{layers}_si", [3.1, 3.5, 3.3] if layers == "1" else [4.1, 4.4, 4.3])
            self.runs(f"{layers}_far", [4.8, 5.7, 5.9])
            self.runs(f"{layers}_none", [5, 5.1, 5.2])
        (self.folder / "of/baselines.tsv").write_text("metric\tname\tvalue\nvalid.loss\ttrigram\t7.25\n")
        known, reached, tested = self.tables(self.BARS)
        self.assertEqual(known, [{"metric": "valid.loss", "baseline": "trigram", "value": "7.25"}])
        found = {(row["layers"], row["variant"]): row for row in reached}
        self.assertEqual(found["1", "sgd"]["learned"], "yes")
        self.assertEqual(found["1", "sgd"]["bars"], "6.75 (trigram - 0.5); 6.1 (none); 6.5")
        self.assertEqual(found["1", "sgd"]["mean ± deviation"], "5.25 ± 0.25")
        # Below the number and the trigram, and not below the model without attention, which is a bar of others only.
        self.assertEqual(found["1", "far"]["learned"], "no")
        self.assertEqual((found["1", "none"]["learned"], found["1", "none"]["bars"]),
                         ("yes", "6.75 (trigram - 0.5); 6.5"))
        self.assertEqual([(row["runs"], row["against"], row["verdict"]) for row in tested],
                         [("1 si", "1 sgd", "better"), ("2 si", "2 sgd", "no difference seen"),
                          ("1 far", "1 sgd", "not learned"), ("2 far", "2 sgd", "not learned")])
        test = self.run_tool("seed-test", "--json", "4.1", "4.5", "4.3", "against", "5", "5.5", "5.25",
                             "--better=lower").json()["result"]["comparisons"][0]
        self.assert_near("p", float(tested[0]["p"]), 2 * test["p"], 0.02 * test["p"])
        # Two tests are the family: Holm doubles the smaller p, and runs that have not learned have none.
        self.assert_near("corrected", float(tested[0]["corrected"]), 4 * test["p"], 0.05 * test["p"] + 5e-4)
        self.assertEqual(tested[2].get("corrected", ""), "")
        self.assertEqual(tested[0]["difference (95% interval)"], "{:.3g} ({:.3g} to {:.3g})".format(
            test["difference"], test["interval"]["low"], test["interval"]["high"]))
        self.assertGreater(float(tested[1]["seen alone"]), 0.3)

    def test_metrics_without_a_bar_need_the_others(self):
        self.runs("1_sgd", [4, 4.5, 4.25])
        self.runs("1_si", [3.1, 3.5, 3.3])
        bars = self.BARS.replace(', "*_far/*_sgd"', "").replace('"trigram - 0.5", "*_none", 6.5] }]', '6.5] },\n'
                                 '  { name = "valid.other", better = "lower", bars = [] }]')
        for kind in ("sgd", "si"):
            for log in (self.folder / "of/logs").glob(f"1_{kind}_*"):
                text = log.read_text()
                log.write_text(re.sub(r'"valid": {"loss": ([0-9.]+)}', r'"valid": {"loss": \1, "other": \1}', text))
        self.assertEqual([row["verdict"] for row in self.tables(bars)[1]], ["better", "better"])
        self.assertEqual([row["verdict"] for row in self.tables(bars.replace("6.5", "5"))[1]], ["not learned"] * 2)
        self.assertIn("there is no valid.none", self.findings(bars.replace("valid.other", "valid.none"), status=1))

    def test_a_worse_kind(self):
        self.runs("1_sgd", [4, 4.5, 4.25])
        self.runs("1_si", [3.1, 3.5, 3.3])
        tested = self.tables(self.BARS.replace("*_si/*_sgd", "*_sgd/*_si").replace(', "*_far/*_sgd"', "")
                           .replace('"trigram - 0.5", "*_none", ', ""))[1]
        self.assertEqual([row["verdict"] for row in tested], ["worse"])

    def test_runs_that_ended_early_are_in_no_mean(self):
        self.runs("1_sgd", [4, 4.5, 4.25])
        self.runs("1_si", [3, 99, 99])
        for seed in (1, 2):
            write_log(self.folder / f"of/logs/1_si_{seed}.jsonl", {"seed": seed}, [50.0], steps=100)
        bars = self.BARS.replace(', "*_far/*_sgd"', "").replace('"trigram - 0.5", "*_none", ', "")
        reached, tested = self.tables(bars)
        self.assertEqual([(row["variant"], row["runs"], row["mean ± deviation"], row["learned"]) for row in reached],
                         [("sgd", "3 of 3", "5.25 ± 0.25", "yes"), ("si", "1 of 3", "4.0000", "no")])
        self.assertEqual([row["verdict"] for row in tested], ["not learned"])
        # None finished: nothing is learned.
        write_log(self.folder / "of/logs/1_si_0.jsonl", {"seed": 0}, [50.0], steps=100)
        reached, tested = self.tables(bars)
        self.assertEqual((reached[1]["runs"], reached[1]["learned"], tested[0]["verdict"]), ("0 of 3", "no", "not learned"))

    def test_equal_runs_are_no_test(self):
        self.runs("1_sgd", [4, 4, 4])
        self.runs("1_si", [3, 3, 3])
        tested = self.tables(self.BARS.replace(', "*_far/*_sgd"', "").replace('"trigram - 0.5", "*_none", ', ""))[1]
        self.assertEqual([row["verdict"] for row in tested], ["no test"])

    def test_what_is_missing_is_named(self):
        self.runs("1_sgd", [4, 4.5, 4.25])
        self.assertIn("no baseline trigram of valid.loss", self.findings(self.BARS, status=1))
        bars = self.BARS.replace('"trigram - 0.5", "*_none", ', "")
        self.assertIn("no runs for the test *_si/*_sgd", self.findings(bars, status=1))
        self.assertIn("3 runs of 1_sgd, where bars.toml has 9 seeds", self.findings(bars.replace("seeds = 3", "seeds = 9"), status=1))
        self.assertIn("expected a name of 2 words", self.findings(bars.replace('"layers", ', ""), status=1))

    def test_best_rate(self):
        logs = [self.log(f"r{rate}", {"schedule.rate": rate}, [4.0, loss], steps=steps)
                for rate, loss, steps in ((2, 0.5, 100), (1, 3.0, None), (0.5, 2.0, None), (0.25, 2.0, None),
                                          (0.1, None, None))]
        self.assertEqual(self.script("best-rate", *logs), "0.25\n")
        self.assertIn("none of the runs", self.script("best-rate", logs[0], logs[4], status=1))

    def test_rescaled_starts(self):
        self.runs("a", [1, 2, 3])
        (self.folder / "of/rescaled").mkdir()
        write_log(self.folder / "of/rescaled/f64_si_none.jsonl", {}, [3.0, 2.0, 1.0], every=1)
        write_log(self.folder / "of/rescaled/f64_si_factors.jsonl", {}, [3.0, 2.5, 1.25], every=1)
        bars = 'columns = ["kind"]\nseeds = 3\ntests = []\nmetrics = [{ name = "valid.loss", better = "lower", bars = [] }]\n'
        self.assertEqual(self.tables(bars)[1], [{"precision": "f64", "steps in": "si", "steps": "3",
                                               "largest difference of the losses": "0.5"}])

    def test_attention(self):
        def attention(shares, away):
            return lambda line: [{"group": f"layer{n}", "u": share, "least_column_sum": 0.1 / (n + 1),
                                  "explained_away": away} for n, share in enumerate(shares)] + [
                                      {"group": "other", "u": 0.0, "least_column_sum": 0, "explained_away": 1}]

        made = [([[0.9, 0.7], [0.6, 0.8], [0.55, 0.65]], 0), ([[0.9, 0.7], [0.3, 0.5], [0.6, 0.6]], 0),
                ([[0.9, 0.7], [0.7, 0.5], [0.45, 0.65]], 0.25)]
        for scheme in ("hnas", "unas"):
            for seed, one in enumerate(made):
                write_log(self.folder / f"of/logs/{scheme}_{seed}.jsonl", {}, [1.0], attention(*one))
        rows = self.tables('columns = ["scheme"]\nseeds = 3\ntests = []\nmetrics = [{ name = "valid.loss", better = "lower", '
                         'bars = [] }]\nattention = "layer"\n'
                           'claims = ["least u", "correlation of layer and u", "explained away"]\n')[1]
        hnas, unas = rows
        self.assertEqual(hnas["least u"], "0.433 (0.3 to 0.55)")
        self.assertEqual(hnas["least u > 0.5"], "1 of 3")
        # Means of layers: 0.8 0.7 0.6, 0.8 0.4 0.6, 0.8 0.6 0.55.
        self.assertEqual(hnas["correlation of layer and u"], "-0.833 (-1 to -0.5)")
        self.assertEqual(hnas["correlation of layer and u < 0"], "3 of 3")
        self.assertEqual(hnas["least column sum"], "0.0333")
        self.assertEqual(hnas["u of layer1"], "0.567 (0.4 to 0.7)")
        # Only softmax is said to explain keys away.
        self.assertEqual((hnas["explained away > 0"], unas["explained away > 0"]), ("", "1 of 3"))


class Baselines(Script):

    def values(self, *words):
        header, *lines = self.script("baselines", *words).splitlines()
        self.assertEqual(header, "metric\tname\tvalue")
        return {tuple(line.split("\t")[:2]): float(line.split("\t")[2]) for line in lines}

    def test_characters(self):
        # The next symbol is known from two, and one symbol leaves two cases.
        (self.folder / "t").write_text("aabb" * 500)
        found = self.values("characters", "t")
        self.assert_near("unigram", found["test.bits_per_character", "unigram"], 1, 1e-4)
        self.assert_near("bigram", found["test.bits_per_character", "bigram"], 1, 1e-3)
        self.assertLess(found["test.bits_per_character", "trigram"], 0.01)

    def test_hidden(self):
        # Symbols in threes: x stands between p and r and between q and s, y between the others.
        middle = {"pr": "x", "qs": "x", "ps": "y", "qr": "y"}
        draws = random.Random(1)
        sides = [draws.choice(list(middle)) for _ in range(20000)]
        (self.folder / "t").write_text("".join(side[0] + middle[side] + side[1] for side in sides))
        found = self.values("hidden", "t")
        self.assert_near("unigram", found["test.accuracy", "unigram"], 0.1 + 0.8 / 6, 0.01)
        # One neighbour leaves two cases; both of them say which symbol is between them.
        one_side, two_sides = 1 / 2, 2 / 3
        expected = 0.1 + 0.8 * (two_sides / 3 + one_side / 3 + (2 * one_side + 1 / 6) / 9)
        self.assert_near("neighbours", found["test.accuracy", "neighbours"], expected, 0.02)

    def test_pairs_and_classes(self):
        (self.folder / "train").write_text("x\tone two\ny\tone two\nz\tthree\n")
        (self.folder / "test").write_text("x\tone two\ny\tone\nz\tfour\n")
        found = self.values("pairs", "train", "test")
        self.assert_near("words", found["test.word_accuracy", "constant"], 1 / 3, 1e-15)
        # From "one two" to "one" are 4 edits, to "four" 7.
        self.assert_near("errors", found["test.character_error_rate", "constant"], 11 / 14, 1e-15)
        self.assert_near("rouge 1", found["test.rouge_1", "constant"], (1 + 2 / 3) / 3, 1e-15)
        self.assert_near("rouge 2", found["test.rouge_2", "constant"], 1 / 3, 1e-15)
        self.assert_near("rouge l", found["test.rouge_l", "constant"], (1 + 2 / 3) / 3, 1e-15)
        (self.folder / "train").write_text("b\tx\nb\ty\na\tz\n")
        (self.folder / "test").write_text("a\tx\nb\ty\nb\tz\na\tz\n")
        self.assertEqual(self.values("classes", "train", "test"), {("test.accuracy", "constant"): 0.5})

    def test_alignments(self):
        (self.folder / "pairs").write_text("a b c\tx y z\na b\tw x y z\n")
        (self.folder / "gold").write_text("1-1 2-2 2p3\n1-1 1-2 1p4\n")
        # The diagonal: 1-1 2-2 3-3, then 1-1 1-2 2-3 2-4. Four of the links are sure, and none possible only.
        self.assert_near("error", self.values("alignments", "pairs", "gold")["test.alignment_error_rate", "diagonal"],
                         1 - (4 + 4) / (7 + 4), 1e-15)
        (self.folder / "gold").write_text("1-1 2p2\n1-2 2-4\n")
        found = self.values("alignments", "pairs", "gold")
        self.assert_near("possible", found["test.alignment_error_rate", "diagonal"], 1 - (3 + 4) / (7 + 3), 1e-15)
        log = self.log("words_0", {}, [1.0])
        report = {"result": {"heads": [{"shifts": [{"source": 1, "target": 0, "aer": 0.5},
                                                   {"source": 0, "target": 0, "aer": 0.25}]}]}}
        lines = (self.folder / log).read_text().splitlines()
        lines[-1] = lines[-1][:-1] + ', "test": {"loss": 2.0}}'
        (self.folder / log).write_text("\n".join(lines) + "\n")
        subprocess.run([HERE / "with-alignment-error", log], cwd=self.folder, input=json.dumps(report).encode(), check=True)
        last = json.loads((self.folder / log).read_text().splitlines()[-1])
        self.assertEqual(last["test"], {"loss": 2.0, "alignment_error_rate": 0.25})

    def test_scenes(self):
        self.run_tool("tensor-gen", "scenes", "--scenes=200", "--seed=1", "-o", "s.h5")
        with h5py.File(self.folder / "s.h5") as file:
            answers, kinds = file["answers"][:], file["question_kinds"][:]
        found = self.values("scenes", "s.h5", "s.h5")
        for number, kind in enumerate(("colour", "count")):
            counts = np.bincount(answers[kinds == number])
            self.assert_near(kind, found[f"test.accuracy_{kind}", "constant"], counts.max() / counts.sum(), 1e-15)
        self.assertIn("baselines characters FILE", self.script("baselines", "other", "t", status=1))


class Headings(Script):

    TEXT = (" \n = Article = \n \n An introduction . \n = = One = = \n \n first words here \n and more \n"
            " = = = Inner part = = = \n \n inner = text \n = = Empty = = \n = = Two @-@ three = = \n \n"
            + " w" * 100 + " \n = = An <unk> = = \n \n left out \n = Next = \n no heading \n")

    def test_pairs(self):
        (self.folder / "t").write_text(self.TEXT)
        pairs = [line.split("\t") for line in self.script("headings", "t").splitlines()]
        self.assertEqual(pairs, [["first words here and more inner = text", "One"], ["inner = text", "Inner part"],
                                 [" ".join(64 * "w"), "Two @-@ three"]])


class Lines(Script):

    def test_parts_and_swaps(self):
        text = [f"line {chr(97 + n % 26)}{chr(97 + n * 7 % 26)} of the play, {n}" for n in range(400)]
        (self.folder / "t").write_text("\n".join(text[:200] + ["SHORT:"] + text[200:]) + "\n")
        found = {part: [line.split("\t") for line in self.script("lines", part, "t").splitlines()]
                 for part in ("train", "valid", "test")}
        self.assertEqual([len(found[part]) for part in ("train", "valid", "test")], [320, 40, 40])
        for part, remainders in (("train", range(8)), ("valid", [8]), ("test", [9])):
            for (word, line), source in zip(found[part], [line for n, line in enumerate(text) if n % 10 in remainders]):
                places = [n for n, (a, b) in enumerate(zip(line, source)) if a != b]
                self.assertEqual(len(line), len(source))
                if word == "written":
                    self.assertEqual(places, [])
                    continue
                self.assertEqual(word, "swapped")
                first, second = places
                self.assertEqual((second, line[first] + line[second]), (first + 1, source[second] + source[first]))
        words = [word for lines in found.values() for word, _ in lines]
        # Of 400 coins: 5 deviations are 50.
        self.assertLess(abs(words.count("swapped") - 200), 50)


class Speeches(Script):

    def test_parts(self):
        blocks = []
        for number in range(12):
            blocks += [f"{name}:\nword {number}\nof {name}" for name in "ABCDEFGHIJ"]
        blocks += ["RARE:\nonce", "A:", "no speaker\nhere"]
        (self.folder / "t").write_text("\n\n".join(blocks) + "\n")
        found = {part: [line.split("\t") for line in self.script("speeches", part, "t").splitlines()]
                 for part in ("train", "valid", "test")}
        self.assertEqual({name for name, _ in found["train"]}, set("ABCDEFGHIJ"))
        self.assertEqual([words for name, words in found["train"] if name == "C"],
                         [f"word {number} of C" for number in (*range(8), 10, 11)])
        self.assertEqual(found["valid"], [[name, f"word 8 of {name}"] for name in "ABCDEFGHIJ"])
        self.assertEqual(found["test"], [[name, f"word 9 of {name}"] for name in "ABCDEFGHIJ"])
        self.assertIn("PART", self.script("speeches", "other", "t", status=1))


class Lists(Script):

    def test_answers(self):
        lines = [line.split("\t") for line in self.script("lists", "train", 300).splitlines()]
        self.assertEqual(len(lines), 300)
        self.assertNotEqual(lines[:100], [line.split("\t") for line in
                                          self.script("lists", "test", 100).splitlines()])
        for text, asked, span in lines:
            first, last = map(int, span.split("-"))
            answer = " ".join(text.split()[first:last + 1])
            people = {item.split()[0]: item.split(" ", 2)[2] for item in text.split(" ; ")}
            (name,) = set(people) & set(asked.split())
            number, colour, things = people[name].split()
            want = {"what has": people[name], "how many": number, "what colour": colour}
            self.assertEqual(answer, next(word for start, word in want.items() if asked.startswith(start)))
            self.assertTrue(asked.startswith("what has") or things in asked.split())


class Page(Script):

    def test_the_page_is_that_of_the_kept_logs(self):
        folder = self.folder / "experiments"
        shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("__pycache__"))
        page = (folder / "README.md").read_text()
        (folder / "README.md").write_text(re.sub(r"(<!-- found: \w+ -->\n).*?(<!-- end)", r"\1\2", page, flags=re.DOTALL))
        self.script("write-findings", folder=folder)
        self.assertEqual((folder / "README.md").read_text(), page)
        self.assertIn("has no a9", self.script("write-findings", "a9", "--of", self.folder, folder=folder, status=1))
        (folder / "README.md").write_text(page.replace("<!-- found: a2 -->", ""))
        self.assertIn("no place for a2", self.script("write-findings", "a2", folder=folder, status=1))

    def test_every_experiment_has_its_place(self):
        page = (HERE / "README.md").read_text()
        for makefile in HERE.glob("[am]*.mk"):
            self.assertIn(f"<!-- found: {makefile.stem} -->", page)
            self.assertIn(f"make -f scripts/experiments/{makefile.name}", makefile.read_text())
        for script in HERE.iterdir():
            if script.suffix == "" and script.is_file():
                self.assertIn(f"`{script.name}`", page)


class Makefiles(Script):

    def make(self, name, *words, status=0):
        done = subprocess.run(["make", "-f", str(HERE / f"{name}.mk"), f"BIN={BIN}", f"OUT={self.folder}/out",
                               f"PYTHON={sys.executable}", *words], cwd=self.folder, capture_output=True,
                              timeout=TIMEOUT, check=False,
                              env={key: value for key, value in self.environment.items() if not key.startswith("MAKE")})
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return done.stdout.decode() + done.stderr.decode()

    def test_each_is_a_plan(self):
        for makefile in sorted(HERE.glob("[am]*.mk")):
            with self.subTest(makefile=makefile.name):
                commands = {quick: self.make(makefile.stem, "-n", f"DATA={self.folder}", f"QUICK={quick}")
                            for quick in ("", "1")}
                runs = {quick: text.count("\nattn-train ") for quick, text in commands.items()}
                self.assertLess(runs["1"], runs[""])
                self.assertNotIn("warning", commands[""])
                # Each run has a log of its own.
                self.assertEqual(len({line.partition(" --log ")[2] for line in commands[""].splitlines()
                                      if line.startswith("attn-train ")}), runs[""])
        self.assertIn("DATA is missing", self.make("a3", "-n", status=2))
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_finished_runs_are_kept(self):
        logs = self.folder / "out/logs"
        logs.mkdir(parents=True)
        for variant in ("adam", "adam-ones", "decoder", "cross", "encoder", "all", "none"):
            for seed in range(4):
                write_log(logs / f"{variant}_{seed}.jsonl", {"seed": seed}, [9.0, 1.0])
        (logs / "all_3.jsonl").unlink()
        (logs / "all_3.jsonl.part").write_text("begun")
        kept = f"KEPT={self.folder}/kept"
        before = {log.name: log.read_bytes() for log in logs.glob("*.jsonl")}
        self.make("a2", "keep", kept)
        shutil.rmtree(logs)
        self.make("a2", "restore", kept)
        self.assertEqual({log.name: log.read_bytes() for log in logs.iterdir()}, before)
        # Only what is missing would be trained.
        runs = [line for line in self.make("a2", "-n", f"DATA={self.folder}").splitlines()
                if line.startswith("attn-train ")]
        self.assertEqual(len(runs), 1)
        self.assertIn("logs-all_3", runs[0])
        self.assertIn("not kept", self.make("a2", "keep", kept, "QUICK=1", status=2))

    def test_what_is_kept(self):
        for archive in (HERE / "kept").iterdir():
            with tarfile.open(archive) as logs:
                for member in logs:
                    self.assertRegex(member.name, r"^(baselines\.tsv|(search|rates|rescaled|logs)(/[\w.-]+)?)$")
                    if member.name.endswith(".jsonl"):
                        first = json.loads(logs.extractfile(member).readline())
                        self.assertEqual(first["schema"], "attnkit-log/1")
                        self.assertNotIn('"/', json.dumps(first["recipe"]))

    @unittest.skipUnless(HAS_TRAINING, "no attn-train, or no matplotlib")
    def test_a1_runs_from_search_to_table(self):
        (self.folder / "text").mkdir()
        prose = (SOURCE / "data/prose.txt").read_bytes()
        # Short runs train on a quarter of the text, and rescale only the starts in float64, which are checked below.
        (self.folder / "text/tinyshakespeare.txt").write_bytes(prose if LONG else prose[:len(prose) // 4])
        words = ["-j2", f"DATA={self.folder}", "QUICK=1", "DEPTHS=1", "VARIANTS=sgd si-sgd", "rates=0.5 0.1",
                 *([] if LONG else ["STARTS=f64_sgd f64_si-sgd"])]
        self.make("a1", *words)
        out = self.folder / "out"
        for variant in ("sgd", "si-sgd"):
            self.assertIn((out / f"rates/1_{variant}").read_text(), ("0.5\n", "0.1\n"))
            for seed in range(3):
                recipe = json.loads((out / f"logs/1_{variant}_{seed}.jsonl").read_text().splitlines()[0])["recipe"]
                self.assertEqual((recipe["seed"], recipe["optimizer.momentum"], recipe["optimizer.paths"]),
                                 (seed, 0.9, ["decoder.self"] if variant == "si-sgd" else []))
        sys.path.insert(0, str(HERE))
        from experiment_logs import Log  # pylint: disable=import-outside-toplevel
        from loss_deviations import largest_deviation  # pylint: disable=import-outside-toplevel
        largest = {name: largest_deviation(*(Log(out / f"rescaled/f64_{name}_{start}.jsonl")
                                             for start in ("none", "factors")))[1] for name in ("sgd", "si-sgd")}
        self.assertLess(largest["si-sgd"], 1e-9)
        self.assertGreater(largest["sgd"], 100 * largest["si-sgd"])
        for figure in ("search-1", "loss-1", "rescaled"):
            self.assertTrue((out / f"{figure}.png").stat().st_size > 1000)
        self.assertIn("trigram", (out / "baselines.tsv").read_text())
        self.assertIn("Nothing to be done", self.make("a1", *words))
        self.assertIn("not kept", self.make("a1", "keep", *words, status=2))


if __name__ == "__main__":
    unittest.main()
