"""attnkit.torch: attention of tensors and its gradients, against plain PyTorch and finite differences."""

import subprocess
import sys
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy

import attnkit

try:
    import torch
except ImportError:
    torch = None
else:
    from torch.autograd import gradcheck

    from attnkit.torch import Attention, _plans, attention, sums
    from attnkit.torch._attention import attend
    from attnkit.torch._operands import arrays_of


def setUpModule():
    if torch is None:
        raise unittest.SkipTest("PyTorch is not installed")


def normal(*shape, dtype="float64", grad=True):
    return torch.randn(*shape, dtype=getattr(torch, dtype)).requires_grad_(grad)


def plain_weights(scheme, scores, allowed=None, u=None, sink=None, iterations=1):
    """The weights (…, Lq, Lk) as the formulas of the schemes have them, without care for overflow."""
    raised = scores.exp() if allowed is None else scores.exp() * allowed
    without = 0 if sink is None else sink.exp()[..., None, None]

    def divided(x, total):
        return x / total.masked_fill(total == 0, 1)  # 0 in empty rows and columns

    def by_rows(x):
        return divided(x, x.sum(-1, keepdim=True) + without)

    def by_columns(x):
        return divided(x, x.sum(-2, keepdim=True))

    if scheme == "hnas":
        return u * by_rows(by_columns(raised)) + (1 - u) * by_rows(raised)
    if scheme in ("unas", "fenchel"):
        return by_rows(raised)
    made = raised
    for _ in range(iterations):
        made = by_rows(by_columns(made))
    return made


