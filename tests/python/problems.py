"""Random problems for the functions of attnkit: arrays in many layouts of memory, and options."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Tuple

import numpy as np

Arrays = Dict[str, Any]
Options = Dict[str, Any]

COMMANDS: Dict[str, Tuple[str, str]] = {
    "attention": ("attn-compute", ""),
    "stats": ("explain-away-stats", ""),
    "sinkhorn": ("sinkhorn-iter", ""),
    "unbalanced": ("sinkhorn-iter", ""),
    "exact": ("sinkhorn-iter", "exact"),
    "divergence": ("sinkhorn-iter", "divergence"),
    "barycentre": ("sinkhorn-iter", "barycentre"),
    "bulk": ("sinkhorn-iter", "bulk"),
    "solve_dual": ("lambda-solve", ""),
    "collapse.curve": ("mode-collapse-sim", "curve"),
    "collapse.simulate": ("mode-collapse-sim", "simulate"),
    "collapse.em": ("mode-collapse-sim", "em"),
    **{f"paths.{verb}": ("basis-paths", verb)
       for verb in ("identify", "values", "reconstruct", "rescale", "start", "step", "check")},
}
"""The tool and the verb of each function."""


class Problem(NamedTuple):
    """A call of a function. `options` have their names in Python."""

    function: str
    arrays: Arrays
    options: Options

    def words(self) -> List[str]:
        """The same options for the command line of the tool."""
        return [word(name, value) for name, value in self.options.items() if value is not False]


def word(name: str, value: Any) -> str:
    """One option of a command line: a tuple has colons, a list commas, and a list of lists semicolons."""
    option = "--" + {"from_": "from"}.get(name, name.replace("_", "-"))
    if value is True:
        return option
    if isinstance(value, tuple):
        return f"{option}={':'.join('' if side is None else str(side) for side in value)}"
    if isinstance(value, list) and value and isinstance(value[0], list):
        return f"{option}={';'.join(','.join(map(str, row)) for row in value)}"
    return f"{option}={','.join(map(str, value)) if isinstance(value, list) else value}"


class Random(np.random.Generator):
    """Random numbers and choices from a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))

    def chance(self, share: float) -> bool:
        return bool(self.random() < share)

    def pick(self, *values: Any) -> Any:
        return values[self.integers(len(values))]

    def some(self, *values: Any) -> List[Any]:
        """At least one of the values, in their order."""
        kept = [value for value in values if self.chance(0.5)]
        return kept or [self.pick(*values)]

    def dtype(self) -> str:
        return str(self.pick("f8", "f8", "f4", "f4", "f2"))

    def normals(self, dtype: str, *shape: int) -> Any:
        return self.normal(size=shape).astype(dtype)

    def masses(self, *shape: int) -> Any:
        """Masses that add up to 1 along the last axis."""
        numbers = self.uniform(0.5, 2, shape)
        return numbers / numbers.sum(-1, keepdims=True)

    def placed(self, array: Any) -> Any:
        """The same numbers in one of many layouts of memory."""
        layout = self.integers(6)
        if layout == 0 or array.ndim == 0:
            return array
        if layout == 1:  # columns first
            return np.asfortranarray(array)
        if layout == 2:  # every other place of the last axis
            wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
            wide[..., ::2] = array
            return wide[..., ::2]
        if layout == 3:  # rows within longer rows
            wide = np.zeros((*array.shape[:-1], array.shape[-1] + 3), array.dtype)
            wide[..., 1:-2] = array
            return wide[..., 1:-2]
        if layout == 4:  # at an odd address
            odd = np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:]
            return odd.view(array.dtype).reshape(array.shape)
        swapped = np.swapaxes(np.ascontiguousarray(np.swapaxes(array, 0, -1)), 0, -1)
        swapped.setflags(write=False)
        return swapped


def placed(random: Random, function: str, arrays: Arrays, options: Options) -> Problem:
    return Problem(function, {name: random.placed(array) for name, array in arrays.items()}, options)


