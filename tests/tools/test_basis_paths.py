"""basis-paths: every verb against formulas in NumPy's long double, and a training loop of pipes."""

import itertools
import json
import subprocess
import unittest

import h5py
import numpy as np

from attn import BIN, LONG, SANITIZED, ToolTest, sample

LONG = np.longdouble
# d1, d2: one row, one column, more columns than rows and the other way round.
SIZES = [(1, 1), (1, 3), (2, 1), (3, 7), (7, 3), (5, 5)]
OPTIMIZERS = ["sgd", "adam", "si-sgd", "si-adam", "si-sgd-printed"]


def weights(random, *shape):
    """Numbers of size 1/4 to 2."""
    return random.uniform(0.25, 2, shape) * random.choice([-1, 1], shape)


def largest(w):
    return np.abs(w).argmax(-2)


def cyclic(rows, columns):
    return np.arange(columns) % rows


def basis_of(rows, q, k):
    """(2 rows − 1, columns, 3)"""
    columns = len(q)
    basis = np.zeros((2 * rows - 1, columns, 3), int)
    for c in range(columns):
        others = [j for j in range(rows) if j != k[c]]
        basis[:, c, 0] = [*range(rows), *[q[c]] * (rows - 1)]
        basis[:, c, 1] = [*[k[c]] * rows, *others]
        basis[:, c, 2] = c
    return basis


def loss_gradients(random, wq, wk):
    """The gradient of a loss of the scores of some inputs: rescaling columns does not change the
    loss."""
    x = random.normal(size=(9, wq.shape[-2])).astype(LONG)
    slopes = random.normal(size=wq.shape[:-2] + (9, 9)).astype(LONG)
    q, k = x @ wq.astype(LONG), x @ wk.astype(LONG)
    return x.T @ (slopes @ k), x.T @ (np.swapaxes(slopes, -1, -2) @ q)


class Step:
    """The weights of one head under an optimiser."""

    def __init__(self, optimizer, wq, wk, q, k, rate, b1=0.9, b2=0.999, epsilon=1e-8):
        self.__dict__.update(locals())
        self.wq, self.wk = wq.astype(LONG), wk.astype(LONG)
        rows = 2 * len(wq) - (optimizer == "si-adam")
        self.m = np.zeros((rows, wq.shape[1]), LONG)
        self.v = self.m.copy()
        self.n = 0

    def update(self, row, c, g):
        if "adam" not in self.optimizer:
            return self.rate * g
        self.m[row, c] = self.b1 * self.m[row, c] + (1 - LONG(self.b1)) * g
        self.v[row, c] = self.b2 * self.v[row, c] + (1 - LONG(self.b2)) * g * g
        m = self.m[row, c] / (1 - LONG(self.b1) ** self.n)
        return self.rate * m / (np.sqrt(self.v[row, c] / (1 - LONG(self.b2) ** self.n))
                                + self.epsilon)

    def step(self, gq, gk):
        self.n += 1
        rows, columns = self.wq.shape
        ratios = np.ones(columns, LONG)
        for c in range(columns):
            if not self.optimizer.startswith("si"):
                for i in range(rows):
                    self.wq[i, c] -= self.update(i, c, gq[i, c])
                for j in range(rows):
                    self.wk[j, c] -= self.update(rows + j, c, gk[j, c])
                continue
            printed = self.optimizer == "si-sgd-printed"
            s, t = self.q[c], self.k[c]
            q, k = self.wq[s, c], LONG(1) if printed else self.wk[t, c]
            others = [j for j in range(rows) if j != t]
            total = sum((gk[j, c] * self.wk[j, c] for j in others), LONG(0))
            ratios[c] = 1 - self.update(s, c, (gq[s, c] - total / q) / k) / (q * k)
            for place, j in enumerate(others):
                by = self.update(rows + place, c, gk[j, c] / q)
                self.wk[j, c] = (self.wk[j, c] - by / (1 if printed else q)) / ratios[c]
            for i in range(rows):
                if i != s:
                    self.wq[i, c] -= self.update(i, c, gq[i, c] / k) / k
            self.wq[s, c] = q * ratios[c]
        return ratios


