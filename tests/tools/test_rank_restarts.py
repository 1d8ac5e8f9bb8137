"""--checkpoint on ranks: they stop together, and any number of processes goes on."""

import os
import shutil
import signal
import subprocess
import time
import unittest

import numpy as np

from attn import LONG, TIMEOUT, sample
from test_ranks import RankTest, mpirun


class Restarts(RankTest):
    RUNS = [
        ["attn-compute", "long.h5", "--scheme=dnas", "--emit=out,row_potential,grad_q,grad_k,grad_v"],
        ["attn-compute", "long.h5", "--scheme=unas", "--emit=out,col_sum,row_entropy"],
        ["sinkhorn-iter", "cost.h5", "--epsilon=0.001", "--iterations=4000"],
        ["attn-compute", "long.h5", "--scheme=sinkhorn", "--iterations=100"],
        ["explain-away-stats", "long.h5", "--scheme=unas,hnas", "--hybrid=0.5"],
        ["explain-away-stats", "masked.h5", "--scheme=sinkhorn"],
        ["lambda-solve", "wide.h5", "--emit=lambda,p,gap"],
    ]

    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(24)
        self.write("cost.h5", cost=draw.uniform(size=(300, 300)))
        self.write("long.h5", **{name: draw.normal(size=(4000, 16)) for name in ("q", "k", "v", "grad_out")})
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
                    goes_on += "ck: goes on within a " in error
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


