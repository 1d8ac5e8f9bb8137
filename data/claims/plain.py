"""What claims are held against: the formulas in plain NumPy, with nothing of the tools in them."""

import json
import os

# Before NumPy is loaded: claims are checked side by side, and the matrices are small.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import h5py
import numpy as np


def load(file, *names):
    """Those datasets of a bundle, as float64 where they are numbers with a point."""
    with h5py.File(file) as bundle:
        found = [bundle[name][()] for name in names]
    found = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in found]
    return found if len(found) > 1 else found[0]


def save(file, **arrays):
    with h5py.File(file, "w") as bundle:
        for name, array in arrays.items():
            bundle[name] = array


def report(**numbers):
    """found.json, for `value` to point at."""
    with open("found.json", "w") as file:
        json.dump({name: np.asarray(x).tolist() for name, x in numbers.items()}, file)


def softmax(x, axis=-1):
    weights = np.exp(x - x.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


def log_sum_exp(x, axis=-1):
    peak = x.max(axis=axis, keepdims=True)
    return (np.log(np.exp(x - peak).sum(axis=axis, keepdims=True)) + peak).squeeze(axis)


def dnas(s):
    """Columns normalised, then rows."""
    weights = softmax(s, -2)
    return weights / weights.sum(axis=-1, keepdims=True)


def farthest(a, b):
    """The largest difference; nan, which no claim passes, where there is one in a or b."""
    return np.abs(np.asarray(a) - np.asarray(b)).max()


def entropy_minimiser(cost, weight, rows, sums, square=None):
    """The x > 0 with rows x = sums that minimises <cost, x> + weight <x, log x - 1> + x'square x/2,
    by Newton's method with equality constraints from an infeasible start (Boyd & Vandenberghe,
    section 10.3): the multipliers y of `rows` are found along, no other structure is used."""
    square = np.zeros((cost.size, cost.size)) if square is None else square
    corner = np.zeros((len(rows), len(rows)))

    def residual(x, y):
        return np.concatenate([cost + weight * np.log(x) + square @ x + rows.T @ y, rows @ x - sums])

    x, y = np.full(cost.size, sums.sum() / cost.size), np.zeros(len(rows))
    for _ in range(500):
        # In units of root x, where the entropy's curvature is `weight` however small an x is.
        unit = np.sqrt(x)
        scaled = rows * unit
        system = np.block([[weight * np.eye(x.size) + square * np.outer(unit, unit), scaled.T], [scaled, corner]])
        here = residual(x, y)
        # Marginals of both sides depend on each other: their multipliers are free up to a constant.
        step = np.linalg.lstsq(system, -here * np.concatenate([unit, np.ones(len(rows))]), rcond=1e-13)[0]
        dx, dy = unit * step[:x.size], step[x.size:]
        t = min(1, 0.9 / max(1e-300, (-dx / x).max()))
        while np.linalg.norm(residual(x + t * dx, y + t * dy)) >= (1 - 0.1 * t) * np.linalg.norm(here):
            t /= 2
            if t < 1e-9:
                if np.linalg.norm(here) > 1e-9:
                    raise ArithmeticError(f"not solved: residual {np.linalg.norm(here)}")
                return x
        x, y = x + t * dx, y + t * dy
    raise ArithmeticError("not solved in 500 steps")


def attention_minimiser(s, columns):
    """The weights that minimise sum w (log w - s) with row sums 1 and, where `columns`, column
    sums Lq/Lk: DN (9) and (10)."""
    n, m = s.shape
    rows, sums = [np.kron(np.eye(n), np.ones(m))], [np.ones(n)]
    if columns:
        rows.append(np.kron(np.ones(n), np.eye(m)))
        sums.append(np.full(m, n / m))
    x = entropy_minimiser(-s.ravel(), 1.0, np.vstack(rows), np.concatenate(sums))
    return x.reshape(n, m)
