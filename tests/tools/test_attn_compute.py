"""attn-compute's numbers against the formulas, over every option that changes them."""

import unittest

import numpy as np

import formulas
from attn import ToolTest, sample

ALL = ("out", "weights", "row_potential", "col_potential", "col_sum", "row_entropy")

# Leading axes of q, k and v: equal, absent, broadcast, grouped heads, one head of k or of v.
LEADING = [
    ((), (), ()),
    ((3,), (3,), (3,)),
    ((3,), (), ()),
    ((), (3,), (3,)),
    ((1,), (3,), ()),
    ((4,), (2,), (2,)),
    ((4,), (2,), (1,)),
    ((6,), (3,), (3,)),
    ((4,), (1,), (2,)),
    ((2, 3), (3,), (2, 1)),
    ((2, 4), (2, 2), (2,)),
    ((1, 4), (2, 2), (1,)),
    ((2, 1, 4), (3, 2), (2, 3, 1)),
    ((2, 2, 2), (1, 2, 1), (2, 2, 1)),
]


def size(random, most):
    """Log-uniform in [1, most], so that small and awkward sizes are as frequent as large ones."""
    return int(np.exp(random.uniform(0, np.log(most + 1))))


def shape_broadcasting_to(random, shape):
    """Some axes of `shape` replaced by 1, some of the first ones left out."""
    own = [1 if random.random() < 0.3 else n for n in shape]
    return tuple(own[random.integers(0, len(own) + 1):])


def random_mask(random, shape):
    mask = random.random(shape) < random.choice([0.3, 0.8])
    if mask.ndim > 0 and random.random() < 0.5:
        mask[..., random.integers(mask.shape[-1])] = False
    if mask.ndim > 1 and random.random() < 0.5:
        mask[..., random.integers(mask.shape[-2]), :] = False
    if random.random() < 0.5:
        return mask
    # Any non-zero number means true.
    kind = random.choice([np.int8, np.uint8, np.int64])
    return (mask * random.integers(1, 100, shape)).astype(kind)


def random_bias(random, shape):
    bias = random.normal(size=shape) * random.choice([0.1, 3])
    bias = np.where(random.random(shape) < 0.1, -np.inf, bias)
    return bias.astype(random.choice([np.float16, np.float32, np.float64]))


def random_problem(seed):
    """Datasets, and options as `agrees` takes them."""
    random = np.random.default_rng(seed)
    of_q, of_k, of_v = LEADING[seed % len(LEADING)]
    queries, keys = size(random, 300), size(random, 300)
    if random.random() < 0.3:
        keys = queries
    d, dv = size(random, 130), size(random, 130)
    kinds = random.permutation([np.float16, np.float32, np.float32, np.float64])
    if random.random() < 0.5:
        kinds = [np.float32] * 3
    spread = random.choice([0.1, 1, 3])
    data = {
        "q": (spread * random.normal(size=(*of_q, queries, d))).astype(kinds[0]),
        "k": (spread * random.normal(size=(*of_k, keys, d))).astype(kinds[1]),
        "v": random.normal(size=(*of_v, keys, dv)).astype(kinds[2]),
    }
    leading = formulas.leading_axes(data["q"], data["k"])
    options = {
        "scheme": str(random.choice(["unas", "dnas", "hnas", "sinkhorn"])),
        "energy": str(random.choice(["scaled-dot", "dot", "gaussian"])),
    }
    if random.random() < 0.4:
        options["scale"] = float(random.choice([0, 0.25, -1.3, 2]))
    if random.random() < 0.3:
        options["causal"] = str(random.choice(["top-left", "bottom-right"]))
    if random.random() < 0.4:
        data["mask"] = random_mask(random, shape_broadcasting_to(random, (*leading, queries, keys)))
    if random.random() < 0.4:
        data["bias"] = random_bias(random, shape_broadcasting_to(random, (*leading, queries, keys)))
    if options["scheme"] == "sinkhorn":
        options["iterations"] = int(random.integers(1, 6))
    if options["scheme"] == "hnas":
        if random.random() < 0.5:
            options["hybrid"] = float(random.choice([0, 0.3, 1]))
        else:
            axes = random.integers(0, len(leading) + 1)
            data["hybrid"] = random.random(leading[len(leading) - axes:])
    if random.random() < 0.3:
        options["precision"] = str(random.choice(["f32", "f64"]))
    return data, options


