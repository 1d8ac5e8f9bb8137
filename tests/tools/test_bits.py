"""The last bit: results depend neither on the number of threads nor on --memory, and dnas equals
the first iteration of sinkhorn."""

import re
import unittest

import numpy as np

from attn import LONG, SANITIZED, ToolTest, sample

EVERYTHING = "--emit=out,weights,row_potential,col_potential,col_sum,row_entropy"
SCHEMES = (["--scheme=unas"], ["--scheme=dnas"], ["--scheme=hnas", "--hybrid=0.3"],
           ["--scheme=sinkhorn", "--iterations=3"], ["--scheme=sinkhorn", "--tolerance=1e-3"])


def vectors(random, heads, queries, keys, d, kind=np.float32):
    lengths = {"q": queries, "k": keys, "v": keys}
    return {n: random.normal(size=(heads, length, d)).astype(kind) for n, length in lengths.items()}


class Bits(ToolTest):

    def same_for(self, variants, *arguments, tool="attn-compute"):
        """Checks that all lists of options in `variants` give the same results."""
        first = None
        for variant in variants:
            if tool == "attn-compute":
                found = self.compute(*arguments, *variant, "-q", "--only")
            else:
                found = self.stats(*arguments, *variant)
            first = found if first is None else first
            with self.subTest(arguments=arguments, variant=variant):
                if tool == "attn-compute":
                    self.assert_same_bits(found, first)
                else:
                    self.assertEqual(found, first)

    def test_threads(self):
        random = np.random.default_rng(1)
        # Fewer heads than threads, and more; one panel, several, and more than there are partial
        # sums.
        sizes = ((1, 900, 700, 40, np.float32), (7, 70, 130, 9, np.float32), (2, 300, 500, 8, np.float64),
                 (1, 8500, 20, 3, np.float32), (1, 20, 8500, 3, np.float32))
        for place, (heads, queries, keys, d, kind) in enumerate(sizes):
            data = vectors(random, heads, queries, keys, d, kind)
            self.write("in.h5", mask=random.random((queries, keys)) < 0.8, **data)
            # Sanitizers need one run without a team of threads and one with.
            threads = [[f"--threads={n}"] for n in ((1, 3) if SANITIZED else sample((1, 3, 2, 5), 2))]
            for scheme in SCHEMES if LONG else SCHEMES[place % 2::2]:
                self.same_for(threads, "in.h5", EVERYTHING, "--energy=gaussian", *scheme)
            self.same_for(threads, "in.h5", tool="explain-away-stats")

    def test_blocks_of_rows_that_follow_the_threads(self):
        # One head of 700 queries: 8 blocks for one thread, 9 for three, 13 for seven.
        random = np.random.default_rng(6)
        data = vectors(random, 1, 700, 600, 24)
        self.write("plain.h5", **data)
        self.write("hidden.h5", mask=random.random((700, 600)) < 0.8,
                   bias=random.normal(size=(700, 600)), **data)
        threads = [[f"--threads={n}"] for n in (1, 3, 7)]
        for option in ("--causal=top-left", "--window=100:30", "--softcap=3", "--energy=gaussian",
                       "--scale=20", "--emit=out,row_entropy"):
            self.same_for(threads, "plain.h5", "--scheme=unas", option)
        for precision in ("f32", "f64"):
            self.same_for(threads, "hidden.h5", "--scheme=unas", f"--precision={precision}")

    def test_the_score_that_is_named(self):
        # Two out of range: the first is in the earlier block, the second in the earlier tile.
        q, k = np.zeros((700, 2), np.float32), np.zeros((600, 2), np.float32)
        q[10, 0] = k[300, 0] = q[60, 1] = k[5, 1] = 1e30
        self.write("in.h5", q=q, k=k, v=np.ones((600, 3), np.float32))
        said = {self.run_tool("attn-compute", "in.h5", f"--threads={n}", "-o", "out.h5", status=4).err
                for n in (1, 3, 7)}
        self.assertEqual(len(said), 1, said)
        self.assertIn("the score of query 60 and key 5 is beyond the range", said.pop())

    def test_memory(self):
        # A mask, a bias and scores that are held for one head at a time, or read by tiles if they
        # take more than an eighth of the memory.
        random = np.random.default_rng(2)
        data = vectors(random, 2, 1600, 1500, 8)
        mask = (random.random((1600, 1500)) < 0.5).astype(np.int8)
        mask[:, 7], mask[9] = 0, 0
        self.write("mask.h5", mask=mask, **data)
        bias = random.normal(size=(1600, 1500)).astype(np.float32)
        bias[random.random(bias.shape) < 0.1] = -np.inf
        self.write("bias.h5", bias=bias, **data)
        self.write("scores.h5", scores=bias[None].repeat(2, axis=0), v=data["v"])
        memory = [["--memory=1G"], ["--memory=16M"], ["--memory=12M", "--threads=1"]]
        emit = "--emit=out,row_potential,col_potential,col_sum,row_entropy"
        for place, source in enumerate((["mask.h5"], ["bias.h5"], ["scores.h5", "--from=scores"])):
            for scheme in SCHEMES[1:] if LONG else SCHEMES[1 + place % 2::2]:
                self.same_for(memory, *source, emit, *scheme)
        self.same_for(memory, "bias.h5", tool="explain-away-stats")

    def test_memory_that_sinkhorn_keeps_exponentials_in(self):
        # All of them for both heads at once, for one head at a time, a part of them, none.
        random = np.random.default_rng(5)
        statistics = ("sinkhorn", "unas,sinkhorn,dnas")
        for place, spread in enumerate((1, 5)):  # scores near zero, and large ones
            data = vectors(random, 2, 1100, 900, 16)
            self.write("in.h5", q=spread * data["q"], k=spread * data["k"], v=data["v"])
            memory = [[f"--memory={size}M", f"--threads={threads}"]
                      for size, threads in ((1000, 2), (14, 1), (11, 2), (8, 1), (6, 1))]
            plans = [self.run_tool("attn-compute", "in.h5", "--dry-run", "--json", *SCHEMES[3],
                                   *given).json()["result"]["working_bytes"] for given in memory]
            matrix = 4 * 1100 * 900
            self.assertGreater(plans[0], 2 * matrix)
            for bytes_, (size, _) in zip(plans, ((1000, 2), (14, 1), (11, 2), (8, 1), (6, 1))):
                self.assertLessEqual(bytes_, size << 20)
            for scheme in SCHEMES[3:] if LONG else [SCHEMES[4 - place]]:
                self.same_for(memory, "in.h5", EVERYTHING, *scheme)
            for scheme in statistics if LONG else [statistics[place]]:
                self.same_for(memory, "in.h5", f"--scheme={scheme}", tool="explain-away-stats")

    def test_dnas_is_the_first_iteration_of_sinkhorn(self):
        random = np.random.default_rng(3)
        for seed in range(8):
            with self.subTest(seed=seed):
                keys = int(random.integers(1, 300))
                data = vectors(random, 2, keys, keys, int(random.integers(1, 100)),
                               (np.float32, np.float64)[seed % 2])
                self.write("in.h5", bias=random.normal(size=(keys, keys)), **data)
                once = ["--scheme=sinkhorn", "--iterations=1"]
                self.same_for([["--scheme=dnas"], once], "in.h5", EVERYTHING,
                              f"--precision=f{32 + seed % 2 * 32}")

    def test_dnas_is_nearly_so_where_the_marginal_is_not_one(self):
        random = np.random.default_rng(4)
        mask = random.random((40, 60)) < 0.7
        mask[3], mask[:, 5] = False, False
        square = random.random((50, 50)) < 0.7
        square[:, 5] = False
        for shape, closed in (((40, 60), None), ((60, 40), None), ((40, 60), mask),
                              ((50, 50), square)):
            with self.subTest(shape=shape, masked=closed is not None):
                data = vectors(random, 2, *shape, 7, np.float64)
                data |= {} if closed is None else {"mask": closed}
                self.write("in.h5", **data)
                dnas = self.compute("in.h5", EVERYTHING, "--scheme=dnas")
                once = self.compute("in.h5", EVERYTHING, "--scheme=sinkhorn", "--iterations=1")
                self.assertFalse(np.array_equal(dnas["col_potential"], once["col_potential"]))
                for name in ("weights", "out", "col_sum"):
                    # The column potentials differ by a constant of size 1: a few roundings.
                    self.assert_near(name, once[name], dnas[name], 1e-14)


