"""Optimal transport for users of POT: the same problems with POT and with attnkit, side by side.

    python3 transport_for_pot.py

Each line of code is run as it is printed. Without POT, only the lines of attnkit are run.

    POT                                               attnkit
    ot.emd(a, b, M)                                   exact(M, a, b, emit="plan").plan
    ot.emd2(a, b, M)                                  exact(M, a, b).report["result"]["value"]
    ot.sinkhorn(a, b, M, reg)                         sinkhorn(M, a, b, epsilon=reg, emit="plan").plan
    ot.sinkhorn2(a, b, M, reg)                        sinkhorn(M, a, b, epsilon=reg).report["result"]["value"]
    numItermax, stopThr                               iterations, tolerance (the L1 error of both marginals)
    method="sinkhorn_log"                             always so
    log["u"], log["v"] of ot.sinkhorn                 exp(-row_potential), exp(-col_potential), up to a factor
    log["u"], log["v"] of ot.emd                      -row_potential, -col_potential, up to a constant
    ot.dist(x, y), then one of these                  q=x, k=y in place of M: the matrix is not stored
    several targets b as columns                      b with a target in each row
    warmstart=(alpha, beta)                           col_potential=-beta, start="stored"
    ot.unbalanced.sinkhorn_unbalanced(..., reg_m)     unbalanced(..., unbalanced=reg_m)
    ot.bregman.empirical_sinkhorn_divergence          divergence(q=x, k=y, ...), its sharp_divergence
    ot.barycenter(A, M, reg, weights)                 barycentre(M, A.T, weights, epsilon=reg).barycentre

The value of ot.emd2 is exact, up to rounding. exact() has a value and a proven lower bound `dual`, which are
as near as its argument `gap` asks.

POT has, and attnkit has not: Gromov-Wasserstein (ot.gromov), partial transport (ot.partial), weak transport
(ot.weak), sliced distances (ot.sliced), low-rank couplings (ot.factored), stochastic solvers (ot.stochastic),
regularisers other than the entropy (ot.smooth, ot.optim, ot.regpath, group lasso), unbalanced transport
without entropy, unbalanced, debiased, convolutional and free-support barycentres, unmixing, maps for domain
adaptation (ot.da), and solvers for GPUs.
"""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

import attnkit

PAIRS = (
    ("the least cost",
     "ot.emd2(a, b, M)",
     "attnkit.exact(M, a, b, gap=1e-6).report['result']['value']"),
    ("a plan of least cost",
     "ot.emd(a, b, M)",
     "attnkit.exact(M, a, b, gap=1e-6, emit='plan').plan"),
    ("the entropic plan",
     "ot.sinkhorn(a, b, M, 0.5, stopThr=1e-12)",
     "attnkit.sinkhorn(M, a, b, epsilon=0.5, tolerance=1e-12, emit='plan').plan"),
    ("the entropic plan of points",
     "ot.bregman.empirical_sinkhorn(x, y, 0.5, stopThr=1e-12)",
     "attnkit.sinkhorn(q=x, k=y, epsilon=0.5, tolerance=1e-12, emit='plan').plan"),
    ("its cost",
     "ot.bregman.empirical_sinkhorn2(x, y, 0.5, stopThr=1e-12)",
     "attnkit.sinkhorn(q=x, k=y, epsilon=0.5, tolerance=1e-12).report['result']['value']"),
    ("Sinkhorn's divergence",
     "ot.bregman.empirical_sinkhorn_divergence(x, y, 2)",
     "attnkit.divergence(q=x, k=y, epsilon=2, tolerance=1e-9).report['result']['sharp_divergence']"),
    ("the entropic barycentre of histograms",
     "ot.barycenter(A, C, 0.05, stopThr=1e-12)",
     "attnkit.barycentre(C, A.T, epsilon=0.05, tolerance=1e-12).barycentre"),
    ("the unbalanced plan to twice the masses",
     "ot.unbalanced.sinkhorn_unbalanced(a, 2 * b, M, 0.5, 1.5, stopThr=1e-12)",
     "attnkit.unbalanced(M, a, 2 * b, unbalanced=1.5, epsilon=0.5, tolerance=1e-12, emit='plan').plan"),
)
"""What is computed, how with POT, and how with attnkit."""


def inputs() -> Dict[str, Any]:
    """Points x, y with masses a, b and costs M; histograms A in columns, and the costs C of their bins."""
    random = np.random.default_rng(3)
    x, y = random.normal(size=(40, 2)), random.normal(size=(30, 2)) + 0.5
    a, b = random.dirichlet(np.full(40, 3)), random.dirichlet(np.full(30, 3))
    bins = np.linspace(0, 1, 50)
    A = np.exp(-((bins[:, None] - [0.2, 0.5, 0.85]) ** 2) / 0.01)
    return {"x": x, "y": y, "a": a, "b": b, "M": ((x[:, None] - y) ** 2).sum(-1),
            "A": A / A.sum(0), "C": (bins[:, None] - bins) ** 2}


def shown(value: Any) -> str:
    value = np.asarray(value)
    if value.size == 1:
        return f"{value.item():.9g}"
    return f"an array of the shape {value.shape}, the largest number is {value.max():.9g}"


def main() -> None:
    names = {"attnkit": attnkit, **inputs()}
    try:
        import ot

        names["ot"] = ot
    except ImportError:
        print("POT is not installed: pip install pot\n")
    for title, of_pot, of_attnkit in PAIRS:
        found = eval(of_attnkit, names)
        print(title)
        if "ot" in names:
            expected = eval(of_pot, names)
            print(f"  {of_pot}\n    {shown(expected)}")
        print(f"  {of_attnkit}\n    {shown(found)}")
        if "ot" in names:
            print(f"  the largest difference: {np.abs(np.asarray(found) - expected).max():.1e}")
        print()


if __name__ == "__main__":
    main()
