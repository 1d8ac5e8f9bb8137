"""attn-train: recipes, runs that go on, checkpoints, logs, and what is refused."""

import json
import math
import os
import random
import resource
import signal
import subprocess
import time
import unittest

import h5py
import numpy as np

from attn import BIN, SANITIZED, SOURCE, TIMEOUT, ToolTest

PROSE = SOURCE / "data/prose.txt"
RECIPE = f"""
[data]
text = "{PROSE}"
length = 16
[model]
layers = 2
width = 12
heads = 2
inner = 10
[objective]
kind = "causal"
[run]
steps = 12
batch = 9
log-every = 3
evaluate-every = 6
checkpoint-every = 4
dropout = 0.1
weight-dropout = 0.1
"""


class TrainTest(ToolTest):

    def setUp(self):
        super().setUp()
        self.environment["SOURCE_DATE_EPOCH"] = "1700000000"
        (self.folder / "r.toml").write_text(RECIPE)

    def train(self, *words, output="run.h5", **more):
        return self.run_tool("attn-train", "r.toml", "-o", output, *words, **more)

    def settings(self, **values):
        """--set for keys whose dots are double underscores and whose dashes are single ones."""
        words = []
        for key, value in values.items():
            words += ["--set", key.replace("__", ".").replace("_", "-") + f"={value}"]
        return words

    def bytes_of(self, name):
        return (self.folder / name).read_bytes()

    def log(self, name):
        """The lines of a log, without what the clock says."""
        lines = [json.loads(line) for line in (self.folder / name).read_text().splitlines()]
        for line in lines:
            line.pop("seconds", None)
            line.pop("tokens_per_s", None)
        return lines


class Runs(TrainTest):

    def test_loss_falls(self):
        self.train("--log", "run.jsonl", *self.settings(run__steps=120, schedule__rate=0.01))
        header, *lines = self.log("run.jsonl")
        self.assertEqual(header["schema"], "attnkit-log/1")
        self.assertEqual(header["recipe"]["model.width"], 12)
        self.assertEqual(header["steps"], 120)
        self.assertLess(lines[-1]["loss"], lines[0]["loss"] - 0.3)
        self.assertEqual([line["step"] for line in lines], list(range(3, 121, 3)))
        evaluated = [line for line in lines if "valid" in line]
        self.assertEqual([line["step"] for line in evaluated], list(range(6, 121, 6)))
        self.assertEqual([line["step"] for line in lines if "test" in line], [120])
        for line in evaluated:
            valid = line["valid"]
            self.assertAlmostEqual(valid["perplexity"], math.exp(valid["loss"]), delta=1e-9)
            self.assertAlmostEqual(valid["bits_per_character"], valid["loss"] / math.log(2), delta=1e-12)
            self.assertEqual([one["group"] for one in line["attention"]], ["layer0", "layer1"])

    def test_no_bit_depends_on_threads(self):
        for threads in (1, 3):
            self.train("--threads", threads, "--set", "decoder.self.scheme=hnas", "--allow-leak",
                       output=f"{threads}.h5")
        one, three = self.read("1.h5"), self.read("3.h5")
        self.assert_same_bits(three, one, [name for name in one if name != "vocabulary"])

    def test_seeds_and_schemes_differ(self):
        self.train(output="one.h5")
        self.train("--set", "seed=2", output="two.h5")
        self.assertFalse(np.array_equal(self.read("one.h5")["layer0/wq"], self.read("two.h5")["layer0/wq"]))

    def test_masked(self):
        self.train("--log", "run.jsonl",
                   *self.settings(objective__kind="masked", objective__order="true",
                                  encoder__self__scheme="hnas", encoder__self__hybrid_by="head",
                                  encoder__self__hybrid=0.3))
        last = self.log("run.jsonl")[-1]
        self.assertIn("order_accuracy", last["valid"])
        self.assertNotIn("perplexity", last["valid"])
        shares = last["attention"][1]["u"]
        self.assertEqual(len(shares), 2)
        self.assertTrue(all(0.2 < u < 0.4 for u in shares), shares)
        bundle = self.read("run.h5")
        self.assert_near("hybrid", bundle["layer1/hybrid"], shares, 0)

    def test_tokens(self):
        for tokens, size in (("words", 300), ("byte-pairs", 200)):
            with self.subTest(tokens=tokens):
                self.train(*self.settings(data__tokens=tokens, data__vocabulary=size), output=f"{tokens}.h5")
                bundle = self.read(f"{tokens}.h5")
                self.assertEqual(len(bundle["vocabulary"]), size)
                self.assertEqual("vocabulary_merges" in bundle, tokens == "byte-pairs")

    def test_steps_in_paths(self):
        self.train("--log", "run.jsonl",
                   *self.settings(optimizer__rule="sgd", optimizer__paths="decoder.self",
                                  optimizer__start="ones", schedule__rate=0.1))
        line = self.log("run.jsonl")[1]
        self.assertLess(line["least_ratio"], line["largest_ratio"])
        self.assertGreater(line["least_ratio"], 0)

    def test_rescaled_starts(self):
        """In paths the losses do not depend on a rescaled start, with powers of two to the last bit."""
        settings = self.settings(precision="f64", optimizer__rule="sgd", schedule__rate=0.5,
                                 run__dropout=0, run__weight_dropout=0, run__log_every=1,
                                 optimizer__start_of="decoder.self", optimizer__start="ones",
                                 run__steps=150)
        losses = {}
        for paths in ("", "decoder.self"):
            for rescale in ("none", "powers", "factors"):
                self.train("--force", "--log", "run.jsonl", "--set", f"optimizer.paths={paths}",
                           "--set", f"optimizer.rescale={rescale}", *settings)
                losses[paths, rescale] = [line["loss"] for line in self.log("run.jsonl")[1:]]
        own, plain = "decoder.self", ""
        self.assertEqual(losses[own, "powers"], losses[own, "none"])
        # Rounding, grown by 150 steps; a unit test has 200.
        self.assert_near("losses", losses[own, "factors"], losses[own, "none"], 1e-9)
        apart = np.abs(np.subtract(losses[plain, "factors"], losses[plain, "none"]))
        self.assertGreater(apart.max(), 1e-4)


