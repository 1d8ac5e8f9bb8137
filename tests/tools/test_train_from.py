"""attn-train --from: runs that begin with the weights of another one."""

import os
import shutil
import unittest
import zlib

import h5py
import numpy as np

from training import PROSE, RECIPE, TrainTest

# One step that changes no bit of a weight.
STILL = {"optimizer__rule": "sgd", "schedule__rate": 1e-30, "run__steps": 1}


class From(TrainTest):

    def setUp(self):
        super().setUp()
        self.train(*self.settings(objective__kind="masked"), output="masked.h5")
        words = sorted({word for word in PROSE.read_text().lower().split() if word.isalpha()})[:60]
        for name, labels in (("sizes", ("few", "many")), ("vowels", ("a vowel", "none"))):
            lines = [f"{labels[len(word) > 5]}\t{word}\n" for word in words]
            (self.folder / f"{name}.tsv").write_text("".join(lines))
            files = f'train = "{name}.tsv"\nvalid = "{name}.tsv"'
            recipe = RECIPE.replace(f'text = "{PROSE}"', files).replace('"causal"', '"classes"')
            (self.folder / f"{name}.toml").write_text(recipe.replace("[model]", '[model]\nkind = "transformer"'))

    def tune(self, *words, recipe="sizes.toml", begin="masked.h5", output="run.h5", **more):
        return self.run_tool("attn-train", recipe, "-o", output, "--from", begin, *words, **more)

    def assert_taken(self, run, earlier, fresh, report):
        """What is taken has the earlier run's bits, and what is new those of a run without --from."""
        names = [name for name in run if run[name].dtype.kind == "f" and not name.startswith("state/")
                 and not name.endswith("/hybrid")]
        taken = [name for name in names if name not in report["new"]]
        self.assertEqual(report["taken"], len(taken))
        self.assert_same_bits(run, earlier, taken)
        for name in report["new"]:
            self.assert_near(name, run[name], fresh[name], 1e-25)  # a bias of 0 has made its step

    def test_a_head_is_put_on_a_masked_model(self):
        done = self.tune("--log", "run.jsonl", "--json", *self.settings(**STILL))
        report = done.json()["result"]["from"]
        self.assertEqual(report["new"], ["class/softmax", "class/softmax_bias"])
        self.assertEqual(report["not_taken"], ["softmax", "softmax_bias"])
        header = self.log("run.jsonl")[0]
        self.assertEqual(header["from"], report)
        run, masked = self.read("run.h5"), self.read("masked.h5")
        self.run_tool("attn-train", "sizes.toml", "-o", "fresh.h5", *self.settings(**STILL))
        self.assert_taken(run, masked, self.read("fresh.h5"), report)
        self.assertEqual(list(run["vocabulary"]), list(masked["vocabulary"]))
        said = self.tune("--force", "--dry-run").err
        self.assertIn("begins with 26 tensors of masked.h5; new: class/softmax, class/softmax_bias; "
                      "not taken: softmax, softmax_bias", said)

    def write_pairs(self):
        recipe = (self.folder / "sizes.toml").read_text().replace('"classes"', '"pairs"')
        (self.folder / "pairs.toml").write_text(recipe.replace("sizes.tsv", "vowels.tsv"))

    def test_a_masked_model_becomes_the_encoder_of_pairs(self):
        self.write_pairs()
        report = self.tune("--json", *self.settings(**STILL, data__source_length=16), recipe="pairs.toml")
        report = report.json()["result"]["from"]
        self.assertEqual((report["taken"], report["not_taken"]), (26, ["softmax", "softmax_bias"]))
        run, masked = self.read("run.h5"), self.read("masked.h5")
        self.assertEqual(list(run["source_vocabulary"]), list(masked["vocabulary"]))
        self.assertIn("</s>", list(run["target_vocabulary"]))
        for name in masked:
            if name.startswith(("embedding/", "layer")):
                own = name.replace("/w", "/self/w", 1) if "/ffn/" not in name else name
                self.assertEqual(run["encoder/" + own].tobytes(), masked[name].tobytes(), name)
        self.run_tool("attn-train", "pairs.toml", "-o", "fresh.h5", *self.settings(**STILL, data__source_length=16))
        fresh = self.read("fresh.h5")
        for name in report["new"]:
            self.assertFalse(name.startswith("encoder/"))
            self.assert_near(name, run[name], fresh[name], 1e-25)

    def test_another_scheme(self):
        settings = self.settings(objective__kind="masked", encoder__self__scheme="hnas", **STILL)
        done = self.tune("--json", *settings, recipe="r.toml")
        report = done.json()["result"]["from"]
        self.assertEqual((report["new"], report["not_taken"]), (["layer0/rho", "layer1/rho"], []))
        self.train(*settings, output="fresh.h5")
        self.assert_taken(self.read("run.h5"), self.read("masked.h5"), self.read("fresh.h5"), report)

    def test_another_text_and_objective(self):
        (self.folder / "other.txt").write_text("ab ba € abba\n" * 200)
        self.tune(*self.settings(data__text="other.txt", run__steps=3), recipe="r.toml")
        found, masked = self.read("run.h5"), self.read("masked.h5")
        self.assertEqual(list(found["vocabulary"]), list(masked["vocabulary"]))  # € is unknown
        # The learned loss of a text goes on where it was.
        self.train("--log", "first.jsonl", *self.settings(run__steps=60, schedule__rate=0.01), output="first.h5")
        self.tune("--force", "--log", "second.jsonl", *self.settings(**STILL), recipe="r.toml", begin="first.h5")
        self.assertAlmostEqual(self.log("second.jsonl")[-1]["valid"]["loss"], self.log("first.jsonl")[-1]["valid"]["loss"],
                               delta=1e-6)

    def test_byte_pairs_and_words(self):
        for tokens, line_ends in (("byte-pairs", "true"), ("words", "false")):
            with self.subTest(tokens=tokens):
                settings = self.settings(data__tokens=tokens, data__line_ends=line_ends, run__steps=1)
                self.train("--force", *settings, "--set", "data.vocabulary=150", output="bp.h5")
                self.tune("--force", *settings, recipe="r.toml", begin="bp.h5")
                one, other = self.read("bp.h5"), self.read("run.h5")
                self.assertEqual(list(one["vocabulary"]), list(other["vocabulary"]))
                if tokens == "byte-pairs":
                    self.assert_same_bits(one, other, ["vocabulary_merges"])

    def test_other_classes_need_another_head(self):
        self.tune(output="sizes.h5")
        same = self.tune("--json", begin="sizes.h5").json()["result"]["from"]
        self.assertEqual((same["new"], same["not_taken"]), ([], []))
        other = self.tune("--json", recipe="vowels.toml", begin="sizes.h5", output="v.h5").json()["result"]["from"]
        self.assertEqual(other["new"], ["class/softmax", "class/softmax_bias"])
        self.assertEqual(other["not_taken"], other["new"])

    def test_a_run_goes_on_without_the_checkpoint(self):
        command = ["--log", "run.jsonl"]
        self.tune(*command)
        whole, log = self.bytes_of("run.h5"), self.log("run.jsonl")
        os.replace(self.folder / "run.previous.h5", self.folder / "run.h5")
        self.tune(*command)  # the checkpoint is there
        self.assertEqual((self.bytes_of("run.h5"), self.log("run.jsonl")), (whole, log))
        os.replace(self.folder / "run.previous.h5", self.folder / "run.h5")
        os.rename(self.folder / "masked.h5", self.folder / "moved.h5")
        self.assertIn("goes on from step 8", self.tune(*command).err)
        self.assertEqual((self.bytes_of("run.h5"), self.log("run.jsonl")), (whole, log))
        # Another checkpoint, none, and one where there was none.
        self.train(*self.settings(objective__kind="masked", run__steps=1), output="masked.h5")
        self.refused("attn-train", "sizes.toml", "--from", "masked.h5", status=5, output="run.h5",
                     says=["began from the weights of another checkpoint"])
        self.refused("attn-train", "sizes.toml", status=5, output="run.h5", says=["began from the weights of another run"])
        self.run_tool("attn-train", "sizes.toml", "-o", "fresh.h5")
        self.refused("attn-train", "sizes.toml", "--from", "moved.h5", status=5, output="fresh.h5",
                     says=["did not begin from the weights of another run"])

    def changed(self, **datasets):
        """bad.h5, a copy of masked.h5 with other datasets; None: without one."""
        return self.changed_copy("masked.h5", {name.replace("__", "/"): value for name, value in datasets.items()})

    def changed_copy(self, of, datasets):
        shutil.copy(self.folder / of, self.folder / "bad.h5")
        with h5py.File(self.folder / "bad.h5", "r+") as file:
            for name, value in datasets.items():
                if name in file:
                    del file[name]
                if value is not None:
                    file[name] = value
        return "bad.h5"

    def refused_from(self, says, *words, recipe="r.toml", begin="bad.h5", status=3):
        self.refused("attn-train", recipe, "--from", begin, "--log", "new.jsonl", *words, status=status, says=says,
                     output="new.h5")
        self.assertFalse({"new.h5", "new.jsonl"} & set(os.listdir(self.folder)))

    def test_damaged_numbers(self):
        weights = self.read("masked.h5")["embedding/tokens"]
        for bad in (np.nan, np.inf, -np.inf, 123):
            other = weights.copy()
            other[3, 3] = bad
            self.changed(embedding__tokens=other)
            self.refused_from(["bad.h5:/embedding/tokens is damaged: its numbers are not those that were written"])
        self.changed(embedding__tokens=weights.astype(float))
        self.refused_from(["bad.h5:/embedding/tokens is damaged"])
        moments = self.read("masked.h5")["state/moments0"]
        self.changed(state__moments0=moments + 1)
        self.refused_from(["bad.h5:/state/moments0 is damaged"])
        self.changed(embedding__tokens=None)
        self.refused_from(["bad.h5", "embedding/tokens"])
        lines = list(self.read("masked.h5")["state/checksums"])
        self.changed(state__checksums=lines[1:])
        self.refused_from(["bad.h5:/state/checksums is damaged"])
        self.changed(state__checksums=None)
        self.refused_from(["bad.h5 has no state/checksums"])
        # A run does not go on from such numbers either.
        self.train(*self.settings(run__steps=5))
        self.changed_copy("run.previous.h5", {"layer0/wq": weights})
        self.refused("attn-train", "r.toml", *self.settings(run__steps=5), output="bad.h5", status=3,
                     says=["bad.h5:/layer0/wq is damaged"], hint="bad.previous.h5 is the checkpoint before it")

    def test_numbers_beyond_float32(self):
        """A whole checkpoint in float64 with a number that float32 lacks."""
        self.train(*self.settings(objective__kind="masked", precision="f64"), output="wide.h5")
        weights = self.read("wide.h5")["embedding/tokens"]
        weights[3, 3] = 1e60
        lines = list(self.read("wide.h5")["state/checksums"])
        at = next(n for n, line in enumerate(lines) if line.endswith(" embedding/tokens"))
        self.assertEqual(lines[at][:8], f"{zlib.crc32(self.read('wide.h5')['embedding/tokens'].tobytes()):08x}")
        lines[at] = f"{zlib.crc32(weights.tobytes()):08x} embedding/tokens"
        self.changed_copy("wide.h5", {"embedding/tokens": weights, "state/checksums": lines})
        with h5py.File(self.folder / "bad.h5", "r+") as file:
            file.attrs["train_checksum"] = f"{zlib.crc32(''.join(line + chr(10) for line in lines).encode()):08x}"
        settings = self.settings(objective__kind="masked")
        said = self.tune(*settings, "--log", "new.jsonl", recipe="r.toml", begin="bad.h5", output="new.h5", status=3).err
        self.assertIn("error: bad.h5:/embedding/tokens has a number that is not finite in float32\n", said)
        self.assertFalse({"new.h5", "new.jsonl"} & set(os.listdir(self.folder)))
        self.tune(*settings, *self.settings(precision="f64", run__steps=1), recipe="r.toml", begin="bad.h5")

    def test_other_datasets_do_not_matter(self):
        self.changed(layer9=h5py.SoftLink("/none"), comp=np.zeros(3, dtype=[("a", "f4")]))
        with h5py.File(self.folder / "bad.h5", "r+") as file:
            for name in (b"layer0/\xff\xfe", b"layer0/evil\nname"):
                h5py.h5d.create(file.id, name, h5py.h5t.NATIVE_FLOAT, h5py.h5s.create_simple((2, 2)))
        done = self.tune("--json", *self.settings(run__steps=1), begin="bad.h5")
        self.assertEqual(done.json()["result"]["from"]["not_taken"], ["softmax", "softmax_bias"])

    def test_vocabularies_of_other_shapes(self):
        strings = h5py.string_dtype()
        symbols = list(self.read("masked.h5")["vocabulary"])
        for value, shape in (("abc", "()"), (np.array([], dtype=strings), "(0)"), (np.array([symbols], dtype=strings), "(1, ")):
            self.changed(vocabulary=value)
            self.refused_from([f"bad.h5:/vocabulary has shape {shape}", "expected a list of strings"])
        self.changed(vocabulary=symbols[:-1] + ["xyz"])
        self.refused_from(["bad.h5:/vocabulary", "'xyz', is no character"])

    def test_merges_make_the_symbols(self):
        settings = self.settings(data__tokens="byte-pairs", data__vocabulary=150, run__steps=1)
        self.train("--force", *settings, output="bp.h5")
        merges = self.read("bp.h5")["vocabulary_merges"]
        for bad in (None, merges[:0], merges[:-1], merges[1:], merges[::-1], np.concatenate([merges, merges])):
            self.changed_copy("bp.h5", {"vocabulary_merges": bad})
            self.refused_from(["bad.h5:/vocabulary: ", "merge"], *settings)
        for bad, shown in ((merges.ravel(), "pairs of tokens"), (merges + 2**62, "merge 0 does not make symbol")):
            self.changed_copy("bp.h5", {"vocabulary_merges": bad})
            self.refused_from(["bad.h5", shown], *settings)

    def test_one_vocabulary_for_both_columns(self):
        self.write_pairs()
        settings = self.settings(run__steps=1, data__source_length=16)
        self.tune(*settings, recipe="pairs.toml", output="apart.h5")
        self.refused_from(["data.joint is true, but apart.h5 has a vocabulary for each column"], *settings,
                          "--set", "data.joint=true", recipe="pairs.toml", begin="apart.h5", status=2)
        self.run_tool("attn-train", "pairs.toml", "-o", "joint.h5", *settings, "--set", "data.joint=true")
        self.tune(*settings, "--set", "data.joint=true", recipe="pairs.toml", begin="joint.h5")
        self.assertEqual(list(self.read("run.h5")["source_vocabulary"]), list(self.read("joint.h5")["target_vocabulary"]))

    def test_a_causal_model_becomes_an_encoder(self):
        self.write_pairs()
        self.train(*self.settings(run__steps=1), output="causal.h5")
        self.tune(*self.settings(**STILL, data__source_length=16), recipe="pairs.toml", begin="causal.h5")
        self.assertEqual(self.read("run.h5")["encoder/layer0/self/wq"].tobytes(), self.read("causal.h5")["layer0/wq"].tobytes())

    def test_the_previous_checkpoint_is_no_beginning(self):
        before = self.bytes_of("masked.previous.h5")
        for words, name in ((["--from", "masked.previous.h5"], "--from"), (["--log", "masked.previous.h5"], "--log")):
            self.refused("attn-train", "r.toml", *words, "--force", output="masked.h5", status=2,
                         says=[name, "masked.previous.h5"])
        self.refused("attn-train", "r.toml", "--set", "data.text=masked.previous.h5", output="./masked.h5", status=2,
                     says=["data.text names masked.previous.h5, which ./masked.h5 replaces by its checkpoints"])
        self.assertEqual(self.bytes_of("masked.previous.h5"), before)

    def test_refused(self):
        def refused(says, *words, recipe="r.toml", begin="masked.h5", status=3):
            self.refused("attn-train", recipe, "--from", begin, *words, status=status, says=says, output="new.h5")
        for name in ("none.h5", ".", "masked.h5:/layer0"):
            refused([f"--from is {name}, which is no file"], begin=name)
        self.write("no.h5", q=[1.0])
        refused(["no.h5 is no checkpoint of attn-train"], begin="no.h5")
        refused(["masked.h5 has no matrix with a name and a shape of this model"], "--set", "model.width=14")
        refused(["data.tokens is words, but masked.h5 has characters"], "--set", "data.tokens=words", status=2)
        refused(["data.vocabulary is 9", "masked.h5"], "--set", "data.vocabulary=9", status=2)
        self.changed(vocabulary=[1.0, 2.0])
        refused(["bad.h5:/vocabulary is float64, expected strings"], begin="bad.h5")
        self.train(output="causal.h5")
        refused(["the vocabulary of causal.h5 lacks the special token [MASK]"], "--set", "objective.kind=masked",
                begin="causal.h5")
        self.write_pairs()
        refused(["the vocabulary of masked.h5 lacks the special token <s>"], "--set", "data.joint=true", recipe="pairs.toml")
        self.tune(output="classes.h5")
        refused(["classes.h5 has no source_vocabulary"], recipe="pairs.toml", begin="classes.h5")
        self.refused("attn-train", "r.toml", "--from", "masked.h5", "--force", output="masked.h5", status=2,
                     says=["--output and --from both name masked.h5"])
        self.assertNotIn("new.h5", os.listdir(self.folder))


if __name__ == "__main__":
    unittest.main()
