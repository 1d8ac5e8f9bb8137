"""Calls of POT's documentation and their counterparts in attnkit, with equal results."""

from __future__ import annotations

import re
import subprocess
import sys
import unittest
import warnings
from pathlib import Path
from typing import Any, Dict, Tuple

import numpy as np

import attnkit

try:
    import ot
except ImportError:
    ot = None

EXAMPLE = Path(__file__).resolve().parents[2] / "lib/python/examples/transport_for_pot.py"

# POT stops when an error falls below 1e-14 or after 5000 iterations, in which all problems here get there.
STOP: Dict[str, Any] = {"numItermax": 5000, "stopThr": 1e-14}
TOLERANCE = 1e-12


def value_of(found: Any) -> float:
    """The cost of the plan."""
    return float(found.report["result"]["value"])


def reach(found: Any) -> float:
    """The most that a plan is from the solution.

    Each iteration multiplies the L1 error of the marginals by a rate, which the last two errors show. What is
    left to go is at most the last error times 1 + rate + rate² + …. Rounding may add 2^-50 of the mass.
    """
    errors = found["error"][np.isfinite(found["error"])]
    return float(errors[-1] / (1 - errors[-1] / errors[-2]) + 2**-50)


class PotTest(unittest.TestCase):

    def setUp(self) -> None:
        if ot is None:
            self.skipTest("POT is not there")
        random = np.random.default_rng(5)
        self.x, self.y = random.normal(size=(40, 2)), random.normal(size=(30, 2)) + 0.5
        self.a, self.b = random.dirichlet(np.full(40, 3.0)), random.dirichlet(np.full(30, 3.0))
        self.M = ot.dist(self.x, self.y)
        self.targets = random.dirichlet(np.full(30, 3.0), 4)
        quiet = warnings.catch_warnings()
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        warnings.simplefilter("ignore")  # POT's
        warnings.simplefilter("error", attnkit.Warning)

    def near(self, found: Any, expected: Any, limit: float) -> None:
        found, expected = np.asarray(found), np.asarray(expected)
        self.assertEqual(found.shape, expected.shape)
        self.assertLessEqual(np.abs(found - expected).max(), limit)


class Exact(PotTest):
    """The optimum of POT's network simplex is between two bounds. Rounding is below 1e-14 of the costs."""

    def bounds(self, found: Any, optimum: Any, cost: Any) -> None:
        result = found.report["result"]
        rounding = 1e-14 * np.abs(cost).max()
        self.assertLessEqual(result["dual"] - rounding, optimum)
        self.assertLessEqual(optimum, result["value"] + rounding)
        self.assertLessEqual(result["value"] - result["dual"], 1e-5 * result["value"] + rounding)

    def exact(self, *arrays: Any, **named: Any) -> Any:
        return attnkit.exact(*arrays, gap=1e-5, emit="plan,row_potential,col_potential", **named)

    def test_emd(self) -> None:
        found = self.exact(self.M, self.a, self.b)
        plan, log = ot.emd(self.a, self.b, self.M, log=True)
        self.bounds(found, (plan * self.M).sum(), self.M)
        self.near((found.plan * self.M).sum(), value_of(found), 1e-14 * self.M.max())
        self.near(found.plan.sum(1), self.a, 1e-15)
        self.near(found.plan.sum(0), self.b, 1e-15)
        # Both pairs of potentials are below the costs, and their sums are the lower bound.
        for u, v in ((log["u"], log["v"]), (-found.row_potential, -found.col_potential)):
            self.assertGreaterEqual((self.M - u[:, None] - v).min(), -1e-14 * self.M.max())
        dual = -self.a @ found.row_potential - self.b @ found.col_potential
        self.near(dual, found.report["result"]["dual"], 1e-14 * self.M.max())
        self.bounds(found, self.a @ log["u"] + self.b @ log["v"], self.M)

    def test_emd2(self) -> None:
        self.bounds(self.exact(self.M, self.a, self.b), ot.emd2(self.a, self.b, self.M), self.M)

    def test_emd2_with_empty_lists(self) -> None:
        self.bounds(self.exact(self.M), ot.emd2([], [], self.M), self.M)

    def test_emd2_of_several_targets(self) -> None:
        optima = ot.emd2(self.a, self.targets.T.copy(), self.M)
        found = self.exact(self.M, self.a, self.targets)
        for optimum, problem in zip(optima, found.report["result"]["problems"]):
            self.assertLessEqual(problem["dual"] - 1e-14 * self.M.max(), optimum)
            self.assertLessEqual(optimum, problem["value"] + 1e-14 * self.M.max())

    def test_dist_and_emd2(self) -> None:
        found = self.exact(q=self.x, k=self.y, a=self.a, b=self.b)
        self.bounds(found, ot.emd2(self.a, self.b, ot.dist(self.x, self.y)), self.M)
        cost = ot.dist(self.x, self.y, metric="euclidean")
        self.bounds(self.exact(cost, self.a, self.b), ot.emd2(self.a, self.b, cost), cost)

    def test_on_a_line(self) -> None:
        x, y = self.x[:, 0], self.y[:, 0]
        found = self.exact(q=x[:, None], k=y[:, None], a=self.a, b=self.b)
        cost = (x[:, None] - y) ** 2
        self.bounds(found, ot.emd2_1d(x, y, self.a, self.b), cost)
        self.bounds(found, (ot.emd_1d(x, y, self.a, self.b) * cost).sum(), cost)
        self.bounds(found, float(ot.wasserstein_1d(x, y, self.a, self.b, p=2)), cost)


