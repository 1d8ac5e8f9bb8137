"""What claims are held against: the formulas in plain NumPy, with nothing of the tools in them."""

import json

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


def entropy_minimiser(cost, weight, rows, sums, square=None, steps=500):
    """The x > 0 with rows x = sums that minimises <cost, x> + weight <x, log x - 1> + x'square x/2,
    by Newton's method with equality constraints (Boyd & Vandenberghe, section 10.3), from any start:
    the multipliers of `rows` are found along, and no other structure is used."""
    square = np.zeros((cost.size, cost.size)) if square is None else square
    x = np.full(cost.size, 1 / cost.size)
    y = np.zeros(len(rows))

    def residual(x, y):
        return np.concatenate([cost + weight * np.log(x) + square @ x + rows.T @ y, rows @ x - sums])

    for _ in range(steps):
        here = residual(x, y)
        corner = np.zeros((len(rows), len(rows)))
        system = np.block([[np.diag(weight / x) + square, rows.T], [rows, corner]])
        # Marginals of both sides depend on each other: the multipliers are free up to a constant.
        step = np.linalg.lstsq(system, -here, rcond=1e-14)[0]
        dx, dy = step[:cost.size], step[cost.size:]
        t = min(1, 0.9 / max(1e-300, (-dx / x).max()))
        while t > 1e-12 and not np.linalg.norm(residual(x + t * dx, y + t * dy)) <= (
                (1 - 0.1 * t) * np.linalg.norm(here)):
            t /= 2
        if t <= 1e-12:
            break
        x, y = x + t * dx, y + t * dy
    return x


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
