"""One computation of attn-compute, from its options and datasets to its results, in NumPy's long
double, and central differences of them."""

import numpy as np

import attn
import formulas
from formulas import LONG
from test_terms import alibi_slopes, positions, t5_bucket

STEP = LONG(1e-6)


def normed(data, name, u):
    """The norm of projected queries or keys (..., heads, length, d), of each head or over all heads."""
    for kind in ("_norm", "_layer_norm"):
        if name + kind not in data:
            continue
        weight, bias = data[name + kind], data.get(name + kind + "_bias", LONG(0))
        heads, _, d = u.shape[-3:]
        over_all = weight.shape == (heads * d,) and heads > 1
        if over_all:
            weight, bias = (np.reshape(a, (heads, d)) if np.ndim(a) else a for a in (weight, bias))
        by_head = [a[..., None, :] if np.ndim(a) == 2 else a for a in (weight, bias)]
        axes = (-3, -1) if over_all else -1
        if kind == "_layer_norm":
            u = u - u.mean(axes, keepdims=True)
        return u / np.sqrt((u * u).mean(axes, keepdims=True) + data["norm_epsilon"]) * by_head[0] + by_head[1]
    return u


def rotated(data, u, position):
    """Rows of u turned by their positions, pair by pair as complex numbers."""
    for kind in ("rotary", "rotary_interleaved"):
        if kind not in data:
            continue
        angles = np.atleast_2d(data[kind])
        n = angles.shape[-1]
        first, second = (np.arange(n), np.arange(n) + n) if kind == "rotary" else (np.arange(n) * 2, np.arange(n) * 2 + 1)
        turn = np.exp(1j * np.outer(position, angles[0])) * (angles[1] if len(angles) == 2 else 1)
        pairs = (u[..., first] + 1j * u[..., second]) * turn
        u = u.copy()
        u[..., first], u[..., second] = pairs.real, pairs.imag
    return u


def projected(data, name, of):
    """x wq + bq by head, with the norms and rotary positions of queries and keys."""
    x = data[of]
    x = x[..., None, :, :] if x.ndim > 2 else x
    made = x @ data[f"w{name}"]
    if f"b{name}" in data:
        made = made + data[f"b{name}"][..., None, :]
    if name == "v":
        return made
    first = data.get("query_offset", 0) if name == "q" else 0
    return rotated(data, normed(data, name, made), np.arange(made.shape[-2]) + LONG(first))