class Entropic(PotTest):
    """Both programs are as near to the solution as `reach` says."""

    def solved(self, *arrays: Any, epsilon: float = 0.5, **named: Any) -> Tuple[Any, float]:
        found = attnkit.sinkhorn(*arrays, epsilon=epsilon, emit="plan,error,row_potential,col_potential",
                                 tolerance=TOLERANCE, iterations=5000, **named)
        return found, 2 * reach(found)

    def test_sinkhorn(self) -> None:
        found, limit = self.solved(self.M, self.a, self.b)
        for method in ("sinkhorn", "sinkhorn_log", "sinkhorn_stabilized"):
            self.near(found.plan, ot.sinkhorn(self.a, self.b, self.M, 0.5, method=method, **STOP), limit)
        # One step of greenkhorn scales one row or column only.
        greedy = ot.bregman.greenkhorn(self.a, self.b, self.M, 0.5, numItermax=10**6, stopThr=1e-14)
        self.near(found.plan, greedy, limit)
        scaled = ot.bregman.sinkhorn_epsilon_scaling(self.a, self.b, self.M, 0.5, stopThr=1e-14)
        self.near(found.plan, scaled, limit)
        annealed = attnkit.sinkhorn(self.M, self.a, self.b, epsilon=0.5, tolerance=TOLERANCE, anneal=True,
                                    emit="plan")
        self.near(annealed.plan, scaled, limit)

    def test_small_regularisation(self) -> None:
        # Here exp(-M/reg) is 0 for most pairs.
        found, limit = self.solved(self.M / self.M.max(), epsilon=2e-3)
        self.near(found.plan, ot.bregman.sinkhorn_log([], [], self.M / self.M.max(), 2e-3, **STOP), limit)

    def test_path_of_regularisations(self) -> None:
        for epsilon in (0.3, 1.0, 3.0):
            found, limit = self.solved(self.M, self.a, self.b, epsilon=epsilon)
            self.near(found.plan, ot.sinkhorn(self.a, self.b, self.M, epsilon, **STOP), limit)

    def test_potentials(self) -> None:
        found, limit = self.solved(self.M, self.a, self.b)
        _, log = ot.sinkhorn(self.a, self.b, self.M, 0.5, log=True, **STOP)
        for potential, factors, masses in ((found.row_potential, log["u"], self.a),
                                           (found.col_potential, log["v"], self.b)):
            expected = -np.log(factors)
            # A change of a row's mass by δ is a change of its potential by δ over the mass.
            self.near(potential - potential.mean(), expected - expected.mean(), 2 * limit / masses.min())

    def test_sinkhorn2(self) -> None:
        found, limit = self.solved(self.M, self.a, self.b)
        self.near(value_of(found), ot.sinkhorn2(self.a, self.b, self.M, 0.5, **STOP), limit * self.M.max())

    def test_several_targets(self) -> None:
        values = ot.sinkhorn(self.a, self.targets.T.copy(), self.M, 0.5, **STOP)
        limit = max(self.solved(self.M, self.a, target)[1] for target in self.targets)
        found, _ = self.solved(self.M, self.a, self.targets)
        costs = [problem["value"] for problem in found.report["result"]["problems"]]
        self.near(costs, values, limit * self.M.max())

    def test_points(self) -> None:
        found, limit = self.solved(q=self.x, k=self.y, a=self.a, b=self.b)
        settings = {"a": self.a, "b": self.b, "numIterMax": 5000, "stopThr": 1e-14}
        self.near(found.plan, ot.bregman.empirical_sinkhorn(self.x, self.y, 0.5, **settings), limit)
        cost = ot.bregman.empirical_sinkhorn2(self.x, self.y, 0.5, **settings)
        self.near(value_of(found), cost, limit * self.M.max())
        f, g = ot.bregman.empirical_sinkhorn(self.x, self.y, 0.5, isLazy=True, **settings)
        lazy = np.exp(f[:, None] + g - self.M / 0.5)
        self.near(found.plan, lazy, limit)

    def test_domain_adaptation(self) -> None:
        transport = ot.da.SinkhornTransport(reg_e=0.5, max_iter=5000, tol=1e-14).fit(Xs=self.x, Xt=self.y)
        found, limit = self.solved(q=self.x, k=self.y)
        self.near(found.plan, transport.coupling_, limit)

    def test_divergence(self) -> None:
        found = attnkit.divergence(q=self.x, k=self.y, epsilon=2, tolerance=TOLERANCE)
        loss = {(n, m): ot.bregman.empirical_sinkhorn2(x, y, 2, numIterMax=5000, stopThr=1e-14)
                for n, x in enumerate((self.x, self.y)) for m, y in enumerate((self.x, self.y))}
        pairs = ((self.x, self.y), (self.x, self.x), (self.y, self.y))
        limit = sum(self.solved(q=q, k=k, epsilon=2)[1] * ot.dist(q, k).max() for q, k in pairs)
        sharp = found.report["result"]["sharp_divergence"]
        self.near(sharp, loss[0, 1] - loss[0, 0] / 2 - loss[1, 1] / 2, limit)
        # POT's function stops at 1e-9, whatever its argument stopThr says, and measures the error of the
        # marginals by the root of the sum of its squares.
        coarse = 1e-9 / TOLERANCE * np.sqrt(len(self.x))
        self.near(sharp, ot.bregman.empirical_sinkhorn_divergence(self.x, self.y, 2), coarse * limit)

    def test_derivative_through_sinkhorn2(self) -> None:
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not there")
        cost = torch.tensor(self.M, requires_grad=True)
        a, b = torch.tensor(self.a), torch.tensor(self.b)
        ot.sinkhorn2(a, b, cost, 2.0, numItermax=1000, stopThr=1e-16).backward()
        found = attnkit.sinkhorn(self.M, self.a, self.b, epsilon=2, tolerance=TOLERANCE, grad_plan=self.M,
                                 emit="plan,grad_cost")
        # <P, C> depends on the cost directly and through the plan. POT differentiates a thousand iterations,
        # whose rounding adds up.
        self.near(found.plan + found.grad_cost, cost.grad, 1000 * 2**-52 * self.M.max())