class AttnCompute(ToolTest):

    def agrees(self, data, ready=False, precision=None, **options):
        """Runs attn-compute with everything emitted and compares the results with the formulas.
        Returns the bundle."""
        data = {name: np.asarray(values) for name, values in data.items()}
        self.write("in.h5", **data)
        command = ["in.h5", "-q", "--emit", ",".join(n for n in ALL if n != "out" or "v" in data)]
        command += ["--from=scores"] if ready else []
        command += [f"--precision={precision}"] if precision else []
        for name, value in options.items():
            command.append(f"--{name}" if value is True else f"--{name}={value}")
        bundle = self.compute(*command)

        inputs = {n: a for n, a in data.items() if n not in ("mask", "hybrid", "tokens")}
        if precision is None:
            precision = "f64" if any(a.dtype == np.float64 for a in inputs.values()) else "f32"
        kind = {"f32": np.float32, "f64": np.float64}[precision]
        data |= {name: values.astype(kind) for name, values in inputs.items()}
        self.assertEqual(bundle.attributes["attn_precision"], precision)

        causal = options.get("causal")
        s = formulas.scores(data.get("q"), data.get("k"), data.get("scores"), data.get("mask"),
                            data.get("bias"), options.get("energy", "scaled-dot"),
                            options.get("scale", 1.0), "top-left" if causal is True else causal)
        scheme = options.get("scheme", "unas")
        expected = formulas.attention(s, data.get("v"), scheme,
                                      options.get("hybrid", data.get("hybrid")),
                                      options.get("iterations", 1))
        self.results_agree(bundle, expected, precision, kind)
        return bundle

    def results_agree(self, bundle, expected, precision, kind):
        limit = formulas.tolerance(expected.scores, precision)
        for name in ("weights", "out", "col_sum"):
            if name not in bundle:
                continue
            values = getattr(expected, name)
            # Per head; "out" of one query may cancel, so for it over all heads.
            axes = {"weights": (-1, -2), "out": None, "col_sum": -1}[name]
            largest = np.abs(values).max(axis=axes, keepdims=True)
            allowed = limit[..., 0] if name == "col_sum" else limit
            self.assert_near(name, bundle[name], values, allowed * largest)
            self.assertEqual(bundle[name].dtype, np.float64 if name == "col_sum" else kind)

        # A relative error t in the weights changes an entropy by at most t·Σ π |1 + log π|.
        entropy = expected.row_entropy
        self.assert_near("row_entropy", bundle["row_entropy"], entropy,
                         limit[..., 0] * (entropy + 1))
        # A potential is a logarithm: relative errors of weights are absolute errors here.
        names = [n for n in ("row_potential", "col_potential", "unas_row_potential") if n in bundle]
        for name in names:
            self.assertEqual(bundle[name].dtype, np.float64)
            self.assert_near(name, bundle[name], getattr(expected, name), limit[..., 0])

        s = expected.scores
        rebuilt = formulas.weights_of(s, bundle["row_potential"], bundle["col_potential"])
        if "unas_row_potential" in bundle:
            unas = formulas.weights_of(s, bundle["unas_row_potential"], np.zeros(s.shape[-1:]))
            u = np.broadcast_to(bundle.attributes.get("attn_hybrid", bundle.get("hybrid")),
                                s.shape[:-2])[..., None, None]
            rebuilt = u * rebuilt + (1 - u) * unas
        largest = expected.weights.max(axis=(-1, -2), keepdims=True)
        self.assert_near("weights from the potentials", rebuilt, expected.weights, limit * largest)

        # Masked entries are exact.
        self.assertTrue((bundle["weights"][s == formulas.FORBIDDEN] == 0).all())
        closed_keys = (s == formulas.FORBIDDEN).all(axis=-2)
        closed_queries = (s == formulas.FORBIDDEN).all(axis=-1)
        self.assertTrue((bundle["col_sum"][closed_keys] == 0).all())
        self.assertTrue((bundle["col_potential"][closed_keys] == -np.inf).all())
        self.assertTrue((bundle["row_potential"][closed_queries] == -np.inf).all())
        self.assertTrue((bundle["row_entropy"][closed_queries] == 0).all())
        if "out" in bundle:
            self.assertTrue((bundle["out"][closed_queries] == 0).all())

    def test_random_problems(self):
        for seed in sample(range(112), 45):
            with self.subTest(seed=seed):
                data, options = random_problem(seed)
                self.agrees(data, **options)

    SCHEMES = [
        {"scheme": "unas"},
        {"scheme": "dnas"},
        {"scheme": "hnas", "hybrid": 0.4},
        {"scheme": "sinkhorn", "iterations": 2},
    ]

    def agree(self, *problems, **options):
        """`agrees` for each of the problems, under each scheme in both precisions."""
        for scheme in self.SCHEMES:
            for precision in ("f32", "f64"):
                with self.subTest(**scheme, precision=precision):
                    for data in problems:
                        self.agrees(data, precision=precision, **scheme, **options)

    def test_rows_and_columns_shifted_by_5000(self):
        random = np.random.default_rng(1)
        data = {n: random.normal(size=(2, 40, 8)) for n in "qkv"}
        shift = random.choice([-5000.0, 0, 5000], size=40)
        # One row is 5000 below the others: its column softmax underflows, its dnas weights must
        # not.
        one_row = np.where(np.arange(40) == 7, -5000.0, 0)
        self.agree(data | {"bias": shift[:, None]}, data | {"bias": shift[None, :]},
                   data | {"bias": one_row[:, None]})

    def test_scores_of_size_10000(self):
        random = np.random.default_rng(2)
        data = {n: random.normal(size=(50, 4)) for n in "qkv"}
        self.agree(data, energy="dot", scale=2e3)

    def test_gaussian_far_from_the_origin(self):
        random = np.random.default_rng(3)
        data = {n: random.normal(size=(2, 60, 16)) + 100 for n in "qkv"}
        # Two problems in different places have no common centre.
        data["q"][1] -= 200
        data["k"][1] -= 200
        self.agree(data, energy="gaussian")

    def test_ready_made_scores(self):
        random = np.random.default_rng(4)
        s = random.normal(size=(2, 30, 20)).astype(np.float32)
        s[random.random(s.shape) < 0.2] = -np.inf
        s[0, 3], s[1, :, 5] = -np.inf, -np.inf
        v = random.normal(size=(1, 20, 3)).astype(np.float32)
        mask = random.random((30, 20)) < 0.9
        for scheme in self.SCHEMES:
            with self.subTest(**scheme):
                self.agrees({"scores": s}, ready=True, **scheme)
                self.agrees({"scores": s, "v": v, "mask": mask}, ready=True, scale=0.5, **scheme)
        # q and k take precedence unless ready-made scores are requested.
        q, k = (random.normal(size=(2, n, 4)).astype(np.float32) for n in (30, 20))
        self.write("both.h5", q=q, k=k, scores=s)
        self.write("vectors.h5", q=q, k=k)
        self.assert_same_bits(self.compute("-q", "both.h5"), self.compute("-q", "vectors.h5"),
                              ["row_potential"])

    def test_causal_without_alignment_if_lengths_are_equal(self):
        random = np.random.default_rng(5)
        data = {n: random.normal(size=(2, 33, 4)) for n in "qkv"}
        for scheme in self.SCHEMES:
            with self.subTest(**scheme):
                self.agrees(data, causal=True, **scheme)

    def test_nothing_allowed_at_all(self):
        random = np.random.default_rng(6)
        data = {n: random.normal(size=(2, 9, 4)) for n in "qkv"}
        data["mask"] = np.zeros((2, 1, 1), np.int8)
        data["mask"][1] = 1
        for scheme in self.SCHEMES:
            with self.subTest(**scheme):
                self.agrees(data, **scheme)

    def test_hybrid_on_the_command_line_takes_precedence(self):
        random = np.random.default_rng(7)
        data = {n: random.normal(size=(3, 9, 4)) for n in "qkv"}
        data["hybrid"] = np.array([0.1, 0.5, 0.9])
        of_dataset = self.agrees(data, scheme="hnas")
        of_option = self.agrees(data, scheme="hnas", hybrid=0.5)
        self.assertEqual(of_option.attributes["attn_hybrid"], 0.5)
        self.assert_same_bits({"weights": of_dataset["weights"][1]},
                              {"weights": of_option["weights"][1]})
        self.assertFalse(np.array_equal(of_dataset["weights"][0], of_option["weights"][0]))

    def test_sinkhorn_until_it_converges(self):
        random = np.random.default_rng(8)
        mask = random.random((1, 40, 30)) < 0.9
        mask[0, 4], mask[0, :, 6] = False, False
        self.write("in.h5", q=random.normal(size=(2, 40, 5)), k=random.normal(size=(2, 30, 5)),
                   mask=mask)
        for given, promised, slack in (
            ([], 1e-10, 1e-12),
            (["--precision=f32"], 1e-6, 1e-6),  # plus the rounding of float32
            (["--tolerance=1e-3"], 1e-3, 1e-12),
        ):
            with self.subTest(given=given):
                bundle = self.compute("-q", "--scheme=sinkhorn", "--emit=weights", *given, "in.h5")
                self.assertEqual(bundle.attributes["attn_status"], "converged")
                weights = bundle["weights"].astype(np.float64)
                self.assert_near("rows", weights.sum(-1), np.tile(mask.any(-1)[0] * 1.0, (2, 1)),
                                 1e-5 if given == ["--precision=f32"] else 1e-12)
                b = mask.any(-2)[0] * (39 / 29)
                error = np.abs(weights.sum(-2) - b).sum(-1) / b.sum()
                self.assertTrue((error <= promised + slack).all(), error)

    def test_sinkhorn_that_does_not_converge(self):
        random = np.random.default_rng(9)
        self.write("in.h5", **{n: random.normal(size=(9, 4)) for n in "qkv"})
        options = ["-q", "--scheme=sinkhorn", "--iterations=2", "in.h5"]
        enough = self.compute(*options)
        self.assertEqual(enough.attributes["attn_status"], "done")
        stopped = self.compute(*options, "--tolerance=1e-9", status=1)
        self.assertEqual(stopped.attributes["attn_status"], "not_converged")
        self.assert_near("out", stopped["out"], enough["out"], 1e-12)


if __name__ == "__main__":
    unittest.main()
