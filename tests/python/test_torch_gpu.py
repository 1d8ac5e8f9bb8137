"""attnkit.torch on a GPU. Without one, PyTorch's flex_attention has a plain stand-in, and the rest is the same.

`make test-gpu` runs these tests on a machine with a GPU, where none of them may be skipped.
"""

import contextlib
import os
import types
import unittest
from functools import partial
from unittest import mock

import attnkit

try:
    import torch
except ImportError:
    torch = None
else:
    from attnkit.torch import _attention, _flex, _pairs, attention, sums

ON_GPU = "ATTN_GPU" in os.environ


def setUpModule():
    if torch is None and not ON_GPU:
        raise unittest.SkipTest("PyTorch is not installed")
    if ON_GPU and (torch is None or not torch.cuda.is_available()):
        raise AssertionError("ATTN_GPU is set, but there is no PyTorch with a GPU")


class BlockMask:
    """The part of PyTorch's BlockMask that a pass uses."""

    def __init__(self, numbers, size, mask_mod):
        self.full, self.partial = self.chosen(*numbers[2:]), self.chosen(*numbers[:2])
        self.size, self.mask_mod = size, mask_mod

    @classmethod
    def from_kv_blocks(cls, *numbers, BLOCK_SIZE, mask_mod):
        assert all(part.dtype == torch.int32 and part.is_contiguous() for part in numbers)
        return cls(numbers, BLOCK_SIZE, mask_mod)

    @staticmethod
    def chosen(counts, order):
        """Whether each block is among the first of its row's order."""
        places = torch.arange(order.shape[-1]).expand(order.shape) < counts[..., None]
        return torch.zeros(order.shape, dtype=torch.bool).scatter(-1, order.long(), places)

    def allowed(self, *places):
        assert not (self.full & self.partial).any()
        whole, some = (part.repeat_interleave(self.size, -1).repeat_interleave(self.size, -2)
                       for part in (self.full, self.partial))
        return whole | (some & self.mask_mod(*places))


def flex_attention(q, k, v, *, score_mod, block_mask, scale, return_lse):
    """What PyTorch's flex_attention computes, with all scores in float64."""
    assert return_lse
    b, h, i, j = (torch.arange(size) for size in (*q.shape[:3], k.shape[2]))
    places = b[:, None, None, None], h[:, None, None], i[:, None], j
    scores = scale * q.double() @ k.double().transpose(-1, -2)
    if score_mod is not None:
        scores = score_mod(scores, *places)
    if block_mask is not None:
        scores = scores.masked_fill(~block_mask.allowed(*places), -torch.inf)
    largest = scores.detach().amax(-1, keepdim=True).clamp(min=-1e30)
    raised = (scores - largest).exp()
    total = raised.sum(-1, keepdim=True)
    there = total > 0
    out = raised @ v.double() / total.masked_fill(~there, 1)
    lse = (total.masked_fill(~there, 1).log() + largest).masked_fill(~there, -torch.inf)[..., 0]
    return out.to(q.dtype), lse.float()


@contextlib.contextmanager
def gpu():
    """Tensors within are on a GPU, or are taken for such with the stand-in."""
    if ON_GPU:
        yield
        return
    library = types.SimpleNamespace(flex_attention=flex_attention, BlockMask=BlockMask)
    compiler = types.SimpleNamespace(is_compiling=lambda: True, disable=lambda function: function)
    with contextlib.ExitStack() as stack:
        for place, name, stand_in in (
            (_attention, "_is_on_gpu", lambda q: True), (_flex, "_library", lambda: library),
            (torch, "compiler", compiler), (torch, "compile", lambda function, **_: function),
            (torch._C, "_len_torch_function_stack", lambda: 0),
        ):
            stack.enter_context(mock.patch.object(place, name, stand_in, create=True))
        yield


def on_gpu(function, **arguments):
    """A function of tensors, which lie on the GPU if there is one."""
    with gpu():
        return function(**{name: x.cuda() if ON_GPU and isinstance(x, torch.Tensor) else x
                           for name, x in arguments.items()})


def normal(*shape):
    return torch.randn(*shape)


