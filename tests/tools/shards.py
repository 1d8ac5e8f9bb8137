"""Shared by the tests of --shard and tensor-join."""

import os

import numpy as np

from attn import ToolTest

LENGTHS = (9, 30, 7, 50, 12, 1, 33, 8)
GROUPS = [f"text/layer{n}" for n in range(len(LENGTHS))]
RUNS = [
    ("attn-compute", "--scheme dnas --emit out,col_sum,grad_q,grad_k"),
    ("attn-compute", "--scheme sinkhorn --iterations 5"),
    ("explain-away-stats", ""),
    ("lambda-solve", ""),
    ("sinkhorn-iter", "--iterations 3"),
    ("basis-paths identify", "--skeleton largest"),
    ("structured-attention", ""),
]
# Variables of job arrays and of ranks, and the shard of 4 that they mean with auto; None: --shard
# auto/4 is needed.
ENGINES = [
    ({"SLURM_ARRAY_TASK_ID": 5, "SLURM_ARRAY_TASK_MIN": 3, "SLURM_ARRAY_TASK_MAX": 9,
      "SLURM_ARRAY_TASK_STEP": 2, "SLURM_ARRAY_TASK_COUNT": 4}, 2),
    # A batch script has a PROCID of 0 of its NTASKS without any rank.
    ({"SLURM_ARRAY_TASK_ID": 3, "SLURM_ARRAY_TASK_MIN": 1, "SLURM_ARRAY_TASK_MAX": 4,
      "SLURM_ARRAY_TASK_STEP": 1, "SLURM_ARRAY_TASK_COUNT": 4, "SLURM_PROCID": 0, "SLURM_NTASKS": 2}, 3),
    ({"PBS_ARRAY_INDEX": 2}, None),
    ({"PBS_ARRAYID": 2}, None),
    ({"LSB_JOBINDEX": 2, "LSB_JOBINDEX_END": 4, "LSB_JOBINDEX_STEP": 1}, 2),
    ({"SGE_TASK_ID": 6, "SGE_TASK_FIRST": 2, "SGE_TASK_LAST": 8, "SGE_TASK_STEPSIZE": 2}, 3),
    ({"SLURM_PROCID": 1, "SLURM_STEP_NUM_TASKS": 4, "SLURM_NTASKS": 4}, 2),
    ({"OMPI_COMM_WORLD_RANK": 3, "OMPI_COMM_WORLD_SIZE": 4}, 4),
    ({"PMIX_RANK": 1}, None),
]
VARIABLES = {name for engine, _ in ENGINES for name in engine}


class ShardTest(ToolTest):

    def setUp(self):
        super().setUp()
        for name in VARIABLES:
            self.environment.pop(name, None)
        self.environment["SOURCE_DATE_EPOCH"] = "0"
        draw = np.random.default_rng(1)
        datasets = {}
        for group, length in zip(GROUPS, LENGTHS):
            shapes = {name: (2, length, 4) for name in ("q", "k", "v", "grad_out")}
            shapes |= {"wq": (length + 3, 2), "wk": (length + 3, 2)}
            shapes |= {"x": (2, length, 5), "w1": (3, 5), "w2": (2, 3)}
            datasets |= {f"{group}/{name}".replace("/", "__"): draw.normal(size=shape)
                         for name, shape in shapes.items()}
        self.write("dump.h5", {"model": "m"}, **datasets)

    def shards(self, tool, *arguments, count, output="out.h5"):
        """Runs all shards, the last one first; returns the names of their bundles."""
        name, *verb = tool.split()
        before = set(os.listdir(self.folder))
        for number in range(count, 0, -1):
            self.run_tool(name, *verb, *arguments, "--shard", f"{number}/{count}", "-o", output)
        return sorted(set(os.listdir(self.folder)) - before)

    def assert_same(self, one, other):
        done = self.run_tool("tensor-compare", "--attributes", "--nan-equal", one, other)
        self.assertTrue(done.out.decode().endswith("same\n"))
