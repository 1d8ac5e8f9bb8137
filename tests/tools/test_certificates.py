"""Certificates: over many random problems, the optimum never escapes from the bounds that the tools print, however early
their iterations stop. 10,000 problems in long runs."""

import numpy as np

from attn import LONG, ToolTest

PROBLEMS = 2000 if LONG else 60  # of each of five kinds
ROUNDING = 1e-10  # of values of size 1, after hundreds of sums


def soft_min(z, axis):
    least = z.min(axis, keepdims=True)
    return np.squeeze(least, axis) - np.log(np.exp(least - z).sum(axis))


def fitted(cost, a, b, epsilon, weights=(1.0, 1.0)):
    """f, g (.., m) and (.., n) in units of the cost, by plain iterations of all problems at once; `weights` are
    rho/(rho + epsilon) of both sides."""
    z, log_a, log_b = cost / epsilon, np.log(a), np.log(b)
    f, g = np.zeros_like(log_a), np.zeros_like(log_b)
    for _ in range(4000):
        before = f
        f = weights[0] * (soft_min(z - g[..., None, :], -1) + log_a)
        g = weights[1] * (soft_min(z - f[..., :, None], -2) + log_b)
        if np.abs(f - before).max() < 1e-14:
            break
    return epsilon * f, epsilon * g


def mass(cost, f, g, epsilon):
    return np.exp((f[..., :, None] + g[..., None, :] - cost) / epsilon).sum((-1, -2))


class Certificates(ToolTest):

    def setUp(self):
        super().setUp()
        self.draw = np.random.default_rng(41)

    def marginals(self, size):
        return self.draw.dirichlet(np.ones(size), PROBLEMS) * 0.9 + 0.1 / size

    def results(self, *arguments, status=1):
        """One result for each problem; status 1: some iterations stopped early."""
        self.run_tool(*arguments, "in.h5", "--only", "--quiet", "-o", "out.h5", "--force", "--json=out.json", status=status)
        problems = self.read_json("out.json")["result"]["problems"]
        self.assertEqual(len(problems), PROBLEMS)
        return lambda name: np.array([problem[name] for problem in problems], float)

    def assert_between(self, lower, value, upper):
        for low, high in ((lower, value), (value, upper)):
            self.assertFalse(np.isnan(low).any() or np.isnan(high).any())
            self.assertLessEqual((low - high).max(), ROUNDING)
        # Bounds that say nothing would hold, too: these are of the size of the values.
        self.assertLess(np.median(upper - lower), 1)

    def test_transport(self):
        for iterations in (1, 2, 7):
            cost, a, b = self.draw.uniform(size=(PROBLEMS, 6, 5)), self.marginals(6), self.marginals(5)
            self.write("in.h5", cost=cost, a=a, b=b)
            result = self.results("sinkhorn-iter", "--epsilon", 0.2, "--tolerance", 1e-13, "--iterations", iterations)
            f, g = fitted(cost, a, b, 0.2)
            best = (a * f).sum(-1) + (b * g).sum(-1) - 0.2 * mass(cost, f, g, 0.2)
            self.assert_between(result("dual"), best, result("dual") + result("gap"))

    def test_unbalanced(self):
        for iterations in (1, 2, 7):
            cost, a, b = self.draw.uniform(size=(PROBLEMS, 6, 5)), self.marginals(6), 2 * self.marginals(5)
            self.write("in.h5", cost=cost, a=a, b=b)
            result = self.results("sinkhorn-iter", "--epsilon", 0.2, "--unbalanced", "0.7:2", "--tolerance", 1e-13,
                                  "--iterations", iterations)
            f, g = fitted(cost, a, b, 0.2, (0.7 / 0.9, 2 / 2.2))
            best = (-0.7 * (a * np.expm1(-f / 0.7)).sum(-1) - 2 * (b * np.expm1(-g / 2)).sum(-1)
                    - 0.2 * mass(cost, f, g, 0.2))
            self.assert_between(result("dual"), best, result("primal"))
            self.assert_between(result("dual"), best, result("dual") + result("gap"))

    def test_exact(self):
        """Against all assignments of few points."""
        order = np.array(np.meshgrid(*[range(4)] * 4)).reshape(4, -1).T
        order = order[[len(set(one)) == 4 for one in order]]
        for gap in (0.5, 1e-2, 1e-6):
            cost = self.draw.uniform(size=(PROBLEMS, 4, 4))
            self.write("in.h5", cost=cost)
            result = self.results("sinkhorn-iter", "exact", "--gap", gap, status=0)
            best = cost[:, np.arange(4), order].mean(-1).min(-1)
            self.assert_between(result("dual"), best, result("value"))

    def test_divergence(self):
        for iterations in (1, 2, 7):
            x, y = self.draw.normal(size=(PROBLEMS, 6, 2)), self.draw.normal(size=(PROBLEMS, 5, 2))
            a, b = self.marginals(6), self.marginals(5)
            self.write("in.h5", q=x, k=y, a=a, b=b)
            result = self.results("sinkhorn-iter", "divergence", "--epsilon", 1, "--tolerance", 1e-13,
                                  "--iterations", iterations)
            best = 0
            for share, (u, c), (v, d) in ((1, (x, a), (y, b)), (-0.5, (x, a), (x, a)), (-0.5, (y, b), (y, b))):
                cost = ((u[:, :, None] - v[:, None]) ** 2).sum(-1)
                f, g = fitted(cost, c, d, 1)
                # OT with KL(P, c d'); what it adds to the dual cancels.
                best = best + share * ((c * f).sum(-1) + (d * g).sum(-1) - mass(cost, f, g, 1))
            self.assertLessEqual((result("lower") - best).max(), ROUNDING)
            self.assertLessEqual((best - result("upper")).max(), ROUNDING)
            self.assertFalse(np.isnan(result("upper") - result("lower")).any())

    def test_dual_of_attention(self):
        """lambda-solve: primal and dual values, evaluated anew at its lambda and at the optimum."""
        for steps in (1, 2):
            t, z = self.draw.normal(size=(PROBLEMS, 8, 3)), self.draw.normal(size=(PROBLEMS, 1, 3))
            self.write("in.h5", t=t, z=z)
            emit = ("lambda-solve", "--alpha", 1.5, "--emit", "lambda,gap", "in.h5", "-q", "-o", "out.h5", "--force")
            self.run_tool(*emit, "--max-iterations", steps, "--tolerance", 1e-15, status=1)
            early = self.read("out.h5")
            self.run_tool(*emit, "--tolerance", 1e-13)
            late = self.read("out.h5")

            def dual(at):
                target = t.mean(1) + z[:, 0]
                inner = np.einsum("pnd,pd->pn", t, at)
                return (at * target).sum(-1) - (at**2).sum(-1) / 3 - np.log(np.exp(inner).mean(-1))

            short = dual(late["lambda"][:, 0]) - dual(early["lambda"][:, 0])
            self.assertGreater(short.max(), 1e-6)
            self.assertLessEqual((short - early["gap"][:, 0]).max(), ROUNDING)