class Pairs(TrainTest):

    def write_pairs(self):
        """Words and their reverse."""
        words = sorted({word for word in PROSE.read_text().lower().split() if word.isalpha()})
        random.Random(1).shuffle(words)
        for name, part in (("train", words[:-40]), ("valid", words[-40:-20]), ("test", words[-20:])):
            (self.folder / f"{name}.tsv").write_text("".join(f"{word}\t{word[::-1]}\n" for word in part))

    def setUp(self):
        super().setUp()
        self.write_pairs()
        recipe = RECIPE.replace(f'text = "{PROSE}"', 'train = "train.tsv"\nvalid = "valid.tsv"\ntest = "test.tsv"')
        (self.folder / "r.toml").write_text(recipe.replace('"causal"', '"pairs"'))

    def test_groups_and_metrics(self):
        self.train("--log", "run.jsonl", *self.settings(encoder__self__scheme="dnas", objective__beam=2))
        last = self.log("run.jsonl")[-1]
        self.assertLessEqual({"character_error_rate", "word_accuracy", "bleu", "rouge_1", "rouge_2",
                              "rouge_l"}, last["test"].keys())
        bundle = self.read("run.h5")
        for group in ("encoder/layer0/self", "decoder/layer1/self", "decoder/layer1/cross"):
            self.assertEqual(bundle[f"{group}/wq"].shape, (2, 12, 6))
            self.assertEqual(bundle[f"{group}/wo"].shape, (12, 12))
        self.assertEqual(bundle.attributes_of["decoder/layer0/self"]["attn_causal"], "top-left")
        self.assertIn("<s>", bundle["target_vocabulary"])

    def test_schemes_that_leak(self):
        leaks = ["--set", "decoder.cross.scheme=dnas"]
        self.refused("attn-train", "r.toml", *leaks, status=2, says=["decoder.cross.scheme"], hint="--allow-leak")
        self.train("--allow-leak", "--log", "run.jsonl", *leaks)
        self.assertNotIn("bleu", self.log("run.jsonl")[-1]["test"])  # no output can be generated

    def test_columns(self):
        (self.folder / "bad.tsv").write_text("a\tb\nc\n")
        self.refused("attn-train", "r.toml", "--set", "data.valid=bad.tsv", status=3,
                     says=["bad.tsv:2", "two columns"])
        (self.folder / "bad.tsv").write_text("a\tb\n\tc\n")
        self.refused("attn-train", "r.toml", "--set", "data.valid=bad.tsv", status=3,
                     says=["bad.tsv:2", "first column is empty"])


