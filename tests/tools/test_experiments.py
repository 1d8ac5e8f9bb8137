"""scripts/experiments: their Makefiles, and the scripts that make tables of logs."""

import importlib.util
import json
import shutil
import subprocess
import sys
import tarfile
import unittest

from attn import BIN, LONG, SOURCE, TIMEOUT, ToolTest
from train_logs import write_log

HERE = SOURCE / "scripts/experiments"
HAS_TRAINING = (BIN / "attn-train").is_file() and importlib.util.find_spec("matplotlib")


def rows_of(text):
    header, *lines = text.splitlines()
    return [dict(zip(header.split("\t"), line.split("\t"))) for line in lines]


class Script(ToolTest):

    def setUp(self):
        super().setUp()
        self.environment |= {"PYTHONDONTWRITEBYTECODE": "1"}

    def script(self, name, *words, status=0, folder=HERE):
        done = subprocess.run([sys.executable, str(folder / name), *map(str, words)], cwd=self.folder,
                              env=self.environment, capture_output=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, status, f"{name} {words}: {done.stderr.decode()}")
        return done.stdout.decode() if status == 0 else done.stderr.decode()

    def table(self, *words):
        return rows_of(self.script(*words))

    def log(self, name, recipe, losses, **more):
        return write_log(self.folder / f"{name}.jsonl", recipe, losses, **more)

    def runs(self, kind, values, **recipe):
        """A log for each value, the last validation loss less 1."""
        return [self.log(f"{kind}_{seed}", recipe | {"seed": seed}, [9.0, value])
                for seed, value in enumerate(values)]