class Attention(unittest.TestCase):
    """Against the library in float64. Potentials are float32 numbers, as the inputs are: the errors are some 1e-6."""

    def setUp(self):
        torch.manual_seed(0)
        # more than a block of keys, fewer than a block of queries, 4 query heads for 2 key heads
        self.q, self.k, self.v = normal(2, 4, 150, 5), normal(2, 2, 131, 5), normal(2, 2, 131, 3)

    def check(self, tolerance=1e-5, **arguments):
        given = {"q": self.q, "k": self.k, "v": self.v, **arguments}
        wide = {name: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
                for name, x in given.items()}
        results = [self.differentiated(attention, wide)]
        with gpu():  # also in the backward pass
            results.append(self.differentiated(partial(on_gpu, attention), given))
        self.assertEqual(results[0].keys(), results[1].keys())
        for name, right in results[0].items():
            with self.subTest(name, **{key: str(value)[:20] for key, value in arguments.items()}):
                torch.testing.assert_close(results[1][name].double(), right, rtol=tolerance, atol=tolerance)

    def differentiated(self, function, given):
        """out, and the gradients of Σ out·cos(place), which differ for all numbers."""
        given = {name: x.clone().requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
                 for name, x in given.items()}
        out = function(**given)
        weights = torch.arange(out.numel(), dtype=out.dtype).cos().reshape(out.shape).to(out.device)
        (out * weights).sum().backward()
        gradients = {"grad_" + name: x.grad for name, x in given.items() if getattr(x, "requires_grad", False)}
        return {"out": out.detach().cpu(), **gradients}

    def all_schemes(self):
        return ({"scheme": "unas"}, {"scheme": "dnas"}, {"scheme": "sinkhorn", "iterations": 3},
                {"scheme": "hnas", "hybrid": torch.tensor([0.2, 0.5, 0.9, 0.4])})

    def schemes(self):
        """On a GPU, dnas alone, which has the passes of all: some seconds of compilation for each."""
        return ({"scheme": "dnas"},) if ON_GPU else self.all_schemes()

    def test_schemes(self):
        for scheme in self.all_schemes():
            self.check(**scheme)

    def test_a_compiled_model(self):
        with gpu():
            q, k, v = (x.to("cuda" if ON_GPU else "cpu").requires_grad_() for x in (self.q, self.k, self.v))
            results = []
            for wrap in (torch.compile, lambda function: function):
                out = wrap(lambda q, k, v: 2 * attention(q, k, v, scheme="dnas"))(q, k, v)
                results.append((out, *torch.autograd.grad(out.sum(), (q, k, v))))
            torch.testing.assert_close(*results, rtol=0, atol=0)

    def test_restrictions(self):
        mask = torch.rand(2, 1, 150, 131) < 0.5
        mask[0, 0, 2] = False
        mask[..., 3] = False
        for scheme in self.schemes():
            self.check(**scheme, mask=mask)
            sink = {} if scheme["scheme"] == "sinkhorn" else {"sink": normal(4)}
            self.check(**scheme, causal="top-left", softcap=2.0, **sink)
            self.check(**scheme, causal="bottom-right", window="90:")
            self.check(**scheme, window=20, query_offset=7, bias=normal(4, 150, 131))
            self.check(**scheme, query_length=torch.tensor([150, 9]), key_length=torch.tensor([4, 131]))

    def test_starts(self):
        starts = {"query_start": torch.tensor([3, 140]), "query_length": torch.tensor([130, 10]),
                  "key_start": torch.tensor([1, 0]), "key_length": torch.tensor([130, 12])}
        for scheme in self.schemes():
            self.check(**scheme, **starts, causal="bottom-right")

    def test_packed_sequences(self):
        self.q, self.k, self.v = self.q[:1], self.k[:1], self.v[:1]
        of_queries, of_keys = torch.tensor([0, 7, 7, 140, 150]), torch.tensor([0, 1, 5, 129, 131])
        for scheme in self.schemes():
            bounds = {"cu_seqlens_q": of_queries, "cu_seqlens_k": of_keys}
            if scheme["scheme"] == "sinkhorn":  # takes as many queries as keys
                self.q, bounds["cu_seqlens_q"] = self.q[:, :, :131], of_keys
            self.check(**scheme, **bounds)
            self.check(**scheme, **bounds, causal="bottom-right", window="50:3")
            early = {name: x - x.clamp(max=1) for name, x in bounds.items()}  # padding behind the last sequence
            self.check(**scheme, **early)
            self.q = normal(1, 4, 150, 5)

    def test_leading_axes(self):
        for count in (2, 3):
            place = (0,) * (4 - count)
            self.q, self.k, self.v = normal(2, 2, 5, 3)[place], normal(2, 2, 5, 3)[place], normal(2, 2, 5, 3)[place]
            self.check(scheme="dnas", causal=True)

    def test_types(self):
        for dtype in (torch.float16, torch.bfloat16):
            q, k, v = (x.to(dtype) for x in (self.q, self.k, self.v))
            out = on_gpu(attention, q=q, k=k, v=v, scheme="dnas")
            self.assertEqual(out.dtype, dtype)
            right = attention(q.double(), k.double(), v.double(), scheme="dnas")
            # The weights are rounded, too: to 8 bits in bfloat16.
            torch.testing.assert_close(out.cpu().double(), right, rtol=2**-6, atol=2**-6)

    def test_sums(self):
        mask = torch.rand(2, 1, 150, 131) < 0.5
        mask[0, 0, 2] = False
        mask[..., 3] = False
        for scheme in self.schemes():
            bias = normal(4, 150, 131) * 20  # some weights are nearly 1; scores up to 80 are rounded by 4e-6
            sink = {} if scheme["scheme"] == "sinkhorn" else {"sink": torch.tensor([0.3, -torch.inf, 2.0, -1.0])}
            for arguments in ({}, {"mask": mask, "softcap": 2.0, **sink}, {"causal": "top-left", "bias": bias}):
                with self.subTest(**scheme, with_=list(arguments)):
                    right = sums(self.q.double(), self.k.double(), **scheme, **arguments)
                    found = on_gpu(sums, q=self.q, k=self.k, **scheme, **arguments)
                    for own, other in zip(found, right):
                        torch.testing.assert_close(own.cpu().double(), other, rtol=2e-5, atol=1e-5)

    def test_sinks_of_queries_without_keys(self):
        mask = torch.ones(150, 131, dtype=torch.bool)
        mask[2] = False
        for scheme in ("unas", "dnas"):
            self.check(scheme=scheme, mask=mask, sink=torch.tensor([0.3, -torch.inf, 2.0, -1.0]), scale=0.0)

    def test_distant_scores(self):
        """All scores of a query lie so far from the scores of the others that their exponentials underflow. The
        scores, up to 1500, are rounded to float32: by 6e-5."""
        self.q[:, :, 2] -= 300
        self.check(scheme="dnas", tolerance=1e-3)


