"""Two clusters of points, a step of attention, and runs of mode-collapse-sim, for its tests."""

import numpy as np

from attn import ToolTest

UNBALANCED = ["--counts=500,50", "--centres=1.8,0.7;-1,-1", "--variance=0.1"]
PAIR = ["--centres=1.8,0.7;-1,-1", "--counts=30,12"]


def attention(x, scheme, energy, scale=1.0, hybrid=0.0):
    """One step of self-attention by whole matrices."""
    if energy == "dot":
        scores = x @ x.T
    else:
        scores = -0.5 * ((x[:, None] - x[None])**2).sum(-1)
    e = np.exp(scale * scores - (scale * scores).max())
    unas = e / e.sum(1, keepdims=True)
    columns = e / e.sum(0)
    dnas = columns / columns.sum(1, keepdims=True)
    weights = {"unas": unas, "dnas": dnas, "hnas": hybrid * dnas + (1 - hybrid) * unas}[scheme]
    return weights @ x


class CollapseTest(ToolTest):

    def sim(self, *arguments, json=False, **more):
        """The bundle; with `json` also the result."""
        if not json:
            return self.run_tool("mode-collapse-sim", *arguments, "-q", **more).bundle()
        done = self.run_tool("mode-collapse-sim", *arguments, "-o", "sim.h5", "--force", "--json",
                             **more)
        return self.read("sim.h5"), done.json()["result"]
