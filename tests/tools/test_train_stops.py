"""attn-train: runs that are killed or stopped, and what already exists."""

import os
import random
import signal
import subprocess
import time

import h5py

from attn import BIN, LONG, TIMEOUT, sample
from training import PROSE, TrainTest

STOPPING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)


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

    def begin(self, *words):
        command = [str(BIN / self.COMMAND[0]), *(words or self.COMMAND[1:])]
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE)

    def interrupted(self, number, seconds):
        """The exit status of a run that gets a signal after some time."""
        with self.begin() as process:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(number)
            process.communicate(timeout=TIMEOUT)
            return process.returncode

    def test_killed_at_random_moments(self):
        moments, kills, tries = random.Random(2), 0, 0
        while kills < (20 if LONG else 4):
            status = self.interrupted(signal.SIGKILL, moments.uniform(0, self.seconds / 2))
            tries += 1
            self.assertLess(tries, 200)
            kills += status == -signal.SIGKILL
            if status == 0:
                self.assertFalse([name for name in os.listdir(self.folder) if name.endswith(".tmp")])
                self.assertEqual(self.outcome(), self.whole)
                self.remove()
        self.run_tool(*self.COMMAND)
        self.assertEqual(self.outcome(), self.whole)

    def test_stopped(self):
        for number in sample(STOPPING, 2):
            with self.subTest(signal=number):
                status, tries = 0, 0
                # Before its handlers are set, a signal ends the process; before its first step there is
                # no checkpoint (test_signal_before_the_first_step); late, it is finished.
                while not (status == 75 and (self.folder / "run.h5").exists()) and tries < 60:
                    self.remove()
                    status = self.interrupted(number, self.seconds * (tries % 20 + 1) / 20)
                    tries += 1
                self.assertEqual(status, 75)
                done = self.run_tool(*self.COMMAND)
                self.assertIn("goes on from step", done.err)
                self.assertEqual(self.outcome(), self.whole)

    def test_second_writer(self):
        """While a run trains, the same command does not train, too, and it leaves the files alone."""
        words = (*self.COMMAND[1:-1], "run.steps=100000")
        with self.begin(*words) as process:
            try:
                while process.poll() is None and not self.log_has_lines():
                    time.sleep(0.001)
                process.send_signal(signal.SIGSTOP)
                before = self.bytes_of("run.h5"), (self.folder / "run.jsonl").read_bytes()
                for more in ((), ("--force",)):
                    done = self.run_tool("attn-train", *words, *more, status=5)
                    self.assertEqual(done.err, "attn-train: error: run.h5 is being written by another process\n")
                self.assertEqual((self.bytes_of("run.h5"), (self.folder / "run.jsonl").read_bytes()), before)
            finally:
                process.kill()
                process.communicate(timeout=TIMEOUT)
        self.remove()
        self.run_tool(*self.COMMAND)
        self.assertEqual(self.outcome(), self.whole)

    def log_has_lines(self):
        log = self.folder / "run.jsonl"
        return log.exists() and log.stat().st_size > 0

    def test_second_signal(self):
        """It ends a step that takes long; the first checkpoint is whole."""
        words = (*self.COMMAND[1:-1], "run.steps=2", "--set", "run.batch=3000")
        self.run_tool("attn-train", *words)
        whole = self.outcome()
        for number in (signal.SIGUSR2, signal.SIGXCPU):
            with self.subTest(signal=number):
                self.remove()
                with self.begin(*words) as process:
                    while process.poll() is None and not (self.folder / "run.h5").exists():
                        time.sleep(0.001)
                    process.send_signal(number)
                    time.sleep(0.02)
                    process.send_signal(signal.SIGTERM)
                    process.communicate(timeout=TIMEOUT)
                self.assertEqual(process.returncode, -signal.SIGTERM)
                self.assertEqual(sorted(os.listdir(self.folder)), ["r.toml", "run.h5", "run.jsonl"])
        self.run_tool("attn-train", *words)
        self.assertEqual(self.outcome(), whole)

    def test_signal_before_the_first_step(self):
        (self.folder / "long.txt").write_text(PROSE.read_text() * (400 if LONG else 200))
        words = (*self.COMMAND[1:], "--set", "data.text=long.txt")
        begun = time.monotonic()
        with self.begin(*words) as process:
            while process.poll() is None and not (self.folder / "run.h5").exists():
                time.sleep(0.001)
            start = time.monotonic() - begun
            process.kill()
            process.communicate(timeout=TIMEOUT)
        self.remove()
        (self.folder / ".run.h5.lock.tmp").unlink()  # the next run would, but it may be stopped before
        moments = random.Random(3)
        statuses = (((), 75), (("--requeue-status", "9"), 9))
        for place, number in enumerate(sample(STOPPING, 2)):
            # Short runs take one status for each signal.
            for words_of_status, status in statuses if LONG else [statuses[place % 2]]:
                with self.subTest(signal=number, status=status), self.begin(*words, *words_of_status) as process:
                    time.sleep(start * moments.uniform(0.3, 0.6))
                    process.send_signal(number)
                    errors = process.communicate(timeout=TIMEOUT)[1].decode()
                    self.assertEqual((process.returncode, errors),
                                     (status, "attn-train: stopped by a signal; the same command goes on\n"))
                    self.assertEqual(sorted(os.listdir(self.folder)), ["long.txt", "r.toml"])


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
        self.refused("attn-train", "r.toml", status=3, output="run.h5", says=["run.h5:/layer1/wk is damaged"],
                     hint="run.previous.h5")
