"""--checkpoint: runs that are killed or stopped go on, to the bytes of a run that nobody stopped."""

import fcntl
import json
import os
import random
import re
import resource
import shutil
import signal
import time

import h5py
import numpy as np

from attn import LONG, TIMEOUT, sample
from checkpoints import STOPPING, CheckpointTest

GROUPS = 4


class DumpTest(CheckpointTest):

    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(1)
        shapes = {name: (3, 300, 16) for name in ("q", "k", "v", "grad_out")}
        self.write("dump.h5", {"model": "m"}, **{
            f"layer{n}__{name}": draw.normal(size=shape) for n in range(GROUPS) for name, shape in shapes.items()})

    def add_sequences(self):
        """Adds inputs of mechanisms to the groups."""
        draw = np.random.default_rng(6)
        shapes = {"x": (20, 60, 32), "w1": (24, 32), "w2": (6, 24), "grad_out": (20, 6, 32),
                  "a": (20, 12, 5), "state": (20, 4), "w_a": (6, 5), "w_h": (6, 4), "readout": (7, 5),
                  "grad_log_p": (20,)}
        with h5py.File(self.folder / "dump.h5", "w") as file:
            for n in range(GROUPS):
                for name, shape in shapes.items():
                    file[f"part{n}/{name}"] = draw.normal(size=shape)
                file[f"part{n}/v"] = draw.normal(size=6)
                file[f"part{n}/target"] = draw.integers(0, 7, size=20)