def sizes(random: Random) -> Tuple[Tuple[int, ...], Tuple[int, ...], int, int]:
    """The leading axes of queries and keys, and the two lengths."""
    batch = random.pick((), (), (1,), (2,), (3,))
    heads = random.pick((), (2,), (3,), (4,)) if not batch else random.pick((1,), (2,), (4,))
    grouped = tuple(h // random.pick(1, 2, 4) if h == 4 else h for h in heads)
    queries, keys = int(random.pick(1, 2, 5, 33, 130)), int(random.pick(1, 2, 8, 31, 97))
    return batch + heads, batch + grouped, queries, keys


def terms(random: Random, leading: Tuple[int, ...], queries: int, keys: int, options: Options) -> Arrays:
    """Masks, biases, lengths and positions. Adds their options."""
    arrays: Arrays = {}
    pairs = random.pick(leading, (1,) * len(leading), ()) + (queries, keys)
    if random.chance(0.3):
        arrays["mask"] = (random.random(pairs) < 0.8).astype(random.pick("?", "u1", "i4", "i8"))
    if random.chance(0.25):
        arrays["bias"] = random.normals(random.pick("f4", "f8"), *pairs)
        if random.chance(0.5):
            arrays["bias"][random.random(pairs) < 0.1] = -np.inf
    if leading and random.chance(0.25):
        for name, length in (("query_length", queries), ("key_length", keys)):
            if random.chance(0.7):
                numbers = random.integers(0, length + 1, leading[:1]).astype(random.pick("i4", "i8", "u1"))
                arrays[name] = numbers.reshape((-1,) + (1,) * (len(leading) - 1))
    if random.chance(0.3):
        options["causal"] = random.pick("top-left", "bottom-right", *[True] * (queries == keys))
    if random.chance(0.2):
        options["window"] = random.pick((3, 2), (4, None), (None, 1), 3)
        if "causal" not in options and random.chance(0.5):
            options["query_offset"] = int(random.integers(-2, 4))
    if leading and random.chance(0.2):
        options["relative_bias"] = random.pick("alibi", "t5")
        if options["relative_bias"] == "t5":
            arrays["rel_bias"] = random.normals(random.pick("f4", "f8"), 8, leading[-1])
    return arrays


Scored = Tuple[Arrays, Tuple[int, ...], int, int]


def scored(random: Random, options: Options, plain: bool = False) -> Scored:
    """What scores are made from, the leading axes and the two lengths. Adds the options of scores.

    Scores come from points with an energy, from projections, or are ready-made. `plain`: points only.
    """
    leading, groups, queries, keys = sizes(random)
    dtype, depth = random.dtype(), int(random.pick(1, 3, 4, 7, 16))
    source = "qk" if plain else random.pick("qk", "qk", "qk", "qk", "scores", "projection")
    if source == "scores":
        options["from_"] = "scores"
        return {"scores": random.normals(dtype, *leading, queries, keys)}, leading, queries, keys
    if source == "projection":
        options["from_"] = "projection"
        heads, batch = int(random.pick(1, 2, 3)), leading[:1]
        arrays = {"x": random.normals(dtype, *batch, queries, 6)}
        arrays.update((name, random.normals(dtype, heads, 6, depth)) for name in ("wq", "wk"))
        for name in ("bq", "bk"):
            if random.chance(0.4):
                arrays[name] = random.normals(dtype, heads, depth)
        return arrays, batch + (heads,), queries, queries
    arrays = {"q": random.normals(dtype, *leading, queries, depth),
              "k": random.normals(dtype, *groups, keys, depth)}
    if not plain and random.chance(0.6):
        options["energy"] = random.pick("dot", "gaussian", "bilinear", "mlp")
        if options["energy"] == "bilinear":
            arrays["w"] = random.normals(dtype, depth, depth)
        if options["energy"] == "mlp":
            arrays["w1"] = random.normals(dtype, 3, 2 * depth)
            arrays["w2"] = random.normals(dtype, 3)
            arrays["b1"] = random.normals(dtype, 3)
    if random.chance(0.3):
        options["scale"] = random.pick(0.3, 2, 1e-3)
    if not plain and random.chance(0.2):
        options["softcap"] = random.pick(0.5, 3)
    return arrays, leading, queries, keys


SCHEMES: Tuple[Options, ...] = (
    {}, {"scheme": "dnas"}, {"scheme": "hnas", "hybrid": 0.3}, {"scheme": "sinkhorn", "iterations": 4},
    {"scheme": "sinkhorn", "tolerance": 1e-3}, {"scheme": "fenchel", "alpha": 1.3},
    {"scheme": "em", "iterations": 3}, {"scheme": "mean-shift", "iterations": 2},
)


def attention(random: Random) -> Problem:
    options = dict(random.pick(*SCHEMES))
    scheme = options.get("scheme", "unas")
    repeated = scheme in ("em", "mean-shift")
    arrays, leading, queries, keys = scored(random, options, plain=repeated)
    dtype = arrays[next(iter(arrays))].dtype.str[1:]
    depth = int(random.pick(1, 3, 5))
    if "x" in arrays:
        arrays["wv"] = random.normals(dtype, leading[-1], 6, depth)
    elif random.chance(0.9):
        groups = arrays["k"].shape[:-2] if "k" in arrays else leading
        arrays["v"] = random.normals(dtype, *groups, keys, depth)
    arrays.update(terms(random, leading, queries, keys, options))
    if scheme != "sinkhorn" and not repeated and leading and random.chance(0.2):
        arrays["sink"] = random.normal(size=leading[-1:])
    if scheme == "hnas" and leading and random.chance(0.5):
        del options["hybrid"]
        arrays["hybrid"] = random.random(leading[-1:])
    if scheme == "fenchel":
        arrays["preference"] = random.uniform(0.1, 1, (*leading, 1, keys)).astype(dtype)
    if {"v", "wv"} & set(arrays) and random.chance(0.2):
        arrays["gate"] = random.normals(dtype, *leading, queries, depth)
    emitted = random.some("weights", "row_potential", "col_potential", "col_sum", "row_entropy", "scores")
    if {"v", "wv"} & set(arrays):
        emitted.insert(0, "out")
        if random.chance(0.5):
            arrays["grad_out"] = random.normals(dtype, *leading, queries, depth)
            differentiable = ("q", "k", "v", "sink", "hybrid", "gate", "bias", "w", "w1", "x", "wq", "wv")
            emitted += [f"grad_{name}" for name in differentiable if name in arrays and random.chance(0.7)]
        elif leading and random.chance(0.3):
            options["join"] = True
            arrays["wo"] = random.normals(dtype, leading[-1] * depth, 5)
    if random.chance(0.8):
        options["emit"] = emitted
    if random.chance(0.1) and "grad_out" not in arrays:
        options["queries"] = [0, -1]
    if random.chance(0.2):
        options["precision"] = random.pick("f32", "f64")
    if "q" in arrays and leading and random.chance(0.2):
        options["layout"] = "blhd"
        for name in {"q", "k", "v", "gate", "grad_out"} & set(arrays):
            arrays[name] = np.swapaxes(arrays[name], -3, -2)
    return placed(random, "attention", arrays, options)


def stats(random: Random) -> Problem:
    options: Options = {"scheme": random.some("unas", "dnas", "hnas", "sinkhorn")}
    if "hnas" in options["scheme"]:
        options["hybrid"] = random.pick([0.3], [0.1, 0.9])
    arrays, leading, queries, keys = scored(random, options)
    arrays.update(terms(random, leading, queries, keys, options))
    for name, value in (("epsilon", [1e-3, 0.1]), ("bins", 5), ("top", 3), ("min_queries", 2), ("full", True),
                        ("concentration", 0.2), ("top_shares", [1, 2]), ("precision", "f64")):
        if random.chance(0.25):
            options[name] = value
    if leading and random.chance(0.2):
        options["heads"] = [-1]
    return placed(random, "stats", arrays, options)


def stopping(random: Random, *names: str) -> Options:
    """When an iteration of Sinkhorn stops, and how it is made faster."""
    options = dict(random.pick({"iterations": 5}, {"iterations": 40, "tolerance": 1e-4}, {"tolerance": 1e-6}))
    if "relax" in names and random.chance(0.2):
        options["relax"] = 1.3
    if "anneal" in names and random.chance(0.2) and "tolerance" in options:
        options["anneal"] = True
    return options


def transport_inputs(random: Random) -> Scored:
    """A cost or points, and the marginals."""
    leading = random.pick((), (), (1,), (2,), (3, 1))
    rows, columns = int(random.pick(1, 2, 7, 20)), int(random.pick(1, 3, 7, 15))
    dtype = random.dtype()
    if random.chance(0.6):
        arrays = {"cost": random.uniform(size=(*leading, rows, columns)).astype(dtype)}
    else:
        arrays = {"q": random.normals(dtype, *leading, rows, 2),
                  "k": random.normals(dtype, *leading, columns, 2)}
    if random.chance(0.5):
        arrays["a"] = random.masses(*random.pick(leading, ()), rows)
        arrays["b"] = random.masses(*random.pick(leading, ()), columns)
    elif random.chance(0.3):  # counts
        arrays["a"] = 1 + random.multinomial(90, np.full(rows, 1 / rows)) * columns
        arrays["b"] = np.full(columns, arrays["a"].sum() / columns)
    return arrays, leading, rows, columns


def transport(random: Random, function: str, options: Options) -> Problem:
    arrays, leading, rows, columns = transport_inputs(random)
    errors = ["error"] * (function != "exact")
    emitted = random.some("plan", "row_potential", "col_potential", "dual_grad_a", "dual_grad_b", *errors)
    if function == "sinkhorn" and random.chance(0.3):
        options["iterations"], options["tolerance"] = 2000, 1e-6
        arrays["grad_plan"] = random.normals("f8", *leading, rows, columns)
        emitted += ["grad_cost" if "cost" in arrays else "grad_q", "grad_a"]
    if function in ("sinkhorn", "unbalanced") and random.chance(0.2):
        arrays["mask"] = random.random((rows, columns)) < 0.9
    options["emit"] = emitted
    return placed(random, function, arrays, options)


def sinkhorn(random: Random) -> Problem:
    if random.chance(0.75):
        epsilon = random.pick(0.1, 0.5, 2)
        return transport(random, "sinkhorn", {"epsilon": epsilon, **stopping(random, "relax", "anneal")})
    options = stopping(random, "relax")
    arrays, leading, queries, keys = scored(random, options)
    return placed(random, "sinkhorn", {**arrays, **terms(random, leading, queries, keys, options)}, options)


def unbalanced(random: Random) -> Problem:
    options = {"epsilon": random.pick(0.1, 0.5), "unbalanced": random.pick(0.5, 2, (1.0, 0.25))}
    return transport(random, "unbalanced", {**options, **stopping(random)})


def exact(random: Random) -> Problem:
    return transport(random, "exact", {"gap": random.pick(0.1, 0.01)})


def divergence(random: Random) -> Problem:
    options: Options = {"epsilon": random.pick(0.3, 1), **stopping(random, "anneal")}
    leading, dtype = random.pick((), (2,)), random.dtype()
    if random.chance(0.5):
        points = random.normals("f8", *leading, 6, 2)
        arrays = {"cost": ((points[..., :, None, :] - points[..., None, :, :]) ** 2).sum(-1).astype(dtype),
                  "a": random.masses(6), "b": random.masses(6)}
    else:
        arrays = {"q": random.normals(dtype, *leading, 5, 2), "k": random.normals(dtype, *leading, 9, 2)}
        if random.chance(0.5):
            arrays.update(a=random.masses(5), b=random.masses(9))
    if random.chance(0.6):
        points_only = ["dual_grad_q"] * ("q" in arrays)
        options["emit"] = random.some("row_potential", "row_self_potential", "dual_grad_a", *points_only)
    return placed(random, "divergence", arrays, options)


def barycentre(random: Random) -> Problem:
    options: Options = {"epsilon": random.pick(0.1, 0.5), **stopping(random)}
    leading, histograms = random.pick((), (2,)), int(random.pick(1, 2, 3))
    arrays = {"cost": random.uniform(size=(*leading, 7, 5)).astype(random.dtype()),
              "a": random.masses(*leading, histograms, 5)}
    if random.chance(0.6):
        arrays["histogram_weights"] = random.uniform(size=(*leading, histograms))
    if random.chance(0.6):
        options["emit"] = random.some("barycentre", "plan", "row_potential", "error", "dual_grad_a")
        if random.chance(0.4):
            options.update(tolerance=1e-6, iterations=1000, emit=[*options["emit"], "grad_a"])
            arrays["grad_barycentre"] = random.normals("f8", *leading, 7)
    return placed(random, "barycentre", arrays, options)


def bulk(random: Random) -> Problem:
    leading = random.pick((), (5,), (4, 3), (40, 2))
    scores = random.normals(random.dtype(), *leading, int(random.pick(1, 3, 4)), int(random.pick(1, 4, 7)))
    options: Options = {"emit": random.some("plan", "error", "row_potential")}
    if random.chance(0.5):
        options["iterations"] = random.pick(1, 7)
    if random.chance(0.4) and len(leading) == 2 and scores.shape[-1] == scores.shape[-2]:
        options["chain"] = True
    return placed(random, "bulk", {"scores": scores * random.pick(1, 30)}, options)


def solve_dual(random: Random) -> Problem:
    options: Options = dict(random.pick({}, {"alpha": 0.7}, {"noise": 0.5, "weight": 2.0}, {"radius": 0.5}))
    leading, dtype = random.pick((), (2,)), random.dtype()
    queries, keys, depth = int(random.pick(1, 6)), int(random.pick(1, 7)), 3
    if random.chance(0.5):
        arrays = {"t": random.normals(dtype, *leading, keys, depth),
                  "z": random.normals(dtype, *leading, queries, depth)}
        if random.chance(0.5):
            arrays["preference"] = random.uniform(0.1, 1, (*leading, keys))
        if random.chance(0.3) and "radius" not in options:
            options.update(divergence="ot", gamma=0.5)
            arrays["cost"] = random.uniform(size=(keys, keys))
    else:
        arrays = {"q": random.normals(dtype, *leading, queries, depth),
                  "k": random.normals(dtype, *leading, keys, depth),
                  "v": random.normals(dtype, *leading, keys, 2)}
        arrays.update(terms(random, leading, queries, keys, options))
        if random.chance(0.3):
            options["energy"] = "dot"
    if random.chance(0.4):
        options["emit"] = random.some("lambda", "h", "p", "gap", "iterations", "h_second_order")
    return placed(random, "solve_dual", arrays, options)


def curve(random: Random) -> Problem:
    options: Options = {"r": random.pick("1:100:7", "1:1e6:5")} if random.chance(0.8) else {}
    if random.chance(0.7):
        options["a"] = random.pick([0.5], [1, 2.5])
    return Problem("collapse.curve", {}, options)


def clusters(random: Random) -> Tuple[Arrays, Options]:
    """Points with labels, or options that draw some."""
    if random.chance(0.5):
        leading = random.pick((), (2,))
        return {"x": random.normals(random.pick("f4", "f8"), *leading, 9, 2), "label": np.arange(9) % 3}, {}
    return {}, {"counts": [6, 3], "centres": [[2.0, 0.5], [-1.0, 0.0]], "seed": int(random.integers(100)),
                "seeds": 2, "variance": random.pick([0.1], [0.1, 0.2])}


def simulate(random: Random) -> Problem:
    arrays, options = clusters(random)
    schemes = random.some("unas", "dnas", "hnas", "sinkhorn")
    options.update(steps=2, scheme=schemes, energy=random.pick("dot", "gaussian"))
    if "hnas" in schemes:
        options["hybrid"] = 0.4
    options["residual"] = random.chance(0.4)
    return placed(random, "collapse.simulate", arrays, options)


def em(random: Random) -> Problem:
    arrays, options = clusters(random)
    options.update(steps=3, priors=random.pick("fixed", "estimated", "dnas"))
    one_variance = ["each"] * (options["priors"] != "dnas")
    if random.chance(0.5):
        options["estimate_variance"] = random.pick(True, "shared", *one_variance)
    if random.chance(0.5):
        options["start"] = [[1.0, 1.0], [-1.0, -1.0]]
    elif "x" in arrays and random.chance(0.7):
        arrays["start"] = random.normal(size=(4, 2))
    if random.chance(0.3) and "start" in options:
        options["model_variance"] = random.pick([0.5], *[[0.5, 2.0]] * bool(one_variance))
    return placed(random, "collapse.em", arrays, options)


def weights(random: Random, dtype: str, *shape: int) -> Any:
    """Numbers that are not near 0, so that no path of them is."""
    return (random.uniform(0.5, 2, shape) * random.choice([-1, 1], shape)).astype(dtype)


def paths(random: Random) -> Problem:
    verb = random.pick("identify", "values", "reconstruct", "rescale", "start", "step", "check")
    leading = random.pick((), (2,), (2, 3))
    rows, columns = int(random.pick(1, 2, 5)), int(random.pick(1, 3, 4))
    dtype = random.pick("f4", "f8")
    options: Options = {}
    arrays = {name: weights(random, dtype, *leading, rows, columns) for name in ("wq", "wk")}
    if verb == "reconstruct":
        arrays = {"basis_value": weights(random, dtype, *leading, 2 * rows - 1, columns),
                  "wk_skeleton": weights(random, dtype, *leading, columns)}
        arrays.update((name, np.broadcast_to(np.arange(columns) % rows, (*leading, columns)).astype("i4"))
                      for name in ("skeleton_q", "skeleton_k"))
    if verb == "rescale":
        arrays["scale"] = random.uniform(0.5, 2, (*leading, columns)).astype(dtype)
    if verb == "step":
        for name in ("wq", "wk"):
            arrays[f"grad_{name}"] = random.normals(dtype, *leading, rows, columns)
        options.update(rate=1e-3, optimizer=random.pick("sgd", "adam", "si-sgd", "si-adam"))
    if verb in ("identify", "values", "start") and random.chance(0.5):
        options["skeleton"] = random.pick("cyclic", "largest")
    return placed(random, f"paths.{verb}", arrays, options)


def networks(random: Random) -> Problem:
    """Paths of ReLU networks of up to three layers of weights."""
    verb = random.pick("identify", "values", "rescale", "step", "check")
    nodes, dtype = random.pick((3, 4, 2), (2, 3, 3, 2), (1, 2, 1), (3, 2)), random.pick("f4", "f8")
    leading = random.pick((), (2,))
    arrays = {f"w{n}": weights(random, dtype, *leading, *shape)
              for n, shape in enumerate(zip(nodes, nodes[1:]), 1)}
    options: Options = {"network": "relu"}
    if verb == "rescale":
        arrays["scale"] = random.uniform(0.5, 2, (*leading, sum(nodes[1:-1]))).astype(dtype)
    if verb == "step":
        arrays.update({f"grad_{name}": random.normals(dtype, *array.shape) for name, array in arrays.items()})
        options["optimizer"] = random.pick("sgd", "adam", "si-sgd", "si-adam")
        options.update(rate=1e-4, skeleton="largest")
    return placed(random, f"paths.{verb}", arrays, options)


COUNTS: Dict[Callable[[Random], Problem], int] = {
    attention: 100, stats: 25, sinkhorn: 30, unbalanced: 12, exact: 10, divergence: 12, barycentre: 12,
    bulk: 10, solve_dual: 24, curve: 4, simulate: 8, em: 10, paths: 26, networks: 17,
}


def random_problems() -> Iterator[Problem]:
    """300 problems, always the same."""
    for kind, (make, count) in enumerate(COUNTS.items()):
        for n in range(count):
            yield make(Random(1000 * kind + n))


def refused_problems() -> List[Tuple[int, Problem]]:
    """Calls that must be refused, with the exit status of the tool."""
    random = Random(7)
    q, k, v = (random.normals("f4", 2, 5, 4) for _ in range(3))
    cost, points = random.uniform(size=(3, 3)), random.normals("f8", 4, 2)
    wq, wk = (weights(random, "f8", 3, 2) for _ in range(2))
    layer = weights(random, "f4", 2, 3)
    qkv = {"q": q, "k": k, "v": v}
    masses = np.full(3, 1 / 3)

    def with_value(array: Any, value: float) -> Any:
        array = array.copy()
        array.flat[7 % array.size] = value
        return array

    def calls(status: int, function: str, *cases: Tuple[Arrays, Options]) -> List[Tuple[int, Problem]]:
        return [(status, Problem(function, arrays, options)) for arrays, options in cases]

    pair, finite, shifted = {"q": q, "k": k}, {"cost": cost}, {"t": points, "z": 100 + points}
    single = {"wq": wq.astype("f4"), "wk": wk.astype("f4")}
    return [
        *calls(2, "attention", (qkv, {"scheme": "softmax"}), (qkv, {"energy": "chebyshev"}),
               (qkv, {"emit": ["out", "all"]}), (qkv, {"emit": ["grad_q"]}), (qkv, {"scheme": "hnas"}),
               (qkv, {"scheme": "hnas", "hybrid": 1.5}), (qkv, {"hybrid": 0.5}), (qkv, {"iterations": 3}),
               (qkv, {"scale": float("inf")}), (qkv, {"threads": 0}), (qkv, {"causal": "middle"}),
               ({**qkv, "k": k[:, :4], "v": v[:, :4]}, {"causal": True}),
               (qkv, {"from_": "scores", "energy": "dot"}), (qkv, {"memory": "12X"})),
        *calls(2, "stats", (pair, {"bins": 0}), (pair, {"epsilon": [1e-8, -1]}),
               (pair, {"scheme": ["unas", "softmax"]})),
        *calls(2, "sinkhorn", (finite, {"epsilon": -1}), (finite, {"epsilon": 1, "relax": 2}),
               ({**finite, "a": masses}, {"epsilon": 1, "emit": ["grad_a"]})),
        *calls(2, "unbalanced", (finite, {"epsilon": 1, "unbalanced": (1, -1)})),
        *calls(2, "collapse.curve", ({}, {"r": "1:0:7"}), ({}, {"a": [0]})),
        *calls(2, "paths.step", ({"wq": wq, "wk": wk, "grad_wq": wq, "grad_wk": wk}, {})),
        *calls(3, "attention", ({"q": q, "v": v}, {}), ({**qkv, "q": q[0, 0]}, {}),
               ({**qkv, "q": q[:, :, :3]}, {}), ({**qkv, "v": v[:, :4]}, {}),
               ({**qkv, "k": random.normals("f4", 3, 5, 4)}, {}), ({**qkv, "k": k.astype("i4")}, {}),
               ({**qkv, "q": q[:, :0]}, {}), ({**qkv, "k": k[:, :0]}, {}), ({**qkv, "v": v[..., :0]}, {}),
               ({**qkv, "q": with_value(q, np.nan)}, {}), ({**qkv, "k": with_value(k, np.inf)}, {}),
               ({**qkv, "v": with_value(v, -np.inf)}, {}),
               ({**qkv, "bias": with_value(np.zeros(5), np.nan)}, {}),
               ({**qkv, "mask": np.zeros((4, 5), bool)}, {}), ({**qkv, "mask": np.zeros((5, 5))}, {}),
               ({**qkv, "hybrid": np.array([0.5, 1.5])}, {"scheme": "hnas"}),
               ({**qkv, "key_length": np.array([9, 1])}, {}), (qkv, {"from_": "scores"})),
        *calls(3, "stats", ({"weights": np.full((2, 5, 5), 0.3)}, {"scheme": ["stored"]})),
        *calls(3, "sinkhorn", ({**finite, "a": masses[:2]}, {"epsilon": 1}),
               ({"cost": with_value(cost, -np.inf)}, {"epsilon": 1}),
               ({**finite, "a": -masses}, {"epsilon": 1})),
        *calls(3, "exact", ({"cost": with_value(cost, -np.inf)}, {}), ({"cost": with_value(cost, np.inf)}, {"solver": "annealing"})),
        *calls(3, "solve_dual", ({"t": points, "z": points[:, :1]}, {}),
               ({"t": points, "z": with_value(points, np.nan)}, {})),
        *calls(3, "collapse.em", ({"x": with_value(points, np.nan)}, {})),
        *calls(3, "paths.values", ({"wq": wq, "wk": wk[:1]}, {}),
               ({"w1": layer, "w2": layer}, {"network": "relu"})),
        *calls(4, "attention", ({**qkv, "q": q * 1e30, "k": k * 1e30}, {}),
               (qkv, {"energy": "dot", "scale": 1e38})),
        *calls(4, "sinkhorn", ({**finite, "a": masses, "b": 2 * masses}, {"epsilon": 1}),
               ({**finite, "mask": np.eye(3, dtype=bool)[[0, 0, 1]]}, {"epsilon": 1}),
               ({**finite, "mask": np.tri(3, dtype=bool)}, {"epsilon": 1})),
        *calls(4, "exact", ({**finite, "a": masses, "b": 2 * masses}, {})),
        *calls(4, "solve_dual", (shifted, {"radius": 1e-3})),
        *calls(4, "collapse.simulate", ({"x": points * 1e200, "label": np.arange(4)}, {"steps": 3})),
        *calls(4, "paths.values", ({"wq": 0 * wq, "wk": wk}, {}),
               ({name: array * np.float32(1e30) for name, array in single.items()}, {})),
        *calls(4, "paths.rescale", ({"wq": wq * 1e300, "wk": wk, "scale": np.full(2, 1e300)}, {})),
        *calls(6, "attention", (qkv, {"memory": "1K"})),
    ]