class Questions(TrainTest):

    RECIPE = """
[data]
train = "train.h5"
valid = "valid.h5"
test = "test.h5"
[model]
width = 6
heads = 2
inner = 5
[objective]
kind = "questions"
[run]
steps = 4
batch = 5
keep-inputs = true
"""

    def setUp(self):
        super().setUp()
        (self.folder / "r.toml").write_text(self.RECIPE)
        for seed, name in enumerate(("train", "valid", "test")):
            self.scenes(f"{name}.h5", "--seed", seed)

    def scenes(self, name, *words):
        self.run_tool("tensor-gen", "scenes", "--scenes", 12, "--features", 6, "--force", "-o", name, *words)

    def test_every_scheme(self):
        for scheme in ("none", "unas", "dnas", "hnas", "sinkhorn", "em"):
            with self.subTest(scheme=scheme):
                self.train("--force", "--log", "run.jsonl", *self.settings(views__scheme=scheme, views__iterations=2))
                last = self.log("run.jsonl")[-1]
                self.assertLessEqual({"accuracy", "accuracy_colour", "accuracy_count"}, last["test"].keys())
                groups = [one["group"] for one in last["attention"]]
                self.assertEqual(groups, [] if scheme == "none" else ["views/view1", "views/view2"])
                bundle = self.read("run.h5")
                if scheme != "none":
                    self.assertEqual(bundle["views/wk2"].shape, (2, 6, 3))
                    self.assertEqual(bundle.attributes_of["views"]["train_scheme"], scheme)
                    self.assertEqual(bundle["views/view1/col_sum"].min(), last["attention"][0]["least_column_sum"])

    def test_detectors(self):
        self.scenes("valid.h5", "--seed", 1, "--map-seed", 5)
        self.refused("attn-train", "r.toml", status=3, says=["valid.h5 has other detectors or objects than train.h5"],
                     hint="--map-seed")
        self.scenes("valid.h5", "--seed", 1, "--objects", 5)
        self.refused("attn-train", "r.toml", status=3, says=["valid.h5 has other detectors or objects"])

    def test_data(self):
        self.refused("attn-train", "r.toml", "--set", "model.width=4", status=2,
                     says=["model.width is 4", "have 6 features"])
        self.write("bad.h5", q=[1.0])
        self.refused("attn-train", "r.toml", "--set", "data.train=bad.h5", status=3, says=["bad.h5"])
        (self.folder / "text.txt").write_text("no bundle")
        self.refused("attn-train", "r.toml", "--set", "data.train=text.txt", status=3, says=["text.txt"])
        self.refused("attn-train", "r.toml", "--set", "data.tokens=words", status=2,
                     says=["data.tokens", "does not go with", "questions"])


class Interrupted(TrainTest):

    COMMAND = ["attn-train", "r.toml", "-o", "run.h5", "--log", "run.jsonl", "--set", "run.steps=100"]

    def setUp(self):
        super().setUp()
        begun = time.monotonic()
        self.run_tool(*self.COMMAND)
        self.seconds = time.monotonic() - begun
        self.whole = self.outcome()
        self.remove()

    def outcome(self):
        return self.bytes_of("run.h5"), self.log("run.jsonl")

    def remove(self):
        for name in ("run.h5", "run.previous.h5", "run.jsonl"):
            (self.folder / name).unlink(missing_ok=True)

    def interrupted(self, number, seconds):
        """The exit status of a run that gets a signal after some time."""
        command = [str(BIN / self.COMMAND[0]), *self.COMMAND[1:]]
        with subprocess.Popen(command, cwd=self.folder, env=self.environment,
                              stderr=subprocess.PIPE) as process:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(number)
            process.communicate(timeout=TIMEOUT)
            return process.returncode

    def test_killed_at_random_moments(self):
        moments, kills, tries = random.Random(2), 0, 0
        while kills < 20:
            status = self.interrupted(signal.SIGKILL, moments.uniform(0, self.seconds / 2))
            tries += 1
            self.assertLess(tries, 200)
            kills += status == -signal.SIGKILL
            for name in os.listdir(self.folder):
                if name.endswith(".tmp"):  # a killed process cannot remove its temporary
                    (self.folder / name).unlink()
            if status == 0:
                self.assertEqual(self.outcome(), self.whole)
                self.remove()
        self.run_tool(*self.COMMAND)
        self.assertEqual(self.outcome(), self.whole)

    def test_stopped(self):
        for number in (signal.SIGTERM, signal.SIGUSR1):
            with self.subTest(signal=number):
                status, tries = 0, 0
                # Before its handlers are set, a signal ends the process; late, it is finished.
                while status != 75 and tries < 60:
                    self.remove()
                    status = self.interrupted(number, self.seconds * (tries % 20 + 1) / 20)
                    tries += 1
                self.assertEqual(status, 75)
                done = self.run_tool(*self.COMMAND)
                self.assertIn("goes on from step", done.err)
                self.assertEqual(self.outcome(), self.whole)


