"""basis-paths --checkpoint: parts of heads and networks that are done are kept."""

import os
import random
import unittest

import h5py
import numpy as np

from attn import LONG, sample
from checkpoints import STOPPING, CheckpointTest
from paths import loss_gradients, weights

ROWS, COLUMNS = 20, 70
SIZES = (30, 40, 20)


class PathCheckpoints(CheckpointTest):

    def write_heads(self, *without):
        """Two groups of heads, with all that the verbs read."""
        draw = np.random.default_rng(1)
        with h5py.File(self.folder / "in.h5", "w") as file:
            for group, heads in (("a", 3), ("b", 2)):
                wq, wk = weights(draw, heads, ROWS, COLUMNS), weights(draw, heads, ROWS, COLUMNS)
                grad_wq, grad_wk = loss_gradients(draw, wq, wk)
                made = {"wq": wq, "wk": wk, "grad_wq": grad_wq.astype(float), "grad_wk": grad_wk.astype(float),
                        "scale": draw.uniform(0.5, 2, (heads, COLUMNS)),
                        "path": draw.integers(0, ROWS, (heads, 90, 3))}
                for name in set(made) - set(without):
                    file[f"{group}/{name}"] = made[name]

    def write_networks(self):
        draw = np.random.default_rng(2)
        with h5py.File(self.folder / "in.h5", "w") as file:
            for group, networks in (("a", 40), ("b", 20)):
                for layer, size in enumerate(zip(SIZES, SIZES[1:]), 1):
                    file[f"{group}/w{layer}"] = weights(draw, networks, *size)
                    file[f"{group}/grad_w{layer}"] = draw.normal(size=(networks, *size))
                file[f"{group}/scale"] = draw.uniform(0.5, 2, (networks, sum(SIZES[1:-1])))

    def write_values(self, *network):
        """The values of the weights in in.h5 in their place."""
        self.run_tool("basis-paths", "values", *network, "in.h5", "--only", "-o", "values.h5", "-q")
        (self.folder / "values.h5").replace(self.folder / "in.h5")

    # Options that make many parts of each head.
    HEADS = [
        ["identify", "--memory", "9K"],
        ["identify", "--skeleton", "largest", "--memory", "9K"],
        ["values", "--memory", "9K"],
        ["rescale", "--memory", "19K"],
        ["start", "--memory", "9K"],
        ["step", "--optimizer", "sgd", "--rate", "0.1", "--memory", "9K"],
        ["step", "--optimizer", "si-adam", "--rate", "0.1", "--memory", "19K"],
        ["step", "--rate", "0.3", "--on-singular", "clip", "--memory", "9K"],
    ]
    OF_VALUES = [
        ["reconstruct", "--memory", "9K"],
        ["reconstruct", "--paths", "all", "--memory", "39K"],
        ["reconstruct", "--paths", "0,1,2;3,4,5;6,7,8", "--memory", "30K"],
    ]
    NETWORKS = [["identify"], ["values"], ["rescale"], ["step", "--rate", "1e-5"],
                ["step", "--rate", "1", "--optimizer", "si-adam", "--on-singular", "skip"]]

    def cases(self):
        network = ["--network", "relu"]
        for run in self.HEADS:
            yield run, self.write_heads
        for run in self.OF_VALUES:
            yield run, lambda: (self.write_heads("path"), self.write_values())
        yield ["check"], lambda: self.write_heads("path")
        for run in self.NETWORKS:
            yield [*run, *network], self.write_networks
        yield ["reconstruct", *network], lambda: (self.write_networks(), self.write_values(*network))
        yield ["check", *network], self.write_networks

    def test_killed_at_random_moments(self):
        moments = random.Random(3)
        for run, write in sample(self.cases(), 9):
            with self.subTest(run=run):
                write()
                output = [] if run[0] == "check" else ["-o", "out.h5"]
                self.check_kills(["basis-paths", *run, "in.h5", *output], "in.h5", 40 if LONG else 2, moments)

    COMMAND = ["basis-paths", "values", "in.h5", "--memory", "9K", "-o", "out.h5", "--checkpoint", "ck"]

    def test_each_signal(self):
        self.write_heads()
        self.run_tool(*self.COMMAND)
        whole = self.outcome()
        for number in STOPPING:
            with self.subTest(signal=number):
                (self.folder / "out.h5").unlink()
                says = self.stopped(self.COMMAND, number)
                self.assertRegex(says, rf"basis-paths: stopped by {number.name}: ck holds \d+ parts?; ")
                self.assertEqual(sorted(os.listdir(self.folder)), ["ck", "in.h5"])
                self.assertRegex(self.run_tool(*self.COMMAND).err, r"note: ck: goes on after \d+ parts?\n")
                self.assertEqual(self.outcome(), whole)

    def test_other_memory_and_threads(self):
        """Parts of any size may follow those of the checkpoint, which must fit."""
        self.write_heads()
        self.run_tool("basis-paths", "values", "in.h5", "-o", "whole.h5")
        command = ["basis-paths", "values", "in.h5", "-o", "out.h5", "--checkpoint", "ck"]
        self.stopped([*command, "--memory", "30K"], least=2)
        self.refused(*command[:3], "-q", "--checkpoint", "ck", "--memory", "3K", status=6,
                     says=["a part of the checkpoint needs "])
        self.run_tool(*command, "--memory", "5M", "--threads", "2", "--compress", "gzip")
        self.assert_same_bits(self.read("out.h5"), self.read("whole.h5"))

    def test_shards_have_their_own(self):
        self.write_heads()
        command = ["basis-paths", "values", "in.h5:/a", "-o", "out.h5", "--memory", "9K", "--checkpoint", "ck"]
        self.stopped([*command, "--shard", "1/2"], checkpoint="ck.0001-of-0002")
        self.run_tool(*command, "--shard", "2/2")
        self.assertEqual(sorted(os.listdir(self.folder)), ["ck.0001-of-0002", "in.h5", "out.0002-of-0002.h5"])
        self.run_tool(*command, "--shard", "1/2")
        self.run_tool("tensor-join", "out.0001-of-0002.h5", "out.0002-of-0002.h5", "-o", "joined.h5")
        self.run_tool("basis-paths", "values", "in.h5:/a", "--only", "-o", "whole.h5")
        self.assert_same_bits(self.read("joined.h5"), self.read("whole.h5"))

    def test_other_runs_are_refused(self):
        self.write_heads()
        self.stopped(self.COMMAND)
        run = ["basis-paths", "in.h5", "-q", "--checkpoint", "ck"]
        other = "ck is the checkpoint of another run: "
        self.refused(run[0], "identify", *run[1:], status=5, says=[other], hint="remove it")
        self.refused(run[0], "values", "--skeleton", "largest", *run[1:], status=5, says=[other + "skeleton is "])
        os.utime(self.folder / "in.h5", (0, 0))
        self.refused(run[0], "values", *run[1:], status=5, says=[other + "files/0/changed is "])
        self.refused("basis-paths", "check", "--shape", "3x4", "--checkpoint", "new", status=2, output=None,
                     says=["--checkpoint needs inputs that can be read again"])


if __name__ == "__main__":
    unittest.main()
