"""basis-paths: any memory and number of paths, ends of the number format, and what it refuses."""

import json
import unittest

import h5py
import numpy as np

from attn import SANITIZED
from paths import PathsTest, loss_gradients, weights


class Limits(PathsTest):

    def test_any_number_of_paths(self):
        random = np.random.default_rng(13)
        wq, wk = weights(random, 60, 7), weights(random, 60, 7)
        self.write("in.h5", wq=wq, wk=wk)
        self.paths("values", "in.h5", "-o", "v.h5")
        asked = np.stack([random.integers(0, n, 5_000_000) for n in (60, 60, 7)], 1)
        self.write("p.h5", path=asked.astype(np.int32))
        more = ["-i", "path=p.h5", "--only", "v.h5"]
        self.paths("reconstruct", *more, "--memory=32M", "-o", "r.h5", "--json=r.json")
        found = self.read("r.h5")
        if not SANITIZED:
            peak = json.loads((self.folder / "r.json").read_text())["runtime"]["peak_rss_bytes"]
            # Some 30 MB belong to the program; all paths would take 120 MB.
            self.assertLess(peak, 64e6)
        i, j, c = asked.T
        expected = wq[i, c] * wk[j, c]
        self.assert_near("path_value", found["path_value"], expected, 1e-15 * np.abs(expected))
        # Blocks of one path, of some and of all paths give the same bits.
        self.write("p.h5", path=asked[:1001])
        basis = 7 * (119 * 8 + 48)
        for memory in (basis + 56, basis + 56 * 7, 1 << 30):
            some = self.paths("reconstruct", *more, f"--memory={memory}").bundle()
            np.testing.assert_array_equal(some["path_value"], found["path_value"][:1001])
            dry = self.run_tool("basis-paths", "reconstruct", *more, f"--memory={memory}",
                                "--dry-run", "--json").json()["result"]
            self.assertEqual(dry["working_bytes"], min(memory, basis + 56 * 1001))
        self.paths("reconstruct", "v.h5", "--paths=" + ";".join(map("{0[0]},{0[1]},{0[2]}".format,
                                                                    asked[:1001])),
                   f"--memory={basis + 56 * 7}", "-o", "listed.h5")
        np.testing.assert_array_equal(self.read("listed.h5")["path_value"],
                                      found["path_value"][:1001])
        for dry in ([], ["--dry-run"]):
            self.refused("basis-paths", "reconstruct", *more, f"--memory={basis + 55}", *dry,
                         status=6, says=["the basis of one head needs"], hint="--memory")
        with h5py.File(self.folder / "huge.h5", "w") as file:  # no element is stored
            file.create_dataset("basis_value", (2 ** 29 - 1, 1), "f4")
            file.create_dataset("skeleton_q", (1,), "i4")
            file.create_dataset("skeleton_k", (1,), "i4")
        self.refused("basis-paths", "reconstruct", "huge.h5", "--paths=all", status=3,
                     says=["huge.h5:/basis_value has shape (536870911, 1), which has more paths"])
        self.refused("basis-paths", "reconstruct", "huge.h5", "--paths=1,1,0", status=6,
                     says=["the basis of one head needs 2.0 GiB"], hint="--memory 2049M")
        with h5py.File(self.folder / "chunk.h5", "w") as file:
            file.create_dataset("path", data=asked[:100_000], chunks=(100_000, 3), compression=1)
        self.refused("basis-paths", "reconstruct", "v.h5", "-i", "path=chunk.h5", "--memory=1M",
                     status=6, says=["chunk.h5:/path is compressed in chunks of"])
        self.write("none.h5", path=asked[:0])
        found = self.paths("reconstruct", "v.h5", "-i", "path=none.h5").bundle()
        self.assertEqual(found["path_value"].shape, (0,))

    def test_zeros_in_the_skeleton_are_named(self):
        wq, wk = np.ones((2, 3, 4)), np.ones((2, 3, 4))
        wk[1, 2, 2] = 0
        self.write("in.h5", wq=wq, wk=wk, grad_wq=wq, grad_wk=wk)
        for verb in (["values"], ["step", "--rate=1"]):
            self.refused("basis-paths", *verb, "in.h5", status=4,
                         says=["in.h5:/wk has 0 at [1, 2, 2], the skeleton's weight of column 2"],
                         hint="--skeleton largest")
        self.paths("values", "--skeleton=largest", "in.h5", "-o", "v.h5")
        with h5py.File(self.folder / "v.h5", "r+") as file:
            file["basis_value"][1, 0, 1] = 0
        self.refused("basis-paths", "reconstruct", "v.h5", status=4,
                     says=["v.h5:/basis_value has 0 at [1, 0, 1], the skeleton's path of column 1"])

    def test_hints_that_help(self):
        w = np.array([[0, 1], [1, 1]])
        stored = {"skeleton_q": np.zeros(2, int), "skeleton_k": np.zeros(2, int)}
        self.write("in.h5", wq=1. * w, wk=1. * w, grad_wq=1. * w, grad_wk=1. * w, **stored)
        self.refused("basis-paths", "step", "--rate=1", "--skeleton=largest", "in.h5", status=4,
                     hint="basis-paths identify --skeleton largest")
        self.write("one.h5", wq=1. * w, wk=1. * w, skeleton_q=stored["skeleton_q"])
        self.refused("basis-paths", "values", "one.h5", status=3, says=["has only skeleton_q, expected also skeleton_k"])
        self.write("state.h5", wq=1. * w, wk=1. * w, grad_wq=1. * w, grad_wk=1. * w,
                   si_adam_m=np.zeros((3, 2)))
        self.refused("basis-paths", "step", "--rate=1", "state.h5", status=3,
                     hint="hint: leave out its state\n")

    def test_neither_memory_nor_threads_change_a_bit(self):
        random = np.random.default_rng(11)
        rows, columns = 200, 90
        wq, wk = weights(random, 2, rows, columns), weights(random, 2, rows, columns)
        gq, gk = (np.asarray(g, float) for g in loss_gradients(random, wq, wk))
        self.write("in.h5", wq=wq, wk=wk, grad_wq=gq, grad_wk=gk, scale=weights(random, columns))
        for verb in (["identify", "--skeleton=largest"], ["values", "--skeleton=largest"],
                     ["rescale"], ["step", "--optimizer=si-adam", "--rate=1e-5",
                                   "--skeleton=largest"]):
            whole = self.paths(*verb, "in.h5", "--threads=1").bundle()
            for more in (["--memory=64K", "--threads=2"], ["--memory=200K", "--compress=gzip"]):
                self.assert_same_bits(self.paths(*verb, "in.h5", *more).bundle(), whole)
        values = self.paths("values", "in.h5").out
        whole = self.paths("reconstruct", stdin=values).bundle()
        self.assert_same_bits(self.paths("reconstruct", "--memory=64K", stdin=values).bundle(), whole)
        self.refused("basis-paths", "values", "in.h5", "--memory=1K", status=6, says=["--memory"])
        self.refused("basis-paths", "reconstruct", "--paths=all", "--memory=64K", stdin=values,
                     status=6, says=["the basis of one head"])
        for rule in ("cyclic", "largest"):
            # The forest and the skeleton use the memory that held panels of weights.
            self.check("in.h5", f"--skeleton={rule}", f"--memory={columns * (16 * rows + 48)}")
            self.refused("basis-paths", "check", "in.h5", f"--skeleton={rule}",
                         f"--memory={columns * (16 * rows + 48) - 1}", status=6, output=None,
                         says=["the forest"])
        self.refused("basis-paths", "check", "in.h5", "--memory=64K", status=6, output=None,
                     says=["the forest"])
        self.refused("basis-paths", "check", "--shape=100000x1", "--memory=1M", status=6, output=None,
                     says=["the forest"])

    def test_updated_datasets_cannot_be_mapped(self):
        w = np.ones((2, 2))
        self.write("in.h5", Q=w, K=w, wq=w, wk=w, GQ=w, grad_wq=w, grad_wk=w, F=np.ones(2),
                   basis_value=np.ones((3, 2)), wk_skeleton=np.ones(2), skeleton_q=np.zeros(2, int),
                   skeleton_k=np.zeros(2, int), S=np.zeros(2, int))
        step = ["step", "--rate=0.1"]
        for verb, mapped in ((step, "wq=Q,wk=K"), (step, "grad_wq=GQ"), (["rescale"], "wk=K,scale=F"),
                             (["reconstruct"], "wq=Q"), ([*step, "--dry-run"], "wq=Q")):
            self.refused("basis-paths", *verb, f"--map={mapped}", "in.h5", status=2,
                         says=[f"--map has {mapped.split(',')[0]}"])
        self.result("rescale", "--map=scale=F,wq=wq", "in.h5")
        self.result("reconstruct", "--map=skeleton_q=S", "in.h5")

    def test_dry_run(self):
        self.write("in.h5", wq=np.ones((2, 3, 4), np.float32), wk=np.ones((2, 3, 4), np.float32))
        done = self.run_tool("basis-paths", "identify", "in.h5", "--dry-run", "--json")
        self.assertEqual(done.json()["result"]["result_bytes"], 2 * 4 * (5 * 4 * 3 + 2 * 4))

    def test_options_that_do_not_fit(self):
        w = np.ones((3, 4))
        self.write("in.h5", wq=w, wk=w, grad_wq=w, grad_wk=w)
        for arguments, says in (
                (["step"], "--rate"), (["step", "--rate=0"], "--rate"),
                (["step", "--rate=1", "--optimizer=adam", "--min-ratio=1"], "--min-ratio"),
                (["step", "--rate=1", "--optimizer=adam", "--momentum=.5"], "--momentum"),
                (["step", "--rate=1", "--beta1=0.5"], "--beta1"),
                (["step", "--rate=1", "--optimizer=lion"], "--optimizer"),
                (["values", "--rate=1"], "--rate"), (["train"], "train")):
            self.refused("basis-paths", *arguments, "in.h5", status=2, says=[says])
        for shape in ("4", "4x", "0x3", "4x3x2", "axb"):
            self.refused("basis-paths", "check", f"--shape={shape}", status=2, says=["--shape"],
                         output=None)
        self.refused("basis-paths", "check", "--shape=2x2", "in.h5", status=2, says=["--shape"],
                     output=None)

    def test_optimizers_of_weights_take_options_of_the_skeleton(self):
        random = np.random.default_rng(2)
        names = {"wq": "grad_wq", "wk": "grad_wk"}
        self.write("in.h5", **{name: random.normal(size=(2, 3, 4)) for pair in names.items() for name in pair})
        relu = {"w1": (3, 4), "w2": (4, 2), "grad_w1": (3, 4), "grad_w2": (4, 2)}
        self.write("net.h5", **{name: random.normal(size=shape) for name, shape in relu.items()})
        for words in (["in.h5"], ["net.h5", "--network=relu"]):
            for optimizer in ("sgd", "adam"):
                step = ["step", f"--optimizer={optimizer}", "--rate=.125", "--only", *words]
                plain = self.run_tool("basis-paths", *step)
                self.assertNotIn("note", plain.err)
                self.assertNotIn("skeleton_q", plain.bundle())
                for more in (["--skeleton=largest"], ["--skeleton=cyclic", "--on-singular=skip", "--min-ratio=.5"]):
                    done = self.run_tool("basis-paths", *step, *more)
                    self.assert_same_bits(done.bundle(), plain.bundle())
                    self.assertIn(f"note: {optimizer} steps on all weights alike, without a skeleton: --skeleton", done.err)
                    self.assertIn("no effect", done.err)
        found = self.run_tool("basis-paths", "step", "--optimizer=sgd", "--rate=.125", "--skeleton=largest",
                              "in.h5").bundle()
        with h5py.File(self.folder / "in.h5") as file:
            for weight, gradient in names.items():
                np.testing.assert_array_equal(found[weight], file[weight][()] - .125 * file[gradient][()])

    def test_datasets_that_do_not_fit(self):
        w = np.ones((2, 3, 4))
        good = {"wq": w, "wk": w, "grad_wq": w, "grad_wk": w}
        cases = [({"wk": None}, "values", "wk"), ({"wk": w[0]}, "values", "in.h5:/wk has shape"),
                 ({"wk": w[:, :2]}, "values", "expected (2, 3, 4)"),
                 ({"wq": w.astype(int)}, "values", "has type int64"),
                 ({"wq": np.ones(3)}, "values", "in.h5:/wq has shape (3)"),
                 ({"wq": np.ones((0, 4)), "wk": np.ones((0, 4))}, "values", "an axis is empty"),
                 ({"wk": np.where(np.arange(4) == 1, np.nan, w)}, "values",
                  "in.h5:/wk has nan at [0, 0, 1]"),
                 ({"grad_wk": np.full_like(w, np.inf)}, "step", "in.h5:/grad_wk has inf"),
                 ({"grad_wq": None}, "step", "grad_wq"), ({}, "rescale", "scale"),
                 ({}, "reconstruct", "basis_value"),
                 ({"basis_value": np.ones((4, 2))}, "reconstruct", "expected (..., 2 d1 - 1, d2)"),
                 ({"basis_value": np.ones((5, 2))}, "reconstruct", "skeleton_q"),
                 ({"basis_value": np.ones((5, 2)), "skeleton_q": np.zeros(2, int),
                   "skeleton_k": np.zeros(2, int)}, "reconstruct", "wk_skeleton"),
                 ({"adam_m": w}, "adam", "adam_m"), ({"adam_step": 3}, "adam", "adam_m"),
                 ({"adam_m": np.ones((2, 6, 4)), "adam_v": np.ones((2, 6, 4)), "adam_step": 0},
                  "adam", "in.h5:/adam_step is 0")]
        for changed, verb, says in cases:
            with self.subTest(says=says):
                data = {n: v for n, v in (good | changed).items() if v is not None}
                self.write("in.h5", **data)
                arguments = {"step": ["step", "--rate=0.1"],
                             "adam": ["step", "--rate=0.1", "--optimizer=adam"]}.get(verb, [verb])
                self.refused("basis-paths", *arguments, "in.h5", status=3, says=[says])

    def test_numbers_beyond_the_format(self):
        w = np.full((3, 2), 1e30, np.float32)
        self.write("in.h5", wq=w, wk=w)
        self.refused("basis-paths", "values", "in.h5", status=4, says=["beyond float32"],
                     hint="--precision f64")
        self.paths("values", "in.h5", "--precision=f64", "-o", "v.h5")
        self.assertTrue(np.isfinite(self.read("v.h5")["basis_value"]).all())

    def test_numbers_below_the_format(self):
        one = np.float32([[1, 0], [1e-25, 1]])
        for other in (1e-25, 1e-15):  # 0, and subnormal
            self.write("in.h5", wq=one, wk=np.float32([[other, 1], [1, 1]]))
            self.refused("basis-paths", "values", "in.h5", status=4, hint="--precision f64",
                         says=["basis_value would be below float32 at [1, 0]"])
        self.paths("values", "in.h5", "--precision=f64", "--skeleton=largest", "-o", "v.h5")
        tiny = np.full((1, 2), [1e-20, 0], np.float32)
        self.write("in.h5", wq=tiny, wk=tiny, scale=np.float32([1e-30, 1e-30]))
        self.refused("basis-paths", "rescale", "in.h5", status=4, hint="--precision f64",
                     says=["wq would be below float32 at [0, 0]"])
        self.paths("rescale", "in.h5", "--precision=f64", "-o", "r.h5")
        self.write("in.h5", wq=np.float32([[1e-40]]), wk=np.float32([[1]]), scale=np.float32([-1]))
        self.assertEqual(self.paths("rescale", "in.h5").bundle()["wq"], -np.float32(1e-40))
        self.assert_paths_below_are_refused()
        self.write("in.h5", wq=np.array([[1e-200]]), wk=np.array([[1e-200]]))
        done = self.run_tool("basis-paths", "values", "in.h5", status=4)
        self.assertIn("below float64", done.err)
        self.assertNotIn("hint", done.err)

    def assert_paths_below_are_refused(self):
        # In column 0 p1 = 1e-20, p2 = 1e-25 and p3 = 1; in column 1 a p1 of 0.
        stored = {"skeleton_q": np.zeros(2, int), "skeleton_k": np.zeros(2, int)}
        values = np.float32([[1, 1], [1e-20, 0], [1e-25, 1e-40]])
        self.write("v.h5", basis_value=values, wk_skeleton=np.float32([1, 1]), **stored)
        for paths, at in (("all", "[1, 1, 0]"), ("0,0,0;1,0,0;0,1,1;1,1,1;1,1,0", "[4]")):
            self.refused("basis-paths", "reconstruct", "v.h5", f"--paths={paths}", status=4,
                         says=[f"path_value would be below float32 at {at}"], hint="--precision f64")
        # Basis values are kept, and a product with 0 is 0.
        found = self.paths("reconstruct", "v.h5", "--paths=1,0,0;0,1,1;1,1,1").bundle()
        np.testing.assert_array_equal(found["path_value"], np.float32([1e-20, 1e-40, 0]))
        found = self.paths("reconstruct", "v.h5", "--paths=1,1,0", "--precision=f64").bundle()
        self.assert_near("path_value", found["path_value"], [1e-45], 1e-51)
        self.write("v.h5", basis_value=np.float32([[1e-30, 1], [1, 0], [1e30, 1e-40]]), **stored)
        self.refused("basis-paths", "reconstruct", "v.h5", "--paths=1,1,0", status=4,
                     says=["path_value would be beyond float32 at [0]"], hint="--precision f64")
        # Weights: wq is values divided by wk's skeleton weights, wk values divided by wq's.
        for kept, below in (([1e30, 1], "wq would be below float32 at [1, 0]"),
                            ([1e-30, 1], "wk would be below float32 at [1, 0]")):
            self.write("v.h5", basis_value=values, wk_skeleton=np.float32(kept), **stored)
            self.refused("basis-paths", "reconstruct", "v.h5", status=4, says=[below],
                         hint="--precision f64")
        self.write("v.h5", basis_value=values, wk_skeleton=np.float32([1, -1]), **stored)
        found = self.paths("reconstruct", "v.h5").bundle()
        np.testing.assert_array_equal(found["wq"], np.float32([[1, -1], [1e-20, 0]]))
        np.testing.assert_array_equal(found["wk"], np.float32([[1, -1], [1e-25, -1e-40]]))
        self.write("v.h5", basis_value=np.array([[1e-200], [1e-200], [1e-200]]),
                   wk_skeleton=np.array([1e200]), skeleton_q=[0], skeleton_k=[0])
        self.refused("basis-paths", "reconstruct", "v.h5", status=4, says=["wq would be below float64"])


if __name__ == "__main__":
    unittest.main()