class Existing(TrainTest):

    def test_finished(self):
        self.train()
        before = self.bytes_of("run.h5")
        done = self.train()
        self.assertIn("run.h5 is finished: 12 steps", done.err)
        self.assertEqual(self.bytes_of("run.h5"), before)

    def test_others_are_refused(self):
        self.train()
        before = self.bytes_of("run.h5")
        for setting, says in (("seed=7", "seed is 1 there and 7 here"), ("model.heads=3", "model.heads")):
            self.refused("attn-train", "r.toml", "--set", setting, status=5, output="run.h5",
                         says=["run.h5 exists", says], hint="--force")
        (self.folder / "other.txt").write_text(PROSE.read_text()[1:])
        self.refused("attn-train", "r.toml", "--set", "data.text=other.txt", status=5, output="run.h5",
                     says=["other data"])
        self.write("bundle.h5", q=[1.0])
        self.refused("attn-train", "r.toml", status=5, output="bundle.h5", says=["no run of attn-train"])
        self.assertEqual(self.bytes_of("run.h5"), before)
        self.train("--force", "--set", "seed=7")
        self.assertNotEqual(self.bytes_of("run.h5"), before)
        self.assertEqual(self.bytes_of("run.previous.h5")[:8], before[:8])

    def test_same_data_elsewhere(self):
        """The contents of the data count, not their names."""
        self.train()
        (self.folder / "copy.txt").write_bytes(PROSE.read_bytes())
        self.assertIn("is finished", self.train("--set", "data.text=copy.txt").err)

    def begun(self):
        """A run whose first checkpoint is there, as a full log ends it."""
        self.train("--log", "/dev/full", status=5)

    def test_existing_log(self):
        (self.folder / "mine.txt").write_text("mine\n" * 9)
        for state in ("new", "begun"):
            with self.subTest(state=state):
                if state == "begun":
                    self.begun()
                self.refused("attn-train", "r.toml", "--log", "mine.txt", status=5, output="run.h5",
                             says=["mine.txt exists"])
                self.assertEqual((self.folder / "mine.txt").read_text(), "mine\n" * 9)
        self.train("--set", "seed=5", "--log", "other.jsonl", output="other.h5")
        self.refused("attn-train", "r.toml", "--log", "other.jsonl", status=5, output="run.h5",
                     says=["other.jsonl exists and is not the log of this run"])

    def test_log_is_cut_back_by_step(self):
        self.train("--log", "whole.jsonl", output="whole.h5")
        whole = (self.folder / "whole.jsonl").read_text()
        self.begun()
        (self.folder / "run.jsonl").write_text(whole + '{"half": ')  # as if killed while writing
        self.train("--log", "run.jsonl")
        self.assertEqual(self.log("run.jsonl"), self.log("whole.jsonl"))

    def test_damage(self):
        self.begun()
        with h5py.File(self.folder / "run.h5", "a") as file:
            file["layer1/wk"][0, 0, 0] += 1
        self.refused("attn-train", "r.toml", status=3, output="run.h5", says=["run.h5 is damaged"],
                     hint="run.previous.h5")