class Barycentre(PotTest):

    def test_barycenter(self) -> None:
        bins = np.linspace(0, 1, 60)
        A = np.exp(-((bins[:, None] - [0.2, 0.5, 0.85]) ** 2) / 0.01)
        A, cost = A / A.sum(0), (bins[:, None] - bins) ** 2
        settings: Dict[str, Any] = {"tolerance": TOLERANCE, "emit": "barycentre,error"}
        found = attnkit.barycentre(cost, A.T, epsilon=0.02, **settings)
        self.near(found.barycentre, ot.bregman.barycenter(A, cost, 0.02, **STOP), 2 * reach(found))
        weights = np.array([0.5, 0.2, 0.3])
        found = attnkit.barycentre(cost, A.T, weights, epsilon=0.02, **settings)
        # With unequal weights, POT's default method has another fixed point.
        for method in ("sinkhorn_log", "sinkhorn_stabilized"):
            expected = ot.bregman.barycenter(A, cost, 0.02, weights, method=method, **STOP)
            self.near(found.barycentre, expected, 2 * reach(found))


class Unbalanced(PotTest):

    def test_sinkhorn_unbalanced(self) -> None:
        b = 2 * self.b
        found = attnkit.unbalanced(self.M, self.a, b, unbalanced=1.5, epsilon=0.5, tolerance=TOLERANCE,
                                   emit="plan,error,row_potential,col_potential")
        limit = 2 * reach(found)
        for method in ("sinkhorn", "sinkhorn_stabilized"):
            settings = {"method": method, "log": True, **STOP}
            plan, log = ot.unbalanced.sinkhorn_unbalanced(self.a, b, self.M, 0.5, 1.5, **settings)
            self.near(found.plan, plan, limit)
            self.near(-found.row_potential, log["logu"], limit / found.plan.sum(1).min())
            self.near(-found.col_potential, log["logv"], limit / found.plan.sum(0).min())
        cost = ot.unbalanced.sinkhorn_unbalanced2(self.a, b, self.M, 0.5, 1.5, **STOP)
        self.near(value_of(found), cost.item(), limit * self.M.max())


class Example(unittest.TestCase):

    def test_example(self) -> None:
        command = [sys.executable, "-W", "error", str(EXAMPLE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("attnkit."), 8)
        if ot is not None:
            differences = re.findall(r"the largest difference: (\S+)", done.stdout)
            self.assertEqual(len(differences), 8)
            # exact() is asked for a gap of 1e-6 of the cost, the others for less.
            self.assertLess(max(map(float, differences)), 1e-5)


if __name__ == "__main__":
    unittest.main()