class InstructionSets(ToolTest):

    def available(self):
        done = self.run_tool("attn-compute", "--version", environment={"ATTN_TARGET": "none"},
                             status=2)
        form = (r"attn-compute: error: ATTN_TARGET: expected an instruction set of this CPU, "
                r"one of (.+), not 'none'\n")
        self.assertRegex(done.err, rf"\A{form}\Z")
        return re.fullmatch(form, done.err)[1].split(", ")

    def test_each_computes_the_same_up_to_rounding(self):
        self.write("in.h5", **vectors(np.random.default_rng(5), 2, 70, 300, 33))
        first = None
        for name in self.available():
            with self.subTest(target=name):
                chosen = {"ATTN_TARGET": name}
                version = self.run_tool("attn-compute", "--version", environment=chosen)
                self.assertIn(f"SIMD {name.upper()}\n", version.out.decode())
                found = self.compute("in.h5", EVERYTHING, "--scheme=dnas", "-q", "--only",
                                     environment=chosen)
                first = first or found
                # 33 and 300 float32 terms of size 1 in another order, and another exp.
                self.assert_near("out", found["out"], first["out"], 2e-6)

    def test_a_wrong_name_stops_a_run(self):
        self.write("in.h5", **vectors(np.random.default_rng(6), 1, 3, 3, 3))
        self.refused("attn-compute", "in.h5", status=2, says=["ATTN_TARGET", "'mmx'"],
                     environment={"ATTN_TARGET": "mmx"})


if __name__ == "__main__":
    unittest.main()