class GoesOn(DumpTest):

    RUNS = [
        ["attn-compute", "dump.h5", "--scheme", "dnas", "--emit", "out,col_sum,row_entropy,grad_q,grad_k",
         "-o", "out.h5"],
        ["attn-compute", "dump.h5", "--scheme", "sinkhorn", "--iterations", "20", "-o", "out.npz"],
        ["explain-away-stats", "dump.h5", "--scheme", "unas,dnas,hnas", "--hybrid", "0.5", "-o", "out.h5"],
        ["sinkhorn-iter", "dump.h5", "-o", "out.h5"],
        ["lambda-solve", "dump.h5", "--each", "/layer[12]", "-o", "out.h5"],
        ["mode-collapse-sim", "simulate", "--counts", "200,150", "--centres", "1,0;-1,0", "--seeds", "3",
         "--steps", "8", "--scheme", "unas,dnas", "-o", "out.h5"],
        ["mode-collapse-sim", "em", "--counts", "200,150", "--centres", "2,0;-2,0", "--seeds", "3", "--steps", "8",
         "--priors", "estimated", "--estimate-variance=each", "-o", "out.h5"],
        ["structured-attention", "dump.h5", "--memory", "1M",
         "--emit", "weights,out,penalty,grad_x,grad_w1,grad_w2", "-o", "out.h5"],
        ["hard-attention", "dump.h5", "--samples", "30000", "--entropy", "0.1", "--memory", "64K",
         "--emit", "log_p,grad_a,grad_w_a", "-o", "out.h5"],
    ]

    def test_killed_at_random_moments(self):
        moments = random.Random(2)
        for run in self.RUNS:
            with self.subTest(run=run):
                if run[0] in ("structured-attention", "hard-attention"):
                    self.add_sequences()
                self.check_kills(run, "dump.h5", 1000 // len(self.RUNS) if LONG else 2, moments)

    def test_gradients_of_all_heads_together(self):
        """Those through a norm over all heads are of several units of a checkpoint."""
        draw = np.random.default_rng(7)
        shapes = {"x": (2, 300, 8), "wq": (4, 8, 4), "wk": (2, 8, 4), "wv": (2, 8, 4), "q_norm": 16, "k_norm": 8,
                  "grad_out": (2, 4, 300, 4)}
        self.write("layer.h5", **{name: draw.normal(size=size) for name, size in shapes.items()},
                   norm_epsilon=np.array(1e-3))
        self.check_kills(["attn-compute", "layer.h5", "--from", "projection", "--memory", "2M", "--emit",
                          "grad_x,grad_wq,grad_k_norm", "-o", "out.h5"], "layer.h5", 20 if LONG else 4, random.Random(3))

    def test_each_tool_sees_another_writer(self):
        """Whose lock is held before there is a checkpoint to look at."""
        with open(self.folder / ".ck.lock.tmp", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for run in self.RUNS:
                with self.subTest(tool=run[0]):
                    if run[0] in ("structured-attention", "hard-attention"):
                        self.add_sequences()
                    done = self.run_tool(*run, "--checkpoint", "ck", status=5)
                    self.assertEqual(done.err.splitlines()[-1], f"{run[0]}: error: ck is being written by another process")

    def test_each_signal(self):
        command = ["attn-compute", "dump.h5", "--each", "/layer*", "-o", "out.h5", "--checkpoint", "ck"]
        self.run_tool(*command, "--checkpoint-every", 0)
        whole = self.outcome()
        for number in sample(STOPPING, 2):
            with self.subTest(signal=number):
                (self.folder / "out.h5").unlink()
                says = self.stopped(command, number)
                self.assertRegex(says, rf"\Aattn-compute: stopped by {number.name}: ck holds \d+ heads?[; ]")
                self.assertEqual(sorted(os.listdir(self.folder)), ["ck", "dump.h5"])
                done = self.run_tool(*command, "--checkpoint-every", 0)
                self.assertRegex(done.err, r"note: ck: goes on (within a head, )?after \d+ heads?\n")
                self.assertEqual(self.outcome(), whole)

    def test_other_status_and_resources(self):
        """Threads, memory, names of outputs and messages are no part of a run."""
        command = ["attn-compute", "dump.h5", "--checkpoint", "ck"]
        self.run_tool(*command, "-o", "whole.h5")
        says = self.stopped([*command, "-o", "out.h5", "--requeue-status", 9, "-q"], status=9)
        self.assertEqual(says, "")
        self.run_tool(*command, "-o", "other.h5", "--threads", 2, "--memory", "64M", "-v", "--compress", "gzip")
        whole, other = self.read("whole.h5"), self.read("other.h5")
        self.assert_same_bits(other, whole)
        self.assertEqual(sorted(os.listdir(self.folder)), ["dump.h5", "other.h5", "whole.h5"])

    def test_file_that_somebody_removes(self):
        """It is not needed any more when the run has finished."""
        command = ["attn-compute", "dump.h5", "-o", "out.h5", "--checkpoint", "ck"]
        self.run_tool(*command)
        whole = (self.folder / "out.h5").read_bytes()
        (self.folder / "out.h5").unlink()
        for _ in range(50):
            self.stopped(command, least=1)
            with self.start(command) as process:
                while not (line := process.stderr.readline()).startswith(b"attn-compute: note: ck: goes on"):
                    self.assertTrue(line)
                (self.folder / "ck").unlink(missing_ok=True)
                found = process.poll() is None
                errors = process.communicate(timeout=TIMEOUT)[1]
            self.assertEqual(process.returncode, 0, errors)
            self.assertEqual((self.folder / "out.h5").read_bytes(), whole)
            (self.folder / "out.h5").unlink()
            if found:
                return
        self.fail("never removed in time")

    def test_other_form_of_the_table(self):
        command = ["explain-away-stats", "dump.h5", "--checkpoint", "ck"]
        plain = self.run_tool(*command[:2], "--csv").out
        self.stopped(command)
        done = self.run_tool(*command, "--csv")
        self.assertIn("note: ck: goes on ", done.err)
        self.assertEqual(done.out, plain)

    def test_json_of_a_stopped_run(self):
        self.stopped(["explain-away-stats", "dump.h5", "--json=out.json", "--checkpoint", "ck"])
        report = self.read_json("out.json")
        self.assertEqual((report["status"], report["result"]), ("stopped", {}))

    def test_stops_within_a_long_head(self):
        """A head of minutes: the run ends within 5 seconds nevertheless, and goes on within the head."""
        draw = np.random.default_rng(3)
        self.write("long.h5", q=draw.normal(size=(1500, 8)), k=draw.normal(size=(1500, 8)))
        command = ["attn-compute", "long.h5", "--scheme", "sinkhorn", "--iterations", 10**6, "-o", "out.h5",
                   "--checkpoint", "ck"]
        for goes_on in (False, True):
            with self.start(command) as process:
                while process.poll() is None and not (self.folder / ".out.h5.tmp").exists():
                    time.sleep(0.001)
                time.sleep(0.2)
                process.terminate()
                begun = time.monotonic()
                errors = process.communicate(timeout=TIMEOUT)[1].decode()
            self.assertEqual(process.returncode, 75)
            self.assertLess(time.monotonic() - begun, 5)
            self.assertIn("ck holds 0 heads and a part of the next", errors)
            self.assertEqual("note: ck: goes on within a head, after 0 heads\n" in errors, goes_on)

    # Commands that take long, and how a later run says that it goes on within them.
    WITHIN = [
        ("within a problem", ["sinkhorn-iter", "cost.h5", "--epsilon", "0.001", "--iterations", "3000"]),
        ("within a problem", ["sinkhorn-iter", "cost.h5", "--epsilon", "0.001", "--iterations", "3000",
                              "--unbalanced", "2:1"]),
        ("within a problem", ["sinkhorn-iter", "exact", "costs.h5", "--solver", "annealing", "--gap", "0.01"]),
        ("within a problem", ["sinkhorn-iter", "barycentre", "histograms.h5", "--epsilon", "0.01",
                              "--iterations", "2000"]),
        ("within a head", ["attn-compute", "long.h5", "--scheme", "sinkhorn", "--iterations", "80"]),
        ("within a head", ["attn-compute", "long.h5", "--scheme", "sinkhorn", "--tolerance", "1e-13", "--scale", "2"]),
        ("within a head", ["attn-compute", "long.h5", "--scheme", "em", "--energy", "gaussian", "--iterations", "20",
                           "--estimate", "variance,priors", "--emit", "out,centre"]),
        ("within a head", ["attn-compute", "long.h5", "--scheme", "mean-shift", "--energy", "gaussian",
                           "--iterations", "20"]),
        ("within a head", ["explain-away-stats", "long.h5", "--scheme", "unas,dnas,hnas,sinkhorn", "--hybrid", "0.5"]),
        ("after [1-9]", ["lambda-solve", "wide.h5", "--emit", "lambda,p,gap,iterations"]),
        ("within a set", ["mode-collapse-sim", "simulate", "--counts", "500,100", "--centres", "1,0;-1,0", "--steps", "20",
                 "--scheme", "unas,dnas"]),
        ("within a set", ["mode-collapse-sim", "em", "--counts", "500,100", "--centres", "2,0;-2,0", "--steps", "20",
                 "--priors", "dnas", "--estimate-variance"]),
        ("within a sequence", ["structured-attention", "texts.h5", "--memory", "1M", "--emit", "out,grad_x,grad_w1"]),
        ("within a sequence", ["hard-attention", "steps.h5", "--samples", "60000", "--memory", "64K", "--emit", "log_p,grad_a"]),
    ]

    def write_long(self):
        draw = np.random.default_rng(4)
        self.write("cost.h5", cost=draw.uniform(size=(300, 300)))
        self.write("costs.h5", cost=draw.uniform(size=(600, 600)))
        histograms = draw.uniform(1, 2, (3, 400))
        self.write("histograms.h5", cost=draw.uniform(size=(300, 400)), a=histograms / histograms.sum(1, keepdims=True))
        self.write("long.h5", **{name: draw.normal(size=(2500, 16)) for name in ("q", "k", "v", "grad_out")})
        self.write("wide.h5", **{name: draw.normal(size=(700, 40)) for name in ("q", "k", "v")})
        self.write("texts.h5", x=draw.normal(size=(100, 60, 32)), w1=draw.normal(size=(24, 32)),
                   w2=draw.normal(size=(6, 24)), grad_out=draw.normal(size=(100, 6, 32)))
        self.write("steps.h5", a=draw.normal(size=(60, 12, 5)), state=draw.normal(size=(60, 4)),
                   w_a=draw.normal(size=(6, 5)), w_h=draw.normal(size=(6, 4)), v=draw.normal(size=6),
                   readout=draw.normal(size=(7, 5)), target=draw.integers(0, 7, size=60),
                   grad_log_p=draw.normal(size=60))

    def test_within_a_long_unit(self):
        """What a long head, problem, set or group has reached is kept, too."""
        self.write_long()
        inputs = set(os.listdir(self.folder))
        moments = random.Random(5)
        for place, (where, run) in enumerate(sample(self.WITHIN, 6)):
            for threads in ("1", "2") if LONG else "12"[place % 2]:
                with self.subTest(run=run, threads=threads):
                    for name in set(os.listdir(self.folder)) - inputs:
                        (self.folder / name).unlink()
                    self.environment["ATTN_NUM_THREADS"] = threads
                    command = [*run, "-o", "out.h5", "--checkpoint", "ck", "--checkpoint-every", "0.02"]
                    begun = time.monotonic()
                    self.run_tool(*command)
                    seconds = time.monotonic() - begun
                    whole = (self.folder / "out.h5").read_bytes()
                    within, tries = 0, 0
                    wanted = 40 if LONG else 1
                    while within < wanted:
                        (self.folder / "out.h5").unlink(missing_ok=True)
                        number = moments.choice([signal.SIGKILL, *STOPPING])
                        status, errors = self.interrupted(command, number, moments.uniform(0.2, 0.8) * seconds)
                        within += re.search(f"goes on {where}", errors) is not None
                        tries += 1
                        self.assertLess(tries, 40 * wanted, errors)
                        self.assertIn(status, (0, 75, -number), errors)
                        if (self.folder / "out.h5").exists():
                            self.assertEqual((self.folder / "out.h5").read_bytes(), whole)
                    if set(os.listdir(self.folder)) != inputs | {"out.h5"}:
                        # Killed before its end, or with the result written and the checkpoint not yet removed. Another
                        # number of threads goes on, too.
                        self.environment["ATTN_NUM_THREADS"] = moments.choice("12")
                        (self.folder / "out.h5").unlink(missing_ok=True)
                        self.run_tool(*command)
                    self.assertEqual((self.folder / "out.h5").read_bytes(), whole)
                    (self.folder / "out.h5").unlink()
                    self.assertEqual(set(os.listdir(self.folder)), inputs)

    def test_shards_have_their_own(self):
        command = ["attn-compute", "dump.h5", "-q", "-o", "out.h5", "--checkpoint", "ck"]
        self.stopped([*command, "--shard", "1/2"], checkpoint="ck.0001-of-0002")
        self.run_tool(*command, "--shard", "2/2")
        self.assertEqual(sorted(os.listdir(self.folder)), ["ck.0001-of-0002", "dump.h5", "out.0002-of-0002.h5"])
        shutil.copy(self.folder / "ck.0001-of-0002", self.folder / "ck.0002-of-0002")
        (self.folder / "out.0002-of-0002.h5").unlink()
        self.assertIn("is the checkpoint of another run: ", self.run_tool(*command, "--shard", "2/2", status=5).err)
        (self.folder / "ck.0002-of-0002").unlink()
        self.run_tool(*command, "--shard", "2/2")
        self.run_tool(*command, "--shard", "1/2")
        self.run_tool("tensor-join", "out.0001-of-0002.h5", "out.0002-of-0002.h5", "-o", "joined.h5")
        self.run_tool("attn-compute", "dump.h5", "--only", "-q", "-o", "whole.h5")
        self.assert_same_bits(self.read("joined.h5"), self.read("whole.h5"))
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith(("ck", "."))])


