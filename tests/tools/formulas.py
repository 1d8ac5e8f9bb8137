"""The formulas of MATHEMATICS.md sections 1 to 3 in NumPy's long double, independent of the library.

Shapes are as there: q (..., Lq, d), k (..., Lk, d), v (..., Lk, dv).
"""

from types import SimpleNamespace

import numpy as np

LONG = np.longdouble
FORBIDDEN = -np.inf


def stretched(x, leading, own, grouped):
    """`x`, whose last `own` axes are its own, with the leading axes broadcast to `leading`. If
    grouped, query head h uses head h // (Hq / H) of x."""
    if grouped and x.ndim > own and leading[-1] % x.shape[-own - 1] == 0:
        x = np.repeat(x, leading[-1] // x.shape[-own - 1], axis=-own - 1)
    return np.broadcast_to(x, leading + x.shape[x.ndim - own:])


def leading_axes(q, k):
    """Leading axes of the results: q's and k's, k's heads repeated for grouped queries."""
    of_k = list(k.shape[:-2])
    if of_k and q.ndim > 2 and q.shape[-3] % of_k[-1] == 0:
        of_k[-1] = q.shape[-3]
    return np.broadcast_shapes(q.shape[:-2], tuple(of_k))


def energies(q, k, kind, scale):
    q, k = q.astype(LONG), k.astype(LONG)
    products = q @ np.swapaxes(k, -1, -2)
    if kind == "scaled-dot":
        products /= np.sqrt(LONG(q.shape[-1]))
    if kind == "gaussian":
        # Centring is not needed: the long double has 19 digits, of which 4 are lost.
        products -= (q * q).sum(-1)[..., :, None] / 2 + (k * k).sum(-1)[..., None, :] / 2
    if kind in ("euclidean", "l1"):
        apart = q[..., :, None, :] - k[..., None, :, :]
        products = -(np.sqrt((apart * apart).sum(-1)) if kind == "euclidean" else np.abs(apart).sum(-1))
    if kind == "cosine":
        products /= np.sqrt((q * q).sum(-1))[..., :, None] * np.sqrt((k * k).sum(-1))[..., None, :]
        products -= 1
    return LONG(scale) * products


def causally_allowed(queries, keys, alignment):
    shift = {"top-left": 0, "bottom-right": keys - queries}[alignment]
    return np.arange(keys)[None, :] <= np.arange(queries)[:, None] + shift


def scores(q=None, k=None, ready=None, mask=None, bias=None, energy="scaled-dot", scale=1.0,
           causal=None):
    """s (..., Lq, Lk), -inf where forbidden."""
    if ready is not None:
        s = LONG(scale) * ready.astype(LONG)
    else:
        leading = leading_axes(q, k)
        s = energies(stretched(q, leading, 2, False), stretched(k, leading, 2, True), energy, scale)
    if bias is not None:
        s = s + bias.astype(LONG)
    if mask is not None:
        s = np.where(mask != 0, s, FORBIDDEN)
    if causal is not None:
        s = np.where(causally_allowed(*s.shape[-2:], causal), s, FORBIDDEN)
    return s


def log_sum_exp(x, axis):
    peak = x.max(axis=axis, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(x - peak).sum(axis=axis)) + np.squeeze(peak, axis)


def less(s, potential):
    """s − potential; forbidden entries stay -inf."""
    with np.errstate(invalid="ignore"):
        return np.where(s == FORBIDDEN, FORBIDDEN, s - potential)


def potentials(s, scheme, iterations=1):
    """f (..., Lq) and g (..., Lk); -inf for rows and columns without allowed pairs."""
    closed_keys = (s == FORBIDDEN).all(axis=-2)
    if scheme == "unas":
        return log_sum_exp(s, -1), np.where(closed_keys, FORBIDDEN, LONG(0))
    log_b = LONG(0)
    if scheme == "sinkhorn":
        open_queries = (s != FORBIDDEN).any(axis=-1).sum(axis=-1)
        open_keys = np.maximum(1, (~closed_keys).sum(axis=-1))
        with np.errstate(divide="ignore"):
            log_b = np.log(open_queries.astype(LONG) / open_keys)[..., None]
        log_b = np.where(np.isfinite(log_b), log_b, 0)
    f = np.zeros(s.shape[:-1], LONG)
    for _ in range(iterations):
        g = log_sum_exp(less(s, f[..., :, None]), -2) - log_b
        f = log_sum_exp(less(s, g[..., None, :]), -1)
    return f, g


def weights_of(s, f, g):
    """exp((s − g) − f), 0 where forbidden."""
    with np.errstate(invalid="ignore"):
        return np.where(s == FORBIDDEN, 0, np.exp((s - g[..., None, :]) - f[..., :, None]))


def transport_weights(s, cost, preference=None):
    """sum_i u_i p(t|i) with p(t|i) ~ exp(s_t - cost_ti), for costs (..., to, from) over gamma. A key that is not
    allowed is neither target nor source; u is divided by its sum."""
    u = np.broadcast_to(LONG(1) if preference is None else preference.astype(LONG), s.shape)
    u = np.where(s == FORBIDDEN, 0, u)
    total = u.sum(axis=-1, keepdims=True)
    u = u / np.where(total > 0, total, 1)
    logits = less(s[..., :, None], cost.astype(LONG)[..., None, :, :])  # (..., query, to, from)
    logits = np.where(np.isfinite(logits), logits, FORBIDDEN)
    peak = logits.max(axis=-2, keepdims=True)
    p = np.exp(less(logits, np.where(np.isfinite(peak), peak, 0)))
    sums = p.sum(axis=-2, keepdims=True)
    return (p / np.where(sums > 0, sums, 1) * u[..., None, :]).sum(axis=-1)


def entropies(weights):
    """Row entropies, in nats."""
    logarithms = np.log(np.where(weights > 0, weights, 1))
    return -(weights * logarithms).sum(axis=-1)


def attention(s, v=None, scheme="unas", hybrid=None, iterations=1):
    """Every result of attn-compute under its name; `scores` and `weights` too."""
    found = SimpleNamespace(scores=s)
    inner = "dnas" if scheme == "hnas" else scheme
    found.row_potential, found.col_potential = potentials(s, inner, iterations)
    found.weights = weights_of(s, found.row_potential, found.col_potential)
    if scheme == "hnas":
        found.unas_row_potential, zero = potentials(s, "unas")
        u = np.broadcast_to(np.asarray(hybrid, LONG), s.shape[:-2])[..., None, None]
        unas = weights_of(s, found.unas_row_potential, zero)
        found.weights = u * found.weights + (1 - u) * unas
    found.col_sum = found.weights.sum(axis=-2)
    found.row_entropy = entropies(found.weights)
    if v is not None:
        found.out = found.weights @ stretched(v.astype(LONG), s.shape[:-2], 2, True)
    return found


def tolerance(s, precision):
    """The error bound for each head, relative to its largest entry, shaped (..., 1, 1): some
    rounding errors of sums and exponentials, and those of the scores themselves, which the
    exponential turns from absolute into relative ones."""
    size = np.abs(np.where(s == FORBIDDEN, 0, s)).max(axis=(-1, -2), keepdims=True)
    return {"f32": 2e-5 + 4 * 2.0**-24 * size, "f64": 1e-12 + 4 * 2.0**-53 * size}[precision]
