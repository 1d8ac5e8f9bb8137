"""attn-train on the ranks that mpirun has started: the bytes are those of one process."""

import os
import re
import signal
import subprocess
import time

from attn import LONG, TIMEOUT, sample
from test_ranks import RankTest, mpirun
from training import RECIPE, TrainTest

# Of several lengths; outputs are generated at the end.
PAIRS = """
[data]
train = "pairs.txt"
valid = "pairs.txt"
length = 12
source-length = 12
[objective]
kind = "pairs"
[run]
steps = 6
batch = 10
evaluate-every = 3
dropout = 0.1
[model]
width = 12
inner = 10
"""
MODELS = ("encoder-layers = 1\nlayers = 1\nheads = 2\n", 'kind = "alignment-attention"\n')


class TrainOnRanks(RankTest, TrainTest):

    COMMAND = ("attn-train", "r.toml", "-o", "run.h5", "--log", "run.jsonl")

    def setUp(self):
        super().setUp()
        self.environment["SOURCE_DATE_EPOCH"] = "1700000000"
        (self.folder / "r.toml").write_text(RECIPE)
        (self.folder / "pairs.txt").write_text(
            "".join(f"{'abcdefgh'[:2 + n % 7]}\t{'hgfedcba'[-1 - n % 5:]}\n" for n in range(23)))

    def outcome(self):
        found = self.bytes_of("run.h5"), self.log("run.jsonl")
        for name in ("run.h5", "run.previous.h5", "run.jsonl"):
            (self.folder / name).unlink(missing_ok=True)
        return found


class Bytes(TrainOnRanks):

    RUNS = (
        # Causal; every sequence is whole.
        ("run.keep-inputs=true", "optimizer.paths=decoder.self", "optimizer.rule=sgd", "schedule.rate=1e-4",
         "optimizer.start=ones"),
        ("objective.kind=masked", "encoder.self.scheme=hnas", "data.length=20",
         "objective.order=true", "run.keep-inputs=true"),
        ("objective.kind=masked", "encoder.self.scheme=sinkhorn", "precision=f64",
         "optimizer.rule=lamb", "run.batch=3"),
    )

    def check(self, ranks, threads, words=()):
        self.environment["ATTN_NUM_THREADS"] = "1"
        alone = self.run_tool(*self.COMMAND, *words)
        want = self.outcome()
        self.environment["ATTN_NUM_THREADS"] = str(threads)
        ranked = self.on_ranks(ranks, *self.COMMAND, *words)
        with self.subTest(ranks=ranks, threads=threads, words=words):
            self.assertTrue(self.outcome() == want)
            self.assertEqual((ranked.out, ranked.err), (alone.out, alone.err))

    def test_one_stack(self):
        for place, keys in enumerate(self.RUNS):
            words = [word for key in keys for word in ("--set", key)]
            counts = [(n, t) for n in range(1, 9) for t in range(1, 5)]
            for ranks, threads in (counts if LONG else [((2, 2), (3, 1), (4, 1))[place]]):
                self.check(ranks, threads, words)

    def test_pairs_with_outputs(self):
        for model, counts in zip(MODELS, ([(3, 1), (2, 2), (8, 1)], [(2, 1), (3, 2), (8, 1)])):
            (self.folder / "r.toml").write_text(PAIRS + model)
            for ranks, threads in sample(counts, 1):
                self.check(ranks, threads)


class Interrupted(TrainOnRanks):

    COMMAND = (*TrainOnRanks.COMMAND, "--set", "run.steps=400", "--set", "run.checkpoint-every=400")

    def test_signal_to_one_rank(self):
        self.run_tool(*self.COMMAND)
        whole = self.outcome()
        (self.folder / "script").write_text(
            'echo $$ >pid.$OMPI_COMM_WORLD_RANK\nexec "$@"\n')
        for rank in sample((1, 0, 2), 1):
            with self.subTest(rank=rank):
                status, error = self.stopped(rank)
                self.assertEqual(status, 75, error)
                self.assertRegex(error, r"attn-train: run.h5: \d+ of 400 steps, stopped by")
                # One rank speaks for all.
                self.assertEqual(len(re.findall("^attn-train: (?!note: )", error, re.MULTILINE)), 1, error)
                done = self.on_ranks(2, *self.COMMAND)
                self.assertRegex(done.err, "run.h5 goes on from step")
                self.assertTrue(self.outcome() == whole)

    def stopped(self, rank):
        """A run on three ranks of which one gets a signal after some steps."""
        command = [*mpirun(3), "sh", "script", *self.COMMAND]
        with subprocess.Popen(command, cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
            end = time.monotonic() + TIMEOUT
            while not (self.folder / "run.jsonl").exists() or len(self.log("run.jsonl")) < 3:
                self.assertLess(time.monotonic(), end, "waited for too long")
                time.sleep(0.02)
            os.kill(int((self.folder / f"pid.{rank}").read_text()), signal.SIGUSR1)
            error = run.communicate(timeout=TIMEOUT)[1].decode()
        return run.returncode, error

    def test_refused(self):
        self.on_ranks(2, "attn-train", "r.toml", "-o", "none/run.h5", status=5)
        self.on_ranks(2, "attn-train", "r.toml", "-o", "run.h5", "--set", "run.steps=2")
        self.on_ranks(2, "attn-train", "r.toml", "-o", "run.h5", status=5)
        diverged = self.on_ranks(2, "attn-train", "r.toml", "-o", "run.h5", "--force", "--set",
                                 "schedule.rate=1e30", "--set", "optimizer.rule=sgd", status=4)
        self.assertRegex(diverged.err, r"\A(attn-train: note: .*\n)?attn-train: error: (rank 1: )?step \d+: .*\n"
                                       r"attn-train: hint: .*\n\Z")
