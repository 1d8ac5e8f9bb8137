"""attn-compute --join: the heads of each query side by side, times wo and plus bo, and gradients
through it, against NumPy's long double."""

import unittest

import numpy as np

from attn import ToolTest
from problems import Problem, differences, long, near_differences

GRADIENTS = ["q", "k", "v", "wo", "bo"]


class Join(ToolTest):

    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(29)

    def normal(self, *shape):
        return self.random.normal(size=shape).astype(np.float32).astype(np.float64)

    def layer(self, batch=(2,), heads=4, groups=2, queries=5, keys=6, depth=3, width=2, out=7):
        """q, k, v, and wo and bo that join them."""
        return {"q": self.normal(*batch, heads, queries, depth),
                "k": self.normal(*batch, groups, keys, depth),
                "v": self.normal(*batch, groups, keys, width),
                "wo": self.normal(heads * width, out), "bo": self.normal(out)}

    def near(self, problem, data, names=(), options=()):
        """Checks joined, and grad_x for the datasets x = `names`, in both precisions."""
        exact = problem.joined(long(data))
        grad_joined = self.normal(*exact.shape)
        gradients = differences(problem.joined, data, grad_joined, names)
        self.write("in.h5", **data, grad_joined=grad_joined)
        emit = ["out", *("grad_" + name for name in names)]
        size = max(1, np.abs(exact).max(initial=0))
        for precision, limit in (("f64", 1e-8), ("f32", 1e-4)):
            found = self.compute("in.h5", "-q", "--only", "--join", "--emit=" + ",".join(emit),
                                 f"--precision={precision}", *problem.options(), *options)
            self.assertEqual(sorted(found), sorted([*emit, "joined"]))
            # The limits of gradients by differences; joined has no error of differences.
            self.assert_near("joined", found["joined"], exact, min(limit, 1e-5) * size)
            if precision == "f64":
                self.assert_near("joined", found["joined"], exact, 1e-12 * size)
            for name in names:
                near_differences(self, f"grad_{name} {problem.options()} {precision}", found["grad_" + name],
                                 gradients[name], limit)
        return found

    def test_every_scheme(self):
        for scheme in ("unas", "dnas", "hnas", "sinkhorn", "fenchel"):
            with self.subTest(scheme=scheme):
                found = self.near(Problem(scheme, alpha=1.3), self.layer(), GRADIENTS)
        self.assertEqual(found["joined"].shape, (2, 5, 7))
        self.assertEqual(found.labels["joined"], ["", "query", "dimension"])
        self.assertEqual(found.labels["grad_wo"], ["channel", "dimension"])

    def test_without_weights(self):
        data = self.layer()
        bo = data.pop("bo")
        self.near(Problem("dnas"), data, ["q", "v", "wo"])
        del data["wo"]
        found = self.near(Problem("dnas"), data, ["q", "k", "v"])
        self.assertEqual(found["joined"].tobytes(),
                         found["out"].swapaxes(-2, -3).reshape(2, 5, 8).tobytes())
        self.write("in.h5", **data, bo=bo)
        self.refused("attn-compute", "in.h5", "--join", status=2,
                     says=["in.h5:/bo: --join applies bo after wo, which is missing"])

    def test_axes(self):
        # No axis of heads is one head.
        one = self.layer((), 1, 1)
        self.near(Problem(), one | {name: one[name][0] for name in "qkv"}, GRADIENTS)
        self.near(Problem(), self.layer(()), GRADIENTS)
        self.near(Problem(), self.layer((2, 3), 2, 1, 2, 2), GRADIENTS)
        data = self.layer((2,))
        for name in "qkv":
            data[name] = np.ascontiguousarray(data[name].swapaxes(1, 2))
        self.near(Problem("dnas", inside=True), data, GRADIENTS)
        # One q for all sequences.
        three = self.layer((3,))
        self.near(Problem(), three | {"q": three["q"][:1]}, GRADIENTS)

    def test_a_whole_layer(self):
        """x and y, projected, attended, gated and joined, with all gradients."""
        data = {"x": self.normal(2, 4, 3), "y": self.normal(2, 5, 3), "wq": self.normal(2, 3, 2),
                "wk": self.normal(2, 3, 2), "wv": self.normal(2, 3, 2), "bq": self.normal(2, 2),
                "gate": self.normal(2, 2, 4, 2), "wo": self.normal(4, 3), "bo": self.normal(3)}
        names = ["x", "y", "wq", "wk", "wv", "gate", "wo", "bo"]
        self.near(Problem("dnas"), data, names, ["--from=projection"])
        mask = self.random.random((4, 5)) < 0.7
        mask[2] = False
        self.near(Problem(softcap=0.9), data | {"mask": mask}, names, ["--from=projection"])

    def test_as_pytorch(self):
        try:
            import torch  # noqa: PLC0415, only here, as it takes a second
        except ImportError:
            self.skipTest("PyTorch is not installed")
        torch.manual_seed(3)
        layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).double()
        torch.nn.init.normal_(layer.out_proj.bias)
        x = torch.randn(3, 5, 8, dtype=torch.float64)
        expected, _ = layer(x, x, x)
        weights = layer.in_proj_weight.detach().numpy().reshape(3, 2, 4, 8).swapaxes(-1, -2)
        biases = layer.in_proj_bias.detach().numpy().reshape(3, 2, 4)
        self.write("in.h5", x=x.numpy(), wo=layer.out_proj.weight.detach().numpy().T,
                   bo=layer.out_proj.bias.detach().numpy(),
                   **{"w" + n: w for n, w in zip("qkv", weights)},
                   **{"b" + n: b for n, b in zip("qkv", biases)})
        found = self.compute("in.h5", "-q", "--only", "--from=projection", "--join")
        self.assert_near("joined", found["joined"], expected.detach().numpy(), 1e-13)

    def test_padding(self):
        """Rows of padding are 0, and gradients are sums over the sequences' own."""
        data = self.layer((3,))
        grad_joined = self.normal(3, 5, 7)
        lengths = {"query_length": np.array([5, 2, 0]), "key_length": np.array([6, 4, 3])}
        for b in range(3):
            queries, keys = lengths["query_length"][b], lengths["key_length"][b]
            for name, length in (("q", queries), ("k", keys), ("v", keys)):
                data[name][b, :, length:] = np.nan
            grad_joined[b, queries:] = np.nan
        self.write("in.h5", **data, **lengths, grad_joined=grad_joined)
        options = ["-q", "--only", "--join", "--scheme=dnas",
                   "--emit=" + ",".join("grad_" + name for name in GRADIENTS)]
        found = self.compute("in.h5", *options)
        sums = {"wo": 0, "bo": 0}
        for b in range(3):
            queries, keys = lengths["query_length"][b], lengths["key_length"][b]
            self.assertTrue((found["joined"][b, queries:] == 0).all())
            if queries == 0:
                continue
            self.write("alone.h5", q=data["q"][b, :, :queries], k=data["k"][b, :, :keys],
                       v=data["v"][b, :, :keys], wo=data["wo"], bo=data["bo"],
                       grad_joined=grad_joined[b, :queries])
            alone = self.compute("alone.h5", *options)
            np.testing.assert_array_equal(found["joined"][b, :queries], alone["joined"])
            np.testing.assert_array_equal(found["grad_q"][b, :, :queries], alone["grad_q"])
            for name in sums:
                sums[name] += alone["grad_" + name]
        for name, expected in sums.items():
            self.assert_near(name, found["grad_" + name], expected, 1e-13 * np.abs(expected).max())

    def test_chosen_queries(self):
        self.write("in.h5", **self.layer(queries=300))
        whole = self.compute("in.h5", "-q", "--only", "--join", "--scheme=dnas")
        some = self.compute("in.h5", "-q", "--only", "--join", "--scheme=dnas",
                            "--queries=7,255:258,-1")
        chosen = [7, 255, 256, 257, 299]
        self.assertEqual(some["out"].tobytes(), whole["out"][..., chosen, :].tobytes())
        self.assertEqual(some["joined"].tobytes(), whole["joined"][:, chosen].tobytes())

    def test_threads_memory_and_groups(self):
        data = self.layer((2,), queries=300, keys=700, depth=16, width=16, out=130)
        data["grad_joined"] = self.normal(2, 300, 130)
        self.write("in.h5", **{n: a.astype(np.float32) for n, a in data.items()})
        options = ["-q", "--only", "--join", "--emit=out,grad_q,grad_v,grad_wo,grad_bo"]
        one = self.compute("in.h5", *options, "--threads=1")
        for more in (["--threads=2"], ["--threads=3", "--memory=12M"]):
            self.assert_same_bits(self.compute("in.h5", *options, *more), one)
        small = self.layer()
        self.write("in.h5", **small)
        self.write("both.h5", **{f"{g}__{n}": a for g in "ab" for n, a in small.items()})
        alone = self.compute("in.h5", "-q", "--only", "--join")
        both = self.compute("both.h5", "-q", "--only", "--join", "--each=*")
        for group in "ab":
            np.testing.assert_array_equal(both[f"{group}/joined"], alone["joined"])

    def test_copied_with_their_run(self):
        data = self.layer()
        self.write("in.h5", **data, grad_out=self.normal(2, 4, 5, 2),
                   grad_joined=self.normal(2, 5, 7))
        self.shell("attn-compute -q --join --emit=out,grad_q,grad_wo in.h5 -o made.h5")
        same = self.compute("made.h5", "-q")
        self.assertLessEqual({"joined", "grad_wo", "wo"}, set(same))
        # A gradient of another loss must not stay beside the new one's.
        done = self.run_tool("attn-compute", "--emit=grad_k", "made.h5")
        self.assertIn("not copied, because this run makes them outdated: grad_q, grad_wo", done.err)
        self.assertNotIn("grad_wo", done.bundle())
        scaled = self.run_tool("attn-compute", "-q", "--scale=2", "made.h5").bundle()
        self.assertNotIn("joined", scaled)

    def test_dry_run(self):
        self.write("in.h5", **{n: a.astype(np.float32)
                               for n, a in self.layer((2,), 4, 2, 50, 60, 8, 8, 40).items()})

        def cost(*options):
            return self.run_tool("attn-compute", "in.h5", "--dry-run", "--json", "--emit=out",
                                 *options).json()["result"]

        before, after = cost(), cost("--join")
        self.assertEqual(after["result_bytes"] - before["result_bytes"], 2 * 50 * 40 * 4)
        self.assertEqual(after["flops"] - before["flops"], 2 * 2 * 50 * 32 * 40)
        self.assertGreater(after["working_bytes"], before["working_bytes"])

    def test_queries_that_see_no_key(self):
        """Their joined row is bo, so that the gradient of bo counts theirs; without bo, theirs is not looked at."""
        data = {"q": self.normal(2, 6, 3), "k": self.normal(2, 4, 3), "v": self.normal(2, 4, 3), "wo": self.normal(6, 4),
                "grad_joined": self.normal(6, 4)}
        options = ["-q", "--only", "--join", "--causal=bottom-right"]
        ids = {"q_segment_ids": np.array([3, 3, 1, 1, 2, 2]), "kv_segment_ids": np.array([1, 1, 2, 2])}
        for bounds in ({}, ids):
            self.write("in.h5", **data, **bounds, bo=np.ones(4))
            found = self.compute("in.h5", *options, "--emit=out,grad_bo")
            np.testing.assert_array_equal(found["joined"][:2], 1)
            self.assert_near("grad_bo", found["grad_bo"], data["grad_joined"].sum(0), 1e-14)
            hidden = data | {"grad_joined": data["grad_joined"].copy()}
            hidden["grad_joined"][1, 2] = np.nan
            self.write("in.h5", **hidden, **bounds, bo=np.ones(4))
            self.refused("attn-compute", "in.h5", *options, "--emit=grad_bo", status=3,
                         says=["in.h5:/grad_joined has nan at [1, 2]"])
            self.write("in.h5", **hidden, **bounds)
            found = self.compute("in.h5", *options, "--emit=grad_wo,grad_q,grad_v")
            hidden["grad_joined"][1] = 0
            self.write("in.h5", **hidden, **bounds)
            self.assert_same_bits(found, self.compute("in.h5", *options, "--emit=grad_wo,grad_q,grad_v"))

    def test_refused(self):
        data = self.layer() | {"grad_joined": self.normal(2, 5, 7)}

        def check(*options, status, says, hint=None, **changed):
            changed = data | changed
            self.write("in.h5", **{n: a for n, a in changed.items() if a is not None})
            self.refused("attn-compute", "in.h5", "--join", *options, status=status, says=says,
                         hint=hint)

        check(status=3, v=None, says=["no dataset v"])
        check("--emit=grad_q", status=2, grad_joined=None,
              says=["--emit grad_q: there is no dataset grad_joined"], hint="-i grad_joined=")
        check(status=3, wo=data["wo"].T.copy(), hint="transpose it: PyTorch's Linear stores",
              says=["in.h5:/wo has shape (7, 8), expected (8, 7), (H dv, D)"])
        check(status=3, wo=self.normal(6, 7), says=["in.h5:/wo has shape (6, 7), expected (8, 7)"])
        check(status=3, bo=self.normal(3), says=["in.h5:/bo has shape (3), expected (7)"])
        check("--emit=grad_q", status=3, grad_joined=self.normal(2, 5, 8),
              says=["in.h5:/grad_joined has shape (2, 5, 8), expected (2, 5, 7) as joined"])
        for name, at, place in (("wo", (3, 2), "[3, 2]"), ("bo", (4,), "[4]")):
            bad = data[name].copy()
            bad[at] = np.nan
            check(status=3, **{name: bad}, says=[f"in.h5:/{name} has nan at {place}"])
        check(status=3, query_length=np.array([[5, 5, 4, 5], [5, 5, 5, 5]]),
              says=["expected the same, as the heads are joined"])
        self.write("in.h5", **data, grad_out=self.normal(2, 4, 5, 2))
        for name in ("grad_wo", "grad_bo"):
            self.refused("attn-compute", "in.h5", f"--emit={name}", status=2,
                         says=[f"--emit {name}: heads are not joined"], hint="--join")
        del data["wo"], data["bo"]
        data["grad_joined"] = self.normal(2, 5, 8)
        check("--emit=grad_wo", status=2, says=["--emit grad_wo: there is no dataset wo"])
        data["v"] = np.full((2, 2, 6, 2), 3e38)
        data["wo"] = np.full((8, 7), 10.0)
        check("--precision=f32", status=4, says=["joined is beyond the range of float32"],
              hint="--precision f64")


if __name__ == "__main__":
    unittest.main()
