"""Weights of heads, gradients of their scores, and the runs of basis-paths, shared by its tests."""

import json

import numpy as np

from attn import ToolTest
from formulas import LONG

# d1, d2: one row, one column, more columns than rows and the other way round.
SIZES = [(1, 1), (1, 3), (2, 1), (3, 7), (7, 3), (5, 5)]


def weights(random, *shape):
    """Numbers of size 1/4 to 2."""
    return random.uniform(0.25, 2, shape) * random.choice([-1, 1], shape)


def largest(w):
    return np.abs(w).argmax(-2)


def loss_gradients(random, wq, wk):
    """The gradient of a loss of the scores of some inputs: rescaling columns does not change the
    loss."""
    x = random.normal(size=(9, wq.shape[-2])).astype(LONG)
    slopes = random.normal(size=wq.shape[:-2] + (9, 9)).astype(LONG)
    q, k = x @ wq.astype(LONG), x @ wk.astype(LONG)
    return x.T @ (slopes @ k), x.T @ (np.swapaxes(slopes, -1, -2) @ q)


class PathsTest(ToolTest):

    def paths(self, *arguments, **more):
        return self.run_tool("basis-paths", *arguments, "-q", **more)

    def result(self, *arguments, **more):
        self.paths(*arguments, "-o", "result.h5", "--force", "--json=result.json", **more)
        return json.loads((self.folder / "result.json").read_text())["result"]

    def check(self, *arguments, status=0):
        return self.run_tool("basis-paths", "check", *arguments, "--json", status=status
                             ).json()["result"]
