"""Transport whose costs, scores and kernels ranks divide: the bits are those of one process."""

import os
import signal
import unittest

import h5py
import numpy as np

from attn import LONG, sample
from test_ranks import COUNTS, THREADS, RankTest


class Transport(RankTest):
    """A matrix of which each rank reads and holds some rows."""

    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(26)
        (self.folder / "in.h5").unlink()

    def cost(self, queries=900, keys=700, kind="f4", size=1.0):
        x, y = self.random.normal(size=(queries, 3)), self.random.normal(size=(keys, 3))
        return (size * ((x[:, None] - y[None]) ** 2).sum(axis=2)).astype(kind)

    def write_chunks(self, **datasets):
        with h5py.File(self.folder / "in.h5", "w") as file:
            for name, values in datasets.items():
                chunks = tuple(min(200, length) for length in values.shape)
                file.create_dataset(name, data=values, chunks=chunks, compression="gzip", compression_opts=1)

    def check(self, place, *arguments, status=0, tool="sinkhorn-iter"):
        """Runs on some ranks, of which each holds its rows, or reads them by tiles."""
        command = [tool, *arguments, "in.h5", "--force"]
        alone = self.run_tool(*command, "-o", "alone.h5", "--threads=1", status=status)
        expected = self.read("alone.h5")
        counts = COUNTS if LONG else [COUNTS[place % 4]]
        for count in counts:
            for threads in THREADS if LONG else [THREADS[place % 3]]:
                with self.subTest(arguments=arguments, ranks=count, threads=threads):
                    ranked = self.on_ranks(count, *command, "-o", "ranked.h5", f"--threads={threads}",
                                           "--memory=1G" if place % 2 == 0 else "--memory=17M", status=status)
                    self.assert_same_bits(self.read("ranked.h5"), expected, list(expected))
                    ended = [bundle.attributes.get("attn_status") for bundle in (self.read("ranked.h5"), expected)]
                    self.assertEqual(*ended)
                    self.assertEqual((ranked.out, ranked.err), (alone.out, alone.err))

    def test_bits(self):
        near, far = self.cost(), self.cost(size=40.0)
        holes = self.cost(size=3.0)
        holes[self.random.random(holes.shape) < 0.2] = np.inf
        closed = self.cost(size=9.0)
        closed[5], closed[:, 31] = np.inf, np.inf
        masses = {"a": self.random.random(900), "b": self.random.random(700)}
        for name in masses:
            masses[name] /= masses[name].sum()
        closed_mass = np.where(np.arange(700) == 3, 0, masses["b"])
        closed_mass /= closed_mass.sum()
        padded = {"query_length": np.array([900, 250]), "key_length": np.array([699, 20]),
                  "key_start": np.array([0, 7])}
        mask = {"mask": self.random.random((900, 700)) < 0.8}
        two = self.random.normal(size=(2, 900, 700)).astype("f4")
        q, k = (self.random.normal(size=(length, 8)).astype("f4") for length in (900, 700))
        cases = [
            ({"cost": near}, ["--epsilon=0.5", "--iterations=7"]),
            ({"cost": far}, ["--epsilon=0.2", "--tolerance=1e-3", "--anneal"]),
            ({"cost": holes}, ["--epsilon=0.5", "--tolerance=1e-4"]),
            ({"cost": closed}, ["--epsilon=0.3", "--tolerance=1e-4", "--relax=1.3"]),
            ({"scores": two} | padded, ["--tolerance=1e-4"]),
            ({"cost": near.astype("f8"), **masses},
             ["--epsilon=0.05", "--iterations=30", "--emit=row_potential,dual_grad_a,dual_grad_b"]),
            ({"cost": far.astype("f8")}, ["--epsilon=0.02", "--iterations=9"]),
            ({"cost": holes, **masses}, ["--epsilon=0.5", "--unbalanced=0.5:2", "--iterations=20"]),
            ({"cost": holes, **masses}, ["--epsilon=0.5", "--unbalanced=inf:2", "--iterations=20"]),
            ({"q": q * (np.arange(900) != 5)[:, None], "k": k, "mask": (np.arange(900) != 5)[:, None]},
             ["--epsilon=2", "--energy=cosine", "--iterations=6"]),
            ({"q": q, "k": k, **mask}, ["--epsilon=2", "--iterations=6"]),
            ({"q": q, "k": k, **mask}, ["--tolerance=1e-4"]),
            ({"q": q, "k": k}, ["--window=300:300", "--tolerance=1e-3"]),
            ({"q": q, "k": k, "a": masses["a"], "b": closed_mass}, ["--iterations=4", "--emit=dual_grad_a,dual_grad_b"]),
            ({"q": q, "k": k, "bias": two[0]}, ["--iterations=6", "--energy=dot"]),
            ({"q": 9 * q, "k": k}, ["--tolerance=1e-4", "--anneal"]),
            ({"q": q.astype("f8"), "k": k, "a": masses["a"], "b": masses["b"]}, ["--epsilon=0.1", "--unbalanced=0.5:2"]),
            ({"q": np.stack([q, 9 * q]), "k": k} | padded, ["--iterations=5", "--energy=dot"]),
            ({"q": q, "k": k}, ["--iterations=5", "--energy=gaussian"]),
            ({"q": q, "k": k, **mask}, ["--iterations=1"]),
            ({"scores": two}, ["--iterations=1"]),
            ({"cost": near}, ["--epsilon=0.5", "--iterations=1", "--tolerance=1e-9"], 1),
        ]
        for place, (data, arguments, *status) in enumerate(sample(cases, 4)):
            self.write_chunks(**data) if place % 3 == 2 else self.write("in.h5", **data)
            self.check(place, *arguments, status=status[0] if status else 0)

    def test_what_needs_all_rows(self):
        """Each rank reads the whole matrix, and keeps its part of the kernel."""
        b = self.random.uniform(1, 2, (2, 300))
        self.write("in.h5", cost=self.cost(400, 300), b=b / b.sum(1, keepdims=True),
                   grad_plan=self.random.normal(size=(400, 300)).astype("f4"))
        for place, arguments in enumerate(sample((
                ["--epsilon=0.5", "--iterations=4", "--emit=plan"],
                ["--epsilon=0.5", "--iterations=400", "--emit=grad_cost"],
                ["--epsilon=0.5", "--iterations=4", "--gradient=unrolled", "--emit=grad_cost"],
                ["exact", "--gap=0.2"]), 2)):
            self.check(place, *arguments)

    def test_attention(self):
        """The scheme sinkhorn divides the same matrices."""
        scores = self.random.normal(size=(2, 900, 700)).astype("f4")
        v = self.random.normal(size=(2, 700, 5)).astype("f4")
        q, k = (self.random.normal(size=(length, 8)).astype("f4") for length in (900, 700))
        names = "--emit=out,row_potential,col_potential,col_sum,row_entropy"
        cases = [
            ({"scores": scores, "v": v}, ["--from=scores", "--iterations=6", names]),
            ({"scores": 30 * scores, "v": v}, ["--from=scores", "--iterations=4", names]),
            ({"q": q, "k": k, "v": v[0], "mask": self.random.random((900, 700)) < 0.9}, ["--tolerance=1e-3", names]),
            ({"scores": scores, "v": v}, ["--from=scores", "--iterations=1"]),
            ({"q": 20 * q, "k": k, "v": v[0]}, ["--iterations=6", "--window=400", names]),
            ({"q": q, "k": k, "v": v[0]}, ["--tolerance=1e-3", "--causal=top-left", "--precision=f64", names]),
        ]
        for place, (data, arguments) in enumerate(sample(cases, 2)):
            self.write("in.h5", **data)
            self.check(place, "--scheme=sinkhorn", *arguments, tool="attn-compute")

    def test_statistics(self):
        """The same under sinkhorn beside schemes that are found by rows."""
        scores = self.random.normal(size=(2, 900, 700)).astype("f4")
        q, k = (self.random.normal(size=(2, length, 8)).astype("f4") for length in (900, 700))
        cases = [
            ({"scores": scores}, ["--from=scores", "--scheme=unas,sinkhorn"]),
            ({"q": 9 * q, "k": k, "bias": scores[0]}, ["--scheme=sinkhorn"]),
            ({"q": q, "k": k, "query_length": np.array([900, 250])}, ["--scheme=sinkhorn,unas", "--scale=3"]),
            ({"q": q, "k": k}, ["--scheme=unas,dnas,sinkhorn", "--precision=f64"]),
        ]
        for place, (data, arguments) in enumerate(sample(cases, 2)):
            self.write("in.h5", **data)
            self.check(place, *arguments, tool="explain-away-stats")

    def test_memory(self):
        """Ranks have a fourth of the matrix and of the kernel each, and stay within the plan."""
        queries, keys = 4096, 3000
        self.write("in.h5", cost=self.cost(queries, keys))
        self.write("small.h5", cost=self.cost(96, 8))
        command = ["sinkhorn-iter", "--epsilon=0.5", "--iterations=3", "--threads=1", "--json=report.json", "--force", "-o",
                   "out.h5"]
        peak = {}
        for name in ("small.h5", "in.h5"):
            self.on_ranks(4, *command, name)
            ranks = self.read_json("report.json")["runtime"]["ranks"]
            peak[name] = max(rank["peak_rss_bytes"] for rank in ranks)
        self.on_ranks(4, *command[:-2], "in.h5", "--dry-run")
        planned = self.read_json("report.json")["result"]["working_bytes"]
        matrix = 4 * queries * keys
        self.assertLess(planned, 0.85 * matrix)
        self.assertGreater(planned, 2 * matrix / 4)
        self.assertLess(peak["in.h5"] - peak["small.h5"], planned + 2 ** 20)
        self.run_tool(*command[:-2], "in.h5", "--dry-run")
        self.assertGreater(self.read_json("report.json")["result"]["working_bytes"], 2 * matrix)

    def test_kernel_of_points(self):
        """Kept exponentials are divided, too."""
        self.write("in.h5", **{name: self.random.normal(size=(3000, 8)) for name in "qkv"})
        kernel = 8 * 3000 ** 2
        for tool, *arguments in (["sinkhorn-iter", "--epsilon=2"], ["attn-compute", "--scheme=sinkhorn"],
                                 ["explain-away-stats", "--scheme=unas,sinkhorn"]):
            with self.subTest(tool=tool):
                command = [tool, *arguments, "in.h5", "--dry-run", "--threads=1", "--json=report.json"]
                self.run_tool(*command)
                alone = self.read_json("report.json")["result"]["working_bytes"]
                self.on_ranks(4, *command)
                ranked = self.read_json("report.json")["result"]["working_bytes"]
                self.assertAlmostEqual(alone - ranked, 3 / 4 * kernel, delta=0.03 * kernel)

    def test_number_that_one_rank_reads(self):
        for place, (name, wrong, arguments, says) in enumerate(sample((
                ("cost", np.nan, ["--epsilon=1"], r".*\[870, 3\].*, expected finite numbers or inf"),
                ("scores", np.inf, [], r".*\[870, 3\].*, expected finite numbers or -inf")), 2)):
            values = self.cost(900, 300)
            values[870, 3] = wrong
            # Another rank may still have the file of the run before open.
            self.write(f"{name}.h5", **{name: values})
            memory = "--memory=1G" if place == 0 else "--memory=16M"
            done = self.on_ranks(4, "sinkhorn-iter", *arguments, memory, f"{name}.h5", "-o", "out.h5", status=3)
            self.assertRegex(done.err, rf"\Asinkhorn-iter: error: rank 3: {name}\.h5:/{name}{says}\n\Z")
            self.assertNotIn("out.h5", os.listdir(self.folder))

    def test_no_plan(self):
        """That a part of the matrix alone makes impossible."""
        cost = self.cost(400, 300)
        cost[399] = np.inf
        self.write("in.h5", cost=cost, a=np.full(400, 1 / 400))
        command = ["sinkhorn-iter", "--epsilon=1", "in.h5", "--only", "-o", "out.h5", "--force"]
        alone = self.run_tool(*command, status=4)
        self.assertEqual(self.on_ranks(3, *command, status=4).err, alone.err)

    def test_too_little_memory(self):
        self.write("in.h5", cost=self.cost())
        command = ["sinkhorn-iter", "--epsilon=1", "--iterations=3", "in.h5", "-o", "out.h5"]
        hint = self.on_ranks(3, *command, "--memory=100K", status=6).err.split()[-1]
        self.on_ranks(3, *command, f"--memory={hint}")

    def test_checkpoint(self):
        """Another number of ranks goes on."""
        self.write("in.h5", cost=self.cost(900, 700))
        command = ["sinkhorn-iter", "--epsilon=0.05", "--iterations=400", "in.h5"]
        self.run_tool(*command, "-o", "alone.h5")
        kept = [*command, "-o", "out.h5", "--checkpoint=ck", "--checkpoint-every=0", "--threads=1"]
        self.assertEqual(self.interrupted(3, kept, signal.SIGUSR1)[0], 75)
        self.on_ranks(2, *kept)
        expected = self.read("alone.h5")
        self.assert_same_bits(self.read("out.h5"), expected, list(expected))

    def test_bytes(self):
        """MATHEMATICS.md §10, for the mean over the ranks."""
        lq, lk, count, iterations = 2048, 3000, 4, 10
        self.write("in.h5", cost=self.cost(lq, lk))
        sent = {}
        for number in (10, 10 + iterations):
            self.on_ranks(count, "sinkhorn-iter", "--epsilon=0.5", f"--iterations={number}", "in.h5", "-o", "out.h5", "--force",
                          "--json=report.json", "--threads=1")
            ranks = self.read_json("report.json")["runtime"]["ranks"]
            sent[number] = sum(rank["sent_bytes"] for rank in ranks) / count
        expected = iterations * (1 - 1 / count) * (16 * lq + 8 * (lq // 64) * lk)
        self.assertAlmostEqual(sent[10 + iterations] - sent[10], expected, delta=0.01 * expected)


if __name__ == "__main__":
    unittest.main()
