"""The path space of ReLU networks without biases, in plain loops: weights[l] is (sizes[l], sizes[l + 1]).

A path has one node per layer; its value is the product of its weights, its activity that of its hidden
nodes. Scaling the weights into a hidden node by c > 0 and those out of it by 1/c changes neither values nor
activities. The skeleton has one edge into and one out of each hidden node; the basis is the paths that come to an
edge along the skeleton and go on from it along the skeleton. The tool's are written to in.h5 and read from out.h5.
"""

import itertools
import subprocess

from plain import *


def network(random, sizes):
    """Weights of size 1/4 to 1."""
    return [random.uniform(0.25, 1, shape) * random.choice([-1, 1], shape) for shape in zip(sizes, sizes[1:])]


def nodes(weights, x):
    """The values of the nodes of each layer; those of the last are the output."""
    layers = [x]
    for l, w in enumerate(weights):
        sums = layers[-1] @ w
        layers.append(sums if l == len(weights) - 1 else np.maximum(sums, 0))
    return layers


def output(weights, x):
    return nodes(weights, x)[-1]


def sizes_of(weights):
    return (len(weights[0]), *(w.shape[1] for w in weights))


def paths(sizes):
    return list(itertools.product(*map(range, sizes)))


def edges(path):
    return [(l, a, b) for l, (a, b) in enumerate(zip(path, path[1:]))]


def value(weights, path):
    return np.prod([weights[l][a, b] for l, a, b in edges(path)])


def output_by_paths(weights, x, values):
    """The sum of value times activity times input, with the values in the order of paths()."""
    active = [layer > 0 for layer in nodes(weights, x)]
    found = np.zeros((len(x), weights[-1].shape[1]))
    for path, value_of_path in zip(paths(sizes_of(weights)), values):
        activity = np.prod([active[l][:, path[l]] for l in range(1, len(path) - 1)], axis=0)
        found[:, path[-1]] += value_of_path * activity * x[:, path[0]]
    return found


def structure(sizes, some):
    """One row for each path, one column for each weight: 1 where the path goes through it."""
    first = np.cumsum([0] + [a * b for a, b in zip(sizes, sizes[1:])])
    rows = np.zeros((len(some), first[-1]), int)
    for n, path in enumerate(some):
        for l, a, b in edges(path):
            rows[n, first[l] + a * sizes[l + 1] + b] = 1
    return rows


def spanning(sizes):
    """For each edge a path through it whose other edges are the skeleton's: backwards along the edge into a
    node, forwards along the edge out of it."""
    found = {}
    for l in range(len(sizes) - 1):
        for a, b in itertools.product(range(sizes[l]), range(sizes[l + 1])):
            back, on = [a], [b]
            for m in range(l - 1, -1, -1):
                back.insert(0, back[0] % sizes[m])
            for m in range(l + 2, len(sizes)):
                on.append(on[-1] % sizes[m])
            found[l, a, b] = (*back, *on)
    return found


def basis_paths(sizes):
    """Those paths, each once: as many as the rank, see the claim relu-basis."""
    return sorted(set(spanning(sizes).values()))


def gradient(weights, x, target):
    """Of half the squared error, with respect to the weights."""
    layers = nodes(weights, x)
    above = layers[-1] - target
    found = []
    for l in range(len(weights) - 1, -1, -1):
        found.insert(0, layers[l].T @ above)
        above = (above @ weights[l].T) * (layers[l] > 0)
    return found


def flat(parts):
    return np.concatenate([part.ravel() for part in parts])


def parts_of(vector, like):
    ends = np.cumsum([w.size for w in like])[:-1]
    return [part.reshape(w.shape) for part, w in zip(np.split(vector, ends), like)]


def step_of_weights(weights, x, target, rate):
    return [w - rate * g for w, g in zip(weights, gradient(weights, x, target))]


def step_of_paths(weights, x, target, rate):
    """v <- v - rate dL/dv on the values of the basis paths. The gradients solve w dL/dw = S' (v dL/dv), and the
    ratios of the weights log |w'/w| any solution of S log |w'/w| = log (v'/v): those of the least norm."""
    sizes = sizes_of(weights)
    basis = basis_paths(sizes)
    s = structure(sizes, basis)
    v = np.array([value(weights, path) for path in basis])
    w = flat(weights)
    of_values = np.linalg.lstsq(s.T, w * flat(gradient(weights, x, target)), rcond=None)[0] / v
    ratio = (v - rate * of_values) / v
    if not (ratio > 0).all():
        raise ArithmeticError("a step carries the path of the skeleton through 0")
    return parts_of(w * np.exp(np.linalg.lstsq(s, np.log(ratio), rcond=None)[0]), weights)


def rescaled(weights, factors):
    """The weights into hidden node j of layer l times factors[l][j], those out of it over it."""
    made = [w.copy() for w in weights]
    for l, factor in enumerate(factors):
        made[l] = made[l] * factor
        made[l + 1] = made[l + 1] / factor[:, None]
    return made


def run_tool(verb, *options, **arrays):
    """basis-paths on these arrays, to out.h5."""
    save("in.h5", **arrays)
    subprocess.run(["basis-paths", verb, "--network", "relu", *options, "--quiet", "--force", "in.h5", "-o", "out.h5"],
                   check=True)


def named(matrices, prefix="w"):
    return {f"{prefix}{l + 1}": w for l, w in enumerate(matrices)}


def basis_of_tool(weights, skeleton):
    """Its basis paths, and their values."""
    run_tool("identify", "--skeleton", skeleton, **named(weights))
    found = load("out.h5", "basis_path")
    run_tool("values", "--skeleton", skeleton, **named(weights))
    return found, load("out.h5", "basis_value")


def values_of_all_paths(sizes, basis, values):
    """Each path as a product of powers of the basis, with exponents by least squares, which are whole numbers."""
    exponents = np.linalg.lstsq(structure(sizes, basis).T, structure(sizes, paths(sizes)).T, rcond=None)[0]
    whole = np.rint(exponents)
    return np.prod(values[:, None] ** whole, axis=0) if farthest(exponents, whole) < 1e-9 else np.nan * whole[0]


def step_of_tool(weights, x, target, rate, optimizer):
    run_tool("step", "--optimizer", optimizer, "--rate", repr(rate), **named(weights),
             **named(gradient(weights, x, target), "grad_w"))
    return load("out.h5", *named(weights))
