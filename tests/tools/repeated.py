"""The formulas of attention that is repeated on queries that move (MATHEMATICS.md section 2), in NumPy's
long double."""

import numpy as np

import formulas
from formulas import LONG, log_sum_exp


def first_mixture(q, scale, energy, bias, allowed):
    """Centres, variances and log-priors of which dnas is the first step."""
    variance = (np.sqrt(LONG(q.shape[1])) if energy == "scaled-dot" else LONG(1)) / LONG(scale)
    log_prior = np.zeros(len(q), LONG) if bias is None else bias.astype(LONG)
    if energy != "gaussian":
        log_prior = log_prior + (q * q).sum(1) / (2 * variance)
    log_prior = np.where(allowed.any(1), log_prior, -np.inf)
    if allowed.any():
        log_prior = log_prior - log_sum_exp(log_prior, 0)
    return q, np.full(len(q), variance), log_prior


def mixture_scores(mixture, k, allowed):
    q, variance, log_prior = mixture
    squares = ((q[:, None] - k[None])**2).sum(-1)
    log_prior = np.where(allowed.any(1), log_prior, 0)
    logs = log_prior[:, None] - squares / (2 * variance)[:, None]
    logs = logs - LONG(q.shape[1]) / 2 * np.log(2 * LONG(np.pi) * variance)[:, None]
    return np.where(allowed, logs, -np.inf)


def em(q, k, v, times, scale=1.0, energy="gaussian", bias=None, allowed=None, estimate=(),
       floor=1e-6):
    """The results of the last time, with the likelihoods by iteration."""
    q, k, v = (x.astype(LONG) for x in (q, k, v))
    allowed = np.ones((len(q), len(k)), bool) if allowed is None else allowed
    mixture = first_mixture(q, scale, energy, bias, allowed)
    likelihoods = []
    for time in range(times):
        found = formulas.attention(mixture_scores(mixture, k, allowed), v, "dnas")
        g = found.col_potential
        likelihoods.append(g[np.isfinite(g)].sum())
        if time + 1 == times:
            break
        centres = np.where(allowed.any(1)[:, None], found.weights @ k, mixture[0])
        _, variance, log_prior = mixture
        if "variance" in estimate:
            squares = ((centres[:, None] - k[None])**2).sum(-1)
            estimates = np.maximum((found.weights * squares).sum(1) / q.shape[1], floor)
            variance = np.where(allowed.any(1), estimates, variance)
        if "priors" in estimate:
            f = found.row_potential
            log_prior = f - log_sum_exp(f, 0) if allowed.any() else f
        mixture = centres, variance, log_prior
    found.log_likelihood = likelihoods
    found.centre, found.variance, log_prior = mixture
    found.prior = np.exp(log_prior)
    return found


def shifted(q, k, v, times, scale=1.0, energy="gaussian", allowed=None, bias=None):
    """The results of mean shift."""
    q, k, v = (x.astype(LONG) for x in (q, k, v))
    for time in range(times):
        s = formulas.scores(q, k, mask=allowed, bias=bias, energy=energy, scale=scale)
        found = formulas.attention(s, v, "unas")
        if time + 1 < times:
            q = np.where(np.isfinite(s).any(1)[:, None], found.weights @ k, q)
    found.centre = q
    return found
