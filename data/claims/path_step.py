"""A gradient step on the values of basis paths by definition, and how far from it out.h5 is.

in.h5 has the weights and gradients before the step, out.h5 the weights after it, rate 0.01. With
--skeleton Q K: only sets the skeleton's weights of start.h5 to Q in wq and K in wk.
"""

import sys

from plain import *


def skeleton(wq):
    columns = np.arange(wq.shape[1])
    return columns % wq.shape[0], columns


def weights(query, key, free):
    """Of the values of the paths wq[i] wk[S] (the skeleton's own among them) and wq[S] wk[j], where
    wk[S] = free; key[S] is not looked at."""
    at = skeleton(query)
    wq = query / free
    wk = key / wq[at]
    wk[at] = free
    return wq, wk


def stepped(wq, wk, grad_wq, grad_wk, rate):
    """Weights of the values after the step."""
    at = skeleton(wq)
    free = wk[at]
    values = np.stack([wq * wk[at], wk * wq[at]]).astype(complex)
    gradient = np.zeros(values.shape)
    for place in np.ndindex(*values.shape):
        moved = values.copy()
        moved[place] += 1e-30j
        by_wq, by_wk = weights(*moved, free)
        gradient[place] = ((grad_wq * by_wq).sum() + (grad_wk * by_wk).sum()).imag / 1e-30
    return weights(*(values.real - rate * gradient), free)


def paths(wq, wk):
    return np.einsum("ic,jc->ijc", wq, wk)


if sys.argv[1:2] == ["--skeleton"]:
    with h5py.File("start.h5", "r+") as start:
        for name, number in zip(("wq", "wk"), sys.argv[2:]):
            changed = start[name][0]
            changed[skeleton(changed)] = float(number)
            start[name][0] = changed
else:
    before = [x[0] for x in load("in.h5", "wq", "wk", "grad_wq", "grad_wk")]
    after = [x[0] for x in load("out.h5", "wq", "wk")]
    # Nothing is shown by a step that is none.
    if farthest(paths(*before[:2]), paths(*after)) < 1e-3:
        sys.exit("out.h5 has the paths of in.h5")
    report(error=farthest(paths(*after), paths(*stepped(*before, 0.01))))