class Refusals(unittest.TestCase):
    def check(self, kind, message, **arguments):
        q = normal(1, 2, 3, 4)
        with self.assertRaisesRegex(kind, message):
            on_gpu(attention, **{"q": q, "k": q, "v": q, **arguments})

    def test_what_a_gpu_does_not_know(self):
        usage = attnkit.UsageError
        self.check(usage, "q is float64, which attention.. does not compute on a GPU", q=normal(1, 2, 3, 4).double())
        self.check(usage, "attention.. has no dropout on a GPU", dropout=0.1)
        with self.assertRaisesRegex(usage, "attention.. has no weights as a result on a GPU"):
            on_gpu(_attention.attend, operands=dict.fromkeys("qkv", normal(2, 2)), options={}, weights=True)
        self.check(usage, "there is no scheme em on a GPU", scheme="em", iterations=2)
        self.check(usage, "there is no energy gaussian on a GPU", energy="gaussian")
        self.check(usage, "attention.. has no operand gate on a GPU", gate=normal(3, 4))
        self.check(usage, "attention.. has no option threads on a GPU", threads=2)
        self.check(usage, "sinkhorn on a GPU needs a number of iterations", scheme="sinkhorn")
        self.check(usage, "attention.. has no option tolerance on a GPU", scheme="sinkhorn", tolerance=0.1)
        self.check(usage, "hybrid", scheme="hnas")
        self.check(usage, "no option nonsense", nonsense=1)

    def test_what_is_wrong_everywhere(self):
        wrong, usage = attnkit.InputError, attnkit.UsageError
        self.check(wrong, "k is None, expected a tensor", k=None)
        self.check(wrong, "mask is float32, expected integers", mask=normal(3, 3))
        self.check(wrong, r"bias has the shape \(3, 2\)", bias=normal(3, 2))
        self.check(wrong, r"sink has leading axes \(3\)", sink=normal(3))
        self.check(wrong, "v: 3 keys, k has 5", k=normal(1, 2, 5, 4))
        self.check(wrong, "q has 2 heads, k has 3", k=normal(1, 3, 3, 4))
        longer = normal(1, 2, 5, 4)
        self.check(usage, "--causal is ambiguous for 3 queries and 5 keys", causal=True, k=longer, v=longer)
        self.check(wrong, r"key_length has 7 at \[0\]", key_length=torch.tensor([7]))
        bounds = {"cu_seqlens_q": torch.tensor([0, 3])}
        self.check(usage, "cu_seqlens_q is there without cu_seqlens_k", **bounds)
        self.check(wrong, r"cu_seqlens_k is 4 at \[1\]", **bounds, cu_seqlens_k=torch.tensor([0, 4]))
        self.check(usage, "query_offset requires causality", query_offset=torch.tensor([1]))
        self.check(usage, "k and v have more batches than q on a GPU", k=normal(2, 2, 3, 4), v=normal(2, 2, 3, 4))

    def test_a_pass_without_compilation(self):
        q = normal(1, 2, 3, 4).to("cuda" if ON_GPU else "cpu")
        with gpu(), self.without_compilation():
            with self.assertRaisesRegex(attnkit.UsageError, "runs flex_attention without compiling it"):
                attention(q, q, q, softcap=3.5)

    @staticmethod
    def without_compilation():
        if ON_GPU:
            return torch.compiler.set_stance("force_eager")
        return mock.patch.object(torch.compiler, "is_compiling", lambda: False)


