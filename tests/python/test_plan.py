"""Plans of attention: the bits of attnkit.attention, for run after run."""

import unittest
import warnings

import numpy

import attnkit

RANDOM = numpy.random.default_rng(4)


def normal(*shape, dtype="float32"):
    return RANDOM.normal(size=shape).astype(dtype)


Q, K, V = normal(2, 6, 9, 8), normal(2, 3, 11, 8), normal(2, 3, 11, 5)
MASK = RANDOM.random((9, 11)) < 0.7
MASK[4] = False  # a query without keys
CASES = [
    {"scheme": "unas"},
    {"scheme": "dnas", "mask": MASK, "bias": normal(2, 1, 9, 11)},
    {"scheme": "dnas", "sink": normal(6), "softcap": 5, "window": (4, 3)},
    {"scheme": "hnas", "hybrid": 0.3, "key_length": numpy.array([11, 6]), "query_length": numpy.array([9, 4])},
    {"scheme": "hnas", "hybrid": RANDOM.random(6)},
    {"scheme": "dnas", "causal": "bottom-right", "cu_seqlens_q": numpy.array([0, 4, 4, 9]),
     "cu_seqlens_k": numpy.array([0, 3, 5, 11])},
    {"scheme": "sinkhorn", "iterations": 7},
    {"scheme": "fenchel", "preference": RANDOM.random((9, 11)).astype("float32"), "alpha": 2},
    {"scheme": "transport", "preference": RANDOM.random((9, 11)).astype("float32"), "gamma": 0.5,
     "cost": abs(normal(6, 11, 11)), "mask": MASK},
    {"scheme": "unas", "causal": "bottom-right", "gate": normal(2, 6, 9, 5)},
    {"scheme": "unas", "causal": True, "query_offset": 2, "relative_bias": "t5", "rel_bias": normal(32, 6)},
    {"scheme": "dnas", "energy": "bilinear", "w": normal(8, 8), "scale": 0.5},
    {"scheme": "unas", "energy": "mlp", "w1": normal(3, 16), "w2": normal(3), "b1": normal(3)},
]


def arrays_of(case):
    return {name: value for name, value in case.items() if isinstance(value, numpy.ndarray)}


class Plans(unittest.TestCase):
    def setUp(self):
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("ignore", attnkit.Warning)  # of leaks

    def same(self, found, expected):
        for name, array in found.items():
            self.assertEqual((array.dtype, array.shape), (expected[name].dtype, expected[name].shape), name)
            self.assertEqual(array.tobytes(), expected[name].tobytes(), name)

    def test_bits_are_those_of_the_function(self):
        for case in CASES:
            for dtype in ("float32", "float64"):
                with self.subTest(dtype=dtype, **{name: str(value)[:20] for name, value in case.items()}):
                    q, k, v = (array.astype(dtype) for array in (Q, K, V))
                    emit = "out,col_sum,row_entropy,row_potential,col_potential"
                    expected = attnkit.attention(q, k, v, emit=emit, **case)
                    plan = attnkit.AttentionPlan(q, k, v, emit=emit, threads=2, **case)
                    for _ in range(2):
                        found = plan(q, k, v, **arrays_of(case))
                        self.assertEqual(set(found), set(expected) - {"hybrid"})
                        self.same(found, expected)
                    self.assertEqual(plan.dtype, dtype)

    def test_gradients_are_those_of_the_function(self):
        grad_out = normal(2, 6, 9, 5)
        for case in CASES:
            wanted = ["q", "k", "v", *(arrays_of(case).keys() & {"bias", "sink", "gate", "hybrid", "rel_bias", "w", "w1"})]
            with self.subTest(wanted=wanted, scheme=case["scheme"]):
                emit = [f"grad_{name}" for name in wanted]
                expected = attnkit.attention(Q, K, V, grad_out=grad_out, emit=emit, **case)
                plan = attnkit.AttentionPlan(Q, K, V, **case)
                results = plan(Q, K, V, **arrays_of(case))
                for known in (None, results):
                    found = plan.gradients(grad_out, Q, K, V, wanted=wanted, results=known, **arrays_of(case))
                    self.assertEqual(list(found), wanted)
                    self.same({f"grad_{name}": array for name, array in found.items()}, expected)

    def test_half_precision_is_widened(self):
        half = [array.astype("float16") for array in (Q, K, V)]
        plan = attnkit.AttentionPlan(*half, scheme="dnas")
        wide = [array.astype("float32") for array in half]
        self.same(plan(*half), attnkit.attention(*wide, scheme="dnas"))

    def test_float64_is_rounded_if_asked_for(self):
        wide = [array.astype("float64") for array in (Q, K, V)]
        plan = attnkit.AttentionPlan(*wide, precision="f32")
        self.same(plan(*wide), attnkit.attention(Q, K, V))
        with self.assertRaisesRegex(attnkit.InputError, "q is float64, but the plan computes in float32"):
            attnkit.AttentionPlan(Q, K, V)(*wide)

    def test_dropout_repeats_with_its_seed(self):
        plan = attnkit.AttentionPlan(Q, K, V, emit="out")
        plain = plan(Q, K, V)["out"]
        dropped = []
        for seed in (1, 2, 1):
            plan.set_dropout(0.5, seed)
            dropped.append(plan(Q, K, V)["out"].tobytes())
        self.assertEqual(dropped[0], dropped[2])
        self.assertNotEqual(dropped[0], dropped[1])
        plan.set_dropout(0.0)
        self.assertEqual(plan(Q, K, V)["out"].tobytes(), plain.tobytes())

    def test_says_whether_sinkhorn_converged(self):
        plan = attnkit.AttentionPlan(8 * Q, K, V, scheme="sinkhorn", iterations=2, tolerance=1e-6)
        plan(8 * Q, K, V)
        self.assertFalse(plan.converged)

    def test_refusals(self):
        refused = [
            (attnkit.UsageError, "a plan does not compute scores", lambda: attnkit.AttentionPlan(Q, K, V, emit="scores")),
            (attnkit.UsageError, "a plan has no option layout", lambda: attnkit.AttentionPlan(
                *(array.swapaxes(1, 2) for array in (Q, K, V)), layout="blhd")),
            (attnkit.UsageError, "no argument bais", lambda: attnkit.AttentionPlan(Q, K, V, bais=V)),
            (attnkit.InputError, "k has shape", lambda: attnkit.AttentionPlan(Q, K, V)(Q, K[:1], V)),
            (attnkit.InputError, "v is missing", lambda: attnkit.AttentionPlan(Q, K, V)(Q, K)),
            (attnkit.UsageError, "does not take bais", lambda: attnkit.AttentionPlan(Q, K, V)(Q, K, V, bais=V)),
            (attnkit.UsageError, "gradient by bias", lambda: attnkit.AttentionPlan(Q, K, V).gradients(
                normal(2, 6, 9, 5), Q, K, V, wanted="bias")),
            (attnkit.InputError, "q has nan", lambda: attnkit.AttentionPlan(Q, K, V)(Q * numpy.nan, K, V)),
        ]
        for kind, text, call in refused:
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                call()

    def test_causal_dnas_leaks(self):
        with self.assertWarnsRegex(attnkit.Warning, "a leak in an autoregressive model"):
            plan = attnkit.AttentionPlan(Q, K, V, scheme="dnas", causal="top-left")
        self.assertTrue(plan.leaks)
        self.assertFalse(attnkit.AttentionPlan(Q, K, V, causal="top-left").leaks)
        self.assertFalse(attnkit.AttentionPlan(Q, K, V, scheme="dnas").leaks)


if __name__ == "__main__":
    unittest.main()
