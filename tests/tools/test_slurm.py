"""scripts/slurm: its scripts, and the examples of its page, run on a real Slurm: a private cluster."""

import csv
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from attn import BIN, SOURCE, TIMEOUT, ToolTest
from training import RECIPE, TrainTest

SCRIPTS = SOURCE / "scripts/slurm"
# A word of each example on the page, by which a test finds it.
EXAMPLES = ["private-cluster", "run.h5", "--checkpoint", "--shard", "seed=%a", "salloc -n2 make", "PART", "snakemake", "parallel", "ranks.sbatch"]
PLUGIN = BIN.parent / "libexec/attnkit/attn-mpi.so"
WITHOUT_PICTURES = importlib.util.find_spec("matplotlib") is None
# Without what a surrounding job of Slurm sets.
ENVIRONMENT = {key: value for key, value in os.environ.items()
               if not key.startswith(("SLURM_", "SBATCH_", "SALLOC_", "SRUN_", "MAKE"))}


def skip_without(*programs):
    """Skips a test also where CI is set: .ci/run does not install these programs."""
    missing = [name for name in programs
               if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    return unittest.skipIf(missing, f"not installed: {' '.join(missing)} (scripts/slurm/README.md)")


skip_without_slurm = skip_without("slurmctld", "slurmd", "munged", "sbatch")


def examples():
    return [block.partition("```")[0]
            for block in (SCRIPTS / "README.md").read_text().split("```text\n")[1:]]


def example(word):
    """The only block of the page that has a word."""
    [block] = [block for block in examples() if word in block]
    return block


def processes_of(cluster):
    """What runs of a private cluster: by its environment, which processes that have ended lack."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"SLURM_CONF={cluster}/slurm.conf".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" "))
        except OSError:
            pass  # it has ended
    return found


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("waited too long")
        time.sleep(0.1)


class Page(unittest.TestCase):

    def test_every_example_has_a_test(self):
        self.assertEqual(examples(), [example(word) for word in EXAMPLES])


@skip_without_slurm
class PrivateCluster(ToolTest):

    def setUp(self):
        super().setUp()
        self.cluster = self.folder / "cluster"
        self.environment = ENVIRONMENT | self.environment | {"ATTNKIT": str(SOURCE)}
        self.addCleanup(self.command, "stop", status=None)

    def command(self, word, status=0):
        return self.shell(f"{SCRIPTS}/private-cluster {word} {self.cluster}", status)

    def test_example(self):
        self.assertIn(b" idle ", self.shell(example("private-cluster")).out)
        self.assertEqual(processes_of(self.cluster), [])

    def test_stop_ends_jobs_that_do_not_want_to(self):
        set_conf = self.command("start").out.decode()
        self.assertIn("runs in", self.command("start", status=1).err)
        self.shell(set_conf + "sbatch --wrap 'trap \"\" TERM; echo > begun; srun sleep 99 & sleep 98; sleep 97'")
        wait_until((self.folder / "begun").exists)
        self.command("stop")
        self.assertEqual(processes_of(self.cluster), [])
        # Stopped, it starts again, without the job.
        self.assertEqual(self.command("start").out.decode(), set_conf)
        self.assertEqual(self.shell(set_conf + "squeue --noheader").out, b"")

    def test_a_daemon_that_does_not_start(self):
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "slurmd").write_text("#!/bin/sh\necho this node is broken\nexit 1\n")
        (programs / "slurmd").chmod(0o755)
        self.environment["PATH"] = f"{programs}:{self.environment['PATH']}"
        error = self.command("start", status=1).err
        self.assertIn("  this node is broken\n", error)
        self.assertRegex(error, r"private-cluster: error: slurmd does not start.*\n\Z")
        self.assertEqual(processes_of(self.cluster), [])

    def test_wrong_commands(self):
        self.assertRegex(self.command("restart", status=2).err, r"\Aprivate-cluster: error: .*\n\Z")
        for name, says in (("a" * 90, "too long"), ("a,b", "cannot hold")):
            self.cluster = self.folder / name
            self.assertIn(says, self.command("start", status=1).err)
        self.cluster = self.folder / "cluster"


class ClusterTest(TrainTest):
    """Tests that share a private cluster; each begins and ends with an empty queue."""

    @classmethod
    def setUpClass(cls):
        base = Path(tempfile.mkdtemp(prefix="attn-slurm-"))
        cls.addClassCleanup(shutil.rmtree, base, ignore_errors=True)
        cls.addClassCleanup(subprocess.run, [SCRIPTS / "private-cluster", "stop", base / "cluster"], check=True)
        subprocess.run([SCRIPTS / "private-cluster", "start", base / "cluster"], check=True, timeout=TIMEOUT,
                       stdout=subprocess.DEVNULL)
        # HOME, since some programs keep files there.
        cls.shared = {"SLURM_CONF": str(base / "cluster/slurm.conf"), "HOME": str(base / "home"),
                      "ATTNKIT": str(SOURCE), "BIN": str(BIN)}
        (base / "home").mkdir()

    def setUp(self):
        super().setUp()
        (self.folder / "r.toml").unlink()
        self.environment = ENVIRONMENT | self.environment | self.shared
        self.addCleanup(self.empty_queue)

    def empty_queue(self):
        self.shell("squeue --noheader --format=%A | sort -u | xargs -r scancel")
        self.wait_for_jobs()

    def wait_for_jobs(self):
        wait_until(lambda: not self.shell("squeue --noheader").out)

    def wait_for_log(self, name, lines=3):
        """Until a run has learned for a while."""
        log = self.folder / name
        wait_until(lambda: log.exists() and log.read_bytes().count(b"\n") >= lines)

    def write_recipe(self, steps):
        """A run that learns most of its time: few evaluations and checkpoints."""
        text = RECIPE
        for key, value in (("steps", steps), ("evaluate-every", 500), ("checkpoint-every", 500)):
            text = re.sub(rf"^{key} = .*", f"{key} = {value}", text, flags=re.MULTILINE)
        (self.folder / "recipe.toml").write_text(text)

    def said(self, job):
        """What a job wrote."""
        return (self.folder / f"slurm-{job}.out").read_text()

    def state(self, job):
        return self.shell(f"squeue --noheader --states=all --jobs={job} --format=%T").out.decode().split()


@skip_without_slurm
class Training(ClusterTest):

    def test_a_signalled_run_goes_on_to_the_same_bytes(self):
        self.write_recipe(steps=1000)
        job = self.shell(example("run.h5")).out.split()[-1].decode()
        self.wait_for_log("run.jsonl")
        self.shell(f"scancel --signal=USR1 {job}")
        (self.folder / "whole").mkdir()
        shutil.copy(self.folder / "recipe.toml", self.folder / "whole")
        self.run_tool("attn-train", "recipe.toml", "-o", "run.h5", "--log", "run.jsonl",
                      cwd=self.folder / "whole")
        self.wait_for_jobs()
        self.assertEqual(self.state(job), ["COMPLETED"])
        for message in ("of 1000 steps, stopped by SIGUSR1", "run.h5 goes on from step"):
            self.assertEqual(self.said(job).count(message), 1, self.said(job))
        for name in ("run.h5", "run.previous.h5"):
            self.assertEqual(self.bytes_of(name), self.bytes_of(f"whole/{name}"))
        self.assertEqual(self.log("run.jsonl"), self.log("whole/run.jsonl"))

    def test_seeds_and_their_table(self):
        self.write_recipe(steps=600)
        array = self.shell("exec 3>&1; sbatch() { command sbatch \"$@\" | tee /dev/fd/3; };" +
                           example("seed=%a")).out.split()[0].decode()
        # The last one has the number of the array; it alone goes back into the queue.
        self.wait_for_log("seed-3.jsonl")
        self.shell(f"scancel --signal=USR1 {array}_3")
        self.wait_for_jobs()
        for seed in range(4):
            said = self.said(f"{array}_{seed}")
            self.assertEqual(said.count("goes on from step"), int(seed == 3), said)
            self.assertNotIn("is finished", said)
            self.assertEqual(self.log(f"seed-{seed}.jsonl")[0]["recipe"]["seed"], seed)
        table = self.run_tool("seed-test", *(f"seed-{seed}.jsonl" for seed in range(4)), "--metric", "valid.loss")
        self.assertEqual(self.bytes_of("seeds.txt"), table.out)

    def test_a_cancelled_run_stays_out_of_the_queue(self):
        self.write_recipe(steps=100000)
        job = self.shell(example("run.h5")).out.split()[-1].decode()
        self.wait_for_log("run.jsonl")
        self.shell(f"scancel {job}")
        self.wait_for_jobs()
        self.assertEqual(self.state(job), ["CANCELLED"])

    def test_a_failed_run_stays_out_of_the_queue(self):
        job = f"sbatch --wait {SCRIPTS}/job.sbatch"
        self.shell(f"{job} attn-train missing.toml -o run.h5", status=3)
        self.shell(job, status=2)


@skip_without_slurm
class Checkpoint(ClusterTest):

    def test_a_signalled_run_goes_on_to_the_same_bytes(self):
        self.run_tool("tensor-gen", "normal", "q=16x700x16", "k=16x700x16", "-o", "long.h5")
        # Written as soon as a head is done, so that it is there in time.
        job = self.shell(example("--checkpoint").replace("-o plan", "--checkpoint-every 0 --threads 1 -o plan")
                         ).out.split()[-1].decode()
        wait_until((self.folder / "long.ckpt").exists)
        self.shell(f"scancel --signal=USR1 {job}")
        self.run_tool("sinkhorn-iter", "long.h5", "-o", "whole.h5")
        self.wait_for_jobs()
        self.assertEqual(self.state(job), ["COMPLETED"])
        said = self.said(job)
        self.assertEqual([said.count("stopped by SIGUSR1"), said.count("goes on")], [1, 2], said)
        self.assert_same_bits(self.read("plan.h5"), self.read("whole.h5"), ["row_potential", "col_potential"])
        self.assertFalse((self.folder / "long.ckpt").exists())


@skip_without_slurm
class Parts(ClusterTest):

    def test_an_array_and_its_join(self):
        shutil.copy(SOURCE / "data/passage.h5", self.folder)
        self.shell(example("--shard"))
        self.wait_for_jobs()
        self.assertEqual(len(list(self.folder.glob("out.000?-of-0004.h5"))), 4)
        self.assert_same_bits(self.read("out.h5"), self.compute("passage.h5", "--scheme", "dnas"),
                              ["out", "row_potential", "col_potential"])


@skip_without_slurm
@skip_without("mpirun")
@unittest.skipUnless(PLUGIN.exists(), "built without MPI (cmake -DATTN_MPI=ON)")
class Ranks(ClusterTest):

    def setUp(self):
        super().setUp()
        shutil.copy(SOURCE / "data/passage.h5", self.folder)

    def test_a_run_on_ranks(self):
        self.shell(example("ranks.sbatch"))
        self.assert_same_bits(self.read("ranks.h5"), self.compute("passage.h5", "--scheme", "dnas"),
                              ["out", "row_potential", "col_potential"])

    def test_a_signalled_run_goes_on_to_the_same_bytes(self):
        run = "--scheme sinkhorn --iterations 3000 --threads 1"
        job = self.shell(f"sbatch --parsable --ntasks=2 {SCRIPTS}/ranks.sbatch attn-compute passage.h5 {run} -o out.h5 "
                         "--checkpoint ck --checkpoint-every 0.1").out.split()[0].decode()
        wait_until((self.folder / "ck").exists)
        self.shell(f"scancel --signal=USR1 {job}")
        whole = self.compute("passage.h5", *run.split())
        self.wait_for_jobs()
        self.assertEqual(self.state(job), ["COMPLETED"])
        said = self.said(job)
        self.assertEqual([said.count("stopped by SIGUSR1"), said.count("goes on within")], [1, 1], said)
        self.assert_same_bits(self.read("out.h5"), whole, ["out", "row_potential", "col_potential"])

    def test_a_failure_ends_the_job_with_its_status(self):
        job = self.shell(f"sbatch --parsable --wait {SCRIPTS}/ranks.sbatch attn-compute absent.h5 -o out.h5",
                         status=3).out.split()[0].decode()
        self.assertEqual(self.said(job).count("attn-compute: error: no such file: absent.h5\n"), 1)

    def test_each_process_for_itself(self):
        whole = self.read("passage.h5")
        self.write("dump.h5", **{f"{layer}__{name}": whole[name] for layer in "ab" for name in "qkv"})
        self.shell(f"sbatch --wait {SCRIPTS}/ranks.sbatch attn-compute --each '?' dump.h5 --shard auto -o part.h5")
        self.shell("tensor-join part.000?-of-0002.h5 -o joined.h5")
        self.assert_same_bits(self.read("joined.h5"), self.compute("--each", "?", "dump.h5"), ["a/out", "b/out"])


@skip_without_slurm
@unittest.skipIf(WITHOUT_PICTURES, "no matplotlib")
class Sweep(ClusterTest):

    def rows(self, name):
        with open(self.folder / name, newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        for row in rows:
            row.pop("file")
        return rows

    def setUp(self):
        super().setUp()
        shutil.copy(SOURCE / "data/passage.h5", self.folder)

    def check(self, out, scales):
        """The same as without Slurm."""
        self.shell(f"make -C {SOURCE} -f scripts/sweep.mk INPUT=$PWD/passage.h5 OUT=$PWD/here"
                   f" SCALES='{scales}' SHARES=0.1 $PWD/here/table.tsv")
        self.assertEqual(self.rows(f"{out}/table.tsv"), self.rows("here/table.tsv"))
        for scale in scales.split():
            self.assertTrue((self.folder / f"{out}/sums/{scale}.png").exists())

    def test_make(self):
        printed = self.shell(example("salloc -n2 make")).out
        self.assertEqual(printed.count(b"srun -n1 -c1"), 8)
        self.check("sweep", "0.5 1")

    def test_array(self):
        self.shell(example("PART"))
        self.wait_for_jobs()
        # A part makes its cell and nothing else.
        one, other = (path.read_text() for path in sorted(self.folder.glob("slurm-*_*.out")))
        self.assertEqual([one.count("attn-compute --"), other.count("attn-compute --")], [1, 1])
        self.assertNotIn("attn-plot", one + other)
        self.check("cells", "0.5 1")

    @skip_without("snakemake")
    def test_snakemake(self):
        self.shell(example("snakemake"))
        self.check("snakes", "1")
        jobs = self.shell("squeue --noheader --states=all --format=%j").out.split()
        self.assertEqual(len([name for name in jobs if name.startswith(b"snakejob.")]), 2, jobs)

    @skip_without("parallel")
    def test_parallel(self):
        self.shell(example("parallel"))
        for scale in ("0.5", "1", "2"):
            one = self.compute("passage.h5", "--scale", scale)
            self.assert_same_bits(self.read(f"scale-{scale}.h5"), one, ["out"])


if __name__ == "__main__":
    unittest.main()
