"""attn-train: recipes, settings and data that are refused, and runs that fail."""

import os
import resource
import unittest

from attn import SANITIZED
from training import TrainTest


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
        self.refused("attn-train", "r.toml", "--epochs=3", status=2, says="--epochs", hint="--set NAME=VALUE")
        self.write("in.h5", q=[1.0])
        self.refused("attn-train", "r.toml", "--seed=3", status=2, says="--seed", hint="--set seed=N")
        self.recipe("seed = 1")
        for key, near in (("run.seed", "seed"), ("model.batch", "run.batch"),
                          ("encoder.slf.scheme", "encoder.self.scheme")):
            self.refused("attn-train", "r.toml", f"--set={key}=1", status=2, says=key, hint=f"did you mean {near}?")
        self.refused("attn-train", "in.h5", status=3, says="in.h5 is an HDF5 file, expected a recipe (attn-train --help=recipe)")

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
            "decoder.self.gamma=1e-40": (["decoder.self.gamma is 1e-40, expected a number >= 1e-30"], None),
            "decoder.self.reach=1e-40": (["decoder.self.reach is 1e-40, expected a number >= 1e-30"], None),
            "optimizer.paths=encoder.self": (["encoder.self", "lacks"], None),
            "decoder.self.scheme=dnas": (["later tokens"], "--allow-leak"),
            "model.width=31": (["model.width is 31", "2 heads"], None),
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
                # The key that byte pairs need is missing in the file.
                self.refused("attn-train", "r.toml", "--set", setting,
                             status=3 if setting == "data.tokens=byte-pairs" else 2, says=says, hint=hint)
        self.refused("attn-train", "r.toml", "--set", "seed=1", "--set", "seed=2", status=2, says=["twice"])
        self.refused("attn-train", "r.toml", "--set", "run.steps=2", "--set", "run.epochs=2", status=2,
                     says=["both given"])
        self.refused("attn-train", "r.toml", "--set", "objective.kind=masked", "--set", "objective.order=true",
                     "--set", "data.length=4", status=2, says=["data.length is 4", "at least 5"])
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
        # A file that the recipe names: not even the report of this error may replace it.
        (self.folder / "own.txt").write_text("a text\n" * 50)
        self.refused("attn-train", "r.toml", "-o", "a.h5", "--set", "data.text=own.txt", "--json=own.txt",
                     output=None, status=2, says=["--json and data.text both name own.txt"])
        self.assertEqual((self.folder / "own.txt").read_text(), "a text\n" * 50)

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
        self.assertRegex(done.err, r"\A(attn-train: note: .+\n)?attn-train: error: step \d+: .+\n"
                                   r"attn-train: hint: .+schedule.rate.+\n\Z")
        self.assertIn("train_step", self.read("run.h5").attributes)
        # In the last step: its weights are neither evaluated nor stored.
        done = self.train(*self.settings(optimizer__rule="sgd", run__steps=1, schedule__rate=1e38),
                          output="one.h5", status=4)
        self.assertIn("step 1: ", done.err)

    def test_the_least_divisors(self):
        """Costs and scores remain finite."""
        self.train(*self.settings(decoder__self__scheme="transport", decoder__self__gamma=1e-30, decoder__self__reach=1e-30,
                                  run__steps=2))

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