class Function(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        # 4 query heads for 2 key heads, odd lengths; tensors as models have them, (B, L, H, d) transposed
        self.q = normal(2, 5, 4, 3).detach().transpose(1, 2).requires_grad_()
        self.k = normal(2, 7, 2, 3).detach().transpose(1, 2).requires_grad_()
        self.v = normal(2, 2, 7, 2)
        self.mask = torch.rand(2, 1, 5, 7) < 0.7
        self.mask[0, 0, 2] = False
        self.mask[..., 3] = False

    def schemes(self):
        u = torch.tensor([0.2, 0.5, 0.9, 0.4], dtype=torch.float64, requires_grad=True)
        return {
            "unas": {}, "dnas": {}, "hnas": {"hybrid": u}, "sinkhorn": {"iterations": 3},
            "fenchel": {"alpha": 0.7}, "em": {"iterations": 2}, "mean-shift": {"iterations": 2},
        }

    def test_sums(self):
        for scheme, arguments in self.schemes().items():
            if scheme in ("em", "mean-shift", "fenchel"):
                continue
            _, weights = attend({"q": self.q, "k": self.k, "v": self.v, "mask": self.mask,
                                 "hybrid": arguments.pop("hybrid", None)},
                                {"scheme": scheme, **arguments}, weights=True)
            arguments = self.schemes()[scheme]
            found = sums(self.q, self.k, mask=self.mask, scheme=scheme, **arguments)
            torch.testing.assert_close(found.col_sum, weights.sum(-2))
            torch.testing.assert_close(found.row_entropy, -torch.xlogy(weights, weights).sum(-1))
            self.assertFalse(found.col_sum.requires_grad)

    def check_gradients(self, scheme, rtol=1e-3, **arguments):
        """Finite differences of step 1e-6: their error is some 1e-9 relative to 1."""
        given = {"q": self.q, "k": self.k, "v": self.v, **arguments}
        tensors = {name: value for name, value in given.items() if getattr(value, "requires_grad", False)}

        def function(*changed):
            return attention(**{**given, **dict(zip(tensors, changed))}, scheme=scheme)

        self.assertTrue(gradcheck(function, tuple(tensors.values()), rtol=rtol, atol=1e-6))

    def test_out_and_gradients_are_those_of_the_formulas(self):
        for scheme, options in self.schemes().items():
            if scheme in ("em", "mean-shift"):
                continue
            mask = None if scheme == "sinkhorn" else self.mask
            with self.subTest(scheme):
                k, v = (x.repeat_interleave(2, 1) for x in (self.k, self.v))
                factor = options.get("alpha", 3**-0.5)
                u = options["hybrid"][:, None, None] if scheme == "hnas" else None
                weights = plain_weights(
                    scheme, factor * self.q @ k.transpose(-1, -2), mask, u,
                    iterations=options.get("iterations", 1))
                expected = weights @ v
                out = attention(self.q, self.k, self.v, scheme=scheme, mask=mask, **options)
                torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
                upstream = torch.randn_like(out)
                operands = [self.q, self.k, self.v] + ([options["hybrid"]] if scheme == "hnas" else [])
                found = torch.autograd.grad(out, operands, upstream)
                for one, other in zip(found, torch.autograd.grad(expected, operands, upstream)):
                    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)

    def test_bits_are_those_of_the_function_on_arrays(self):
        for dtype in ("float32", "float64"):
            q, k, v = (x.detach().to(getattr(torch, dtype)) for x in (self.q, self.k, self.v))
            for scheme, options in self.schemes().items():
                if "hybrid" in options:
                    options = {"hybrid": options["hybrid"].detach().to(q.dtype)}
                expected = attnkit.attention(q, k, v, scheme=scheme, **options).out
                with torch.no_grad():
                    out = attention(q, k, v, scheme=scheme, **options)
                with self.subTest(scheme, dtype=dtype):
                    self.assertEqual(out.dtype, q.dtype)
                    numpy.testing.assert_array_equal(out.numpy(), expected)
                    recorded = attention(q.requires_grad_(), k, v, scheme=scheme, **options)
                    self.assertTrue(torch.equal(recorded.detach(), out))
                    q.requires_grad_(False)

    def test_finite_differences_of_every_scheme(self):
        for scheme, options in self.schemes().items():
            with self.subTest(scheme):
                self.check_gradients(scheme, **options)

    def test_finite_differences_with_masks_biases_and_sinks(self):
        more = {"mask": self.mask, "softcap": 2.0}
        more.update(bias=normal(4, 1, 7), sink=normal(4), gate=normal(5, 2))
        for scheme in ("unas", "dnas", "hnas", "fenchel", "transport"):
            options = {**self.schemes().get(scheme, {"gamma": 0.8}), **more}
            if scheme in ("fenchel", "transport"):
                options["preference"] = (0.1 + torch.rand(7, dtype=torch.float64)).requires_grad_()
            if scheme == "transport":
                options["cost"] = (0.1 + torch.rand(4, 7, 7, dtype=torch.float64)).requires_grad_()
                del options["sink"]
            with self.subTest(scheme):
                self.check_gradients(scheme, **options)
        number = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
        self.check_gradients("hnas", hybrid=number, sink=number.detach().clone().requires_grad_())
        by_query = {"bias": normal(2, 1, 5, 1), "gate": normal(2, 4, 5, 1)}
        self.check_gradients("sinkhorn", iterations=2, scale=0.5, **by_query)

    def test_finite_differences_with_lengths_windows_and_positions(self):
        lengths = {
            "query_length": torch.tensor([3, 5]), "key_length": torch.tensor([7, 4]),
            "key_start": torch.tensor([0, 2]), "query_start": torch.tensor([1, 0]),
        }
        for scheme in ("unas", "dnas", "sinkhorn"):
            iterations = {"iterations": 2} if scheme == "sinkhorn" else {}
            self.check_gradients(scheme, **lengths, **iterations)
        table = normal(8, 4)
        self.check_gradients("dnas", window=(2, 1), query_offset=1, relative_bias="t5", rel_bias=table)
        self.check_gradients("unas", causal="bottom-right", relative_bias="alibi")
        self.check_gradients("unas", causal="top-left", query_offset=torch.tensor([0, 2]))
        packing = {"cu_seqlens_q": torch.tensor([0, 2, 5]), "cu_seqlens_k": torch.tensor([0, 4, 7])}
        for scheme in ("unas", "dnas"):
            self.check_gradients(scheme, causal="bottom-right", **packing)

    def test_finite_differences_of_every_energy(self):
        self.check_gradients("dnas", energy="gaussian")
        self.check_gradients("dnas", energy="bilinear", w=normal(3, 3))
        self.check_gradients("hnas", hybrid=0.3, energy="mlp", w1=normal(4, 6), w2=normal(4), b1=normal(4))

    def test_finite_differences_of_weights(self):
        def function(q, k, v, sink):
            operands = {"q": q, "k": k, "v": v, "sink": sink, "mask": self.mask, "gate": gate, "hybrid": 0.3}
            return attend(operands, {"scheme": "hnas"}, dropout=0.4, seed=5, weights=True)

        gate = normal(5, 2).detach()
        self.assertTrue(gradcheck(function, (self.q, self.k, self.v, normal(4))))

    def test_weights_have_no_gradient_by_values(self):
        operands = {"q": self.q.detach(), "k": self.k.detach(), "v": self.v}
        weights = attend(operands, {"scheme": "dnas"}, weights=True)[1]
        weights.square().sum().backward()
        self.assertTrue(self.v.grad is None or float(self.v.grad.abs().max()) == 0)

    def test_operands_that_need_no_gradient_have_none(self):
        k = self.k.detach()
        attention(self.q, k, self.v, scheme="dnas").sum().backward()
        self.assertIsNone(k.grad)
        self.assertGreater(float(self.q.grad.abs().max()), 0)
        self.assertFalse(attention(self.q.detach(), k, self.v.detach()).requires_grad)

    def test_a_query_without_keys_has_zeros(self):
        out = attention(self.q, self.k, self.v, scheme="dnas", mask=self.mask)
        self.assertEqual(float(out[0, :, 2].abs().max()), 0)
        gradient, = torch.autograd.grad(out.sum(), [self.q])
        self.assertEqual(float(gradient[0, :, 2].abs().max()), 0)
        self.assertTrue(bool(gradient.isfinite().all()))

    def test_short_types_are_computed_in_float32(self):
        for dtype in (torch.float16, torch.bfloat16):
            q, k, v = (x.detach().to(dtype).requires_grad_() for x in (self.q, self.k, self.v))
            out = attention(q, k, v, scheme="dnas")
            wide = [x.detach().float().requires_grad_() for x in (q, k, v)]
            expected = attention(*wide, scheme="dnas")
            self.assertEqual(out.dtype, dtype)
            self.assertTrue(torch.equal(out, expected.to(dtype)))
            out.sum().backward()
            expected.sum().backward()
            self.assertEqual(q.grad.dtype, dtype)
            self.assertTrue(torch.equal(q.grad, wide[0].grad.to(dtype)))

    def test_precision_may_be_higher(self):
        short = [x.detach().float().requires_grad_() for x in (self.q, self.k, self.v)]
        wide = [x.detach().double().requires_grad_() for x in short]
        out, expected = attention(*short, scheme="dnas", precision="f64"), attention(*wide, scheme="dnas")
        self.assertTrue(torch.equal(out, expected.float()))
        gradients = torch.autograd.grad(out.sum(), short), torch.autograd.grad(expected.sum(), wide)
        for found, other in zip(*gradients):
            self.assertTrue(torch.equal(found, other.float()))

    def test_strided_tensors_are_used_where_they_lie(self):
        self.assertFalse(self.q.is_contiguous())
        array = arrays_of({"q": self.q})["q"]
        self.assertEqual(array.__array_interface__["data"][0], self.q.data_ptr())
        dense = attention(*(x.contiguous() for x in (self.q, self.k, self.v)), scheme="dnas")
        self.assertTrue(torch.equal(attention(self.q, self.k, self.v, scheme="dnas"), dense))

    def test_gradients_cannot_be_differentiated_again(self):
        for loss in (attention(self.q, self.k, self.v).square().sum(), attention(self.q, self.k, self.v).sum()):
            with self.assertRaisesRegex(attnkit.UsageError, "have no gradients"):
                torch.autograd.grad(loss, [self.q], create_graph=True)

    def test_there_are_no_derivatives_in_forward_mode(self):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(self.q.detach(), torch.ones_like(self.q))
            with self.assertRaisesRegex(attnkit.UsageError, "q has a tangent"):
                attention(dual, self.k, self.v)

    def test_the_module_refuses_causal_masks_of_a_leaking_scheme(self):
        q = torch.randn(1, 2, 6, 4)
        causal = torch.ones(6, 6, dtype=torch.bool).tril()
        everything, padding = torch.ones_like(causal), torch.arange(6) < 4
        for bias in (float("-inf"), -1e9, -1e4):
            additive = torch.zeros(6, 6).masked_fill(~causal, bias)
            for operands in ({"mask": causal}, {"bias": additive}):
                with self.assertRaisesRegex(attnkit.UsageError, "later tokens"):
                    Attention("dnas")(q, q, q, **operands)
                Attention("unas")(q, q, q, **operands)
                Attention("dnas", allow_leak=True)(q, q, q, **operands)
        for mask in (everything, everything & padding, None):
            Attention("dnas")(q, q, q, mask)

    def test_numbers_that_are_negated_when_read(self):
        negated = torch.complex(self.q.detach(), self.q.detach()).conj().imag
        self.assertTrue(negated.is_neg())
        self.assertTrue(torch.equal(attention(negated, self.k, self.v), attention(-self.q, self.k, self.v)))

    def test_refusals_name_the_argument(self):
        q, k, v = (x.detach() for x in (self.q, self.k, self.v))
        broken = q.clone()
        broken[1, 2, 0, 1] = float("nan")
        cases = [
            (attnkit.InputError, "q has nan at", {"q": broken}),
            (attnkit.InputError, "k is on meta", {"k": torch.empty(2, 2, 7, 3, device="meta")}),
            (attnkit.InputError, "v is a ndarray, expected a tensor", {"v": v.numpy()}),
            (attnkit.InputError, "q is int64, expected floating", {"q": torch.ones(5, 3, dtype=torch.long)}),
            (attnkit.InputError, "mask is float32, expected integers", {"mask": torch.zeros(5, 7)}),
            (attnkit.InputError, "v", {"v": v[..., :6, :]}),
            (attnkit.InputError, "mask", {"mask": torch.ones(4, 7) > 0}),
            (attnkit.InputError, "no dataset cost|cost", {"scheme": "transport", "gamma": 1}),
            (attnkit.UsageError, "attention\\(\\) has no option sclae", {"sclae": 1}),
            (attnkit.UsageError, "attention\\(\\) has no option emit", {"emit": "out"}),
            (attnkit.UsageError, "dnas", {"scheme": "danas"}),
            (attnkit.UsageError, "seed is -1", {"dropout": 0.1, "seed": -1}),
            (attnkit.UsageError, "dropout is 1.5", {"dropout": 1.5}),
        ]
        for kind, message, changed in cases:
            with self.subTest(message), self.assertRaises(kind) as raised:
                attention(**{"q": q, "k": k, "v": v, **changed})
            self.assertRegex(str(raised.exception) + raised.exception.hint, message)
        out = attention(self.q, self.k, self.v)
        with self.assertRaisesRegex(attnkit.InputError, "grad_out"):
            out.backward(torch.full_like(out, float("inf")))

    def test_tracing_is_refused(self):
        with self.assertRaisesRegex(attnkit.UsageError, "traced"):
            torch.jit.trace(lambda x: attention(x, self.k, self.v), self.q.detach())

    def test_a_leak_is_warned_of_once(self):
        q, k, v = (normal(3, 11, 2, grad=False) for _ in range(3))
        with self.assertWarnsRegex(attnkit.Warning, "leak") as caught:
            attention(q, k, v, scheme="dnas", causal=True)
        self.assertEqual(caught.filename, __file__)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            attention(q, k, v, scheme="dnas", causal=True)
            attention(q, k, v, scheme="unas", causal=True)

    def test_sinkhorn_warns_if_it_does_not_converge(self):
        with self.assertWarns(attnkit.NotConverged) as caught:
            attention(4 * self.q, self.k, self.v, scheme="sinkhorn", iterations=1, tolerance=1e-12)
        self.assertEqual(caught.filename, __file__)


