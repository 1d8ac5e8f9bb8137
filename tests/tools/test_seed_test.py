"""seed-test: means, deviations and one-sided tests of runs with several seeds.

Expected numbers are SciPy's (1.10): ttest_ind_from_stats(..., equal_var=False), ttest_1samp and
ttest_rel with alternative "less" or "greater", and the tests of the documents' printed tables."""

import csv
import io
import json
import statistics
import unittest

from attn import ToolTest

A = [4.71, 4.65, 4.8, 4.69]
B = [4.85, 4.79, 4.82, 4.91]
SLEEP = ([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
         [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])  # Student (1908)


class SeedTest(ToolTest):

    def log(self, name, values, seed=1, steps=None, **recipe):
        """A log with the perplexities of some evaluations, 50 steps apart."""
        last = 50 * len(values)
        lines = [{"schema": "attnkit-log/1", "recipe": {"seed": seed, "model.layers": 1} | recipe,
                  "steps": last if steps is None else steps}]
        for n, value in enumerate(values, 1):
            lines.append({"step": 50 * n - 25, "loss": 3.5})
            lines.append({"step": 50 * n, "loss": 3.0, "valid": {"perplexity": value, "accuracy": 1 / n}})
        (self.folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        return name

    def logs(self, name, values):
        return [self.log(f"{name}-{seed}.jsonl", [9.0, value], seed) for seed, value in enumerate(values)]

    def compare(self, *words, **more):
        found = self.run_tool("seed-test", "--json", *words, **more).json()["result"]["comparisons"]
        return found[0] if len(found) == 1 else found

    def assert_test(self, test, t, degrees, p):
        for name, expected in (("t", t), ("degrees", degrees), ("p", p)):
            self.assert_near(name, test[name], expected, 1e-10 * abs(expected))

    def test_mean_and_deviations(self):
        group = self.compare(*self.logs("a", A), "--metric=valid.perplexity")["a"]
        self.assert_near("mean", group["mean"], statistics.fmean(A), 1e-15)
        self.assert_near("population", group["population_deviation"], statistics.pstdev(A), 1e-15)
        self.assert_near("sample", group["sample_deviation"], statistics.stdev(A), 1e-15)
        self.assertEqual((group["values"], group["seeds"], group["count"]), (A, [0, 1, 2, 3], 4))
        self.assertEqual(group["deviation"], group["population_deviation"])
        one = self.compare("2.5")["a"]
        self.assertEqual((one["mean"], one["population_deviation"], one["sample_deviation"]), (2.5, 0, None))

    def test_welch(self):
        words = [*self.logs("a", A), "against", *self.logs("b", B), "--metric=valid.perplexity"]
        lower = self.compare(*words, "--better=lower")
        self.assert_near("difference", lower["difference"], -0.13, 1e-14)
        # The deviation of the population, read as such, is the test of the values.
        self.assert_test(lower["population"], 3.1883245653218277, 5.745358090185684, 0.01001905184473664)
        # s replaced by the deviation of the population: t grows by sqrt(4/3).
        self.assert_test(lower["sample"], 3.681560092104907, 5.745358090185684, 0.005569985161766432)
        higher = self.compare(*words, "--better=higher")
        self.assert_test(higher["population"], -3.1883245653218277, 5.745358090185684, 1 - 0.01001905184473664)
        numbers = self.compare(*map(str, A), "against", *map(str, B), "--better=lower")
        self.assertEqual(numbers["population"], lower["population"])

    def test_groups_of_different_size(self):
        # Student's patients, less one of the second drug.
        first, second = SLEEP[0], SLEEP[1][:9]
        words = ["--better=lower", "--", *map(str, first), "against", *map(str, second)]
        self.assert_test(self.compare(*words)["population"],
                         1.629997605517861, 15.903037036981488, 0.06137282538289388)
        self.assert_test(self.compare(*words)["sample"],
                         1.7245855086052264, 15.949309918333853, 0.0519622377732026)

    def test_one_sample_and_paired(self):
        words = ["--better=higher", "--reference=4.6", *map(str, A)]
        self.assert_test(self.compare(*words)["population"], 3.546496828075989, 3, 0.019093027210456536)
        words = ["--better=lower", "--test=paired", "--", *map(str, SLEEP[0]), "against", *map(str, SLEEP[1])]
        paired = self.compare(*words)
        self.assert_near("difference", paired["difference"], -1.58, 1e-14)
        self.assert_test(paired["population"], 4.062127683382037, 9, 0.001416445098692135)
        taken = self.compare("--better=lower", "--test=one-sample", *map(str, A), "against", *map(str, B))
        self.assert_near("reference", taken["reference"], statistics.fmean(B), 1e-15)
        self.assertEqual(taken["population"],
                         self.compare("--better=lower", f"--reference={taken['reference']!r}",
                                      *map(str, A))["population"])

    def test_pairs_have_one_seed(self):
        a = [self.log(f"a{seed}.jsonl", [value], seed) for seed, value in ((3, 1.0), (1, 2.0), (2, 4.0))]
        b = [self.log(f"b{seed}.jsonl", [value], seed) for seed, value in ((1, 2.5), (2, 5.0), (3, 1.25))]
        words = ["--test=paired", "--better=lower", "--metric=valid.perplexity", *a, "against"]
        self.assertEqual(self.compare(*words, *b)["differences"]["values"], [-0.25, -0.5, -1])
        hint = "seed-test: note: both groups have the same seeds: --test paired compares them seed by seed\n"
        for own, said in ((b, hint), (b[:2], "")):
            self.assertEqual(self.run_tool("seed-test", *words[1:], *own).err, said)
        other = self.log("other.jsonl", [2.0], 7)
        self.refuse(*words, b[0], b[1], other, status=3, says=["a3.jsonl has seed 3, and no run of B has it"])
        self.refuse(*words, b[0], b[1], status=3, says=["a has 3 runs and b has 2, expected pairs"])

    def test_printed_tables(self):
        # SI Table 2 and 3: perplexities of 4 seeds, and p, which follows if ± is that of the population.
        for means, deviations, population, sample in (
                ("121.85,123.23", "0.46,0.36", 0.0036, 0.0019), ("109.65,112.82", "2.07,1.18", 0.0360, 0.0235),
                ("100.28,103.33", "0.80,1.11", 0.0050, 0.0027), ("121.13,123.45", "0.48,1.74", 0.0503, 0.0358)):
            found = self.compare("--means", means, "--deviations", deviations, "--counts=4", "--better=lower")
            self.assert_near(means, found["population"]["p"], population, 5e-5)
            self.assert_near(means, found["sample"]["p"], sample, 5e-5)
            self.assertIsNone(found["a"]["sample_deviation"])
        # SI Table 4 and 5: BLEU against a known number.
        for mean, deviation, reference, p in (("35.33", "0.12", "34.79", 0.0022),
                                              ("41.84", "0.12", "41.58", 0.0165),
                                              ("34.21", "0.37", "33.64", 0.0379),
                                              ("29.05", "0.11", "28.40", 0.0010)):
            found = self.compare("--means", mean, "--deviations", deviation, "--counts=4", "--better=higher",
                                 "--reference", reference)
            self.assert_near(mean, found["population"]["p"], p, 5e-5)
        # EA Table 3: standard errors of 5 runs, as deviations.
        found = self.compare("--means=38.19,38.02", f"--deviations={0.05 * 5**0.5},{0.07 * 5**0.5}",
                             "--counts=5,5", "--better=higher")
        self.assert_near("p", found["sample"]["p"], 0.0437, 5e-5)

    def test_agrees_with_scipy(self):
        try:
            from scipy import stats
        except ImportError:
            self.skipTest("no SciPy (scripts/install-deps peers)")
        for a, b in ((A, B), (SLEEP[0], SLEEP[1][:7]), ([1.0, 1.0], [1.0, 3.0])):
            words = ["--", *map(str, a), "against", *map(str, b)]
            for better, side in (("lower", "less"), ("higher", "greater")):
                found = self.compare("--better", better, *words)
                expected = stats.ttest_ind(a, b, equal_var=False, alternative=side)
                self.assert_near("p", found["population"]["p"], expected.pvalue, 1e-10 * expected.pvalue)
                spread = [statistics.pstdev(values) for values in (a, b)]
                expected = stats.ttest_ind_from_stats(statistics.fmean(a), spread[0], len(a), statistics.fmean(b),
                                                      spread[1], len(b), equal_var=False, alternative=side)
                self.assert_near("p", found["sample"]["p"], expected.pvalue, 1e-10 * expected.pvalue)

    def test_last_and_best(self):
        logs = [self.log("a.jsonl", [5.0, 4.0, 4.5], 1), self.log("b.jsonl", [7.0, 6.0, 5.0], 2)]
        metric = ["--metric=valid.perplexity"]
        self.assertEqual(self.compare(*logs, *metric)["a"]["values"], [4.5, 5])
        self.assertEqual(self.compare(*logs, *metric, "--at=best", "--better=lower")["a"]["values"], [4, 5])
        self.assertEqual(self.compare(*logs, *metric, "--at=best", "--better=higher")["a"]["values"], [5, 7])
        self.assertEqual(self.compare(*logs, "--metric=loss")["a"]["values"], [3, 3])
        self.refuse(*logs, *metric, "--at=best", status=2, says=["--at best needs --better"])

    def test_several_metrics_are_several_rows(self):
        words = [*self.logs("a", A), "against", *self.logs("b", B), "--better=lower"]
        metrics = ["valid.perplexity", "valid.accuracy"]
        self.refuse(*words, "--metric", ",".join(metrics), status=4,
                    says=["valid.accuracy: the deviation is 0"])
        words = self.logs("a", A)
        table = self.run_tool("seed-test", "--tsv", *words, "--metric", ",".join(metrics)).out.decode()
        rows = list(csv.DictReader(io.StringIO(table), delimiter="\t"))
        self.assertEqual([row["metric"] for row in rows], metrics)
        self.assertEqual(float(rows[0]["deviation_a"]), self.compare(*map(str, A))["a"]["deviation"])
        self.assertEqual(rows[0]["p_sample"], "")
        self.run_tool("seed-test", *words, "--metric=loss", "-o", "out.csv")
        self.assertEqual((self.folder / "out.csv").read_text().count("\n"), 2)

    def test_the_row_of_a_test(self):
        table = self.run_tool("seed-test", "--tsv", *map(str, A), "against", *map(str, B), "--better=lower")
        row = next(csv.DictReader(io.StringIO(table.out.decode()), delimiter="\t"))
        found = self.compare(*map(str, A), "against", *map(str, B), "--better=lower")
        self.assertEqual((row["test"], row["better"], row["metric"]), ("welch", "lower", ""))
        for reading in ("population", "sample"):
            for name in ("t", "degrees", "p"):
                self.assertEqual(float(row[f"{name}_{reading}"]), found[reading][name])

    def test_text(self):
        words = ["--means=121.85,123.23", "--deviations=.46,.36", "--counts=4,4", "--better=lower"]
        text = self.run_tool("seed-test", *words).out.decode()
        self.assertIn("± is the deviation of the sample, divided by n - 1.\n", text)
        self.assertIn("Welch's test: t = 4.725, 5.672 degrees of freedom, p = 0.00188 (one-sided: is A lower?)\n",
                      text)
        text = self.run_tool("seed-test", *words, "--deviation-of=population", "--names=SI,SGD").out.decode()
        self.assertRegex(text, r"\A +mean +± +runs\nSI +121\.85 +0\.46 +4\nSGD +123\.23 ")
        self.assertIn("± is the deviation of the population, divided by n.\n", text)
        self.assertIn("t = 4.092, 5.672 degrees of freedom, p = 0.003613 (one-sided: is SI lower?)\n", text)
        text = self.run_tool("seed-test", *self.logs("a", A), "--metric=valid.perplexity").out.decode()
        self.assertRegex(text, r"\Avalid\.perplexity\n +mean +± +runs\na +4\.7125 +0\.06344 ")
        self.assertEqual(self.run_tool("seed-test", "-q", "1", "2").out, b"")

    def test_deviations_of_runs_change_no_test(self):
        words = [*map(str, A), "against", *map(str, B), "--better=lower"]
        shown = self.run_tool("seed-test", *words, "--deviation-of=population").out.decode()
        self.assertIn(f"{statistics.pstdev(A):.4g} ", shown)
        self.assertNotIn(f"{statistics.stdev(A):.4g} ", shown)
        self.assertEqual(self.compare(*words, "--deviation-of=population"), self.compare(*words))

    def test_interval(self):
        # SciPy 1.11: ttest_ind(A, B, equal_var=False).confidence_interval(0.95), and ppf.
        found = self.compare(*map(str, A), "against", *map(str, B), "--better=lower")
        self.assertEqual((found["t"], found["degrees"], found["p"]), tuple(found["population"].values()))
        error, degrees = 0.13 / found["t"], found["degrees"]
        self.assert_near("error", error, (statistics.variance(A) / 4 + statistics.variance(B) / 4)**0.5, 1e-14)
        low, high = found["interval"]["low"], found["interval"]["high"]
        self.assertEqual(found["interval"]["confidence"], 0.95)
        self.assert_near("middle", (low + high) / 2, -0.13, 1e-14)
        # At the end of the interval, the one-sided p is 0.025.
        moved = [str(x - high) for x in A]
        self.assert_near("p", self.compare("--better=lower", "--", *moved, "against", *map(str, B))["p"],
                         0.025, 1e-12)
        # t_0.8 of printed tables is 0.9195 for 5 degrees, 0.9057 for 6; between them, linear in 1/degrees.
        quantile = (found["detectable_difference"] - (high - low) / 2) / error
        self.assert_near("t_0.8", quantile, 0.9088, 2e-4)
        paired = self.compare("--better=lower", "--test=paired", "--", *map(str, SLEEP[0]), "against",
                              *map(str, SLEEP[1]))  # R: t.test(extra ~ group, paired = TRUE)
        self.assert_near("low", paired["interval"]["low"], -2.4598858, 1e-7)
        self.assert_near("high", paired["interval"]["high"], -0.7001142, 1e-7)
        one = self.compare("--better=higher", "--reference=4.6", *map(str, A))["interval"]
        self.assert_near("middle", (one["low"] + one["high"]) / 2, statistics.fmean(A) - 4.6, 1e-14)
        self.assertIsNone(self.compare(*map(str, A)).get("interval"))

    def test_findings(self):
        def finding(a, b, better, *more):
            return self.compare("--better", better, *more, "--", *map(str, a), "against", *map(str, b))["finding"]
        self.assertRegex(finding(A, B, "lower"), r"^A is lower than B: 0\.13 less \(95% interval 0\.029\d* to 0\.23\d*, "
                         r"one-sided p = 0\.01, 4 and 4 runs\)\.$")
        self.assertRegex(finding(A, B, "higher"), r"^A is lower .* p = 0\.99, 4 and 4 runs\), which is worse\.$")
        self.assertRegex(finding(B, A, "higher", "--names=new,old"), r"^new is higher than old: 0\.13 more .*\)\.$")
        # SciPy: two-sided p = 0.0794 for Student's patients; 0.0397 one-sided.
        self.assertRegex(finding(SLEEP[0], SLEEP[1], "lower"),
                         r"^A may be lower than B, but the interval contains 0: 1\.58 less \(95% interval -0\.20\d* to "
                         r"3\.3\d*, one-sided p = 0\.04, 10 and 10 runs\)\. In four of five .* of 2\.\d would be seen\.$")
        self.assertRegex(finding(SLEEP[0], SLEEP[1], "higher"), r"^No difference was seen between A and B: ")
        logs = [*self.logs("dnas", A), "against", *self.logs("unas", B), "--metric=valid.perplexity"]
        text = self.run_tool("seed-test", *logs, "--better=lower").out.decode()
        self.assertIn("\n\ndnas has a lower valid.perplexity than unas: 0.13 less ", text)
        self.assertIn("4 and 4 seeds).\n", text)
        self.assertRegex(self.compare(*logs, "--better=lower", "--test=paired")["finding"], "4 pairs")
        one = self.compare(*map(str, A), "--reference=4.6", "--better=higher")["finding"]
        self.assertRegex(one, r"^A is higher than 4\.6: 0\.11[23] more .*, 4 runs\)\.$")

    def test_groups_are_called_by_their_files(self):
        def names(*sides):
            words = []
            for side in sides:
                words += ["against"] * bool(words)
                for n, name in enumerate(side):
                    (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                    words.append(self.log(name, [1.0 + n], n))
            found = self.compare(*words, "--metric=valid.perplexity", "--better=lower", "--test=one-sample")
            return [found[side]["name"] for side in "ab"]
        for a, b, expected in (
                (["r/dnas-0.jsonl", "r/dnas-1.jsonl"], ["r/unas-0.jsonl", "r/unas-1.jsonl"], ["dnas", "unas"]),
                (["x-seed-10.jsonl", "x-seed-11.jsonl"], ["y_10.jsonl", "y_11.jsonl"], ["x", "y"]),
                (["p/0.jsonl", "p/1.jsonl"], ["q/seed0.log", "q/seed1.log"], ["p", "q"]),
                (["0/p.jsonl", "1/p.jsonl"], ["0/q.jsonl", "1/q.jsonl"], ["p", "q"]),
                (["h-0.5-1.jsonl", "h-0.5-2.jsonl"], ["h-0.7-1.jsonl", "h-0.7-2.jsonl"], ["h-0.5", "h-0.7"]),
                (["0.jsonl", "1.jsonl"], ["2.jsonl", "3.jsonl"], ["A", "B"]),
                (["s-0.jsonl", "s-1.jsonl"], ["s-2.jsonl", "s-3.jsonl"], ["A", "B"])):
            with self.subTest(a=a, b=b):
                self.assertEqual(names(a, b), expected)
        row = self.run_tool("seed-test", "--tsv", *self.logs("a", A), "against", *self.logs("b", B),
                            "--metric=valid.perplexity", "--better=lower", "--names=new,old").out.decode()
        found = next(csv.DictReader(io.StringIO(row), delimiter="\t"))
        self.assertEqual((found["name_a"], found["name_b"]), ("new", "old"))
        self.assertEqual(float(found["interval_high"]),
                         self.compare(*map(str, A), "against", *map(str, B), "--better=lower")["interval"]["high"])

    def test_better_of_each_metric(self):
        words = [*self.logs("a", A), "against", *self.logs("b", B), "--metric=valid.perplexity,step", "--at=best",
                 "--test=one-sample"]
        self.refuse(*words, "--better=step=higher", status=2,
                    says=["--better does not say which valid.perplexity is better"])
        self.refuse(*words, "--better=loss=lower", status=2, says=["--better has loss, which is not among"],
                    hint="--metric valid.perplexity,step")
        self.refuse(*words, "--better=step=less", status=2, says=["--better has less, expected lower or higher"])
        self.refuse(*words, "--better=step=lower,step=lower", status=2, says=["--better does not say"])
        self.refuse(*words, "--better=valid.perplexity=lower,step=lower,step=lower", status=2, says=["has step twice"])
        self.refuse(*words, "--better=less", status=2, says=["--better has less, expected lower or higher"])
        self.refuse(*words, "--better=,", status=2, says=["--better has ,"])
        found = self.compare(*self.logs("a", A), "--metric=valid.perplexity,valid.accuracy", "--at=best",
                             "--better=valid.accuracy=higher,valid.perplexity=lower")
        self.assertEqual([one["a"]["values"] for one in found], [A, [1.0] * 4])

    TABLE = [("scheme", "layers", "seed", "loss", "valid.accuracy"), ("dnas", "1", "3", "1.5", "0.5"),
             ("unas", "1", "4", "2.5", "0.25"), ("dnas", "1", "4", "1.25", "0.75"), ("unas", "1", "3", "2", ".5"),
             ("fenchel, own", "2", "", "7", "")]

    def table(self, name="runs.csv", separator=",", end="\r\n"):
        text = io.StringIO()
        csv.writer(text, delimiter=separator, lineterminator=end).writerows(self.TABLE)
        (self.folder / name).write_text(text.getvalue(), newline="")
        return name

    def test_a_table_of_runs(self):
        for name, separator, end in (("runs.csv", ",", "\r\n"), ("runs", "\t", "\n")):
            words = ["--table", self.table(name, separator, end), "dnas", "against", "unas"]
            loss, accuracy = self.compare(*words, "--metric=loss,valid.accuracy",
                                          "--better=loss=lower,valid.accuracy=higher")
            self.assertEqual((loss["a"]["values"], loss["a"]["seeds"], loss["a"]["name"]), ([1.5, 1.25], [3, 4], "dnas"))
            self.assertEqual((loss["b"]["values"], loss["b"]["name"]), ([2.5, 2], "unas"))
            self.assertEqual(loss["a"]["runs"], [f"{name}:2", f"{name}:4"])
            self.assertEqual((loss["better"], accuracy["better"]), ("lower", "higher"))
            self.assertEqual(loss["t"], self.compare("1.5", "1.25", "against", "2.5", "2", "--better=lower")["t"])
            said = self.run_tool("seed-test", *words, "--metric=loss,valid.accuracy", "--better=lower").err
            self.assertIn("valid.accuracy is usually better if it is higher, and p is of the other direction", said)
            self.assertEqual(said.count("usually better"), 1)
            paired = self.compare(*words, "--metric=loss", "--better=lower", "--test=paired")
            self.assertEqual(paired["differences"]["values"], [-0.5, -1.25])
        one = self.compare("--table", self.table(), "--metric=loss", "fenchel, own")["a"]
        self.assertEqual((one["values"], one["name"]), ([7], "fenchel, own"))
        by = self.compare("--table", self.table(), "--metric=loss", "--by=layers", "2", "--names=two")["a"]
        self.assertEqual((by["values"], by["name"]), ([7], "two"))

    def test_a_table_without_what_is_asked(self):
        words = ["--table", self.table(), "--metric=loss"]
        self.refuse(*words, "dnaz", status=3, says=["runs.csv: no row has dnaz in the column scheme"],
                    hint="it has dnas, fenchel, own, unas")
        self.refuse(*words, "dnas", "--by=task", status=3, says=["runs.csv: there is no column task"],
                    hint="it has scheme, layers, seed, loss, valid.accuracy")
        self.refuse("--table=runs.csv", "dnas", "--metric=accuracy", status=3, says=["there is no column accuracy"])
        self.refuse("--table=runs.csv", "dnas", status=2, says=["--metric is missing: what to compare of the table"])
        self.refuse(*words, "dnas", "against", "unas", "dnas", "--better=lower", status=2,
                    says=["dnas is compared with itself"])
        self.refuse(*words, "dnas", "dnas", status=3, says=["runs.csv:2 is given twice"])
        self.refuse(*words, "dnas", "unas", status=3, says=["runs.csv:4 and runs.csv:3 are runs of one seed, 4"])
        self.refuse("--table=runs.csv", "fenchel, own", "--metric=valid.accuracy", status=3,
                    says=["runs.csv:6: no line has valid.accuracy"])
        self.refuse(*words, "2", "--by=layers", "--names=a,b", status=2, says=["--names has 2 names, expected 1"])
        self.refuse("dnas", "--by=scheme", "--metric=loss", status=2, says=["--by has no effect without --table"])
        self.refuse("--table=none.csv", "dnas", "--metric=loss", status=3, says=["no such file: none.csv"])
        for text, says in (("", "is empty"), ("a,b\n", "has a header only"), ("a,a\n1,2\n", "have one name"),
                           ("a,b\n\n1,2,3\n", "line 3 has 3 cells, the header has 2"),
                           ('a,b\n1,"2\n', "line 2: a quote does not end"), ("loss\nlow\n", 'loss is "low"'),
                           ("loss\n1e999\n", 'loss is "1e999"')):
            with self.subTest(text=text):
                (self.folder / "bad.csv").write_text(text)
                self.refuse("--table=bad.csv", "--metric=loss" if "loss" in text else "--metric=a",
                            text.split("\n")[1] if "loss" in text else "1", status=3, says=["bad.csv", says])

    def test_logs_that_are_tables(self):
        (self.folder / "own-1.csv").write_text("\ufeffstep,loss,valid/loss,seed\n1,3,,7\n2,2.5,2.75,7\n\n3,2,,7\n")
        (self.folder / "own-2.TSV").write_text('step\tloss\t"valid/loss"\tseed\n2\t1.5\t1.25\t8\n')
        found = self.compare("own-1.csv", "own-2.TSV", "--metric=loss,valid/loss")
        self.assertEqual([one["a"]["values"] for one in found], [[2, 1.5], [2.75, 1.25]])
        self.assertEqual((found[0]["a"]["name"], found[0]["a"]["seeds"]), ("own", [7, 8]))
        best = self.compare("own-1.csv", "own-2.TSV", "--metric=loss", "--at=best", "--better=higher")
        self.assertEqual(best["a"]["values"], [3, 1.5])
        (self.folder / "own.jsonl").write_text('{"seed": 4, "steps": 9, "loss": 1}\n{"loss": 2}\n')
        self.assertEqual(self.compare("own.jsonl", "--metric=loss")["a"]["values"], [2])
        self.assertEqual(self.compare("own.jsonl", "--metric=loss")["a"]["seeds"], [4])
        self.refuse("own-1.csv", "--metric=accuracy", status=3, says=["own-1.csv: no line has accuracy"],
                    hint="it has loss, seed, step, valid/loss")

    def refuse(self, *words, **more):
        self.refused("seed-test", *words, output=None, **more)

    def test_bad_logs(self):
        metric = "--metric=valid.perplexity"
        good = self.log("good.jsonl", [1.0], 1)
        self.refuse(good, "--metric=valid.perplexty", status=3, says=["good.jsonl: no line has valid.perplexty"],
                    hint="it has loss, step, valid.accuracy, valid.perplexity")
        self.refuse(good, "--metric=valid", status=3, says=["line 3: valid is {"])
        self.refuse(good, status=2, says=["--metric is missing"])
        self.refuse("none.jsonl", metric, status=3, says=["no such file: none.jsonl"])
        self.refuse(".", metric, status=3, says=[". is a folder, expected a log of attn-train"])
        self.refuse(self.log("same.jsonl", [2.0], 1), good, metric, status=3, says=["are runs of one seed, 1"])
        self.refuse(good, good, metric, status=3, says=["good.jsonl is given twice"],
                    hint="the word against stands between two groups")
        (self.folder / "seedless.jsonl").write_text('{"loss": 2.0}\n')
        self.refuse("seedless.jsonl", "./seedless.jsonl", "--metric=loss", status=3,
                    says=["seedless.jsonl and ./seedless.jsonl are one file"])
        self.refuse(self.log("early.jsonl", [2.0], 2, steps=490), metric, status=3,
                    says=["early.jsonl: the run is at step 50 of 490"])
        for text, says in (("", "is empty"), ("{}\n[1]\n", "line 2 is no JSON object"),
                           ('{"steps": 1}\n{"step": 1, "l', "line 2 is no JSON object"), ("\n", "line 1 is no"),
                           ('{"a": 1}\n{"valid": {"perplexity": null}}\n', "valid.perplexity is null"),
                           ('{"a": 1}\n{"valid": {"perplexity": "x"}}\n', 'valid.perplexity is "x"'),
                           ('{"a": 1}\n{"valid": {"perplexity": 1e999}}\n', "line 2 is no JSON object"),
                           ('{"a": 1}\n{"a": [-Infinity]}\n', "line 2 has Infinity, which is no JSON number"),
                           ('{"valid": {"perplexity": NaN}}\n', "line 1 has NaN, which is no JSON number"),
                           ("\x89HDF\r\n", "line 1 is no JSON object")):
            with self.subTest(text=text):
                (self.folder / "bad.jsonl").write_text(text)
                self.refuse("bad.jsonl", metric, status=3, says=["bad.jsonl", says])
        # NaN anywhere keeps a run from being the best; the last value alone counts otherwise.
        (self.folder / "bad.jsonl").write_text('{"loss": null}\n{"loss": 2.0}\n')
        self.assertEqual(self.compare("bad.jsonl", "--metric=loss")["a"]["values"], [2])
        self.refuse("bad.jsonl", "--metric=loss", "--at=best", "--better=lower", status=3,
                    says=["line 1: loss is null"])

    def test_too_little(self):
        for words, status, says in (
                (["1", "against", "2", "3", "--better=lower"], 3, "A has 1 run, expected at least 2"),
                (["1", "2", "against", "2", "--better=lower"], 3, "B has 1 run, expected"),
                (["1", "1", "against", "2", "2", "--better=lower"], 4, "the deviation is 0"),
                (["--means=1,2", "--deviations=1,1", "--counts=1", "--better=lower"], 3, "A has 1 run"),
                (["--means=1", "--deviations=0", "--counts=3", "--better=lower", "--reference=2"], 4,
                 "deviation is 0"),
                (["1e308", "-1e308"], 2, "unknown option"), (["--", "1e308", "-1e308"], 3, "beyond float64")):
            with self.subTest(words=words):
                self.refuse(*words, status=status, says=[says])

    def test_usage(self):
        log = self.log("a.jsonl", [1.0])
        for words, says in (
                ([], "no runs are given"), (["against", "1"], "no runs before against"),
                (["1", "against"], "no runs after against"), (["1", "2", "vs", "3"], "unexpected word vs"), (["1", "against", "2", "against", "3"],
                                                              "one word against"),
                (["1", "2", "against", "3", "4"], "--better is missing"),
                (["1", "2", "--reference=3"], "--better is missing"),
                (["1", "2", "--test=welch"], "--test has no effect without B"),
                (["1", "2", "--better=lower"], "--better has no effect without B and --reference"),
                (["1", "2", "--reference=3", "--test=paired", "--better=lower"], "--test paired needs B"),
                (["1", "2", "against", "3", "--reference=3", "--better=lower"], "both B and --reference"),
                (["1", log, "--metric=loss"], "both numbers and logs"),
                (["1", "--metric=loss"], "--metric has no effect"),
                (["1", "--counts=3"], "--counts has no effect without --means"),
                (["1", "--means=3", "--deviations=1", "--counts=3"], "both runs and --means"),
                (["--means=1,2", "--deviations=1", "--counts=3", "--better=lower"], "--deviations has 1 number,"),
                (["--means=1,2", "--deviations=1,1", "--better=lower"], "--counts has 0 numbers"),
                (["--means=1,2,3", "--deviations=1,1,1", "--counts=3", "--better=lower"], "--means has 3 numbers"),
                (["--means=1,2", "--deviations=1,1", "--counts=3", "--better=lower", "--test=paired"],
                 "needs runs"),
                (["--means=1", "--deviations=-1", "--counts=3"], "--deviations lists -1"),
                (["1", "nan"], None)):
            with self.subTest(words=words):
                self.refuse(*words, status=2 if says else 3, says=[says or "no such file: nan"])


if __name__ == "__main__":
    unittest.main()