class Checkpoints(TrainTest):

    def test_other_tools_read_them(self):
        self.train(*self.settings(objective__kind="masked", run__keep_inputs="true", optimizer__rule="sgd",
                                  optimizer__paths="encoder.self", optimizer__start="ones",
                                  schedule__rate=0.01))
        report = self.run_tool("explain-away-stats", "run.h5", "--from", "projection", "--each", "/layer*",
                               "--scheme", "unas,dnas", "--json").json()
        groups = report["result"]["groups"]
        self.assertEqual([group["group"] for group in groups], ["layer0", "layer1"])
        self.run_tool("lambda-solve", "run.h5:/layer0", "--from", "projection", "--only", "-o", "dual.h5")
        self.run_tool("basis-paths", "check", "run.h5:/layer1")
        self.run_tool("attn-compute", "run.h5", "--from", "projection", "--each", "/layer*", "--scheme",
                      "dnas", "--emit", "out", "--only", "-o", "out.h5")

    def test_figures_of_attention(self):
        """Column sums in the log are those that explain-away-stats finds from the checkpoint."""
        self.train("--log", "run.jsonl",
                   *self.settings(objective__kind="masked", run__keep_inputs="true",
                                  encoder__self__scheme="dnas"))
        logged = self.log("run.jsonl")[-1]["attention"]
        report = self.run_tool("explain-away-stats", "run.h5", "--from", "projection", "--each", "/layer*",
                               "--scheme", "dnas", "--json").json()
        for one, group in zip(logged, report["result"]["groups"], strict=True):
            found = group["dnas"]["col_sum"]["min"] if "dnas" in group else group["schemes"]["dnas"]["col_sum"]["min"]
            # Both compute q and k in float32, in other orders.
            self.assertAlmostEqual(one["least_column_sum"], found, delta=1e-4 * found)


