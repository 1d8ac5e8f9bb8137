"""A bundle whose results become outdated, shared by the tests of what later runs leave out."""

import h5py
import numpy as np

from attn import ToolTest

NOT_COPIED = "not copied, because this run makes them outdated: "


class Stale(ToolTest):
    """in.h5 has vectors and the gradient of a loss."""

    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(1)
        self.data = {"q": self.normal(2, 7, 4), "k": self.normal(2, 6, 4), "v": self.normal(2, 6, 3),
                     "grad_out": self.normal(2, 7, 3)}
        self.write("in.h5", **self.data)

    def normal(self, *shape):
        return self.random.normal(size=shape).astype(np.float32)

    def made(self, tool, *arguments, name="made.h5", status=0):
        """Runs a tool with -o; the bundle that it writes, with its messages as `err`."""
        done = self.run_tool(tool, *arguments, "--force", "-o", name, status=status)
        bundle = self.read(name)
        bundle.err = done.err
        return bundle

    def dropped(self, bundle, tool, *names):
        """Checks that these are gone, and that one line says so."""
        for name in names:
            self.assertNotIn(name, bundle)
        self.assertIn(f"warning: {NOT_COPIED}{', '.join(sorted(names))} (of an earlier {tool})\n",
                      bundle.err)
        self.assertEqual(bundle.err.count(NOT_COPIED), 1)

    def kept(self, bundle, *names):
        for name in names:
            self.assertIn(name, bundle)
        self.assertNotIn(NOT_COPIED, bundle.err)

    def strip_marks(self, name):
        """The bundle as the tools wrote it before they marked their results."""
        with h5py.File(self.folder / name, "r+") as file:
            for item in file.values():
                item.attrs.pop("attn_result", None)

    def consistent(self, bundle):
        """If a bundle with attributes of a run holds weights and out, they must belong together."""
        if {"weights", "out"} <= set(bundle) and "attn_scheme" in bundle.attributes:
            made = bundle["weights"].astype(float) @ bundle["v"]
            self.assert_near("out", bundle["out"], made, 1e-5)