class Dropout(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.q, self.k = normal(2, 64, 8, grad=False), normal(2, 64, 8, grad=False)
        self.identity = torch.eye(64, dtype=torch.float64)

    def dropped(self, **options):
        """The weights after dropout, as values that are the identity matrix show them."""
        return attention(self.q, self.k, self.identity, scheme="dnas", **options)

    def test_weights_are_dropped_or_scaled(self):
        weights, dropped = self.dropped(), self.dropped(dropout=0.25, seed=3)
        kept = dropped != 0
        torch.testing.assert_close(dropped[kept], weights[kept] / 0.75, rtol=1e-12, atol=0)
        # 8192 weights: 5 standard deviations of the share are 0.024.
        self.assertLess(abs(float(kept.double().mean()) - 0.75), 0.024)

    def test_the_seed_decides(self):
        self.assertTrue(torch.equal(self.dropped(dropout=0.5, seed=3), self.dropped(dropout=0.5, seed=3)))
        self.assertFalse(torch.equal(self.dropped(dropout=0.5, seed=3), self.dropped(dropout=0.5, seed=4)))
        self.assertTrue(torch.equal(self.dropped(), self.dropped(dropout=0)))

    def test_the_generator_of_torch_draws_the_seed(self):
        torch.manual_seed(7)
        first, second = self.dropped(dropout=0.5), self.dropped(dropout=0.5)
        torch.manual_seed(7)
        self.assertTrue(torch.equal(first, self.dropped(dropout=0.5)))
        self.assertFalse(torch.equal(first, second))

    def test_gradients_see_the_same_weights(self):
        operands = [normal(2, 5, 3) for _ in range(3)]
        for scheme, options in (("unas", {}), ("hnas", {"hybrid": 0.5}), ("sinkhorn", {"iterations": 2})):
            self.assertTrue(gradcheck(
                lambda *qkv: attention(*qkv, scheme=scheme, dropout=0.4, seed=9, **options), operands))


class Plans(unittest.TestCase):
    def test_few_plans_are_kept(self):
        for length in range(1, 2 * _plans.MOST_UNUSED):
            attention(*(torch.ones(length, 2) for _ in range(3)))
        self.assertEqual(len(_plans._unused), _plans.MOST_UNUSED)
        kept = [plan for _, plan in _plans._unused]
        attention(*(torch.ones(length, 2) for _ in range(3)))
        self.assertIs(_plans._unused[-1][1], kept[-1])

    def test_threads_agree_to_the_last_bit(self):
        torch.manual_seed(0)
        problems = [[normal(2, 3, length, 8, dtype="float32") for _ in range(3)]
                    for length in (33, 50, 50, 64)]

        def compute(index):
            scheme = ("dnas", "unas")[index % 2]
            q, k, v = problems[index % 4]
            out = attention(q, k, v, scheme=scheme, dropout=0.3, seed=index, threads=1 + index % 2)
            return [out, *torch.autograd.grad(out.sin().sum(), [q, k, v])]

        alone = [compute(index) for index in range(24)]
        with ThreadPoolExecutor(6) as pool:
            together = list(pool.map(compute, range(24)))
        for one, other in zip(alone, together):
            for first, second in zip(one, other):
                self.assertTrue(torch.equal(first, second))

    def test_a_worker_that_is_forked_computes_the_same(self):
        torch.manual_seed(0)
        inputs = [[normal(2, 40, 8, dtype="float32", grad=False) for _ in range(3)] for _ in range(4)]
        expected = [attention(*qkv, scheme="dnas", threads=2) for qkv in inputs]

        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return len(inputs)

            def __getitem__(self, index):
                return attention(*inputs[index], scheme="dnas", threads=2).numpy()

        loader = torch.utils.data.DataLoader(
            Data(), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60)
        found = list(loader)
        self.assertEqual(len(found), 4)
        for one, other in zip(found, expected):
            self.assertTrue(torch.equal(torch.as_tensor(one), other))

    def test_either_package_may_come_first(self):
        use = "x = torch.ones(3, 2, requires_grad=True); attention(x, x, x, scheme='dnas').sum().backward()"
        load = "from attnkit.torch import attention"
        for first, second in (("import torch", load), ("import attnkit; " + load, "import torch")):
            subprocess.run([sys.executable, "-c", f"{first}; {second}; {use}"], check=True, timeout=60)

    def test_the_package_alone_does_not_load_torch(self):
        code = "import attnkit, sys; sys.exit('torch' in sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class Module(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.qkv = [normal(2, 3, 6, 4, dtype="float32", grad=False) for _ in range(3)]

    def test_it_is_the_function(self):
        mask = torch.rand(6, 6) < 0.8
        bias, sink = normal(3, 1, 6, dtype="float32", grad=False), torch.zeros(3)
        found = Attention("dnas", scale=0.7)(*self.qkv, mask, bias, sink=sink)
        expected = attention(*self.qkv, scheme="dnas", scale=0.7, mask=mask, bias=bias, sink=sink)
        self.assertTrue(torch.equal(found, expected))
        expected = attention(*self.qkv, scheme="hnas", hybrid=0.25)
        self.assertTrue(torch.equal(Attention("hnas", 0.25)(*self.qkv), expected))

    def test_shares_are_learned(self):
        module = Attention("hnas", "learned", heads=3, hybrid_start=0.25)
        self.assertEqual([name for name, _ in module.named_parameters()], ["hybrid_logit"])
        torch.testing.assert_close(module.u, torch.full((3,), 0.25))
        wanted = attention(*self.qkv, scheme="hnas", hybrid=torch.tensor([0.1, 0.5, 0.9]))
        optimizer = torch.optim.Adam(module.parameters(), 0.1)
        for _ in range(300):
            optimizer.zero_grad()
            (100 * (module(*self.qkv) - wanted) ** 2).sum().backward()
            optimizer.step()
        # The loss is 0 at these shares alone.
        torch.testing.assert_close(module.u, torch.tensor([0.1, 0.5, 0.9]), rtol=0, atol=1e-3)
        at_first = Attention("hnas", "learned", 3)(*self.qkv)
        self.assertTrue(torch.equal(at_first, Attention("hnas", 0.5)(*self.qkv)))

    def test_dropout_is_for_training(self):
        module = Attention("unas", dropout=0.5)
        self.assertFalse(torch.equal(module(*self.qkv), module(*self.qkv)))
        self.assertTrue(torch.equal(module.eval()(*self.qkv), attention(*self.qkv)))

    def test_a_leak_must_be_allowed(self):
        for scheme, options in (("dnas", {}), ("hnas", {"hybrid": 0.5}), ("sinkhorn", {})):
            for causality in ({"causal": True}, {"causal": "bottom-right"}, {"window": (3, 0)}):
                with self.subTest(scheme), self.assertRaises(attnkit.UsageError) as raised:
                    Attention(scheme, **options, **causality)
                self.assertEqual(raised.exception.hint, "allow_leak=True")
        Attention("unas", causal=True)(*self.qkv)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Attention("dnas", causal=True, allow_leak=True)(*self.qkv)

    def test_refusals(self):
        learned = {"hybrid": "learned", "heads": 2}
        for arguments in ({"heads": 3}, {"hybrid": "learned"}, {"scheme": "dnas", **learned},
                          {"scheme": "hnas", "hybrid_start": 1.0, **learned},
                          {"scheme": "hnas"}, {"sclae": 2}, {"hybrid": 0.5}, {"iterations": 3},
                          {"scheme": "hnas", "hybrid": torch.rand(3)}, {"query_offset": torch.arange(3)}):
            with self.subTest(arguments), self.assertRaises(attnkit.UsageError):
                Attention(**arguments)
        with self.assertRaisesRegex(attnkit.UsageError, "no operand causal"):
            Attention()(*self.qkv, causal=True)


if __name__ == "__main__":
    unittest.main()