class Problem:
    """The computation, with the options that select it."""

    def __init__(self, scheme="unas", energy="scaled-dot", scale=1.0, causal=None, softcap=None,
                 relative=None, window=None, inside=False, hybrid=0.3, iterations=3, alpha=1.3,
                 gamma=0.8):
        self.__dict__.update(locals())

    def options(self):
        found = [f"--scheme={self.scheme}", f"--energy={self.energy}", f"--scale={self.scale}"]
        found += {"sinkhorn": [f"--iterations={self.iterations}"],
                  "fenchel": [f"--alpha={self.alpha}"],
                  "transport": [f"--alpha={self.alpha}", f"--gamma={self.gamma}"]}.get(self.scheme, [])
        if self.scheme == "hnas" and self.hybrid is not None:
            found.append(f"--hybrid={self.hybrid}")
        for name, option in (("causal", "causal"), ("softcap", "softcap"), ("window", "window"),
                             ("relative", "relative-bias")):
            if getattr(self, name) is not None:
                found.append(f"--{option}={getattr(self, name)}")
        return found + (["--layout=blhd"] if self.inside else [])

    def energies(self, data, q, k):
        if self.energy == "bilinear":
            return (q @ data["w"]) @ np.swapaxes(k, -1, -2)
        if self.energy == "mlp":
            w1, dq = data["w1"], q.shape[-1]
            hidden = ((q @ np.swapaxes(w1[..., :dq], -1, -2))[..., :, None, :]
                      + (k @ np.swapaxes(w1[..., dq:], -1, -2))[..., None, :, :]
                      + data.get("b1", LONG(0)))
            return (np.tanh(hidden) * data["w2"]).sum(-1)
        return formulas.energies(q, k, self.energy, 1)

    def heads_first(self, x):
        return np.swapaxes(x, -2, -3) if self.inside else x

    def vectors(self, data, name):
        """q, k or v, projected if they are to be."""
        if "x" in data:
            return projected(data, name, "y" if "y" in data and name != "q" else "x")
        return self.heads_first(data[name])

    def scaled_energies(self, data):
        """Scaled, before soft cap, biases and masks."""
        if "scores" in data:
            s = data["scores"]
        else:
            q, k = self.vectors(data, "q"), self.vectors(data, "k")
            leading = formulas.leading_axes(q, k)
            s = self.energies(data, formulas.stretched(q, leading, 2, False),
                              formulas.stretched(k, leading, 2, True))
        factor = {"fenchel": self.alpha, "transport": self.alpha / self.gamma}.get(self.scheme, 1)
        return LONG(self.scale * factor) * s

    def scores(self, data):
        """What the softmax sees."""
        s = self.plain_scores(data)
        if "preference" in data and self.scheme == "fenchel":
            with np.errstate(divide="ignore"):
                s = s + np.log(data["preference"])
        return s

    def plain_scores(self, data):
        """Without preferences."""
        s = self.scaled_energies(data)
        if self.softcap:
            s = self.softcap * np.tanh(s / self.softcap)
        queries, keys = s.shape[-2:]
        apart = positions(queries, keys, self.causal)
        if self.relative == "t5":
            s = s + np.moveaxis(data["rel_bias"][t5_bucket(apart, self.causal is None)], -1, 0)
        if self.relative == "alibi":
            s = s - np.array(alibi_slopes(s.shape[-3]))[:, None, None] * np.abs(apart)
        s = formulas.scores(ready=s, mask=data.get("mask"), bias=data.get("bias"),
                            causal=self.causal)
        if self.window:
            s = np.where(np.abs(apart) < self.window, s, formulas.FORBIDDEN)
        return s

    def out(self, data):
        hybrid = data.get("hybrid", LONG(self.hybrid or 0))
        inner = "unas" if self.scheme == "fenchel" else self.scheme
        iterations = self.iterations if inner == "sinkhorn" else 1
        s, v = self.plain_scores(data), self.vectors(data, "v")
        if inner == "transport":
            weights = formulas.transport_weights(s, data["cost"] / LONG(self.gamma), data.get("preference"))
            out = weights @ formulas.stretched(v, s.shape[:-2], 2, True)
        elif "preference" in data:
            # Without a logarithm, so that there are differences at 0.
            weights = data["preference"] * np.exp(s - s.max(-1, keepdims=True))
            out = weights / weights.sum(-1, keepdims=True) @ formulas.stretched(v, s.shape[:-2], 2, True)
        else:
            out = formulas.attention(s, v, inner, hybrid, iterations).out
        if "gate" in data:
            out = out / (1 + np.exp(-data["gate"]))
        return self.heads_first(out)

    def joined(self, data):
        """The heads of each query side by side, times wo and plus bo."""
        joined = self.heads_first(self.out(data))
        if joined.ndim > 2:
            joined = np.swapaxes(joined, -2, -3)
            joined = joined.reshape(*joined.shape[:-2], -1)
        if "wo" in data:
            joined = joined @ data["wo"]
        return joined + data.get("bo", LONG(0))


def long(data):
    """The datasets with floating-point numbers as long double."""
    return {n: np.array(a, LONG) if a.dtype.kind == "f" else a for n, a in data.items()}


def differences(result, data, gradient_of_result, names):
    """d/dx Σ gradient_of_result · result(data) for every element of the datasets `names`; in short runs for two
    fifths of large ones, with NaN for the others. near_differences compares."""
    data = long(data)
    found = {}
    for name in names:
        shape = data[name].shape
        gradient = np.zeros(shape, LONG)
        left_out = np.random.default_rng(1).random(shape) < (0.6 if not attn.LONG and data[name].size > 12 else 0)
        for at in np.ndindex(*shape):
            start = data[name][at]
            if not np.isfinite(start):
                continue
            if left_out[at]:
                gradient[at] = np.nan
                continue
            losses = []
            for step in (STEP, -STEP):
                data[name][at] = start + step
                losses.append((gradient_of_result * result(data)).sum())
            data[name][at] = start
            gradient[at] = (losses[0] - losses[1]) / (2 * STEP)
            assert np.isfinite(gradient[at]), (name, at)
        found[name] = gradient
    return found


def near_differences(test, name, found, expected, tolerance, floor=0.0):
    """Checks the elements that `differences` has found, relatively to the largest of them or to `floor`."""
    test.assertEqual(found.shape, expected.shape, name)
    test.assertTrue(np.isfinite(found).all(), name)
    known = ~np.isnan(expected)
    test.assertEqual(known.any(), expected.size > 0, name)
    largest = max(np.abs(expected[known]).max(initial=0), floor)
    test.assert_near(name, found[known], expected[known], tolerance * largest)