class BasisPaths(ToolTest):

    def paths(self, *arguments, **more):
        return self.run_tool("basis-paths", *arguments, "-q", **more)

    def result(self, *arguments, **more):
        self.paths(*arguments, "-o", "result.h5", "--force", "--json=result.json", **more)
        return json.loads((self.folder / "result.json").read_text())["result"]

    def check(self, *arguments, status=0):
        return self.run_tool("basis-paths", "check", *arguments, "--json", status=status
                             ).json()["result"]

    def test_identify(self):
        random = np.random.default_rng(1)
        for rows, columns in SIZES:
            wq, wk = weights(random, 2, 3, rows, columns), weights(random, 2, 3, rows, columns)
            self.write("in.h5", wq=wq, wk=wk, other=np.arange(3))
            for rule in ("cyclic", "largest"):
                found = self.paths("identify", f"--skeleton={rule}", "in.h5").bundle()
                self.assertEqual(found["basis_path"].dtype, np.int32)
                self.assertEqual(found["basis_path"].shape, (2, 3, 2 * rows - 1, columns, 3))
                self.assertIn("other", found)
                for head in np.ndindex(2, 3):
                    if rule == "cyclic":
                        q = k = cyclic(rows, columns)
                    else:
                        q, k = largest(wq[head]), largest(wk[head])
                    np.testing.assert_array_equal(found["skeleton_q"][head], q)
                    np.testing.assert_array_equal(found["skeleton_k"][head], k)
                    np.testing.assert_array_equal(found["basis_path"][head], basis_of(rows, q, k))
            self.assertEqual(self.result("identify", "in.h5"),
                             {"shape": [2, 3, rows, columns], "skeleton": "cyclic",
                              "basis_paths": columns * (2 * rows - 1)})

    def test_values_and_back(self):
        random = np.random.default_rng(2)
        for dtype, unit in ((np.float32, 2.0 ** -24), (np.float64, 2.0 ** -53)):
            for rows, columns in SIZES:
                wq = weights(random, 2, rows, columns).astype(dtype)
                wk = weights(random, 2, rows, columns).astype(dtype)
                self.write("in.h5", wq=wq, wk=wk)
                values = self.paths("values", "--skeleton=largest", "in.h5", "--only")
                found = values.bundle()
                self.assertEqual(set(found), {"skeleton_q", "skeleton_k", "basis_value",
                                              "wk_skeleton"})
                again = self.paths("reconstruct", stdin=values.out).bundle()
                every = self.paths("reconstruct", "--paths=all", "--only", stdin=values.out).bundle()
                for head in range(2):
                    basis = basis_of(rows, largest(wq[head]), largest(wk[head]))
                    i, j, c = np.moveaxis(basis, -1, 0)
                    np.testing.assert_array_equal(found["basis_value"][head],
                                                  wq[head][i, c] * wk[head][j, c])
                    full = wq[head].astype(LONG)[:, None] * wk[head].astype(LONG)[None]
                    self.assert_near("path_value", every["path_value"][head], full,
                                     6.1 * unit * np.abs(full))
                for name, w in (("wq", wq), ("wk", wk)):
                    self.assertEqual(again[name].dtype, dtype)
                    self.assert_near(name, again[name], w, 4.1 * unit * np.abs(w))

    def test_paths_asked_for(self):
        random = np.random.default_rng(3)
        wq, wk = weights(random, 2, 4, 3), weights(random, 2, 4, 3)
        self.write("in.h5", wq=wq, wk=wk)
        values = self.paths("values", "in.h5").out
        asked = np.array([[0, 1, 2], [3, 3, 0], [2, 0, 1]])
        i, j, c = asked.T
        expected = wq[:, i, c] * wk[:, j, c]
        found = self.paths("reconstruct", "--paths=0,1,2;3,3,0;2,0,1", stdin=values).bundle()
        self.assert_near("path_value", found["path_value"], expected, 1e-15 * np.abs(expected))
        np.testing.assert_array_equal(found["wq"], wq)
        for stored in (asked, np.broadcast_to(asked, (2, 3, 3)), asked.astype(np.uint8)):
            self.write("p.h5", asked=stored)
            same = self.paths("reconstruct", "-", "-i", "path=p.h5:/asked", stdin=values).bundle()
            self.assert_same_bits(same, found, ["path_value"])
        for text in ("0,1", "0,1,x", "4,0,0", "0,0,3", "-1,0,0", ""):
            self.refused("basis-paths", "reconstruct", f"--paths={text}", stdin=values, status=2,
                         says=["--paths"])
        self.write("p.h5", asked=asked + 1)
        self.refused("basis-paths", "reconstruct", "-", "-i", "path=p.h5:/asked", stdin=values,
                     status=3, says=["p.h5:/asked has 3 at [0, 2], expected an index in [0, 3)"])

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

    def test_a_stored_skeleton_is_kept(self):
        random = np.random.default_rng(4)
        wq, wk = weights(random, 4, 3), weights(random, 4, 3)
        q, k = np.array([3, 0, 1]), np.array([2, 2, 0])
        self.write("in.h5", wq=wq, wk=wk, skeleton_q=q, skeleton_k=k)
        found = self.paths("identify", "in.h5").bundle()
        np.testing.assert_array_equal(found["basis_path"], basis_of(4, q, k))
        self.assertEqual(self.result("values", "in.h5")["skeleton"], "stored")
        np.testing.assert_array_equal(self.read("result.h5")["wk_skeleton"], wk[k, range(3)])
        # Datasets that belong to another skeleton are not kept beside it.
        anew = self.paths("identify", "--skeleton=cyclic", "result.h5").bundle()
        self.assertNotIn("basis_value", anew)
        self.write("bad.h5", wq=wq, wk=wk, skeleton_q=q + 1, skeleton_k=k)
        self.refused("basis-paths", "values", "bad.h5", status=3,
                     says=["bad.h5:/skeleton_q has 4 at [0], expected a row in [0, 4)"])
        self.write("moments.h5", wq=wq, wk=wk, si_adam_m=np.zeros((7, 3)))
        self.refused("basis-paths", "values", "moments.h5", status=3, says=["si_adam_m"])

    def test_rescale(self):
        random = np.random.default_rng(5)
        data = {name: random.normal(size=(2, 5, 3)) for name in ("wq", "wk", "grad_wq", "grad_wk")}
        data |= {"bq": random.normal(size=(2, 3)), "bk": random.normal(size=(2, 3)),
                 "adam_m": random.normal(size=(2, 10, 3)), "adam_v": random.uniform(size=(2, 10, 3))}
        x = random.normal(size=(7, 5))
        for scale in (np.array([2, -0.5, 4.0]), random.uniform(0.5, 3, (2, 3))):
            self.write("in.h5", x=x, scale=scale, **data)
            found = self.paths("rescale", "in.h5").bundle()
            f = np.broadcast_to(scale, (2, 3))[:, None]
            for name, expected in (("wq", data["wq"] * f), ("wk", data["wk"] / f),
                                   ("bq", data["bq"] * f[:, 0]), ("bk", data["bk"] / f[:, 0]),
                                   ("grad_wq", data["grad_wq"] / f),
                                   ("grad_wk", data["grad_wk"] * f)):
                np.testing.assert_array_equal(found[name], expected)
            for name, power in (("adam_m", 1), ("adam_v", 2)):
                expected = np.concatenate([data[name][:, :5] / f ** power,
                                           data[name][:, 5:] * f ** power], 1)
                self.assert_near(name, found[name], expected, 4e-16 * np.abs(expected))
            self.write("scaled.h5", x=x, **{name: found[name] for name in ("wq", "wk", "bq", "bk")})
            plain, scaled = (self.compute("--from=projection", "--emit=weights", "-q", name)["weights"]
                             for name in ("in.h5", "scaled.h5"))
            self.assert_near("weights", scaled, plain, 1e-13)
        for bad, says in ((np.array([1, 0, 1.0]), "has 0 at [1]"),
                          (np.array([1, np.nan, 1]), "has nan at [1]"),
                          (np.ones(4), "has shape (4)")):
            self.write("bad.h5", scale=bad, **data)
            self.refused("basis-paths", "rescale", "bad.h5", status=3, says=[says])
        self.write("large.h5", scale=np.full(3, 1e-200), wq=data["wq"],
                   wk=data["wk"] * 1e150)
        self.refused("basis-paths", "rescale", "large.h5", status=4, says=["wk would be beyond float64"])

    def test_steps_of_every_optimiser(self):
        random = np.random.default_rng(6)
        for dtype, limit in ((np.float64, 1e-13), (np.float32, 3e-7)):
            for optimizer, (rows, columns) in itertools.product(OPTIMIZERS, SIZES):
                wq, wk = weights(random, 2, rows, columns), weights(random, 2, rows, columns)
                wq, wk = wq.astype(dtype), wk.astype(dtype)
                heads = [Step(optimizer, wq[h], wk[h], largest(wq[h]), largest(wk[h]), 1e-3)
                         for h in range(2)]
                self.write("in.h5", wq=wq, wk=wk, other=1)
                skeleton = ["--skeleton=largest"] if optimizer.startswith("si") else []
                for _ in range(3 if LONG else 2):
                    gq, gk = (g.astype(dtype) for g in loss_gradients(random, wq, wk))
                    self.write("g.h5", grad_wq=gq, grad_wk=gk)
                    result = self.result("step", f"--optimizer={optimizer}", "--rate=1e-3",
                                         *skeleton, "-i", "grad_wq=g.h5", "-i", "grad_wk=g.h5",
                                         "in.h5")
                    found = self.read("result.h5")
                    self.assertNotIn("grad_wq", found)
                    self.assertEqual(found["other"], 1)
                    for h, head in enumerate(heads):
                        # From the stored values, so that errors do not accumulate.
                        head.wq, head.wk = wq[h].astype(LONG), wk[h].astype(LONG)
                        ratios = head.step(gq[h].astype(LONG), gk[h].astype(LONG))
                        for name, expected in (("wq", head.wq), ("wk", head.wk)):
                            self.assertEqual(found[name].dtype, dtype)
                            self.assert_near(name, found[name][h], expected,
                                             limit * np.maximum(1, np.abs(expected)))
                        if optimizer.startswith("si"):
                            self.assertEqual(result["heads"][h]["singular"], [])
                            self.assert_near("ratio", result["heads"][h]["ratio"]["min"],
                                             ratios.min(), 4 * limit)
                        if "adam" in optimizer:
                            name = optimizer.replace("-", "_")
                            self.assert_near("m", found[f"{name}_m"][h], head.m,
                                             4 * limit * np.maximum(1, np.abs(head.m)))
                            self.assertEqual(found[f"{name}_step"], head.n)
                            self.assertEqual(result["step"], head.n)
                    wq, wk = found["wq"], found["wk"]
                    (self.folder / "result.h5").rename(self.folder / "in.h5")

    def train(self, start, steps, step):
        """Datasets after a training loop of pipes, starting with the bundle `start`."""
        self.shell(f"cp {start} loop.h5\nfor i in $(seq {steps}); do\n"
                   "attn-compute -q --from projection --emit grad_wq,grad_wk loop.h5 |\n"
                   f"basis-paths step -q {step} -o next.h5\nmv next.h5 loop.h5\ndone")
        return self.read("loop.h5")

    def test_a_loop_of_pipes_trains_as_the_library_does(self):
        self.run_tool("tensor-gen", "normal", "x=12x6", "wq=2x6x4", "wk=2x6x4", "wv=2x6x3",
                      "grad_out=2x12x3", "--dtype=f64", "--seed=5", "-o", "start.h5", "-q")
        for optimizer in sample(("si-adam", "si-sgd"), 1):
            program = [str(BIN.parent / "path-training"), optimizer]
            done = subprocess.run(program, stdout=subprocess.PIPE, check=True)
            expected = np.array(done.stdout.split(), float).reshape(2, 2, 6, 4)
            found = self.train("start.h5", 50, f"--optimizer {optimizer} --rate 0.01 "
                               "--skeleton largest")
            # The same operations in the same order.
            np.testing.assert_array_equal(found["wq"], expected[0])
            np.testing.assert_array_equal(found["wk"], expected[1])

    def test_a_loop_from_rescaled_weights(self):
        # So small that attn-compute uses the same method for the same scores, whatever the lengths
        # of their vectors.
        self.run_tool("tensor-gen", "normal", "x=12x6", "wq=2x6x4", "wk=2x6x4", "wv=2x6x3",
                      "grad_out=2x12x3", "--dtype=f64", "--seed=5", "--std=0.3", "-o", "start.h5",
                      "-q")
        self.write("scale.h5", scale=np.array([2, -0.25, -1, 8.0]))
        self.paths("rescale", "start.h5", "-i", "scale=scale.h5", "-o", "other.h5")
        for optimizer, same in (("si-sgd", True), ("si-adam", True), ("si-sgd-printed", False),
                                ("sgd", False)):
            skeleton = "--skeleton largest --on-singular skip" if "si" in optimizer else ""
            ends = []
            for start in ("start.h5", "other.h5"):
                found = self.train(start, 5, f"--optimizer {optimizer} --rate 0.01 {skeleton}")
                ends.append(found["wq"][:, :, None] * found["wk"][:, None])
            self.assertEqual(np.array_equal(*ends), same, optimizer)

    def singular(self):
        """Datasets in which only column 1 of head 1 is singular."""
        random = np.random.default_rng(7)
        wq, wk = weights(random, 2, 3, 4), weights(random, 2, 3, 4)
        wq[1, 1, 1], wk[1, :, 1] = 1e-6, [0, 1, 0]
        gq, gk = (np.asarray(g, float) for g in loss_gradients(random, wq, wk))
        if gq[1, 1, 1] < 0:
            wq[1, 1, 1] *= -1
        return {"wq": wq, "wk": wk, "grad_wq": gq, "grad_wk": gk}

    def test_singular_columns(self):
        data = self.singular()
        self.write("in.h5", **data)
        step = ["step", "--rate=1e-4", "in.h5"]
        self.refused("basis-paths", *step, status=4, hint="--on-singular skip",
                     says=["in.h5:/wq, head [1]: column 1 has ratio R = -",
                           "in 1 of 4 columns R is below 0.001"])
        failed = self.run_tool("basis-paths", *step, "-o", "x.h5", "--json=e.json", status=4)
        self.assertIn("column 1", failed.err)
        report = json.loads((self.folder / "e.json").read_text())
        self.assertEqual(report["status"], "error")
        self.assertEqual([s["column"] for s in report["result"]["heads"][1]["singular"]], [1])
        skipped = self.result(*step, "--on-singular=skip")
        self.assertEqual(skipped["singular"], 1)
        self.assertLess(skipped["heads"][1]["singular"][0]["ratio"], 0)
        found = self.read("result.h5")
        np.testing.assert_array_equal(found["wq"][1, :, 1], data["wq"][1, :, 1])
        np.testing.assert_array_equal(found["wk"][1, :, 1], data["wk"][1, :, 1])
        self.assertTrue((found["wq"][1, :, 0] != data["wq"][1, :, 0]).any())
        self.result(*step, "--on-singular=clip", "--min-ratio=0.5")
        clipped = self.read("result.h5")
        self.assertEqual(clipped["wq"][1, 1, 1], 0.5 * data["wq"][1, 1, 1])
        done = self.run_tool("basis-paths", *step, "--on-singular=skip", "-o", "s.h5")
        self.assertIn("warning: in.h5:/wq, head [1]: column 1", done.err)
        self.assertIn("singular columns: 1 left as before", done.err)
        # A column without a ratio is neither clipped nor reported as clipped.
        w, g = np.array([[1e-200, 1], [1, 1]]), np.array([[-1, 1.5], [0, 0]])
        self.write("far.h5", wq=w, wk=w, grad_wq=g, grad_wk=0 * g, skeleton_q=np.zeros(2, int),
                   skeleton_k=np.zeros(2, int))
        done = self.run_tool("basis-paths", "step", "--rate=1", "--on-singular=clip", "far.h5",
                             "-o", "f.h5")
        self.assertIn("R = inf; in 2 of 2 columns R is below 0.001 (--min-ratio) or not finite: "
                      "1 clipped, 1 left as before", done.err)
        np.testing.assert_array_equal(self.read("f.h5")["wq"], [[1e-200, 1e-3], [1, 1]])
        self.refused("basis-paths", "step", "--rate=1", "--min-ratio=1", "far.h5", status=2,
                     says=["--min-ratio"])

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

    def test_negative_second_moments(self):
        w = np.ones((2, 3, 4))
        for optimizer, rows in (("adam", 6), ("si_adam", 5)):
            v = np.zeros((2, rows, 4))
            v[1, 4, 2] = -1
            self.write("in.h5", wq=w, wk=w, grad_wq=w, grad_wk=w, skeleton_q=np.zeros((2, 4), int),
                       skeleton_k=np.zeros((2, 4), int),
                       **{f"{optimizer}_m": 0 * v, f"{optimizer}_v": v, f"{optimizer}_step": 1})
            name = optimizer.replace("_", "-")
            self.refused("basis-paths", "step", "--rate=1", f"--optimizer={name}", "in.h5",
                         status=3, says=[f"in.h5:/{optimizer}_v has -1 at [1, 4, 2]"])

    def test_gradients_of_another_loss_are_reported(self):
        random = np.random.default_rng(8)
        wq, wk = weights(random, 5, 3), weights(random, 5, 3)
        gq, gk = (np.asarray(g, float) for g in loss_gradients(random, wq, wk))
        for decay, told in ((0, False), (0.1, True)):
            self.write("in.h5", wq=wq, wk=wk, grad_wq=gq + decay * wq, grad_wk=gk)
            done = self.run_tool("basis-paths", "step", "--rate=1e-4", "in.h5", "-o", "o.h5",
                                 "--force")
            self.assertEqual("depends only on the scores" in done.err, told)

    def test_check(self):
        random = np.random.default_rng(9)
        for rows, columns in SIZES:
            self.write("in.h5", wq=weights(random, 2, rows, columns),
                       wk=weights(random, 2, rows, columns), x=np.zeros((3, rows)))
            rank = columns * (2 * rows - 1)
            vectors = []
            for i, j, c in np.ndindex(rows, rows, columns):
                vector = np.zeros((2, rows, columns))
                vector[0, i, c] = vector[1, j, c] = 1
                vectors.append(vector.ravel())
            self.assertEqual(np.linalg.matrix_rank(np.array(vectors)), rank)
            for rule in ("cyclic", "largest"):
                found = self.check("in.h5", f"--skeleton={rule}")
                self.assertEqual(found["rank"], rank)
                self.assertEqual(found["weights"], 2 * rows * columns)
                self.assertEqual(found["paths"], rows ** 2 * columns)
                self.assertEqual(found["path_instances"], 9 * rows ** 2 * columns)
                self.assertEqual(found["basis"], {"paths": 2 * rank, "rank": 2 * rank,
                                                  "independent": True, "complete": True})
                self.assertEqual([head["index"] for head in found["heads"]], [[0], [1]])
        text = self.run_tool("basis-paths", "check", "--shape=4096x4096").out.decode()
        self.assertIn("33550336 = 33550336", text)
        found = self.check("--shape=1024x8", "--length=1073741824")
        self.assertEqual((found["paths"], found["path_instances"]), (2 ** 23, None))
        self.assertIsNone(self.check("--shape=2x1")["path_instances"])

    def test_check_of_a_chosen_set(self):
        random = np.random.default_rng(10)
        wq = weights(random, 2, 4, 3)
        basis = np.array([basis_of(4, *(np.array([0, 3, 1]),) * 2)] * 2)
        self.write("in.h5", wq=wq, wk=wq, basis_path=basis)
        self.assertTrue(self.check("in.h5")["basis"]["complete"])
        basis[1, 6, 2] = basis[1, 5, 2]
        self.write("in.h5", wq=wq, wk=wq, basis_path=basis)
        found = self.check("in.h5", status=1)
        self.assertEqual(found["basis"], {"paths": 42, "rank": 41, "independent": False,
                                          "complete": False})
        self.assertTrue(found["heads"][0]["independent"])
        self.assertFalse(found["heads"][1]["independent"])
        basis[0, 0, 0, 1] = 4
        self.write("in.h5", wq=wq, wk=wq, basis_path=basis)
        self.refused("basis-paths", "check", "in.h5", status=3, output=None,
                     says=["in.h5:/basis_path has 4 at [0, 0, 0, 1], expected an index in [0, 4)"])

    def test_check_of_any_paths(self):
        random = np.random.default_rng(14)
        wq = weights(random, 2, 4, 3)
        basis = basis_of(4, *(np.array([0, 3, 1]),) * 2).reshape(-1, 3)
        every = np.array(list(np.ndindex(4, 4, 3)))
        # A cycle: the last path is the product of two divided by the third.
        cycle = np.array([[0, 0, 1], [0, 2, 1], [3, 0, 1], [3, 2, 1]])
        for asked, rank in ((basis, 21), (basis[::-1], 21), (basis[1:], 20), (cycle, 3),
                            (cycle[:3], 3), (np.concatenate([basis[1:], basis[1:2]]), 20),
                            (every, 21), (every[random.permutation(48)[:15]], None)):
            vectors = np.zeros((len(asked), 2, 4, 3), int)
            i, j, c = asked.T
            vectors[range(len(asked)), 0, i, c] = vectors[range(len(asked)), 1, j, c] = 1
            by_svd = np.linalg.matrix_rank(vectors.reshape(len(asked), -1))
            self.assertIn(rank, (None, by_svd))
            # The requested list, not the basis in the bundle.
            self.write("in.h5", wq=wq, wk=wq, path=asked, basis_path=basis.reshape(7, 3, 3))
            expected = {"paths": len(asked), "rank": by_svd,
                        "independent": bool(by_svd == len(asked)), "complete": bool(by_svd == 21)}
            holds = expected["independent"] and expected["complete"]
            for memory in ("1G", 16 * 12 + 48):
                found = self.check("in.h5", f"--memory={memory}", status=0 if holds else 1)
                self.assertEqual(found["judged"], "path")
                self.assertEqual(found["heads"], [{"index": [n], **expected} for n in range(2)])
                self.assertEqual(found["basis"]["rank"], 2 * by_svd)
        self.refused("basis-paths", "check", "in.h5", f"--memory={16 * 12 + 47}", status=6,
                     output=None, says=["the forest of 24 weights"])
        self.assertEqual(self.check("in.h5", "--skeleton=cyclic")["judged"], "skeleton")
        self.write("in.h5", wq=wq, wk=wq, path=np.array([cycle, cycle - [0, 0, 2]]))
        self.refused("basis-paths", "check", "in.h5", status=3, output=None,
                     says=["in.h5:/path has -1 at [1, 0, 2], expected an index in [0, 3)"])
        self.write("in.h5", wq=wq, wk=wq, path=every[:, :2])
        self.refused("basis-paths", "check", "in.h5", status=3, output=None,
                     says=["in.h5:/path has shape (48, 2), expected (..., n, 3)"])

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

    def test_groups(self):
        random = np.random.default_rng(12)
        wq, wk = weights(random, 2, 3, 4), weights(random, 2, 3, 4)
        self.write("in.h5", layer0__Q=wq, layer0__K=wk, layer1__Q=wk, layer1__K=wq)
        each = ["--each=layer*", "--map=wq=Q,wk=K"]
        found = self.paths("values", *each, "in.h5").bundle()
        for layer, q, k in (("layer0", wq, wk), ("layer1", wk, wq)):
            self.write("one.h5", wq=q, wk=k)
            one = self.paths("values", "one.h5", "--only").bundle()
            for name in one:
                np.testing.assert_array_equal(found[f"{layer}/{name}"], one[name])
        groups = self.check(*each, "in.h5")["groups"]
        self.assertEqual([group["group"] for group in groups], ["layer0", "layer1"])
        self.assertTrue(all(group["basis"]["complete"] for group in groups))

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
                (["step", "--rate=1", "--optimizer=sgd", "--skeleton=cyclic"], "--skeleton"),
                (["step", "--rate=1", "--optimizer=adam", "--min-ratio=1"], "--min-ratio"),
                (["step", "--rate=1", "--beta1=0.5"], "--beta1"),
                (["step", "--rate=1", "--optimizer=lion"], "--optimizer"),
                (["values", "--rate=1"], "--rate"), (["train"], "train")):
            self.refused("basis-paths", *arguments, "in.h5", status=2, says=[says])
        for shape in ("4", "4x", "0x3", "4x3x2", "axb"):
            self.refused("basis-paths", "check", f"--shape={shape}", status=2, says=["--shape"],
                         output=None)
        self.refused("basis-paths", "check", "--shape=2x2", "in.h5", status=2, says=["--shape"],
                     output=None)

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
