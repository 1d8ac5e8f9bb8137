"""POT's Sinkhorn, balanced and not, and its divergence: set-up, iterations and the plan that it returns, as one call does them.

Its check of the error, every tenth iteration, cannot be switched off; a threshold of 0 never stops it.
"""

import warnings

import numpy as np
import ot
from worker import serve


def cost_of(problem):
    """Squared distances of points in the plane, divided by their maximum."""
    dtype = np.float32 if problem.direction.startswith("f32") else np.float64
    n = problem.shape[1]
    x, y = (problem.input(name, np.float64, (n, 2)) for name in "xy")
    cost = ot.dist(x, y)
    return (cost / cost.max()).astype(dtype)


def centred(log_u, log_v):
    """Without the constant that may move between the potentials."""
    both = [np.asarray(log, np.float64) for log in (log_u, log_v)]
    return {"potentials": np.concatenate([log - log.mean() for log in both])}


def iterations_needed(marginal, cost, reg, tolerance):
    """The first number of iterations at which POT can stop, one past a multiple of ten, with that
    L1 error."""
    kernel = np.exp(-cost / reg)
    u = np.full(len(cost), 1 / len(cost))
    for done in range(1, 10000):
        v = marginal / (kernel.T @ u)
        u = marginal / (kernel @ v)
        if done % 10 == 1 and np.abs(v * (kernel.T @ u) - marginal).sum() <= tolerance:
            return done
    raise RuntimeError("POT does not converge")


def unbalanced_iterations_needed(marginal, cost, reg, penalty, tolerance):
    """The same for unbalanced transport, with the L1 distance of the sums of the plan from what they
    are at the solution, a u^(-reg/penalty)."""
    kernel, power = np.exp(-cost / reg), penalty / (penalty + reg)
    u = v = np.ones(len(cost))
    for done in range(1, 10000):
        u = (marginal / (kernel @ v))**power
        v = (marginal / (kernel.T @ u))**power
        error = sum(np.abs(line * (product @ other) - marginal * line**(-reg / penalty)).sum()
                    for line, product, other in ((u, kernel, v), (v, kernel.T, u)))
        if error <= tolerance:
            return done
    raise RuntimeError("POT does not converge")


def prepare_unbalanced(problem):
    cost = cost_of(problem)
    marginal = np.full(len(cost), 1 / len(cost))
    reg, penalty = problem.option("reg", 0.05), problem.option("rho", 1.0)
    iterations = unbalanced_iterations_needed(marginal, cost, reg, penalty, problem.option("tolerance", 0.0))
    warnings.simplefilter("ignore")

    def run():
        _, log = ot.unbalanced.sinkhorn_knopp_unbalanced(marginal, marginal, cost, reg, penalty, numItermax=iterations,
                                                         stopThr=0, log=True)
        return centred(log["logu"], log["logv"])

    return {f"{iterations} iterations": run}


def prepare_divergence(problem):
    n = problem.shape[1]
    x, y = (problem.input(name, np.float64, (n, 2)) for name in "xy")

    def run():
        value = ot.bregman.empirical_sinkhorn_divergence(x, y, problem.option("reg", 0.05), numIterMax=100000,
                                                         stopThr=problem.option("tolerance", 1e-9))
        return {"value": np.array([float(value)])}

    return {"empirical_sinkhorn_divergence": run}


def prepare(problem):
    if problem.scheme == "divergence":
        return prepare_divergence(problem)
    if problem.option("rho", 0.0) > 0:
        return prepare_unbalanced(problem)
    cost = cost_of(problem)
    marginal = np.full(len(cost), 1 / len(cost), cost.dtype)
    reg, tolerance = problem.option("reg", 0.05), problem.option("tolerance", 0.0)
    iterations = (iterations_needed(marginal, cost, reg, tolerance) if tolerance
                  else problem.option("iterations", 1))
    logarithms = problem.scheme == "sinkhorn-log"
    solve = ot.bregman.sinkhorn_log if logarithms else ot.bregman.sinkhorn_knopp
    warnings.simplefilter("ignore")

    def run():
        _, log = solve(marginal, marginal, cost, reg, numItermax=iterations, stopThr=0, log=True)
        u, v = (log["log_u"], log["log_v"]) if logarithms else (np.log(log["u"]), np.log(log["v"]))
        return centred(u, v)

    return {f"{iterations} iterations": run}


serve(prepare)
