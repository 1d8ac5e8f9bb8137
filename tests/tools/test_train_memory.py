"""attn-train's memory: linear in the tokens of a sequence, planned before the first step, and kept to
--memory."""

import random
import re
import unittest

from attn import LONG, SANITIZED, SOURCE, ToolTest

PROSE = SOURCE / "data/prose.txt"
RECIPE = f"""
[data]
text = "{PROSE}"
split = [80, 20, 0]
[run]
"""
PAIRS = """
[data]
train = "train.tsv"
valid = "valid.tsv"
test = "valid.tsv"
[objective]
kind = "pairs"
"""
QUESTIONS = """
[data]
train = "scenes.h5"
valid = "scenes.h5"
[objective]
kind = "questions"
"""
TINY = ("run.batch=1", "run.steps=1", "model.width=8", "model.heads=1", "model.inner=8")


@unittest.skipIf(SANITIZED, "sanitizers take memory of their own")
class TrainMemory(ToolTest):

    def setUp(self):
        super().setUp()
        (self.folder / "text.toml").write_text(RECIPE)

    def train(self, recipe, *settings, threads=1, more=(), **options):
        words = [word for setting in settings for word in ("--set", setting)]
        return self.run_tool("attn-train", recipe, "--force", "-o", "run.h5", "--threads", threads,
                             "--json", *words, *more, **options)

    def peak_and_plan(self, *arguments, **options):
        """Bytes."""
        report = self.train(*arguments, **options).json()
        return report["runtime"]["peak_rss_bytes"], report["result"]["working_bytes"]

    def test_linear_in_tokens(self):
        """From 2048 to 3072 tokens, one L x L array of float32 would add 20 KiB a token, to 4096 24 KiB."""
        most = 16 << 10
        lengths = (512, 1024, 2048, 4096) if LONG else (2048, 3072)
        schemes = [("causal", "decoder.self", "unas")] + [
            ("masked", "encoder.self", scheme) for scheme in ("dnas", "hnas", "sinkhorn")]
        for kind, place, scheme in schemes:
            peaks = {}
            for length in lengths:
                peaks[length], _ = self.peak_and_plan("text.toml", *TINY, f"objective.kind={kind}",
                                                      f"{place}.scheme={scheme}", f"data.length={length}")
            for before, length in zip(lengths, lengths[1:]):
                with self.subTest(scheme=scheme, length=length):
                    self.assertLess((peaks[length] - peaks[before]) / (length - before), most)

    def write_pairs(self):
        draw = random.Random(1)
        words = sorted({word for word in PROSE.read_text().lower().split() if word.isalpha()})
        for name, count in (("train", 300), ("valid", 10)):
            texts = [" ".join(draw.choices(words, k=draw.randint(3, 14))) for _ in range(count)]
            (self.folder / f"{name}.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in texts))
        (self.folder / "pairs.toml").write_text(PAIRS)

    def write_scenes(self):
        self.run_tool("tensor-gen", "scenes", "--scenes", 600, "-o", "scenes.h5")
        (self.folder / "scenes.toml").write_text(QUESTIONS)

    def test_plan_bounds_what_is_used(self):
        """The growth over a tiny run of the same data is within the plan, and at least half of it but for
        shapes of slots that only some threads meet."""
        room = 16 << 20
        self.write_pairs()
        self.write_scenes()
        cases = {
            "text.toml": [
                (2, ["model.layers=4", "data.length=256", "run.dropout=0.1", "run.weight-dropout=0.1"]),
                (1, ["model.layers=3", "model.width=256", "model.inner=1024", "data.length=32",
                     "optimizer.rule=sgd", "optimizer.momentum=0.9", "optimizer.paths=decoder.self",
                     "optimizer.start=ones", "optimizer.singular=skip", "schedule.rate=1e-4"]),
                (2, ["objective.kind=masked", "objective.order=true", "encoder.self.scheme=hnas",
                     "data.length=1024", "run.batch=4", "model.width=64", "run.evaluate-every=1"]),
                (2, ["objective.kind=masked", "encoder.self.scheme=dnas", "precision=f64",
                     "model.norm=pre", "model.activation=gelu", "model.layers=2", "run.batch=32"]),
            ],
            "pairs.toml": [(2, ["model.layers=2", "run.batch=32", "objective.beam=3"]),
                           # Slots of one sequence each, of many lengths.
                           (1, ["model.kind=hard-attention", "model.width=64", "run.batch=8",
                                "data.length=96"])],
            "scenes.toml": [(2, ["model.width=64", "model.heads=4", "model.inner=512", "run.batch=256",
                                 "views.scheme=sinkhorn", "views.iterations=3"])],
        }
        for recipe, runs in cases.items():
            tiny = TINY if recipe != "scenes.toml" else (*TINY[:2], "model.width=64")
            start, _ = self.peak_and_plan(recipe, *tiny)
            for threads, settings in runs:
                with self.subTest(recipe=recipe, settings=settings):
                    steps = f"run.steps={3 if LONG else 2}"
                    peak, plan = self.peak_and_plan(recipe, steps, *settings, threads=threads)
                    self.assertLessEqual(peak - start, plan)
                    self.assertLessEqual(plan, 2 * (peak - start) + room)

    def test_refused(self):
        settings = ("run.steps=2", "data.length=64")
        plan = self.train("text.toml", *settings, more=["--dry-run"]).json()["result"]["working_bytes"]
        done = self.train("text.toml", *settings, more=["--memory", plan - 1], status=6)
        self.assertRegex(done.err, r"\Aattn-train: error: the run needs \S+ MiB of working memory, but "
                                   r"--memory allows \S+ MiB\n"
                                   r"attn-train: hint: a smaller run\.batch, or --memory \d+M\n\Z")
        self.assertFalse((self.folder / "run.h5").exists())
        enough = re.search(r"--memory (\d+M)", done.err)[1]
        self.train("text.toml", *settings, more=["--memory", enough])
        # Before anything is allocated.
        self.train("text.toml", "model.width=400000", more=["--dry-run"], status=6)

    def test_dry_run_shows_it(self):
        done = self.run_tool("attn-train", "text.toml", "-o", "run.h5", "--dry-run", "--set", "run.steps=2")
        self.assertRegex(done.out.decode(), r"working memory +\S+ MiB, and some 30 MB")


if __name__ == "__main__":
    unittest.main()