class DividedHeads(RankTest):
    """A head whose memory ranks divide goes on from its state on any number of ranks. One process has the
    memory for whole heads; it takes those that are done, and begins the next one anew."""

    ALL = "--emit=out,row_potential,col_potential,col_sum,row_entropy"
    HNAS = ("--scheme=hnas", "--hybrid=0.3")

    def data(self, queries, keys, **more):
        draw = np.random.default_rng(26)
        shapes = {"q": (2, queries, 16), "k": (2, keys, 16), "v": (2, keys, 40)}
        return {name: draw.normal(size=shape).astype("f4") for name, shape in shapes.items()} | more

    def check(self, memory, data, *arguments, tool="attn-compute"):
        self.write("in.h5", **data)
        self.run_tool(tool, *arguments, f"--memory={memory}", "in.h5", "-o", "alone.h5", status=6)
        self.run_tool(tool, *arguments, "in.h5", "-o", "alone.h5")
        command = [tool, *arguments, "in.h5", "-o", "out.h5", "--checkpoint=ck", "--checkpoint-every=0"]
        stops, goes_on, tries = 0, 0, 0
        while stops < (8 if LONG else 1) or not goes_on:
            self.assertLess(tries, 60, "never stopped in time")
            count = (3, 2, 1, 4)[tries % 4]
            limits = [f"--memory={memory if count > 1 else '1G'}", f"--threads={1 + tries % 2}"]
            number = (signal.SIGUSR1, signal.SIGUSR1, signal.SIGKILL)[tries % 3]
            status, error = self.interrupted(count, [*command, *limits], number)
            goes_on += count > 1 and "ck: goes on within a " in error
            stops += status == 75
            tries += 1
            self.assertIn(status, (0, 75, 137, -signal.SIGKILL), error)
            if status == 0:
                self.check_result()
        self.on_ranks(2, *command, f"--memory={memory}")
        self.check_result()
        self.assertFalse((self.folder / "ck").exists())

    def check_result(self):
        alone, found = self.read("alone.h5"), self.read("out.h5")
        self.assert_same_bits(alone, found, list(alone))
        (self.folder / "out.h5").unlink()

    def check_all(self, cases, **tool):
        for memory, data, arguments in cases:
            with self.subTest(arguments=arguments):
                self.check(memory, data, *arguments, **tool)
            for name in ("alone.h5", "out.h5", "ck"):
                (self.folder / name).unlink(missing_ok=True)

    def test_goes_on(self):
        few, many = self.data(700, 9000), self.data(12000, 700)
        padded = {"key_length": np.array([8000, 200]), "query_length": np.array([600, 33]),
                  "query_start": np.array([50, 9]), "gate": np.random.default_rng(27).normal(size=(2, 700, 40))}
        padded_keys = {"query_length": np.array([8000, 0]), "key_length": np.array([700, 500])}
        cases = [
            ("4M", few, [self.ALL]),
            ("6M", many, ["--scheme=dnas"]),
            ("5M", few | padded, ["--emit=out"]),
            ("7M", many, [*self.HNAS, self.ALL]),
            ("5M", few, [self.ALL, "--scale=4", "--causal=bottom-right", "--precision=f64"]),
            ("4.5M", many, ["--scheme=dnas", "--scale=4", "--emit=col_sum"]),
            ("6M", many | padded_keys, [*self.HNAS, "--emit=out,col_potential"]),
            ("3M", few, ["--scheme=fenchel", "--emit=row_entropy"]),
            ("7M", many | {"hybrid": np.array([1.0, 0.0])},
             ["--scheme=hnas", "--emit=out,row_potential,col_potential"]),
        ]
        self.check_all(sample(cases, 2))

    def test_gradients(self):
        names = "--emit=out,row_potential,grad_q,grad_k,grad_v"
        draw = np.random.default_rng(28)

        def data(queries, keys, heads=2, common=0.0, **more):
            shapes = {"q": (2, queries, 40), "k": (heads, keys, 40), "v": (heads, keys, 56),
                      "grad_out": (2, queries, 56)}
            found = {name: draw.normal(size=shape).astype("f4") for name, shape in shapes.items()}
            found["v"] += np.float32(common)
            return found | more

        padded = {"query_length": np.array([1000, 9]), "key_length": np.array([8000, 40]),
                  "gate": draw.normal(size=(2, 1100, 56)).astype("f4"), "sink": np.array([0.5, 2])}
        u = {"hybrid": np.array([0.3, 0.9])}
        cases = [
            ("18M", data(1100, 9000), [names + ",col_sum,row_entropy"]),
            ("14M", data(6000, 1500), ["--scheme=dnas", names]),
            ("16M", data(6000, 1500, common=50, **u), ["--scheme=hnas", names, "--causal=bottom-right"]),
            ("24M", data(1100, 9000, **padded), [names + ",grad_gate,grad_sink"]),
            ("21M", data(1100, 9000, heads=1), [names]),
            ("16M", data(6000, 1500, **u), ["--scheme=hnas", "--scale=4", "--emit=grad_q,grad_v,row_entropy"]),
            ("14M", data(6000, 1500, gate=draw.normal(size=(56)), query_start=np.array([7, 5990])),
             ["--scheme=dnas", "--emit=grad_gate", "--precision=f32"]),
        ]
        self.check_all(sample(cases, 2))

    def snapshots(self, count, command):
        """Copies of the checkpoint, as it is from time to time, that have some heads, but not all."""
        names, seen = [], None
        ranks = mpirun(count) if count > 1 else []
        with subprocess.Popen([*ranks, *command, "-q"], cwd=self.folder, env=self.environment) as run:
            while run.poll() is None:
                age = self.age("ck")
                if age in (None, seen):
                    time.sleep(0.001)
                    continue
                seen = age
                name = f"ck.{len(names)}"
                try:
                    shutil.copy(self.folder / "ck", self.folder / name)
                except FileNotFoundError:
                    continue
                if 0 < self.read(name).attributes["attn_checkpoint_units"] < 3:
                    names.append(name)
        self.assertEqual(run.returncode, 0)
        self.assertTrue(names)
        return names

    def test_whole_and_divided_heads(self):
        """Either goes on with what the other has done, also of a head that ranks must compute whole."""
        draw = np.random.default_rng(29)
        shapes = {"q": (3, 3000, 48), "k": (3000, 48), "v": (3000, 48), "grad_out": (3, 3000, 48)}
        data = {name: draw.normal(size=shape).astype("f4") for name, shape in shapes.items()}
        data["k"] = abs(data["k"])
        data["q"][1, 1234] = -12
        self.write("in.h5", **data)
        for emitted in ["grad_q,grad_k,grad_v", *(["out,grad_k", "row_potential"] if LONG else [])]:
            command = ["attn-compute", "--scheme=dnas", f"--emit={emitted}", "in.h5", "-o", "out.h5", "--force"]
            self.run_tool(*command)
            expected = self.read("out.h5")
            kept = [*command, "--checkpoint=ck", "--checkpoint-every=0"]
            fewest = self.on_ranks(3, *kept, "--memory=1M", status=6).err.split()[-1]
            needed = self.on_ranks(3, *kept, f"--memory={fewest}", status=6).err.split()[-1]
            (self.folder / "ck").unlink()
            # With all threads a whole head does not fit, so that heads are divided.
            limits = {1: ["--threads=1"], 3: [f"--memory={needed}", "--threads=3"]}
            for before, after in ((1, 3), (3, 1), (3, 3)):
                for name in sample(self.snapshots(before, [*kept, *limits[before]]), 2):
                    with self.subTest(emitted=emitted, before=before, after=after, snapshot=name):
                        shutil.copy(self.folder / name, self.folder / "ck")
                        if after == 1:
                            self.run_tool(*kept, *limits[1])
                        else:
                            self.on_ranks(after, *kept, *limits[after])
                        self.assert_same_bits(self.read("out.h5"), expected, list(expected))

    def test_bytes_of_a_state(self):
        """The formula of lib/MATHEMATICS.md, and at most 100 bytes that say which state it is."""
        self.write("in.h5", **self.data(700, 20000))
        command = ["attn-compute", "in.h5", "-o", "out.h5", "--force", "--checkpoint=ck", "--checkpoint-every=0",
                   "--memory=4M"]
        status = 0
        for _ in range(20):
            status, error = self.interrupted(2, command, signal.SIGUSR1)
            self.assertIn(status, (0, 75), error)  # 0: the signal came too late
            if status == 75 and "state" in self.read("ck"):
                break
        expected = 700 * (4 * (40 + 2) + 16)
        size = len(self.read("ck")["state"])
        self.assertTrue(expected < size <= expected + 100, (size, expected))

    def test_statistics(self):
        cases = [
            ("8M", self.data(30000, 700), ["--scheme=unas,dnas"]),
            ("9M", self.data(30000, 700), ["--scheme=hnas,unas", "--hybrid=0.3"]),
            ("4M", self.data(700, 9000), ["--scheme=unas"]),
            ("9M", self.data(30000, 700, hybrid=np.array([0.0, 1.0])), ["--scheme=unas,hnas"]),
        ]
        self.check_all(sample(cases, 1), tool="explain-away-stats")


if __name__ == "__main__":
    unittest.main()
