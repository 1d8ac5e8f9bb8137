"""Messages between ranks, by a plug-in in place of the usual one (plugin/slow_ranks.cpp)."""

import os
import shutil
import signal
import subprocess
import unittest

import numpy as np

from attn import BIN, LONG, TIMEOUT, sample
from test_ranks import PLUGIN, RankTest, mpirun


class Messages(RankTest):
    """A plug-in that delays messages, or cuts them, in place of the usual one."""

    def setUp(self):
        super().setUp()
        for file, copy in ((BIN / "attn-compute", "bin/attn-compute"),
                           (BIN.parent / "slow-ranks.so", "libexec/attnkit/attn-mpi.so")):
            (self.folder / copy).parent.mkdir(parents=True)
            shutil.copy(file, self.folder / copy)
        self.environment |= {"SLOW_RANKS_PLUGIN": str(PLUGIN)}
        random = np.random.default_rng(24)
        shapes = {"q": (200, 8), "k": (9000, 8), "v": (9000, 4)}
        self.write("in.h5", **{name: random.normal(size=shape).astype("f4")
                               for name, shape in shapes.items()})

    def compute_on(self, count, **settings):
        """The seconds that dnas takes, with a check of its bits."""
        self.environment |= {f"SLOW_RANKS_{name}": str(value) for name, value in settings.items()}
        self.on_ranks(count, self.folder / "bin/attn-compute", "--scheme=dnas", "--emit=out",
                      "--threads=1", "in.h5", "-o", "out.h5", "--force", "--json=report.json")
        self.assert_same_bits(self.read("out.h5"), self.compute("--scheme=dnas", "in.h5"), ["out"])
        return self.read_json("report.json")["runtime"]["compute_s"]

    def test_long_messages_are_sent_in_pieces(self):
        self.compute_on(3, PIECE=1000)

    def test_time_of_messages(self):
        turns = 63
        sums = 8 + 200 * (8 + 4 * 4)
        for count in sample((2, 3, 8, 4), 1):
            rings = count - 1
            for settings, seconds in (
                    ({"LATENCY": 0.004, "RATE": 0}, 0.004 * (turns + 2 * rings)),
                    ({"LATENCY": 0, "RATE": 1e6},
                     1e-6 * (turns * sums + rings * (sums + 8 * 9000 / count)))):
                took = self.compute_on(count, **settings)
                with self.subTest(ranks=count, settings=settings):
                    # The parts of a ring differ, since slots do.
                    self.assertGreater(took, 0.95 * seconds)
                    if LONG:  # the products take some 0.05 s
                        self.assertLess(took, 1.1 * seconds + 0.3)

    def test_signal_while_ranks_start(self):
        self.environment |= {"SLOW_RANKS_START": "60"}
        (self.folder / "script").write_text(
            "echo $$ >pid.$OMPI_COMM_WORLD_RANK\n"
            "exec bin/attn-compute in.h5 -o out.h5 --checkpoint=ck --requeue-status=76\n")
        with subprocess.Popen([*mpirun(2), "sh", "script"], cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:

            def starts(rank):
                process = (self.folder / f"pid.{rank}").read_text().strip() if self.age(f"pid.{rank}") else ""
                if not process or not self.is_running(process):
                    return False
                with open(f"/proc/{process}/maps", encoding="utf8") as files:
                    return "attn-mpi.so" in files.read()

            self.wait_for(lambda: starts(0) and starts(1))
            run.send_signal(signal.SIGUSR1)
            error = run.communicate(timeout=TIMEOUT)[1].decode()
        self.assertEqual(run.returncode, 76, error)
        self.assertEqual(error.count("attn-compute: stopped by a signal; the same command goes on\n"), 1, error)
        self.assertFalse({"ck", "out.h5"} & set(os.listdir(self.folder)))


if __name__ == "__main__":
    unittest.main()
