"""basis-paths step: optimisers against NumPy's long double, loops of pipes, singular columns."""

import itertools
import json
import subprocess
import unittest

import numpy as np

from attn import BIN, LONG, sample
from formulas import LONG
from paths import SIZES, PathsTest, largest, loss_gradients, weights

OPTIMIZERS = ["sgd", "adam", "si-sgd", "si-adam", "si-sgd-printed"]


class Step:
    """The weights of one head under an optimiser."""

    def __init__(self, optimizer, wq, wk, q, k, rate, b1=0.9, b2=0.999, epsilon=1e-8, momentum=0,
                 decay=0):
        self.__dict__.update(locals())
        self.wq, self.wk = wq.astype(LONG), wk.astype(LONG)
        rows = 2 * len(wq) - optimizer.startswith("si")
        self.m = np.zeros((rows, wq.shape[1]), LONG)
        self.v = self.m.copy()
        self.n = 0

    def update(self, row, c, g, value):
        if "adam" not in self.optimizer:
            self.m[row, c] = LONG(self.momentum) * self.m[row, c] + g + LONG(self.decay) * value
            return self.rate * self.m[row, c]
        self.m[row, c] = self.b1 * self.m[row, c] + (1 - LONG(self.b1)) * g
        self.v[row, c] = self.b2 * self.v[row, c] + (1 - LONG(self.b2)) * g * g
        m = self.m[row, c] / (1 - LONG(self.b1) ** self.n)
        return self.rate * (m / (np.sqrt(self.v[row, c] / (1 - LONG(self.b2) ** self.n)) + self.epsilon)
                            + LONG(self.decay) * value)

    def step(self, gq, gk):
        self.n += 1
        rows, columns = self.wq.shape
        ratios = np.ones(columns, LONG)
        for c in range(columns):
            if not self.optimizer.startswith("si"):
                for i in range(rows):
                    self.wq[i, c] -= self.update(i, c, gq[i, c], self.wq[i, c])
                for j in range(rows):
                    self.wk[j, c] -= self.update(rows + j, c, gk[j, c], self.wk[j, c])
                continue
            printed = self.optimizer == "si-sgd-printed"
            s, t = self.q[c], self.k[c]
            q, k = self.wq[s, c], LONG(1) if printed else self.wk[t, c]
            others = [j for j in range(rows) if j != t]
            total = sum((gk[j, c] * self.wk[j, c] for j in others), LONG(0))
            ratios[c] = 1 - self.update(s, c, (gq[s, c] - total / q) / k, q * k) / (q * k)
            for place, j in enumerate(others):
                by = self.update(rows + place, c, gk[j, c] / q, q * self.wk[j, c])
                self.wk[j, c] = (self.wk[j, c] - by / (1 if printed else q)) / ratios[c]
            for i in range(rows):
                if i != s:
                    self.wq[i, c] -= self.update(i, c, gq[i, c] / k, self.wq[i, c] * k) / k
            self.wq[s, c] = q * ratios[c]
        return ratios


class Steps(PathsTest):

    def test_steps_of_every_optimiser(self):
        random = np.random.default_rng(6)
        types = ((np.float64, 1e-13), (np.float32, 3e-7))
        cases = itertools.product(types, OPTIMIZERS, SIZES, (False, True))
        # Among these 36 is each optimiser with and without more options for each type, and with nearly each size.
        for (dtype, limit), optimizer, (rows, columns), more in sample(cases, 36):
            with self.subTest(optimizer=optimizer, rows=rows, columns=columns, more=more, dtype=dtype.__name__):
                options = {}
                if more and optimizer != "si-sgd-printed":
                    options["decay"] = 0.2
                if more and optimizer in ("sgd", "si-sgd"):
                    options["momentum"] = 0.7
                given = [f"--{'weight-decay' if name == 'decay' else name}={number}" for name, number in options.items()]
                wq, wk = weights(random, 2, rows, columns), weights(random, 2, rows, columns)
                wq, wk = wq.astype(dtype), wk.astype(dtype)
                heads = [Step(optimizer, wq[h], wk[h], largest(wq[h]), largest(wk[h]), 1e-3, **options)
                         for h in range(2)]
                self.write("in.h5", wq=wq, wk=wk, other=1)
                skeleton = ["--skeleton=largest"] if optimizer.startswith("si") else []
                for _ in range(3 if LONG else 2):
                    gq, gk = (g.astype(dtype) for g in loss_gradients(random, wq, wk))
                    self.write("g.h5", grad_wq=gq, grad_wk=gk)
                    result = self.result("step", f"--optimizer={optimizer}", "--rate=1e-3", *given,
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
                        name = optimizer.replace("-", "_")
                        self.assertEqual(f"{name}_m" in found, "adam" in optimizer or "momentum" in options)
                        if f"{name}_m" in found:
                            self.assert_near("m", found[f"{name}_m"][h], head.m,
                                             4 * limit * np.maximum(1, np.abs(head.m)))
                        if "adam" in optimizer:
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


if __name__ == "__main__":
    unittest.main()