class WithoutCheckpoint(DumpTest):

    def test_signals_leave_nothing(self):
        before = sorted(os.listdir(self.folder))
        for number in (signal.SIGINT, *STOPPING):
            with self.subTest(signal=number), self.start(
                    ["attn-compute", "dump.h5", "--scheme", "sinkhorn", "--iterations", 10**6, "-o", "o.h5"]) as process:
                while process.poll() is None and not (self.folder / ".o.h5.tmp").exists():
                    time.sleep(0.001)
                process.send_signal(number)
                process.communicate(timeout=TIMEOUT)
                self.assertEqual(process.returncode, -number)
                self.assertEqual(sorted(os.listdir(self.folder)), before)


class Refused(DumpTest):

    COMMAND = ["attn-compute", "dump.h5", "-q", "--checkpoint", "ck"]

    def refused_run(self, *more, says, status=5, hint=None, **other):
        self.refused(*self.COMMAND, *more, status=status, says=says, hint=hint, **other)

    def test_other_runs(self):
        self.stopped([*self.COMMAND, "-o", "out.h5"])
        other = "ck is the checkpoint of another run: "
        self.refused_run("--scheme", "dnas", says=[other + 'scheme is "unas", not "dnas"'], hint="remove it")
        self.refused_run("--precision", "f32", says=[other + "precision is "])
        self.refused_run("--each", "/layer[12]", says=[other + "each is "])
        self.refused("explain-away-stats", "dump.h5", "-q", "--checkpoint", "ck", status=5,
                     says=[other + 'tool is "attn-compute", not "explain-away-stats"'])
        with h5py.File(self.folder / "ck", "a") as file:
            run = file.attrs["attn_checkpoint"]
            version = json.loads(run)["version"]
            file.attrs["attn_checkpoint"] = run.replace(f'"version":"{version}"', '"version":"0.0.7"')
        self.refused_run(says=[other + f'version is "0.0.7", not "{version}"'])
        with h5py.File(self.folder / "ck", "a") as file:
            file.attrs["attn_checkpoint"] = run.replace('"format":2', '"format":1')
        self.refused_run(says=[other + "format is 1, not 2"])

    def test_other_inputs(self):
        self.stopped([*self.COMMAND, "-o", "out.h5"])
        os.utime(self.folder / "dump.h5", (0, 0))
        self.refused_run(says=["ck is the checkpoint of another run: files/0/changed is ", "not 0.0"])

    def test_damage(self):
        self.stopped([*self.COMMAND, "-o", "out.h5"], least=1)
        whole = (self.folder / "ck").read_bytes()
        with h5py.File(self.folder / "ck", "a") as file:
            file["units"][100] ^= 1
        self.refused_run(status=3, says=["ck is damaged: its bytes are not"], hint="remove it")
        for part in (whole[:len(whole) // 2], b"", b"text"):
            (self.folder / "ck").write_bytes(part)
            self.refused_run(status=3, says=["ck"])
        (self.folder / "ck").unlink()
        self.write("ck", q=[1.0])
        self.refused_run(status=5, says=["ck exists and is no checkpoint"])

    def test_damaged_attributes(self):
        self.stopped([*self.COMMAND, "-o", "out.h5"], least=1)
        whole = (self.folder / "ck").read_bytes()
        with h5py.File(self.folder / "ck") as file:
            units, checksum = int(file.attrs["attn_checkpoint_units"]), file.attrs["attn_checkpoint_crc"]
            self.assertEqual(len([name for name in file.attrs if name.startswith("attn_checkpoint")]), 3)

        def refused_with(name, value, says, status=3):
            (self.folder / "ck").write_bytes(whole)
            with h5py.File(self.folder / "ck", "a") as file:
                file.attrs[name] = value
            self.refused_run(status=status, says=[says])

        for wrong in (units - 1, units + 1):
            refused_with("attn_checkpoint_units", wrong, "ck is damaged: its bytes are not")
        for wrong in (-3, units + 0.5, 1e30, np.inf, np.nan):
            refused_with("attn_checkpoint_units", wrong, "ck is damaged: it counts ")
        refused_with("attn_checkpoint_units", "text", "ck")
        for digit in range(len(checksum)):
            other = checksum[:digit] + ("1" if checksum[digit] == "0" else "0") + checksum[digit + 1:]
            refused_with("attn_checkpoint_crc", other, "ck is damaged: its bytes are not")
        refused_with("attn_checkpoint", "{}", "ck is the checkpoint of another run: ", status=5)
        (self.folder / "ck").write_bytes(whole)
        self.run_tool(*self.COMMAND, "-o", "b.h5")

    def test_changed_source(self):
        """What a virtual dataset reads, though the file that is named stays as it is."""
        with h5py.File(self.folder / "refers.h5", "w") as file:
            for n in range(GROUPS):
                for name in ("q", "k", "v"):
                    layout = h5py.VirtualLayout((3, 300, 16), "f8")
                    layout[:] = h5py.VirtualSource("dump.h5", f"layer{n}/{name}", (3, 300, 16))
                    file.create_virtual_dataset(f"layer{n}/{name}", layout)
        command = ["attn-compute", "refers.h5", "-q", "--checkpoint", "ck"]
        self.stopped([*command, "-o", "out.h5"])
        os.utime(self.folder / "dump.h5", (0, 0))
        self.refused(*command, status=5, says=["ck is the checkpoint of another run: sources/0/changed is ", "not 0.0"])

    def test_no_room(self):
        """The message names the checkpoint, not the head in progress."""
        limit = 8192
        self.write("long.h5", **{name: np.ones((1, 4000, 8), np.float32) for name in "qkv"})
        done = self.run_tool("attn-compute", "long.h5", "-q", "--only", "-o", "out.h5", "--checkpoint=ck", "--checkpoint-every=0",
                             status=5, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertRegex(done.err, r"\Aattn-compute: error: ck(:/(state|units))? cannot be written: .+\n\Z")
        self.assertEqual(sorted(os.listdir(self.folder)), ["dump.h5", "long.h5"])

    def test_second_writer(self):
        with self.start(["attn-compute", "dump.h5", "--scheme", "sinkhorn", "--iterations", 10**6, "-o", "a.h5",
                         "--checkpoint", "ck"]) as process:
            while process.poll() is None and not (self.folder / ".ck.tmp").exists():
                time.sleep(0.001)
            done = self.run_tool(*self.COMMAND, "-o", "b.h5", status=5)
            self.assertEqual(done.err, "attn-compute: error: ck is being written by another process\n")
            process.kill()
            process.communicate(timeout=TIMEOUT)
        self.run_tool(*self.COMMAND, "-o", "b.h5")
        self.assertEqual([name for name in os.listdir(self.folder) if "ck" in name], [])

    def test_second_writer_at_any_moment(self):
        """Also just after a write, and while the other one reads what it has written."""
        command = ["attn-compute", "dump.h5", "--scheme", "sinkhorn", "--iterations", 10**6, "-q", "--checkpoint", "ck",
                   "--checkpoint-every", 0]
        moments = random.Random(5)
        with self.start([*command, "-o", "a.h5"]) as process:
            try:
                while process.poll() is None and not (self.folder / "ck").exists():
                    time.sleep(0.001)
                for _ in range(300 if LONG else 12):
                    time.sleep(moments.uniform(0, 0.02))
                    process.send_signal(signal.SIGSTOP)
                    done = self.run_tool(*command, "-o", "b.h5", status=None)
                    self.assertEqual((done.status, done.err),
                                     (5, "attn-compute: error: ck is being written by another process\n"))
                    process.send_signal(signal.SIGCONT)
                self.assertIsNone(process.poll())
            finally:
                process.kill()
                process.communicate(timeout=TIMEOUT)

    def test_many_starts_at_once(self):
        """One run does the work, whichever it is; the others say so, even where the first has just finished."""
        command = ["attn-compute", "dump.h5", "-q", "--checkpoint", "ck", "--checkpoint-every", 0, "--force",
                   "-o", "out.h5"]
        self.run_tool(*command)
        whole = (self.folder / "out.h5").read_bytes()
        moments = random.Random(6)
        for _ in range(30 if LONG else 2):
            runs = []
            for _ in range(6):
                runs.append(self.start(command))
                time.sleep(moments.uniform(0, 0.01))
            ends = [(run.communicate(timeout=TIMEOUT)[1].decode(), run.returncode) for run in runs]
            self.assertIn(("", 0), ends)
            for end in ends:
                self.assertIn(end, [("", 0)] + [
                    (f"attn-compute: error: {file} is being written by another process\n", 5)
                    for file in ("ck", "out.h5")])
            self.assertEqual((self.folder / "out.h5").read_bytes(), whole)
            self.assertEqual(sorted(os.listdir(self.folder)), ["dump.h5", "out.h5"])

    def test_wrong_use(self):
        compute = ["attn-compute", "dump.h5", "-q"]
        for name in ("weights", "scores", "energies"):
            self.refused_run("--emit", name, status=2, says=["--checkpoint", name])
        self.refused("sinkhorn-iter", "dump.h5", "-q", "--emit", "plan", "--checkpoint", "ck", status=2,
                     says=["--checkpoint", "plan"])
        self.refused(*compute, "--checkpoint", "-", status=2, says=["--checkpoint is '-'"])
        self.refused(*compute, "--checkpoint", "out.h5", status=2, says=["out.h5 is an input or the output"])
        self.refused(*compute, "--checkpoint", "dump.h5", status=2, says=["dump.h5 is an input or the output"])
        here = os.path.realpath(self.folder)
        (self.folder / "link").symlink_to("out.h5")
        for name in ("./out.h5", f"{here}/out.h5", f"../{os.path.basename(here)}/out.h5"):
            for more in ([], ["--shard", "1/2"]):
                self.refused(*compute, *more, "--checkpoint", name, status=2, says=["is an input or the output"])
        for name, output in (("link", "./out.h5"), ("./dump.h5", "out.h5")):
            self.refused(*compute, "--checkpoint", name, status=2, says=["is an input or the output"], output=output)
        (self.folder / "link").unlink()
        self.refused("explain-away-stats", "dump.h5", "-q", "--checkpoint", "./t.csv", status=2,
                     says=["./t.csv is an input or the output"], output="t.csv")
        os.mkfifo(self.folder / "pipe")
        for says, *inputs in (["INPUT is standard input"], ["INPUT is standard input", "-:/layer0"],
                              ["-i q is standard input", "-i", "q=-:/q", "dump.h5"], ["INPUT is a pipe", "pipe"],
                              ["-i q is a pipe", "-i", "q=pipe:/q", "dump.h5"]):
            self.refused("attn-compute", *inputs, "--checkpoint", "ck", status=2, says=[says])
        (self.folder / "pipe").unlink()
        self.refused(*compute, "--requeue-status", "9", status=2, says=["only with --checkpoint"])
        self.refused(*compute, "--checkpoint-every", "9", status=2, says=["only with --checkpoint"])
        self.refused(*compute, "--checkpoint", "none/ck", status=5, says=["none"])
        (self.folder / "sub").mkdir()
        self.refused(*compute, "--checkpoint", "sub", status=5, says=["sub"])