class Tables(Script):

    def compare(self, columns, *words):
        return self.table("compare-runs", "--columns", columns, "--metric", "valid.loss", "--better", "lower",
                          *words)

    def test_runs_are_tested_against_baselines(self):
        kinds = {"1_sgd": [3, 3.5, 4], "1_si": [2, 2.5, 4], "2_sgd": [5, 6, 7.5], "2_si": [5, 5.5, 6]}
        logs = {kind: self.runs(kind, values, rate=0.5) for kind, values in kinds.items()}
        rows = self.compare("layers,variant", "--baseline", "variant=sgd", "--recipe", "rate",
                            *sum(logs.values(), []))
        self.assertEqual([(row["layers"], row["variant"], row["against"]) for row in rows],
                         [("1", "sgd", ""), ("1", "si", "sgd"), ("2", "sgd", ""), ("2", "si", "sgd")])
        for layers, row in (("1", rows[1]), ("2", rows[3])):
            test = self.run_tool("seed-test", "--json", *logs[f"{layers}_si"], "against", *logs[f"{layers}_sgd"],
                                 "--metric=valid.loss", "--better=lower").json()["result"]["comparisons"][0]
            self.assertEqual(float(row["p_population"]), test["population"]["p"])
            self.assertEqual(float(row["p_sample"]), test["sample"]["p"])
            self.assertEqual(float(row["mean_a"]), test["a"]["mean"])
            error = test["a"]["sample_deviation"] / 3**0.5
            self.assert_near("standard error", float(row["standard_error_a"]), error, 1e-15)
            self.assertEqual((row["started"], row["finished"], row["rate"]), ("3", "3", "0.5"))
        self.assertEqual(rows[0]["p_population"], "")

    def test_baselines_are_tested_against_those_before_them(self):
        logs = sum((self.runs(kind, values) for kind, values in (("a", [1, 2]), ("b", [2, 4]), ("c", [3, 7]))), [])
        rows = self.compare("kind", "--baseline=kind=a", "--baseline=kind=b", "--test=welch", "--test=one-sample",
                            *logs)
        self.assertEqual([(row["kind"], row["against"], row["test"]) for row in rows],
                         [("a", "", ""), ("b", "a", "welch"), ("b", "a", "one-sample"), ("c", "a", "welch"),
                          ("c", "a", "one-sample"), ("c", "b", "welch"), ("c", "b", "one-sample")])
        # A baseline that is there only once serves all.
        logs = sum((self.runs(kind, values) for kind, values in (("1_none", [1, 2]), ("1_x", [2, 4]),
                                                                 ("4_x", [3, 7]))), [])
        rows = self.compare("heads,kind", "--baseline=kind=none", *logs)
        self.assertEqual([row["against"] for row in rows], ["", "none", "none"])
        self.assertIn("no such column", self.script("compare-runs", "--columns=a", "--baseline=b=c",
                                                    "--metric=loss",
                                                    "--better=lower", *logs, status=2))

    def test_runs_that_ended_early_are_in_no_mean(self):
        logs = self.runs("a", [1, 2]) + [self.log("a_9", {"seed": 9}, [50.0], steps=100)]
        lost = [self.log("b_1", {"seed": 1}, [3.0], steps=100), self.log("b_2", {"seed": 2}, [])]
        rows = self.compare("kind", "--baseline=kind=a", *logs, *lost)
        self.assertEqual([(row["started"], row["finished"], row["mean_a"]) for row in rows],
                         [("3", "2", "2.5"), ("2", "0", "")])

    def test_equal_runs_are_no_test(self):
        logs = self.runs("a", [1, 1]) + self.runs("b", [2, 2])
        rows = self.compare("kind", "--baseline=kind=a", *logs)
        self.assertEqual([(row["mean_a"], row["p_sample"]) for row in rows], [("2", ""), ("3", "")])
        # Other metrics are tested.
        logs = [write_log(self.folder / f"{kind}_{seed}.jsonl", {"seed": seed},
                          [1.0]) for kind in "cd" for seed in (1, 2)]
        for place, name in enumerate(logs):
            text = (self.folder / name).read_text().replace('"rate": 0.5', f'"rate": {place**2}')
            (self.folder / name).write_text(text)
        rows = self.table("compare-runs", "--columns=kind", "--metric=valid.loss,rate", "--better=lower",
                          "--baseline=kind=c", *logs)
        self.assertEqual([(row["kind"], row["metric"], row["p_sample"] != "") for row in rows],
                         [("c", "valid.loss", False), ("c", "rate", False), ("d", "valid.loss", False),
                          ("d", "rate", True)])

    def test_join(self):
        (self.folder / "a.tsv").write_text("x\ty\n1\t2\n")
        (self.folder / "b.tsv").write_text("x\tz\n3\t4\n5\t\n")
        self.assertEqual(self.script("join-tables", "a.tsv", "b.tsv"), "x\ty\tz\n1\t2\t\n3\t\t4\n5\t\t\n")

    def test_best_rate(self):
        logs = [self.log(f"r{rate}", {"schedule.rate": rate}, [4.0, loss], steps=steps)
                for rate, loss, steps in ((2, 0.5, 100), (1, 3.0, None), (0.5, 2.0, None), (0.25, 2.0, None),
                                          (0.1, None, None))]
        self.assertEqual(self.script("best-rate", *logs), "0.25\n")
        self.assertIn("none of the runs", self.script("best-rate", logs[0], logs[4], status=1))

    def test_loss_deviations(self):
        self.log("f64_si_none", {}, [3.0, 2.0, 1.0], every=1)
        self.log("f64_si_factors", {}, [3.0, 2.5, 1.25], every=1)
        self.assertEqual(self.table("loss-deviations", "f64_si_none.jsonl", "f64_si_factors.jsonl"), [
            {"kind": "f64 si", "step": "1", "deviation": "0.0", "largest": "0.0"},
            {"kind": "f64 si", "step": "2", "deviation": "0.5", "largest": "0.5"}])

    def test_attention_claims(self):
        def attention(shares, away):
            return lambda line: [{"group": f"layer{n}", "u": share, "least_column_sum": 0.1 / (n + 1),
                                  "explained_away": away} for n, share in enumerate(shares)] + [
                                      {"group": "other", "u": 0.0, "least_column_sum": 0, "explained_away": 1}]

        logs = [self.log("hnas_0", {}, [1.0], attention=attention([[0.9, 0.7], [0.6, 0.8], [0.55, 0.65]], 0)),
                self.log("hnas_1", {}, [1.0], attention=attention([[0.9, 0.7], [0.3, 0.5], [0.6, 0.6]], 0)),
                self.log("hnas_2", {}, [1.0], attention=attention([[0.9, 0.7], [0.7, 0.5], [0.45, 0.65]], 0.25))]
        for name in logs:
            shutil.copy(self.folder / name, self.folder / name.replace("hnas", "unas"))
        rows = {row["quantity"]: row for row in self.table("attention-claims", "--columns=scheme",
                                                           "--groups=layer", *logs)}
        self.assertEqual(rows["least_u"]["holds"], "1")  # 0.55, 0.3, 0.45
        self.assert_near("mean", float(rows["least_u"]["mean"]), 1.3 / 3, 1e-15)
        self.assertEqual(rows["correlation_of_layer_and_u"]["holds"], "3")
        # Means of layers: 0.8 0.7 0.6, 0.8 0.4 0.6, 0.8 0.6 0.55.
        self.assert_near("least", float(rows["correlation_of_layer_and_u"]["least"]), -1, 1e-15)
        self.assert_near("largest", float(rows["correlation_of_layer_and_u"]["largest"]), -0.5, 1e-15)
        self.assert_near("least c", float(rows["least_column_sum"]["mean"]), 0.1 / 3, 1e-15)
        test = self.run_tool("seed-test", "--json", "--reference=0.5", "--better=higher", "0.55", "0.3",
                             "0.45").json()
        self.assertEqual(float(rows["least_u"]["p_population"]),
                         test["result"]["comparisons"][0]["population"]["p"])
        self.assert_near("u of a layer", float(rows["u of layer1"]["mean"]), (0.7 + 0.4 + 0.6) / 3, 1e-15)
        # Only softmax is said to explain keys away.
        self.assertEqual((rows["explained_away"]["claim"], rows["explained_away"]["largest"]), ("", "0.25"))
        rows = {row["quantity"]: row for row in self.table("attention-claims", "--columns=scheme", "--without=least_u",
                                                           *(name.replace("hnas", "unas") for name in logs))}
        self.assertEqual((rows["explained_away"]["claim"], rows["explained_away"]["holds"]), ("> 0", "3"))
        self.assertNotIn("least_u", rows)
        self.assertIn("no finished run", self.script("attention-claims", "--columns=a", self.log("a_0", {}, [1.0]),
                                                     status=1))


