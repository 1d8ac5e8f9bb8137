"""--checkpoint on ranks: they stop together, and any number of processes goes on."""

import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

import numpy as np

from attn import LONG, TIMEOUT, sample
from test_ranks import RankTest, mpirun


def cpu_seconds(process):
    """What a process has used so far, by itself."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Restarts(RankTest):
    RUNS = [
        ["attn-compute", "heads.h5", "--scheme=dnas", "--emit=out,row_potential,grad_q,grad_k,grad_v"],
        ["attn-compute", "heads.h5", "--scheme=unas", "--emit=out,col_sum,row_entropy"],
        ["sinkhorn-iter", "cost.h5", "--epsilon=0.001", "--iterations=4000"],
        ["attn-compute", "long.h5", "--scheme=sinkhorn", "--iterations=100"],
        ["attn-compute", "long.h5", "--scheme=em", "--energy=gaussian", "--iterations=9"],
        ["explain-away-stats", "heads.h5", "--scheme=unas,hnas", "--hybrid=0.5"],
        ["explain-away-stats", "masked.h5", "--scheme=sinkhorn"],
        ["lambda-solve", "wide.h5", "--emit=lambda,p,gap"],
    ]

    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(24)
        self.write("cost.h5", cost=draw.uniform(size=(300, 300)))
        names = ("q", "k", "v", "grad_out")
        self.write("heads.h5", **{name: draw.normal(size=(9, 900, 16)) for name in names})
        self.write("long.h5", **{name: draw.normal(size=(4000, 16)) for name in names})
        if LONG:
            self.write("masked.h5", q=draw.normal(size=(3000, 16)), k=3 * draw.normal(size=(3000, 16)),
                       mask=draw.random(size=(3000, 3000)) < 0.9)
        self.write("wide.h5", **{name: draw.normal(size=(900, 40)) for name in ("q", "k", "v")})

    def test_goes_on(self):
        for place, run in enumerate(sample(self.RUNS, 1)):
            with self.subTest(run=run):
                command = [*run, "-o", "out.h5", "--checkpoint=ck", "--checkpoint-every=0.01", "--threads=1"]
                self.run_tool(*command)
                whole = (self.folder / "out.h5").read_bytes()
                (self.folder / "out.h5").unlink()
                stops, goes_on, tries = 0, 0, 0
                while stops < (6 if LONG else 2) or not goes_on:
                    self.assertLess(tries, 60, "never stopped in time")
                    number = (signal.SIGUSR1, signal.SIGKILL)[(tries + place) % 2]
                    count = (3, 2, 1)[tries % 3]
                    status, error = self.interrupted(count, command, number)
                    goes_on += "ck: goes on " in error
                    stops += status == 75
                    tries += 1
                    self.assertEqual(error.count("stopped by SIGUSR1: ck holds"), status == 75, error)
                    if status == 0:
                        self.assertEqual((self.folder / "out.h5").read_bytes(), whole)
                        (self.folder / "out.h5").unlink()
                self.on_ranks(2, *command)
                self.assertEqual((self.folder / "out.h5").read_bytes(), whole)
                (self.folder / "out.h5").unlink()
                self.assertFalse((self.folder / "ck").exists())

    def test_stop_within_a_head(self):
        """All ranks end within seconds, whichever gets the signal; the head begins anew."""
        draw = np.random.default_rng(25)
        self.write("long.h5", **{name: draw.normal(size=(1, 40000, 64)).astype(np.float32)
                                 for name in ("q", "k", "v")})
        runs = [["attn-compute", "long.h5", "--scheme=dnas"], ["attn-compute", "long.h5", "--emit=col_sum"],
                ["explain-away-stats", "long.h5", "--scheme=dnas"]]
        for place, run in enumerate(sample(runs, 2)):
            for rank in range(3) if LONG else [place]:
                with self.subTest(run=run, rank=rank):
                    command = [*run, "-o", "out.h5", "--checkpoint=ck", "--threads=1"]
                    (self.folder / "script").write_text(
                        f'echo $$ >pid.$OMPI_COMM_WORLD_RANK\nexec {" ".join(command)}\n')
                    with subprocess.Popen([*mpirun(3), "sh", "script"], cwd=self.folder, env=self.environment,
                                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE) as running:
                        self.wait_for(lambda: (self.folder / ".ck.tmp").exists())
                        process = int((self.folder / f"pid.{rank}").read_text())
                        # Reading and starting take less than a third of it, however busy the machine is.
                        self.wait_for(lambda: cpu_seconds(process) > 0.6)
                        start = time.monotonic()
                        os.kill(process, signal.SIGUSR1)
                        error = running.communicate(timeout=TIMEOUT)[1].decode()
                    self.assertEqual(running.returncode, 75, error)
                    self.assertLess(time.monotonic() - start, 10)
                    self.assertEqual(error.count("ck holds 0 heads; the same command goes on"), 1, error)
                    (self.folder / "ck").unlink()

    def test_checkpoint_that_a_rank_does_not_see(self):
        command = ["attn-compute", "long.h5", "-o", "out.h5", "--scheme=sinkhorn", "--iterations=1000",
                   "--checkpoint=ck", "--checkpoint-every=0", "--threads=1"]
        self.assertEqual(self.interrupted(2, command, signal.SIGUSR1)[0], 75)
        (self.folder / "other").mkdir()
        (self.folder / "other/long.h5").symlink_to("../long.h5")
        (self.folder / "script").write_text(
            f'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then cd other; fi\nexec {" ".join(command)}\n')
        done = subprocess.run([*mpirun(2), "sh", "script"], cwd=self.folder, env=self.environment,
                              capture_output=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(b"rank 1 does not see ck as rank 0 does\n", done.stderr)
        self.assertTrue((self.folder / "ck").exists())
        self.assertFalse((self.folder / "out.h5").exists())

    def test_shards_keep_their_own(self):
        self.on_ranks(2, "attn-compute", "in.h5", "-o", "%I-%N.h5", "--checkpoint", "ck", "--shard", "auto")
        self.assertLessEqual({"1-2.h5", "2-2.h5"}, set(os.listdir(self.folder)))
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith("ck")])


if __name__ == "__main__":
    unittest.main()
