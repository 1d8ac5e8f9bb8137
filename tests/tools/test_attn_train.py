"""attn-train: what runs learn and write, for every objective."""

import json
import math
import os
import random

import numpy as np

from training import PROSE, RECIPE, TrainTest


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

    def test_sizes_of_the_data(self):
        text = PROSE.read_text()
        done = self.train("--json")
        result = done.json()["result"]
        symbols = self.read("run.h5")["vocabulary"]
        self.assertEqual(result["vocabularies"], [len(symbols)])
        splits = result["splits"]
        self.assertEqual(sum(split["tokens"] for split in splits.values()), len(text))
        for split in splits.values():
            self.assertEqual(split["items"], -(-(split["tokens"] - 1) // 16))
        said = ", ".join(f"{name}: {split['tokens']} tokens in {split['items']} sequences"
                         for name, split in splits.items())
        line = f"{len(symbols)} symbols in the vocabulary; {said}"
        self.assertIn(f"attn-train: note: {line}\n", done.err)
        self.assertTrue(self.train("--dry-run").out.decode().startswith(line + "\n"))
        self.train("--set", "run.steps=6", output="again.h5")
        self.assertNotIn("vocabulary", self.train().err)  # is finished

    def test_a_large_loss_is_noticed_once(self):
        settings = self.settings(optimizer__rule="adam", run__steps=30, schedule__warm_up=0)
        bad = self.train("--json", *settings, "--set", "schedule.rate=5", "--log", "bad.jsonl", output="bad.h5")
        (line,) = bad.json()["warnings"]
        count = len(self.read("bad.h5")["vocabulary"])
        self.assertRegex(line, rf"^the loss at step 3 is \S+, where guesses among {count} would have {math.log(count):.3g}: "
                         "a smaller schedule.rate or optimizer.clip may help$")
        self.assertEqual(bad.err.count("attn-train: warning: the loss at step"), 1)
        self.assertGreater(self.log("bad.jsonl")[1]["loss"], math.log(count) + 1)
        good = self.train("--json", *settings, "--set", "schedule.rate=0.01", output="good.h5")
        self.assertEqual(good.json()["warnings"], [])

    def test_no_bit_depends_on_threads(self):
        for threads in (1, 3):
            self.train("--threads", threads, "--set", "decoder.self.scheme=hnas", "--allow-leak",
                       output=f"{threads}.h5")
        one, three = self.read("1.h5"), self.read("3.h5")
        self.assert_same_bits(three, one)

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

    def test_a_byte_order_mark_is_no_text(self):
        found = []
        for mark in (b"", b"\xef\xbb\xbf"):
            (self.folder / "text.txt").write_bytes(mark + PROSE.read_bytes())
            self.train(*self.settings(run__steps=1, data__text="text.txt"))
            found.append(self.bytes_of("run.h5"))
            os.remove(self.folder / "run.h5")
        self.assertEqual(*found)

    def test_settings_replace_the_file(self):
        # The recipe has run.steps. Defaults that depend on other keys are stored as values.
        done = self.train("--set", "run.epochs=0.02", "--json")
        result = done.json()["result"]
        self.assertEqual(result["steps"], round(0.02 * result["steps_per_epoch"]))
        recipe = json.loads(self.read("run.h5").attributes["train_recipe"])
        self.assertEqual((recipe["run.steps"], recipe["optimizer.epsilon"], recipe["optimizer.start-of"]),
                         (None, 1e-8, []))

    def test_attention_is_left_out(self):
        """The same model without attention: a baseline, in which a token predicts the next one alone."""
        self.train("--log", "run.jsonl", *self.settings(decoder__self__scheme="none", run__keep_inputs="true"))
        self.assertEqual(self.log("run.jsonl")[-1]["attention"], [])
        names = set(self.read("run.h5"))
        self.assertIn("layer1/ffn/w1", names)
        self.assertFalse([name for name in names if name.startswith("layer") and "/ffn/" not in name and "/norm/ffn" not in name])
        self.refused("attn-train", "r.toml", *self.settings(decoder__self__scheme="none", optimizer__paths="decoder.self"),
                     status=2, says=["optimizer.paths names decoder.self", "lacks"])
        self.train(*self.settings(objective__kind="masked", encoder__self__scheme="none"), output="masked.h5")
        self.refused("explain-away-stats", "masked.h5", "--from", "projection", "--each", "/layer*", output=None,
                     status=3, says=["masked.h5"])

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
        own, plain = "decoder.self", ""
        for paths, rescale in ((own, "none"), (own, "powers"), (own, "factors"), (plain, "none"), (plain, "factors")):
            self.train("--force", "--log", "run.jsonl", "--set", f"optimizer.paths={paths}",
                       "--set", f"optimizer.rescale={rescale}", *settings)
            losses[paths, rescale] = [line["loss"] for line in self.log("run.jsonl")[1:]]
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

    def test_attentions_are_left_out(self):
        self.train("--log", "run.jsonl", *self.settings(encoder__self__scheme="none", decoder__self__scheme="none",
                                                        objective__beam=2))
        last = self.log("run.jsonl")[-1]
        self.assertEqual([one["group"] for one in last["attention"]], ["decoder/layer0/cross", "decoder/layer1/cross"])
        self.assertIn("bleu", last["test"])
        # Without any attention, the output is the same for every source.
        self.train("--force", "--log", "run.jsonl", *self.settings(encoder__self__scheme="none", run__keep_inputs="true",
                                                                   decoder__self__scheme="none", decoder__cross__scheme="none"))
        last = self.log("run.jsonl")[-1]
        self.assertEqual((last["attention"], last["test"]["word_accuracy"]), ([], 0))

    def test_weights_of_all_pairs(self):
        """Those that attn-compute makes of what the projections read, without the row of </s>."""
        for scheme in ("unas", "dnas"):
            self.train("--force", "--allow-leak", *self.settings(
                run__batch=20, run__steps=3, run__keep_inputs="true", run__keep_weights="valid", decoder__cross__scheme=scheme))
            run = self.read("run.h5")
            self.run_tool("attn-compute", "run.h5", "--from", "projection", "--each", "/decoder/*/cross", "--scheme", scheme,
                          "--emit", "weights", "--only", "--force", "-o", "w.h5")
            made = self.read("w.h5")
            for layer in ("decoder/layer0/cross", "decoder/layer1/cross"):
                found = run[f"weights/{layer}/weights"]
                targets, sources = (run[f"weights/{layer}/{name}_length"] for name in ("target", "source"))
                self.assertEqual(found.shape, (20, 2, targets.max(), sources.max()))
                for n, (words, places) in enumerate(zip(targets, sources)):
                    self.assertEqual(abs(found[n, :, words:]).sum() + abs(found[n, :, :, places:]).sum(), 0)
                    self.assert_near("weights", found[n, :, :words, :places],
                                     made[f"{layer}/weights"][n, :, :words, :places], 2e-5)
        (self.folder / "gold.txt").write_text("1-1\n" * 20)
        report = self.run_tool("alignment-attention", "measure", "run.h5:/weights/decoder/layer0/cross", "--gold", "gold.txt",
                               "--json").json()["result"]
        self.assertEqual((report["pairs"], report["words"], len(report["heads"])), (20, int(targets.sum()), 2))
        self.refused("attn-train", "r.toml", "--set", "run.keep-weights=valid", "--set", "decoder.cross.scheme=none",
                     output="no.h5", status=2, says=["run.keep-weights is valid, but the decoder does not attend to the source"])
        recipe = (self.folder / "r.toml").read_text().replace('test = "test.tsv"', "")
        (self.folder / "r.toml").write_text(recipe)
        self.refused("attn-train", "r.toml", "--set", "run.keep-weights=test", output="no.h5", status=2,
                     says=["run.keep-weights is test, but there are no such data"])

    def test_long_pairs_are_cut(self):
        self.assertEqual(self.train("--json", "--set", "run.steps=1").json()["result"]["cut_pairs"], 0)
        done = self.train("--json", *self.settings(run__steps=1, data__source_length=5), "--force")
        count = sum(len(line.split("\t")[0]) > 5 for name in ("train", "valid", "test")
                    for line in (self.folder / f"{name}.tsv").read_text().splitlines())
        self.assertEqual(done.json()["result"]["cut_pairs"], count)
        done = self.train(*self.settings(run__steps=1, data__source_length=5), "--force")
        self.assertIn(f"{count} pairs are cut off at data.source-length or data.length, over all splits", done.err)
        self.assertRegex(done.err, r"note: \d+ and \d+ symbols in the vocabularies; train: \d+ examples, valid: \d+ examples")

    def test_columns(self):
        (self.folder / "bad.tsv").write_text("a\tb\nc\n")
        self.refused("attn-train", "r.toml", "--set", "data.valid=bad.tsv", status=3,
                     says=["bad.tsv:2", "two columns"])
        (self.folder / "bad.tsv").write_text("a\tb\n\tc\n")
        self.refused("attn-train", "r.toml", "--set", "data.valid=bad.tsv", status=3,
                     says=["bad.tsv:2", "first column is empty"])


class Classes(TrainTest):
    """A Transformer that tells the class of a text from the mean of its last layer."""

    def setUp(self):
        super().setUp()
        words = sorted({word for word in PROSE.read_text().lower().split() if word.isalpha()})
        (self.folder / "classes.tsv").write_text("".join(f"{'many' if len(word) > 5 else 'few'}\t{word}\n" for word in words))
        recipe = RECIPE.replace(f'text = "{PROSE}"', 'train = "classes.tsv"\nvalid = "classes.tsv"')
        (self.folder / "r.toml").write_text(recipe.replace('"causal"', '"classes"').replace(
            "[model]", '[model]\nkind = "transformer"'))

    def test_classes_are_learned(self):
        for scheme in ("dnas", "none"):
            self.train("--force", "--log", "run.jsonl",
                       *self.settings(encoder__self__scheme=scheme, run__steps=150, schedule__rate=0.01, run__evaluate_every=150,
                                       run__keep_inputs="true"))
            last = self.log("run.jsonl")[-1]
            self.assertEqual(set(last["valid"]), {"loss", "accuracy"})
            self.assertGreater(last["valid"]["accuracy"], 0.9)
            self.assertEqual([one["group"] for one in last["attention"]], [] if scheme == "none" else ["layer0", "layer1"])
            bundle = self.read("run.h5")
            self.assertEqual((list(bundle["classes"]), bundle["class/softmax"].shape), (["few", "many"], (2, 12)))

    def test_long_texts_are_cut(self):
        done = self.train("--json", *self.settings(run__steps=1, data__length=7))
        lines = (self.folder / "classes.tsv").read_text().splitlines()
        count = 2 * sum(len(line.split("\t")[1]) > 7 for line in lines)  # the file is that of two splits
        self.assertEqual(done.json()["result"]["cut_pairs"], count)
        done = self.train("--force", *self.settings(run__steps=1, data__length=7))
        self.assertIn(f"note: {count} texts are cut off at data.length, over all splits\n", done.err)

    def test_paths_and_keys(self):
        self.train(*self.settings(optimizer__paths="encoder.self", optimizer__rule="sgd", optimizer__start="ones"))
        self.refused("attn-train", "r.toml", "--set", "decoder.self.scheme=dnas", status=2,
                     says=["decoder.self.scheme does not go with objective.kind"])
        self.refused("attn-train", "r.toml", "--set", "model.tied=true", status=2, says=["model.tied"])


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

    def test_pooling(self):
        self.train(output="mean.h5")
        self.train("--set", "views.pooling=softmax", output="same.h5")
        self.train("--set", "views.pooling=sum", output="sum.h5")
        mean, same, summed = (self.read(f"{name}.h5") for name in ("mean", "same", "sum"))
        self.assert_same_bits(same, mean)
        self.assertEqual(set(summed) - set(mean), {"views/pooling/beta"})
        beta = summed["views/pooling/beta"]
        self.assertTrue(0 < abs(beta[0] + 2) < 0.1, beta)

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
            found = group["dnas"]["col_sum"]["min"]
            # Both compute q and k in float32, in other orders.
            self.assertAlmostEqual(one["least_column_sum"], found, delta=1e-4 * found)


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
