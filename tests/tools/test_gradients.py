"""Gradients of the binaries against central differences of the forward formulas in NumPy's long
double, which do not use gradients."""

import itertools
import unittest

import numpy as np

from attn import LONG, ToolTest, sample
from problems import Problem, differences, long, near_differences

SCHEMES = {"unas": [], "dnas": [], "hnas": ["--hybrid=0.3"],
           "sinkhorn": ["--iterations=3"], "fenchel": ["--alpha=1.3"],
           "transport": ["--alpha=1.3", "--gamma=0.8"]}
ENERGIES = ["scaled-dot", "dot", "gaussian", "euclidean", "l1", "cosine", "bilinear", "mlp"]
# For float32: sums, exponentials and eight roundings of scores below 30; the bound for float64 is
# far above the errors of differences with this step.
TOLERANCE = {"f64": 1e-8, "f32": 7e-5}


class Gradients(ToolTest):

    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(17)

    def normal(self, *shape):
        # Values representable in float32.
        return self.random.normal(size=shape).astype(np.float32).astype(np.float64)

    def near(self, problem, data, names, precisions=("f64", "f32"), options=(), floor=0.0):
        """Checks grad_x of attn-compute for the datasets x = `names` against differences."""
        if problem.scheme == "transport" and "cost" not in data:
            keys = problem.scores(long(data)).shape[-1]
            data = data | {"cost": np.abs(self.normal(keys, keys))}
        out = problem.out(long(data))
        grad_out = self.normal(*out.shape)
        exact = differences(problem.out, data, grad_out, names)
        self.write("in.h5", **data, grad_out=grad_out)
        emit = ",".join("grad_" + name for name in names)
        for precision in precisions:
            found = self.compute("in.h5", "-q", "--only", f"--emit={emit}",
                                 f"--precision={precision}", *problem.options(), *options)
            self.assertEqual(sorted(found), sorted(emit.split(",")))
            for name in names:
                gradient = found["grad_" + name]
                self.assertEqual(gradient.dtype, np.float64 if precision == "f64" else np.float32)
                near_differences(self, f"grad_{name} {problem.options()} {precision}", gradient, exact[name],
                                 TOLERANCE[precision], floor)
        return found

    def vectors(self, heads=2, groups=2, queries=5, keys=6, dq=3, dk=3):
        return {"q": self.normal(heads, queries, dq), "k": self.normal(groups, keys, dk),
                "v": self.normal(groups, keys, 2)}

    def energy_weights(self, energy, dq, dk, heads=()):
        if energy == "bilinear":
            return {"w": self.normal(*heads, dq, dk)}
        if energy == "mlp":
            return {"w1": self.normal(*heads, 4, dq + dk), "w2": self.normal(*heads, 4),
                    "b1": self.normal(*heads, 4)}
        return {}

    def test_every_scheme_and_energy(self):
        # Short runs, too, have each scheme and each energy.
        for scheme, energy in sample(itertools.product(SCHEMES, ENERGIES), 9):
            with self.subTest(scheme=scheme, energy=energy):
                weights = self.energy_weights(energy, 3, 3)
                data = self.vectors() | weights
                self.near(Problem(scheme, energy, 0.7), data, ["q", "k", "v", *weights])

    def test_grouped_heads_and_leading_axes(self):
        for scheme in SCHEMES:
            with self.subTest(scheme=scheme):
                data = {"q": self.normal(2, 4, 3, 2), "k": self.normal(2, 2, 4, 2),
                        "v": self.normal(2, 4, 3)}
                self.near(Problem(scheme), data, ["q", "k", "v"])
                # One k for the whole batch, and energy weights per head.
                data = {"q": self.normal(2, 2, 3, 3), "k": self.normal(1, 4, 2),
                        "v": self.normal(2, 1, 4, 3), "w": self.normal(2, 3, 2)}
                self.near(Problem(scheme, "bilinear"), data, ["q", "k", "v", "w"])

    def test_layout(self):
        data = {"q": self.normal(2, 5, 4, 3), "k": self.normal(2, 6, 2, 3),
                "v": self.normal(2, 6, 2, 3)}
        self.near(Problem("dnas", inside=True), data, ["q", "k", "v"])

    def test_masks(self):
        for place, scheme in enumerate(SCHEMES):
            data = self.vectors(queries=6)
            mask = self.random.random((2, 6, 6)) < 0.7
            mask[0, 2] = False
            mask[1, :, 3] = False
            problems = (Problem(scheme), Problem(scheme, causal="top-left"), Problem(scheme, window=2),
                        Problem(scheme, softcap=0.8))
            for problem in problems if LONG else problems[place % 2::2]:
                with self.subTest(options=problem.options()):
                    self.near(problem, data | {"mask": mask}, ["q", "k", "v"])
            data = self.vectors(queries=3)
            self.near(Problem(scheme, causal="bottom-right"), data, ["q", "k", "v"])

    def test_hybrid(self):
        for shape in ((), (2,), (2, 2), (2, 1)):
            data = {"q": self.normal(2, 2, 3, 2), "k": self.normal(2, 2, 4, 2),
                    "v": self.normal(2, 2, 4, 2), "hybrid": np.full(shape, 0.6)}
            with self.subTest(shape=shape):
                self.near(Problem("hnas", hybrid=None), data, ["hybrid", "q"])
        data = self.vectors()
        grad_out = self.normal(2, 5, 2)
        self.write("in.h5", **data, grad_out=grad_out)
        for u in (0.0, 0.25, 1.0):
            found = self.compute("in.h5", "-q", "--only", "--scheme=hnas", f"--hybrid={u}",
                                 "--emit=grad_hybrid,grad_q")
            exact = differences(Problem("hnas", hybrid=None).out, data | {"hybrid": np.array(u)},
                                grad_out, ["hybrid", "q"])
            self.assertEqual(found["grad_hybrid"].shape, ())
            for name in exact:
                near_differences(self, name, found["grad_" + name], exact[name], 1e-8)

    def test_biases(self):
        shapes = ((2, 5, 6), (5, 6), (1, 6), (2, 5, 1), (), (6,))
        for scheme, shape in sample(itertools.product(SCHEMES, shapes), 12):
            with self.subTest(scheme=scheme, shape=shape):
                data = self.vectors() | {"bias": self.normal(*shape)}
                if shape == (5, 6):
                    data["bias"][1, 2] = -np.inf
                # A constant added to a row of a softmax changes nothing.
                self.near(Problem(scheme), data, ["bias", "q"], floor=0.1)

    def test_relative_bias(self):
        for causal in (None, "top-left"):
            for scheme in ("unas", "dnas"):
                data = self.vectors(queries=6) | {"rel_bias": self.normal(32, 2)}
                problem = Problem(scheme, relative="t5", causal=causal)
                self.near(problem, data, ["rel_bias", "q"], floor=0.1)
                found = self.compute("in.h5", "-q", "--only", "--emit=grad_bias,grad_rel_bias",
                                     *problem.options())
                np.testing.assert_array_equal(found["grad_bias"], found["grad_rel_bias"])
        self.near(Problem("dnas", relative="t5"), data | {"bias": self.normal(6, 6)},
                  ["bias", "rel_bias"], floor=0.1)
        self.near(Problem(relative="alibi"), self.vectors(queries=6), ["q", "k"])

    def test_preferences(self):
        for scheme in ("fenchel", "transport"):
            for shape in ((5, 6), (1, 6), (2, 5, 6), (2, 5, 1), (6,)):
                with self.subTest(scheme=scheme, shape=shape):
                    # Divisible by 2^-20, for float32.
                    u = np.round((0.1 + self.random.random(shape)) * 2**20) / 2**20
                    data = self.vectors() | {"preference": u}
                    # A preference that is the same for all keys does not matter.
                    floor = 0.1 if shape[-1] == 1 else 0.0
                    self.near(Problem(scheme, "dot"), data, ["q", "k", "v", "preference"], floor=floor)
        # With a mask; and a preference of 0, where the derivative is one-sided.
        for scheme in ("fenchel", "transport"):
            data = self.vectors() | {"preference": 0.1 + self.random.random((5, 6)),
                                     "mask": np.tril(np.ones((5, 6), bool), 2)}
            self.near(Problem(scheme, "dot", softcap=3.0), data, ["q", "preference"], ["f64"])
            data["preference"][1, 2] = data["preference"][3, 0] = 0
            self.near(Problem(scheme, "dot"), data, ["preference"], ["f64"])
        for name in ("preference", "cost"):
            self.write("in.h5", **self.vectors(), grad_out=self.normal(2, 5, 2), preference=np.ones(6),
                       cost=np.ones((6, 6)))
            self.refused("attn-compute", "in.h5", f"--emit=grad_{name}", status=2,
                         says=[f"grad_{name}", "transport"])

    def test_keys_without_any_preference(self):
        for scheme in ("fenchel", "transport"):
            for shape in ((6,), (2, 6)):
                with self.subTest(scheme=scheme, shape=shape):
                    u = np.round((0.1 + self.random.random(shape)) * 2**20) / 2**20
                    u[..., [0, 3]] = 0
                    data = self.vectors(queries=2) | {"preference": u, "cost": np.abs(self.normal(6, 6))}
                    mask = np.ones((2, 6), bool)
                    mask[:, 4] = mask[1, 3] = False
                    for more in ({}, {"mask": mask}):
                        self.near(Problem(scheme, "dot", 0.3), data | more, ["preference"])
                    # Values of masked keys are not read, and other gradients keep their bits.
                    options = ["-q", "--only", *Problem(scheme, "dot", 0.3).options()]
                    emit = "--emit=grad_q,grad_k,grad_v"
                    both = self.compute("in.h5", *options, f"{emit},grad_preference")
                    others = self.compute("in.h5", *options, emit)
                    data = self.read("in.h5")
                    data["v"][..., 4, :] += 3
                    self.write("in.h5", **data)
                    with_others = self.compute("in.h5", *options, f"{emit},grad_preference")
                    for name, found in both.items():
                        np.testing.assert_array_equal(found, with_others[name])
                        if name in others:
                            np.testing.assert_array_equal(found, others[name])
                    # A padded key is no key.
                    data = {n: a for n, a in data.items() if n != "mask"}
                    data["v"][..., 5, :] = np.nan
                    self.write("in.h5", **data, key_length=np.array(5))
                    padded = self.compute("in.h5", *options, "--emit=grad_preference")["grad_preference"]
                    data = data | {"k": data["k"][..., :5, :], "v": data["v"][..., :5, :],
                                   "preference": u[..., :5], "cost": data["cost"][:5, :5]}
                    self.write("in.h5", **data)
                    alone = self.compute("in.h5", *options, "--emit=grad_preference")["grad_preference"]
                    np.testing.assert_array_equal(padded[..., :5], alone)
                    self.assertTrue((padded[..., 5] == 0).all())

    def test_saturated_transport(self):
        # Where each source has one target, nothing depends on scores and costs, however small gamma is.
        for u in ([1.0, 1.0], [0.3, 0.7]):
            for gamma in (1e-8, 1e-30):
                self.write("in.h5", q=np.array([[1, 0.3]]), k=np.eye(2), v=np.array([[1.0], [3.0]]),
                           grad_out=np.ones((1, 1)), preference=np.array(u), cost=1 - np.eye(2))
                found = self.compute("in.h5", "-q", "--only", "--scheme=transport", f"--gamma={gamma}",
                                     "--emit=grad_q,grad_k,grad_cost")
                for name, gradient in found.items():
                    np.testing.assert_array_equal(gradient, np.zeros(gradient.shape), name)
        # Two sources between two equal targets, far below the score of the third.
        self.write("in.h5", q=np.ones((1, 1)), k=np.array([[0.0], [0], [1]]), v=np.ones((3, 1)),
                   cost=10.0 * np.array([[0, 0, 1], [0, 0, 1], [1, 1, 0]]))
        weights = self.compute("in.h5", "-q", "--only", "--scheme=transport", "--gamma=1e-20",
                               "--emit=weights")["weights"]
        self.assert_near("weights", weights, np.full((1, 3), 1 / 3), 1e-15)

    def test_cost(self):
        for shape in ((6, 6), (2, 6, 6)):
            cost = np.abs(self.normal(*shape))
            cost[..., 1, 3] = np.inf
            data = self.vectors() | {"preference": 0.5 + self.random.random(6).round(3), "cost": cost}
            self.near(Problem("transport", "dot"), data, ["cost", "preference", "k"], ["f64"])
            data["mask"] = np.tril(np.ones((5, 6), bool), 1)
            self.near(Problem("transport"), data, ["cost", "q"])

    def test_projections(self):
        for place, scheme in enumerate(SCHEMES):
            for has_y in (False, True) if LONG else [place % 2 == 1]:
                with self.subTest(scheme=scheme, has_y=has_y):
                    data = {"x": self.normal(2, 4, 3), "wq": self.normal(2, 3, 2),
                            "wk": self.normal(2, 3, 2), "wv": self.normal(1, 3, 2),
                            "bq": self.normal(2, 2), "bk": self.normal(2, 2),
                            "bv": self.normal(1, 2)}
                    if has_y:
                        data["y"] = self.normal(2, 5, 3)
                    self.near(Problem(scheme), data,
                              ["x", "wq", "wk", "wv", "bv"] + (["y"] if has_y else []),
                              options=["--from=projection"])
                    # A vector added to all keys shifts rows of scores, which softmax ignores, and
                    # one added to all queries shifts columns, which dnas ignores: such gradients
                    # are 0 up to the rounding of larger terms.
                    self.near(Problem(scheme), data, ["bq", "bk"], options=["--from=projection"],
                              floor=0.1)
        data = {"x": self.normal(4, 3), "wq": self.normal(2, 3, 2), "wk": self.normal(2, 3, 2),
                "wv": self.normal(2, 3, 2)}
        self.near(Problem("dnas"), data, ["wv"], options=["--from=projection"])
        self.near(Problem("unas", "mlp"), data | self.energy_weights("mlp", 2, 2),
                  ["x", "w1"], options=["--from=projection"])

    def transforms(self, heads, groups, d, whole=False, kind="_norm", angles="rotary"):
        """Norms and rotary positions of projected queries and keys."""
        made = {"norm_epsilon": np.array(0.01), angles: np.abs(self.normal(2, d // 2))}
        for name, count in (("q", heads), ("k", groups)):
            shape = (count * d,) if whole else (count, d) if name == "q" else (d,)
            made[name + kind] = self.normal(*shape)
            if kind == "_layer_norm":
                made[name + kind + "_bias"] = self.normal(*shape)
        return made

    def test_norms_and_rotary_positions(self):
        """Of grouped heads and a batch, through every kind of norm, over a part of the channels."""
        kinds = itertools.product(("_norm", "_layer_norm"), (False, True), ("rotary", "rotary_interleaved"), SCHEMES)
        for place, (kind, whole, angles, scheme) in enumerate(sample(kinds, 8)):
            with self.subTest(kind=kind, whole=whole, angles=angles, scheme=scheme):
                data = {"x": self.normal(*[2] * (place % 2), 4, 3), "wq": self.normal(2, 3, 5),
                        "wk": self.normal(1 + place % 2, 3, 5), "wv": self.normal(1, 3, 2),
                        "bq": self.normal(2, 5), "bk": self.normal(1 + place % 2, 5)}
                data |= self.transforms(2, 1 + place % 2, 5, whole, kind, angles)
                more = {"y": self.normal(*[2] * (place % 2), 5, 3)} if place % 3 == 1 else {}
                norms = [n for n in data if n[1:].startswith((kind, kind + "_bias"))]
                self.near(Problem(scheme), data | more, ["x", "wq", "wk", "wv", "bq", "bk", *norms, *more],
                          options=["--from=projection"], floor=0.1)
        data = {"x": self.normal(4, 3), "wq": self.normal(4, 3, 2), "wk": self.normal(2, 3, 2),
                "wv": self.normal(2, 3, 2), "bk": self.normal(2, 2)} | self.transforms(4, 2, 2, True, "_layer_norm")
        self.near(Problem("dnas", causal="top-left"), data,
                  ["x", "wq", "wk", "bk", "q_layer_norm", "k_layer_norm", "k_layer_norm_bias"],
                  options=["--from=projection"], floor=0.1)

    def test_keys_from_the_array_of_the_queries(self):
        self.write("in.h5", x=self.normal(4, 3), wq=self.normal(2, 3, 2), wk=self.normal(2, 3, 2),
                   wv=self.normal(2, 3, 2), grad_out=self.normal(2, 4, 2))
        options = ["-q", "--only", "--from=projection"]
        both = self.compute("in.h5", *options, "--emit=grad_x")
        apart = self.compute("in.h5", *options, "-i", "y=in.h5:/x", "--emit=grad_x,grad_y")
        np.testing.assert_allclose(apart["grad_x"] + apart["grad_y"], both["grad_x"], rtol=1e-11,
                                   atol=1e-13)
        self.assertGreater(np.abs(apart["grad_x"] - apart["grad_y"]).max(), 0.01)

    def test_ready_made_scores(self):
        data = {"scores": self.normal(2, 4, 5), "v": self.normal(2, 5, 3),
                "bias": self.normal(4, 5)}
        problem = Problem("dnas")
        options = [o for o in problem.options() if not o.startswith("--energy")]
        problem.options = lambda: [*options, "--from=scores"]
        self.near(problem, data, ["v", "bias"])

    def test_one_query(self):
        data = self.vectors(queries=1)
        grad_out = self.normal(2, 1, 2)
        self.write("in.h5", **data, grad_out=grad_out)
        found = self.compute("in.h5", "-q", "--only", "--scheme=dnas", "--emit=grad_q,grad_k,grad_v",
                             "--precision=f32")
        size = np.abs(grad_out).max() * np.abs(data["v"]).max() * np.abs(data["k"]).max()
        for name in ("grad_q", "grad_k"):
            self.assert_near(name, found[name], np.zeros(found[name].shape), 5e-5 * size)

    def test_tolerance_unrolls_the_iterations_that_ran(self):
        data = self.vectors(queries=6) | {"grad_out": self.normal(2, 6, 2)}
        self.write("in.h5", **data)
        found = self.compute("in.h5", "-q", "--only", "--scheme=sinkhorn", "--tolerance=1e-9",
                             "--emit=grad_q,grad_v")
        for head in range(2):
            inputs = [f"-i{name}=in.h5:/{name}[{head}]" for name in data]
            made = self.compute(*inputs, "-q", "--only", "--scheme=sinkhorn", "--tolerance=1e-9")
            iterations = made.attributes["attn_iterations"]
            self.assertGreater(iterations, 3)
            exact = self.compute(*inputs, "-q", "--only", "--scheme=sinkhorn",
                                 f"--iterations={iterations}", "--emit=grad_q,grad_v")
            for name in exact:
                self.assert_near(name, found[name][head], exact[name],
                                 1e-12 * np.abs(exact[name]).max())

    def test_threads_memory_and_groups(self):
        for energy in ENERGIES:
            weights = self.energy_weights(energy, 5, 5)
            data = {"q": self.normal(4, 300, 5), "k": self.normal(2, 700, 5),
                    "v": self.normal(2, 700, 3), "grad_out": self.normal(4, 300, 3)} | weights
            self.write("in.h5", **{n: a.astype(np.float32) for n, a in data.items()})
            emit = ",".join("grad_" + n for n in ["q", "k", "v", *weights])
            runs = [self.compute("in.h5", "-q", "--only", "--scheme=dnas", f"--energy={energy}",
                                 f"--emit={emit},out", *more)
                    for more in (["--threads=1"], ["--threads=2"], ["--threads=3"],
                                 ["--threads=2", "--memory=6M"])]
            for run in runs[1:]:
                self.assert_same_bits(run, runs[0])
        one = self.vectors() | {"grad_out": self.normal(2, 5, 2)}
        self.write("in.h5", **one)
        self.write("both.h5", **{f"{g}__{n}": a for g in "ab" for n, a in one.items()})
        alone = self.compute("in.h5", "-q", "--only", "--emit=grad_k,grad_q")
        both = self.compute("both.h5", "-q", "--only", "--each=*", "--emit=grad_k,grad_q")
        for group in "ab":
            for name, values in alone.items():
                np.testing.assert_array_equal(both[f"{group}/{name}"], values)
                self.assertEqual(both.labels[f"{group}/{name}"], alone.labels[name])
        self.assertEqual(alone.labels["grad_k"], ["head", "key", "dimension"])

    def test_copied_unchanged(self):
        data = self.vectors() | {"grad_out": self.normal(2, 5, 2)}
        self.write("in.h5", **data)
        (self.folder / "made.h5").write_bytes(
            self.run_tool("attn-compute", "-q", "--emit=out,grad_q", "in.h5").out)
        again = self.compute("-q", "--scale=2", "made.h5")
        self.assertNotIn("grad_q", again)
        self.assertIn("grad_out", again)
        self.assertIn("grad_q", self.compute("-q", "made.h5"))

    def test_dry_run(self):
        data = {"q": self.normal(4, 30, 5), "k": self.normal(2, 70, 5), "v": self.normal(2, 70, 3),
                "grad_out": self.normal(4, 30, 3)}
        self.write("in.h5", **data)

        def cost(*options):
            return self.run_tool("attn-compute", "in.h5", "--dry-run", "--json",
                                 *options).json()["result"]

        forward, backward = cost("--emit=out"), cost("--emit=grad_q,grad_k,grad_v")
        self.assertEqual(backward["result_bytes"], 8 * (4 * 30 * 5 + 2 * 70 * 8))
        # Products of depth 5, 3 and 3, 5, 5, 3 again.
        self.assertEqual(backward["flops"] - forward["flops"], 2 * 4 * 30 * 70 * (3 * 5 + 2 * 3))
        self.assertGreater(backward["working_bytes"], forward["working_bytes"])

    def test_refused(self):
        data = self.vectors()
        grad_out = self.normal(2, 5, 2)
        self.write("in.h5", **data)
        self.refused("attn-compute", "in.h5", "--emit=grad_q", status=2,
                     says=["grad_q: there is no dataset grad_out"])
        self.write("in.h5", **data, grad_out=grad_out)
        for options, says in (
                (["--emit=grad_q", "--queries=0"], "--queries"),
                (["--emit=grad_hybrid"], "grad_hybrid: only --scheme hnas"),
                (["--emit=grad_w"], "grad_w: requires --energy bilinear and a dataset w"),
                (["--emit=grad_w1"], "grad_w1: requires --energy mlp and a dataset w1"),
                (["--emit=grad_w2"], "grad_w2: requires --energy mlp and a dataset w2"),
                (["--emit=grad_b1"], "grad_b1: requires --energy mlp and a dataset b1"),
                (["--emit=grad_bias"], "grad_bias: there is neither a dataset bias nor"),
                (["--emit=grad_bias", "--relative-bias=alibi"], "grad_bias: there is neither a dataset bias nor"),
                (["--emit=grad_rel_bias"], "grad_rel_bias: there is no --relative-bias t5"),
                (["--emit=grad_x"], "grad_x: nothing is projected"),
                (["--emit=grad_wv"], "grad_wv: nothing is projected")):
            with self.subTest(options=options):
                self.refused("attn-compute", "in.h5", *options, status=2, says=[says])
        self.refused("attn-compute", "in.h5", "--emit=grad_z", status=2, says=["grad_z"])
        self.write("scores.h5", scores=self.normal(2, 5, 6), v=data["v"], grad_out=grad_out)
        self.refused("attn-compute", "scores.h5", "--from=scores", "--emit=grad_q", status=2,
                     says=["grad_q: the scores are ready-made"])
        self.write("none.h5", q=data["q"], k=data["k"], grad_out=grad_out)
        self.refused("attn-compute", "none.h5", "--emit=grad_q", status=2,
                     says=["grad_q: there is no v"])
        self.write("x.h5", x=self.normal(5, 3), wq=self.normal(2, 3, 2), wk=self.normal(2, 3, 2),
                   wv=self.normal(2, 3, 2), grad_out=grad_out)
        self.refused("attn-compute", "x.h5", "--from=projection", "--emit=grad_bq", status=2,
                     says=["grad_bq: there is no dataset bq"])
        self.refused("attn-compute", "x.h5", "--from=projection", "--emit=grad_q", status=2,
                     says=["grad_q: q, k and v are made by projection"])
        self.refused("attn-compute", "x.h5", "--from=projection", "--emit=grad_y", status=2,
                     says=["grad_y: there is no dataset y"])
        for bad, says in ((self.normal(2, 5, 3), "has shape (2, 5, 3), expected (2, 5, 2) as out"),
                          (self.normal(5, 2), "has shape (5, 2), expected (2, 5, 2) as out")):
            self.write("in.h5", **data, grad_out=bad)
            self.refused("attn-compute", "in.h5", "--emit=grad_q", status=3,
                         says=["in.h5:/grad_out", says])
        grad_out[1, 3, 0] = np.nan
        self.write("in.h5", **data, grad_out=grad_out)
        self.refused("attn-compute", "in.h5", "--emit=grad_q", status=3,
                     says=["in.h5:/grad_out has nan at [1, 3, 0]"])
        # Finite, but the products are not.
        huge = {n: a.astype(np.float32) for n, a in data.items()}
        self.write("in.h5", **huge, grad_out=np.full((2, 5, 2), 3e38, np.float32))
        self.refused("attn-compute", "in.h5", "--emit=grad_v", status=4,
                     says=["grad_v is beyond the range of float32"], hint="--precision f64")


if __name__ == "__main__":
    unittest.main()
