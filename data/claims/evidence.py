"""How near attention as inference comes to the mean that noisy evidence is about (FD §3).

Templates t, preferences u; the truth is p ~ u exp<t, lambda0> with lambda0 ~ N(0, tau^2), h its mean, and z = h - mu
plus noise N(0, sigma^2). Writes, for each sigma, the least mean squared error over alpha, relative to the smaller one
of mu and mu + z: of h, and of h of first order, which is nearer at large sigma; and log2 of the best alpha, between
those tried, over tau^2 tr(Sigma)/(d sigma^2). lambda-solve infers. With `shuffled`, the evidence is that of other
queries.
"""

import subprocess
import sys

from plain import *

templates, axes, queries, problems, tau = 16, 8, 80, 30, 0.4
alphas = 2.0**np.arange(-2, 2.6, 0.25)


def problem(random, sigma):
    t = random.normal(size=(problems, templates, axes))
    u = random.dirichlet(3 * np.ones(templates), problems)
    tilt = tau * random.normal(size=(problems, queries, axes))
    p = softmax(np.log(u)[:, None] + tilt @ t.swapaxes(1, 2))
    mean = u[:, None] @ t
    h = p @ t
    z = h - mean + sigma * random.normal(size=h.shape)
    centred = t - mean
    trace = (u[..., None] * centred**2).sum(axis=(1, 2)).mean()
    return t, u, z, mean, h, trace


def vertex(x, y):
    """Where the parabola through the least of y and its neighbours is least."""
    at = min(max(int(np.argmin(y)), 1), len(y) - 2)
    bend, slope, _ = np.polyfit(x[at - 1:at + 2], y[at - 1:at + 2], 2)
    return x[at] if bend <= 0 else np.clip(-slope / (2 * bend), x[0], x[-1])


def error(found, h):
    return ((found - h)**2).sum(axis=-1).mean()


relative, first, octaves = [], [], []
for sigma in (0.2, 0.4, 0.8):
    t, u, z, mean, h, trace = problem(np.random.default_rng(31), sigma)
    if "shuffled" in sys.argv:
        z = np.roll(z, 1, axis=1)
    save("in.h5", t=t, z=z, preference=np.repeat(u[:, None], queries, axis=1))
    inferred, approximate = [], []
    for alpha in alphas:
        subprocess.run(["lambda-solve", "--quiet", "--alpha", str(alpha), "--emit", "h,h_first_order", "in.h5",
                        "--only", "-o", "out.h5", "--force"], check=True)
        inferred.append(error(load("out.h5", "h"), h))
        approximate.append(error(load("out.h5", "h_first_order"), h))
    best = int(np.argmin(inferred))
    others = min(error(mean, h), error(mean + z, h))
    relative.append(inferred[best] / others)
    first.append(min(approximate) / others)
    octaves.append(vertex(np.log2(alphas), inferred) - np.log2(tau**2 * trace / (axes * sigma**2)))
report(relative_error=relative, first_order=first, octaves=octaves)
