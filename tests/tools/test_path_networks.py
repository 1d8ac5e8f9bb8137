"""basis-paths --network relu: bases of ReLU networks, values and ranks, against NumPy in plain loops."""

import itertools
import unittest

import numpy as np

from networks import RELU, SIZES, basis, cyclic, hidden, largest, matrices, network, structure, value
from paths import PathsTest


class Networks(PathsTest):

    def test_identify(self):
        random = np.random.default_rng(1)
        for sizes in SIZES:
            stored = network(random, sizes, 2)
            self.write("in.h5", **stored, other=np.arange(3))
            for rule in ("cyclic", "largest"):
                found = self.paths("identify", RELU, f"--skeleton={rule}", "in.h5").bundle()
                self.assertIn("other", found)
                np.testing.assert_array_equal(found["layer_sizes"], sizes)
                for n in range(2):
                    into, out = cyclic(sizes) if rule == "cyclic" else largest(sizes, matrices(stored, n))
                    for name, right in (("skeleton_in", into), ("skeleton_out", out)):
                        np.testing.assert_array_equal(found[name][n], [right[h] for h in hidden(sizes)])
                    np.testing.assert_array_equal(found["basis_path"][n], basis(sizes, into, out))
                self.assertEqual(found["basis_path"].dtype, np.int32)
            count = sum(a * b for a, b in zip(sizes, sizes[1:])) - sum(sizes[1:-1])
            self.assertEqual(self.result("identify", RELU, "in.h5"),
                             {"shape": [2, *sizes], "skeleton": "cyclic", "basis_paths": count})

    def test_values(self):
        random = np.random.default_rng(2)
        for dtype, unit in ((np.float32, 2.0 ** -24), (np.float64, 2.0 ** -53)):
            for sizes in SIZES:
                stored = {name: w.astype(dtype) for name, w in network(random, sizes, 2, 2).items()}
                self.write("in.h5", **stored)
                found = self.paths("values", RELU, "--skeleton=largest", "in.h5", "--only").bundle()
                self.assertEqual(set(found), {"skeleton_in", "skeleton_out", "layer_sizes", "basis_value",
                                              "skeleton_weight"})
                self.assertEqual(found["basis_value"].dtype, dtype)
                for at in np.ndindex(2, 2):
                    w = matrices(stored, at)
                    into, out = largest(sizes, w)
                    want = np.array([value(w, path) for path in basis(sizes, into, out)])
                    self.assert_near("basis_value", found["basis_value"][at], want,
                                     len(sizes) * unit * np.abs(want))
                    np.testing.assert_array_equal(found["skeleton_weight"][at],
                                                  [w[l - 1][into[l, b], b] for l, b in hidden(sizes)])

    def test_rescaled_networks_have_the_same_values(self):
        random = np.random.default_rng(3)
        sizes = (3, 4, 5, 2)
        stored = network(random, sizes)
        self.write("in.h5", **stored)
        factors = [2.0 ** random.integers(-8, 8, size) for size in sizes[1:-1]]
        w = matrices(stored)
        for l, f in enumerate(factors):
            w[l], w[l + 1] = w[l] * f, w[l + 1] / f[:, None]
        self.write("scaled.h5", w1=w[0], w2=w[1], w3=w[2])
        for rule in ("cyclic", "largest"):
            found = [self.paths("values", RELU, f"--skeleton={rule}", name).bundle()
                     for name in ("in.h5", "scaled.h5")]
            self.assert_same_bits(*found, ["basis_value", "skeleton_in", "skeleton_out"])

    def test_a_stored_skeleton_is_kept(self):
        random = np.random.default_rng(4)
        stored = network(random, (3, 4, 2), 2)
        into, out = np.array([2, 0, 0, 1]), np.array([1, 1, 0, 1])
        self.write("in.h5", **stored, skeleton_in=into, skeleton_out=out)
        found = self.paths("identify", RELU, "in.h5").bundle()
        skeleton = [{(1, b): row[b] for b in range(4)} for row in (into, out)]
        for n in range(2):
            np.testing.assert_array_equal(found["basis_path"][n], basis((3, 4, 2), *skeleton))
        self.assertEqual(self.result("values", RELU, "in.h5")["skeleton"], "stored")
        # Values of another skeleton are not kept beside it.
        self.assertNotIn("basis_value", self.paths("identify", RELU, "--skeleton=cyclic", "result.h5").bundle())
        self.write("bad.h5", **stored, skeleton_in=into, skeleton_out=out + 1)
        self.refused("basis-paths", "values", RELU, "bad.h5", status=3,
                     says=["bad.h5:/skeleton_out has 2 at [0], expected a node in [0, 2)"])
        self.write("bad.h5", **stored, skeleton_in=into)
        self.refused("basis-paths", "values", RELU, "bad.h5", status=3,
                     says=["bad.h5 has only skeleton_in, expected also skeleton_out"])

    def test_check(self):
        random = np.random.default_rng(5)
        for sizes in SIZES:
            self.write("in.h5", **network(random, sizes, 2))
            rank = sum(a * b for a, b in zip(sizes, sizes[1:])) - sum(sizes[1:-1])
            every = list(itertools.product(*map(range, sizes)))
            self.assertEqual(np.linalg.matrix_rank(structure(sizes, every)), rank)
            for more in ([], ["--skeleton=largest"]):
                found = self.check(RELU, "in.h5", *more)
                self.assertEqual([found[name] for name in ("hidden", "rank", "expected_rank", "paths", "judged")],
                                 [sum(sizes[1:-1]), rank, rank, len(every), "skeleton"])
                self.assertEqual(found["basis"], {"paths": 2 * rank, "rank": 2 * rank, "independent": True,
                                                  "complete": True})
            shape = self.check(RELU, "--shape=" + "x".join(map(str, sizes)))
            self.assertEqual((shape["rank"], shape["paths"]), (rank, len(every)))
            self.paths("identify", RELU, "in.h5", "-o", "i.h5", "--force")
            self.assertEqual(self.check(RELU, "i.h5")["judged"], "basis_path")
            # Paths of a list: all of them, a part, and some twice.
            for some in (every, every[::2], [*every[:3], every[0]]):
                self.write("p.h5", path=np.array(some, np.int16))
                want = np.linalg.matrix_rank(structure(sizes, some))
                good = want == len(some) and want == rank
                found = self.check(RELU, "in.h5", "-i", "path=p.h5:/path", status=0 if good else 1)
                self.assertEqual(found["networks"][1],
                                 {"index": [1], "paths": len(some), "rank": want,
                                  "independent": bool(want == len(some)), "complete": bool(want == rank)})
        self.assertEqual(self.check(RELU, "--shape=784x100x10")["rank"], 784 * 100 + 100 * 10 - 100)
        # 2^66 paths.
        self.assertIsNone(self.check(RELU, "--shape=" + "x".join(["8"] * 22))["paths"])

    def test_check_text(self):
        out = self.run_tool("basis-paths", "check", RELU, "--shape=3x4x2").out.decode()
        self.assertIn("weights - hidden nodes  16 = 16", out)
        self.write("in.h5", **network(np.random.default_rng(6), (3, 4, 2)))
        self.write("p.h5", path=np.array([[0, 4, 0]]))
        self.refused("basis-paths", "check", RELU, "in.h5", "-i", "path=p.h5:/path", status=3, output=None,
                     says=["p.h5:/path has 4 at [0, 1], expected a node in [0, 4)"])
        self.write("p.h5", path=np.array([[0, 1]]))
        self.refused("basis-paths", "check", RELU, "in.h5", "-i", "path=p.h5:/path", status=3, output=None,
                     says=["p.h5:/path has shape (1, 2), expected (..., n, 3): one node of each layer"])
        for memory, says, hint in (("400K", "of 79400 weights needs 620.3 KiB", "--memory 621K"),
                                   ("1M", "needs more than the 1.0 MiB of working memory", "a larger --memory")):
            self.refused("basis-paths", "check", RELU, "--shape=784x100x10", f"--memory={memory}", status=6,
                         output=None, says=[says], hint=hint)

    def test_zeros(self):
        random = np.random.default_rng(7)
        stored = network(random, (3, 4, 2), 2)
        stored["w1"][1, 2, 0] = 0  # not in the skeleton
        self.write("in.h5", **stored)
        found = self.paths("values", RELU, "in.h5").bundle()
        self.assertEqual((found["basis_value"] == 0).sum(), 1)
        stored["w2"][1, 3, 1] = 0
        self.write("in.h5", **stored)
        self.refused("basis-paths", "values", RELU, "in.h5", status=4, hint="--skeleton largest",
                     says=["in.h5:/w2 has 0 at [1, 3, 1], a weight of the skeleton"])
        self.paths("values", RELU, "--skeleton=largest", "in.h5", "-o", "v.h5")

    def test_bad_input(self):
        random = np.random.default_rng(8)
        good = network(random, (3, 4, 2), 2)
        cases = {
            "w2 has shape (2, 3, 2), expected (2, 4, n2)": {"w2": good["w2"][:, :3]},
            "w2 has shape (4, 2), expected (2, 4, n2)": {"w2": good["w2"][0]},
            "w2 has shape (), expected (2, 4, n2)": {"w2": 1.0},
            "w1 has shape (4), expected (..., n0, n1)": {"w1": np.ones(4)},
            "w2 has type int64": {"w2": np.ones((2, 4, 2), int)},
            "has w4, expected also w3": {"w4": good["w2"]},
            "has a layer of 0 nodes": {"w1": np.ones((2, 0, 4))},
            "w1 has nan at [1, 0, 2], expected finite numbers": {"w1": np.where(
                np.arange(24).reshape(2, 3, 4) == 14, np.nan, good["w1"])},
        }
        for says, change in cases.items():
            self.write("bad.h5", **good | change)
            self.refused("basis-paths", "values", RELU, "bad.h5", status=3, says=[says])
        self.write("none.h5", wq=np.ones((2, 2)), wk=np.ones((2, 2)))
        self.refused("basis-paths", "values", RELU, "none.h5", status=3, says=["w1"])
        self.write("tiny.h5", w1=np.full((1, 1), 1e-200), w2=np.full((1, 1), 1e-200))
        self.refused("basis-paths", "values", RELU, "tiny.h5", status=4, says=["below float64 at [0]"])
        self.write("big.h5", w1=np.full((1, 1), 1e30, np.float32), w2=np.full((1, 1), 1e30, np.float32))
        self.refused("basis-paths", "values", RELU, "big.h5", status=4, hint="--precision f64",
                     says=["beyond float32 at [0]"])

    def test_options_that_networks_do_not_have(self):
        self.write("in.h5", **network(np.random.default_rng(9), (3, 4, 2)))
        cases = [
            (["identify", "--paths=0,0,0"], "--paths is not for --network relu"),
            (["values", "--skeleton=cyclic", "--across-heads"], "--across-heads is not for --network relu"),
            (["start"], "--network is not an option of start"),
            (["values", "--network=tanh"], "--network"),
        ]
        for arguments, says in cases:
            self.refused("basis-paths", *[arguments[0], RELU, *arguments[1:]], "in.h5", status=2, says=[says])
        self.refused("basis-paths", "check", RELU, "--length=3", "in.h5", status=2, output=None,
                     says=["--length is not for --network relu"])
        for shape in ("3", "3x0", "3xa", "3x4x"):
            self.refused("basis-paths", "check", RELU, f"--shape={shape}", status=2, output=None,
                         says=["expected N0xN1x..., as in 784x100x10"])
        self.refused("basis-paths", "check", RELU, "--shape=" + "x".join(["1073741824"] * 9), status=2,
                     output=None, says=["--shape has more weights than can be addressed"])
        self.refused("basis-paths", "check", RELU, "--shape=3x2", "in.h5", status=2, output=None,
                     says=["--shape stands in place of an input"])

    def test_memory_and_threads(self):
        stored = network(np.random.default_rng(10), (30, 40, 20), 2)
        self.write("in.h5", **stored)
        for verb in (["identify", "--skeleton=largest"], ["values"]):
            whole = self.paths(verb[0], RELU, *verb[1:], "in.h5", "--threads=1").bundle()
            for more in (["--threads=3"], ["--memory=40K"]):
                self.assert_same_bits(self.paths(verb[0], RELU, *verb[1:], "in.h5", *more).bundle(), whole)
            self.refused("basis-paths", verb[0], RELU, *verb[1:], "in.h5", "--memory=8K", status=6,
                         says=["one network of 2000 weights needs"])
        dry = self.run_tool("basis-paths", "values", RELU, "in.h5", "--dry-run", "--json").json()["result"]
        self.assertEqual(dry["result_bytes"], 2 * ((2000 - 40) * 8 + 40 * 8 + 2 * 40 * 4))

    def test_groups(self):
        random = np.random.default_rng(11)
        one, two = network(random, (3, 4, 2)), network(random, (2, 2, 2, 2))
        self.write("in.h5", **{f"a__{k}": w for k, w in one.items()}, **{f"b__{k}": w for k, w in two.items()})
        found = self.paths("values", RELU, "in.h5").bundle()
        self.assertEqual(found["a/basis_value"].shape, (16,))
        self.assertEqual(found["b/basis_value"].shape, (8,))


if __name__ == "__main__":
    unittest.main()
