"""The page on transport: its examples of POT and geomloss give the numbers of these libraries."""

import re
import unittest
import warnings

import numpy as np

from attn import SOURCE, ToolTest

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ot
except ImportError:
    ot = None

PAGE = SOURCE / "tools/guide/transport.md"


def soft_min(z, axis):
    least = z.min(axis, keepdims=True)
    return np.squeeze(least, axis) - np.log(np.exp(least - z).sum(axis))


def samples_loss(x, y, p, blur, reach=None, iterations=20000):
    """geomloss's SamplesLoss("sinkhorn") of uniform weights, by its formulas without annealing, and its gradient by x."""
    epsilon, rho = blur ** p, np.inf if reach is None else reach ** p
    soft = 1 / (1 + epsilon / rho)

    def cost(x, y):
        apart = x[:, None] - y
        lengths = np.sqrt((apart ** 2).sum(-1))
        if p == 2:
            return lengths ** 2 / 2, apart
        return lengths, apart / np.where(lengths > 0, lengths, 1)[..., None]

    def potentials(x, y, symmetric):
        c = cost(x, y)[0] / epsilon
        f, g, last = np.zeros(len(x)), np.zeros(len(y)), None
        for _ in range(iterations):
            next_f = soft * epsilon * soft_min(c - g / epsilon + np.log(len(y)), 1)
            f = (f + next_f) / 2 if symmetric else next_f
            g = f if symmetric else soft * epsilon * soft_min(c - f[:, None] / epsilon + np.log(len(x)), 0)
            if last is not None and np.abs(f - last).max() < 1e-15:
                break
            last = f
        return f, g

    def slope(x, y, f, g):
        c, by_x = cost(x, y)
        plan = np.exp((f[:, None] + g - c) / epsilon) / (len(x) * len(y))
        return (plan[..., None] * by_x).sum(1)

    (f, g), (f_x, _), (g_y, _) = potentials(x, y, False), potentials(x, x, True), potentials(y, y, True)
    if reach is None:
        value = (f - f_x).mean() + (g - g_y).mean()
    else:
        value = (rho + epsilon / 2) * ((np.exp(-f_x / rho) - np.exp(-f / rho)).mean() + (np.exp(-g_y / rho) - np.exp(-g / rho)).mean())
    return value, slope(x, y, f, g) - slope(x, x, f_x, f_x)


class Examples(ToolTest):

    def setUp(self):
        super().setUp()
        self.put_python_first()
        section = PAGE.read_text().partition("## Examples of POT and geomloss\n")[2].partition("\n## ")[0]
        self.shell(re.search(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[1])

    def value(self, name, member):
        return self.read_json(name)["result"][member]

    def test_geomloss(self):
        clouds = np.load(self.folder / "clouds.npz")
        x, y = clouds["q"], clouds["k"]
        loss, slope = samples_loss(x, y, 2, 0.05)
        self.assertAlmostEqual(self.value("loss.json", "divergence") / 2, loss, 9)
        self.assert_near("gradient", self.read("loss.h5")["dual_grad_q"] / 2, slope, 1e-8)
        loss, slope = samples_loss(x, y, 1, 0.05, 0.3)
        self.assertAlmostEqual(self.value("reach.json", "divergence"), loss, 9)
        self.assert_near("gradient", self.read("reach.h5")["dual_grad_q"], slope, 1e-8)

    @unittest.skipIf(ot is None, "POT (python3-pot) is not installed")
    def test_pot(self):
        quick, line = np.load(self.folder / "quick.npz"), np.load(self.folder / "line.npz")
        a, b, cost = quick["a"], quick["b"], quick["cost"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Costs that are convex along a line have one best plan.
            self.assert_near("emd", self.read("emd.h5")["plan"], ot.emd(a, b, cost), 1e-9)
            self.assertAlmostEqual(self.value("emd.json", "value"), ot.emd2(a, b, cost), 12)
            plan = ot.sinkhorn(a, b, cost, 1e-2, method="sinkhorn_log", numItermax=20000, stopThr=1e-13)
            self.assert_near("sinkhorn", self.read("sinkhorn.h5")["plan"], plan, 1e-9)
            plan = ot.unbalanced.sinkhorn_unbalanced(a, b, cost, 1e-2, 0.1, numItermax=20000, stopThr=1e-15)
            self.assert_near("unbalanced", self.read("unbalanced.h5")["plan"], plan, 1e-9)
            for name, metric in (("line", "sqeuclidean"), ("cityblock", "cityblock")):
                self.assertAlmostEqual(self.value(name + ".json", "value"), float(ot.emd2_1d(line["q"][:, 0], line["k"][:, 0], metric=metric)), 12)


if __name__ == "__main__":
    unittest.main()