class Blocks(unittest.TestCase):
    """No block with an allowed pair is skipped, and no pair of a block without a mask is forbidden."""

    def check(self, pairs):
        q, k = pairs.queries.sequence.shape[-1], pairs.keys.sequence.shape[-1]
        mask = pairs.mask
        batch = max(len(pairs.queries.sequence), len(pairs.keys.sequence), 1 if mask is None else len(mask))
        heads = 1 if mask is None else mask.shape[1]
        b, h, i, j = (torch.arange(size) for size in (batch, heads, q, k))
        allowed = _pairs.allowed_in(pairs, False)(b[:, None, None, None], h[:, None, None], i[:, None], j)
        cut = _pairs._cut(allowed.expand(batch, heads, q, k))
        some, every = pairs.blocks()
        self.assertFalse((cut.any(-1).any(-1) & ~some).any())
        self.assertFalse((~cut.all(-1).all(-1) & every).any())
        return some, every, cut

    def tokens(self, length, missing, **named):
        given = {"start": None, "count": None, "bounds": None, "shift": 0, "device": "cpu", **named}
        return _pairs.tokens_of(length, -(-length // 128) * 128, missing, *given.values())

    def test_causal(self):
        pairs = _pairs.Pairs(self.tokens(512, -1), self.tokens(512, -2), None, 0, None)
        some, every, cut = self.check(pairs)
        # Exact: the lower triangle, without the diagonal where blocks are full.
        self.assertTrue(torch.equal(some, cut.any(-1).any(-1)))
        self.assertTrue(torch.equal(every, cut.all(-1).all(-1)))

    def test_padding_windows_masks_and_sequences(self):
        lengths = {"start": torch.tensor([3, 200]), "count": torch.tensor([300, 130])}
        bounds = torch.tensor([0, 100, 100, 290, 350])
        for left, right in ((None, None), (None, 0), (10, 0), (200, 5), (-3, 300), (None, -129)):
            for mask in (None, torch.rand(1, 2, 512, 1) < 0.002):
                padded = (self.tokens(400, -1, **lengths), self.tokens(390, -2, count=torch.tensor([390, 7])))
                packed = (self.tokens(350, -1, bounds=bounds, shift=torch.tensor([0, 1, -5, 300])),
                          self.tokens(350, -2, bounds=bounds))
                for queries, keys in (padded, packed):
                    cut = mask if mask is None else mask[:, :, : queries.sequence.shape[-1]]
                    self.check(_pairs.Pairs(queries, keys, left, right, cut))


if __name__ == "__main__":
    unittest.main()
