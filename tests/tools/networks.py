"""ReLU networks, their paths, bases and skeletons in plain loops, shared by the tests of basis-paths --network relu."""

import itertools

import numpy as np

from formulas import LONG
from paths import weights

# One node everywhere, one layer of weights, one output, layers of one node, several layers.
SIZES = [(1, 1, 1), (3, 2), (3, 4, 1), (2, 1, 3, 1, 2), (3, 4, 5, 2), (3, 3, 3, 3)]
RELU = "--network=relu"


def hidden(sizes):
    """The layer and place of each hidden node, in order."""
    return [(l, b) for l in range(1, len(sizes) - 1) for b in range(sizes[l])]


def network(random, sizes, *leading):
    return {f"w{l + 1}": weights(random, *leading, a, b) for l, (a, b) in enumerate(zip(sizes, sizes[1:]))}


def matrices(bundle, at=(), prefix="w"):
    """The matrices of one network."""
    found = []
    while f"{prefix}{len(found) + 1}" in bundle:
        found.append(bundle[f"{prefix}{len(found) + 1}"][at])
    return found


def edges(path):
    return [(l, a, b) for l, (a, b) in enumerate(zip(path, path[1:]))]


def value(w, path):
    return np.prod([LONG(w[l][a, b]) for l, a, b in edges(path)])


def cyclic(sizes):
    """The node before and the node after each hidden node."""
    return ({(l, b): b % sizes[l - 1] for l, b in hidden(sizes)},
            {(l, b): b % sizes[l + 1] for l, b in hidden(sizes)})


def largest(sizes, w):
    """Those of the path of largest magnitude through each hidden node."""
    into, out = {}, {}
    for node in hidden(sizes):
        through = [p for p in itertools.product(*map(range, sizes)) if p[node[0]] == node[1]]
        best = max(through, key=lambda p: abs(value(w, p)))
        into[node], out[node] = best[node[0] - 1], best[node[0] + 1]
    return into, out


def basis(sizes, into, out):
    """The paths of all weights but the skeleton's out of a hidden node, in order."""
    paths = []
    for l, (rows, columns) in enumerate(zip(sizes, sizes[1:])):
        for a, b in itertools.product(range(rows), range(columns)):
            if out.get((l, a)) == b:
                continue
            path = [a, b]
            for m in range(l, 0, -1):
                path.insert(0, into[m, path[0]])
            for m in range(l + 1, len(sizes) - 1):
                path.append(out[m, path[-1]])
            paths.append(tuple(path))
    return paths


def structure(sizes, paths):
    first = np.cumsum([0] + [a * b for a, b in zip(sizes, sizes[1:])])
    rows = np.zeros((len(paths), first[-1]))
    for row, path in zip(rows, paths):
        for l, a, b in edges(path):
            row[first[l] + a * sizes[l + 1] + b] = 1
    return rows


def nodes(w, x):
    layers = [x]
    for l, m in enumerate(w):
        sums = layers[-1] @ m
        layers.append(sums if l == len(w) - 1 else np.maximum(sums, 0))
    return layers


def loss(w, x, target):
    return 0.5 * ((nodes(w, x)[-1] - target) ** 2).sum()


def gradients_of(w, x, target):
    layers = nodes(w, x)
    above = layers[-1] - target
    found = []
    for l in range(len(w) - 1, -1, -1):
        found.insert(0, layers[l].T @ above)
        above = (above @ w[l].T) * (layers[l] > 0)
    return found
