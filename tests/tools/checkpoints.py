"""Runs with --checkpoint that are killed or stopped, shared by its tests."""

import os
import signal
import subprocess
import time

import h5py

from attn import BIN, TIMEOUT, ToolTest

STOPPING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)


class CheckpointTest(ToolTest):

    def setUp(self):
        super().setUp()
        self.environment["SOURCE_DATE_EPOCH"] = "0"
        self.environment["ATTN_NUM_THREADS"] = "1"

    def start(self, command, **more):
        return subprocess.Popen([BIN / command[0], *map(str, command[1:])], cwd=self.folder, env=self.environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def interrupted(self, command, number, seconds):
        """The exit status and the errors of a run that gets a signal after some time."""
        with self.start(command) as process:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(number)
            _, errors = process.communicate(timeout=TIMEOUT)
            return process.returncode, errors.decode()

    def stopped(self, command, number=signal.SIGTERM, checkpoint="ck", status=75, least=0):
        """Stops a run once it has written a checkpoint, of some heads at least; returns what it says."""
        for _ in range(50):
            with self.start([*command, "--checkpoint-every", 0]) as process:
                while process.poll() is None and not self.holds(checkpoint, least):
                    time.sleep(0.001)
                if process.poll() is None:
                    process.send_signal(number)
                _, errors = process.communicate(timeout=TIMEOUT)
            if process.returncode == status:
                return errors.decode()
            self.assertEqual(process.returncode, 0, errors)
            (self.folder / "out.h5").unlink(missing_ok=True)
        return self.fail("never stopped in time")

    def holds(self, checkpoint, heads):
        if heads == 0:
            return (self.folder / checkpoint).exists()
        try:
            with h5py.File(self.folder / checkpoint, locking=False) as file:
                return file.attrs["attn_checkpoint_units"] >= heads
        except FileNotFoundError:  # not written yet, or the run has finished
            return False

    def outcome(self):
        """All that a run has written, but for the unfinished texts of runs that SIGKILL ended."""
        found = {}
        for name in sorted(os.listdir(self.folder)):
            if name.startswith(".attn-text-"):
                continue
            if name.endswith(".json"):
                found[name] = self.read_json(name)
                del found[name]["runtime"]
            else:
                found[name] = (self.folder / name).read_bytes()
        return found

    def remove_all_but(self, *names):
        for name in set(os.listdir(self.folder)) - set(names):
            (self.folder / name).unlink()

    def check_kills(self, run, source, wanted, moments):
        """Kills and stops a run of `source` at random moments, `wanted` times and until one has gone on: each
        that ends has the results of a run that nobody stopped."""
        command = [*run, "--json=out.json", "--checkpoint", "ck", "--checkpoint-every", "0"]
        self.remove_all_but(source)
        begun = time.monotonic()
        self.run_tool(*command)
        seconds = time.monotonic() - begun
        whole = self.outcome()
        kills, continued, tries = 0, 0, 0
        while kills < wanted or not continued:
            if (self.folder / "out.json").exists():
                self.remove_all_but(source)
            number = moments.choice([signal.SIGKILL, signal.SIGKILL, *STOPPING])
            status, errors = self.interrupted(command, number, moments.uniform(0.2, 0.9) * seconds)
            tries += 1
            self.assertLess(tries, max(60, 20 * wanted), errors)
            continued += "goes on " in errors
            kills += status != 0
            # Before its handlers are set, a signal ends the process.
            self.assertIn(status, (0, 75, -number), errors)
            if status == 75:
                (self.folder / "out.json").unlink(missing_ok=True)  # says that it was stopped
            if status == 0:
                self.assertEqual(self.outcome(), whole)
                seconds *= 0.9  # the machine may be quicker now than at first
        (self.folder / "out.json").unlink(missing_ok=True)
        self.remove_all_but(source, "ck")
        self.run_tool(*command)
        self.assertEqual(self.outcome(), whole)
        self.remove_all_but(source)