class Refused(TrainTest):

    def recipe(self, text):
        (self.folder / "r.toml").write_text(text)

    def test_recipes(self):
        cases = {
            "model.widht = 3": ["r.toml:1", "model.widht", "no key"],
            "[model]\nwidth = 2.5": ["r.toml:2", "model.width", "expected an integer"],
            "[model]\nwidth = 'a'": ["r.toml:2", "model.width", "expected an integer"],
            "[model]\nwidth = 0": ["r.toml:2", "in [1, 1000000000]"],
            "seed = true": ["r.toml:1", "seed is true"],
            "seed = 1979-05-27": ["r.toml:1", "seed", "another type"],
            "precision = 'f16'": ["r.toml:1", "one of f32, f64"],
            "[schedule]\nrate = nan": ["r.toml:2", "schedule.rate"],
            "[optimizer]\npaths = ['decoder']": ["r.toml:2", "a list of"],
            "[data]\ntext = ['a']": ["r.toml:2", "a file"],
            "[[data]]\ntext = 'a'": ["r.toml:1", "data"],
            "seed = ": ["r.toml:1"],
        }
        for text, says in cases.items():
            with self.subTest(recipe=text):
                self.recipe(text)
                self.refused("attn-train", "r.toml", status=3, says=says)
        self.refused("attn-train", "none.toml", status=3, says=["none.toml"])

    def test_settings(self):
        cases = {
            "model.widht=3": (["model.widht", "no key"], "model.width"),
            "model.width": (["model.width", "KEY=VALUE"], None),
            "model.width=": (["model.width"], None),
            "model.width=2.5": (["is 2.5, expected an integer"], None),
            "schedule.rate=inf": (["is inf, expected a number"], None),
            "run.dropout=1": (["[0, 1)"], None),
            "data.line-ends=yes": (["true or false"], None),
            "model.heads=5": (["model.heads", "does not divide"], None),
            "optimizer.paths=encoder.self": (["encoder.self", "lacks"], None),
            "decoder.self.scheme=dnas": (["later tokens"], "--allow-leak"),
            "run.epochs=2": (["run.steps", "both given"], None),
            "schedule.warm-up=13": (["12 steps"], None),
            "optimizer.momentum=0.9": (["sgd only"], None),
            "objective.order=true": (["does not go with", "only with masked"], None),
            "data.tokens=byte-pairs": (["data.vocabulary"], None),
            "data.train=x.txt": (["both given"], None),
            "optimizer.start=ones": (["no attention is named"], "optimizer.start-of"),
            "run.batch=2000000000": (["[1, 1000000000]"], None),
            "data.split=1e308,1e308,1e308": (["data.split"], None),
        }
        for setting, (says, hint) in cases.items():
            with self.subTest(setting=setting):
                inputs = ("run.epochs=2", "data.tokens=byte-pairs")  # the other key is in the file
                self.refused("attn-train", "r.toml", "--set", setting, status=3 if setting in inputs else 2,
                             says=says, hint=hint)
        self.refused("attn-train", "r.toml", "--set", "seed=1", "--set", "seed=2", status=2, says=["twice"])
        self.refused("attn-train", "r.toml", "--set", "optimizer.rule=lamb", "--set",
                     "optimizer.paths=decoder.self", status=2, says=["lamb"])

    def test_names_that_coincide(self):
        before = self.bytes_of("r.toml")
        for words, says in ((["-o", "r.toml", "--force"], "r.toml"), (["-o", "a.h5", "--log", "./a.h5"], "a.h5"),
                            (["-o", "a.h5", "--log", "-"], "--log"),
                            (["-o", "a.h5", "--force", "--log", "r.toml"], "r.toml")):
            with self.subTest(words=words):
                self.refused("attn-train", "r.toml", *words, output=None, status=2, says=[says])
        self.assertEqual(self.bytes_of("r.toml"), before)

    def test_outputs(self):
        self.refused("attn-train", "r.toml", status=2, output=None, says=["-o OUTPUT is missing"])
        self.refused("attn-train", "r.toml", status=2, output="-", says=["expected a file"])
        self.refused("attn-train", "r.toml", status=2, output="run.npz", says=["HDF5"])
        self.refused("attn-train", "r.toml", status=5, output="none/run.h5", says=["none"])

    def test_data(self):
        cases = {b"": ["no text for training"], b" \n ": ["no text"], b"ab\xff" * 40: ["UTF-8"]}
        for text, says in cases.items():
            with self.subTest(text=text[:4]):
                (self.folder / "t.txt").write_bytes(text)
                self.refused("attn-train", "r.toml", "--set", "data.text=t.txt", status=3, says=["t.txt", *says])
        self.refused("attn-train", "r.toml", "--set", "data.vocabulary=5000", status=3, says=["prose.txt", "5000"])
        self.refused("attn-train", "r.toml", "--set", "data.text=none.txt", status=3, says=["none.txt"])

    def test_divergence(self):
        settings = self.settings(optimizer__rule="sgd", run__steps=100)
        done = self.train(*settings, "--set", "schedule.rate=1e30", status=4)
        self.assertRegex(done.err, r"\Aattn-train: error: step \d+: .+\nattn-train: hint: .+schedule.rate.+\n\Z")
        self.assertIn("train_step", self.read("run.h5").attributes)
        # In the last step: its weights are neither evaluated nor stored.
        done = self.train(*self.settings(optimizer__rule="sgd", run__steps=1, schedule__rate=1e38),
                          output="one.h5", status=4)
        self.assertIn("step 1: ", done.err)

    def test_singular_steps(self):
        settings = self.settings(optimizer__rule="sgd", optimizer__paths="decoder.self", schedule__rate=20,
                                 optimizer__min_ratio=0.9, run__steps=100)
        done = self.train(*settings, status=4)
        self.assertRegex(done.err, r"step \d+: R is \S+ in layer\d, head \d, column \d+\n.*singular")

    @unittest.skipIf(SANITIZED, "the sanitizers need files of their own")
    def test_full_disk(self):
        self.train()
        size = (self.folder / "run.h5").stat().st_size
        for limit in (size // 2, 2 * size):
            with self.subTest(limit=limit):
                settings = ["--set", "run.log-every=1", "--set", "seed=3", "--log", f"{limit}.jsonl"]
                done = self.run_tool("attn-train", "r.toml", "-o", f"{limit}.h5", *settings, status=None,
                                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
                self.assertEqual(done.status, 5 if limit < size else 0, done.err)
                self.assertFalse([name for name in os.listdir(self.folder) if name.endswith((".tmp", ".part"))])


    def test_full_log(self):
        done = self.train("--log", "/dev/full", status=5)
        self.assertIn("/dev/full", done.err)
        self.assertIn("goes on from step 0", self.train().err)


class Help(TrainTest):

    def test_topic(self):
        done = self.run_tool("attn-train", "--help=recipe")
        for key in ("[optimizer]", "milestones", "default [90,5,5]", "one of sgd"):
            self.assertIn(key.replace("one of sgd", "adam, sgd, lamb"), done.out.decode())
        self.run_tool("attn-train", "--help=other", status=2)

    def test_dry_run(self):
        done = self.run_tool("attn-train", "r.toml", "-o", "run.h5", "--dry-run")
        self.assertIn(b"parameters, 12 steps", done.out)
        self.assertNotIn("run.h5", os.listdir(self.folder))


if __name__ == "__main__":
    unittest.main()