class Headings(Script):

    TEXT = (" \n = Article = \n \n An introduction . \n = = One = = \n \n first words here \n and more \n"
            " = = = Inner part = = = \n \n inner = text \n = = Empty = = \n = = Two @-@ three = = \n \n"
            + " w" * 100 + " \n = Next = \n no heading \n")

    def test_pairs(self):
        (self.folder / "t").write_text(self.TEXT)
        pairs = [line.split("\t") for line in self.script("headings", "t").splitlines()]
        self.assertEqual(pairs, [["first words here and more inner = text", "One"], ["inner = text", "Inner part"],
                                 [" ".join(64 * "w"), "Two @-@ three"]])


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

    def test_findings_are_written_between_marks(self):
        folder = self.folder / "experiments"
        shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("__pycache__"))
        page = (folder / "README.md").read_text()
        before, _, rest = page.partition("<!-- found: a2 -->\n")
        after = rest.partition("<!-- end: a2 -->")[2]
        logs = self.runs("sgd", [3, 3.5, 4]) + self.runs("si", [2, 2.5, 4])
        (self.folder / "t.tsv").write_text(self.script("compare-runs", "--columns=variant",
                                                       "--baseline=variant=sgd",
                                                       "--metric=valid.loss", "--better=lower", *logs))
        for _ in range(2):
            self.script("write-findings", "a2", "t.tsv", folder=folder)
            text = (folder / "README.md").read_text()
            self.assertTrue(text.startswith(before) and text.endswith(after))
            made = text[len(before):len(text) - len(after)]
            self.assertIn("| variant | runs | metric | mean ± deviation | s.e. | difference from sgd | p, welch, sgd |",
                          made)
            self.assertIn("| sgd | 3 of 3 | valid.loss | 4.50 ± 0.41 | 0.29 |  |  |", made)
            self.assertRegex(made, r"\| si \| 3 of 3 \| valid\.loss \| 3\.83 ± 0\.85 \| 0\.6 \| -0\.67 "
                                   r"\| 0\.\d\d / 0\.\d\d \|")
        (self.folder / "c.tsv").write_text(
            "scheme\tquantity\tclaim\truns\tholds\tmean\tleast\tlargest\tp_population\tp_sample\n"
            "unas\texplained_away\t> 0\t3\t1\t0.25\t0.0\t0.75\t\t\nunas\tleast\t\t3\t\t0.5\t0.5\t0.5\t\t\n"
            "dnas\tleast\t\t3\t\t0.6\t0.5\t0.7\t\t\n")
        (self.folder / "s.tsv").write_text("kind\tstep\tdeviation\nf32\t1\t0\nf32\t2\t1e-07\n")
        self.script("write-findings", "a2", "c.tsv", "s.tsv", folder=folder)
        text = (folder / "README.md").read_text()
        self.assertIn("| scheme | runs | explained away | explained away > 0 | least |\n", text)
        self.assertIn("\n| unas | 3 | 0.25 (0 to 0.75) | 1 of 3 | 0.5 |\n| dnas | 3 |  |  | 0.6 (0.5 to 0.7) |\n\n", text)
        self.assertIn("\n| f32 | 2 | 1e-07 |\n\n<!-- end: a2 -->", text)
        self.assertIn("no place for a9", self.script("write-findings", "a9", "t.tsv", folder=folder, status=1))

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
        for variant in ("adam", "adam-ones", "decoder", "cross", "encoder", "all"):
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
        self.assertIn("no finding", self.make("a2", "keep", kept, "QUICK=1", status=2))

    def test_what_is_kept(self):
        for archive in (HERE / "kept").iterdir():
            with tarfile.open(archive) as logs:
                for member in logs:
                    self.assertRegex(member.name, r"^(search|rates|rescaled|logs)(/[\w.-]+)?$")
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
        words = ["-j2", f"DATA={self.folder}", "QUICK=1", "LEVELS=characters", "DEPTHS=1", "RATES=0.5 0.1",
                 *([] if LONG else ["STARTS=f64_sgd f64_si-sgd"])]
        self.make("a1", *words)
        out = self.folder / "out"
        rows = rows_of((out / "table.tsv").read_text())
        self.assertEqual([(row["variant"], row["against"], row["started"], row["finished"]) for row in rows],
                         [("sgd", "", "3", "3"), ("si-sgd", "sgd", "3", "3"), ("si-sgd", "sgd-ones", "3", "3"),
                          ("sgd-ones", "sgd", "3", "3")])
        for row in rows:
            self.assertIn(row["schedule.rate"], ("0.5", "0.1"))
            self.assertTrue(row["against"] == "" or 0 < float(row["p_population"]) < 1)
        largest = {row["kind"]: float(row["largest"]) for row in rows_of((out / "rescaled.tsv").read_text())}
        self.assertLess(largest["f64 si-sgd"], 1e-9)
        self.assertGreater(largest["f64 sgd"], 100 * largest["f64 si-sgd"])
        for figure in ("search-characters-1", "loss-characters-1", "rescaled"):
            self.assertTrue((out / f"{figure}.png").stat().st_size > 1000)
        log = json.loads((out / "logs/characters_1_si-sgd_2.jsonl").read_text().splitlines()[0])
        self.assertEqual((log["recipe"]["seed"], log["recipe"]["optimizer.paths"]), (2, ["decoder.self"]))
        self.assertIn("Nothing to be done", self.make("a1", *words))
        self.assertIn("no finding", self.make("a1", "page", *words, status=2))


if __name__ == "__main__":
    unittest.main()
