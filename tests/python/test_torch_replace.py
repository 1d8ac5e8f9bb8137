"""attnkit.torch.replace: attention of PyTorch's modules under other schemes."""

import importlib
import math
import sys
import threading
import types
import unittest
import unittest.mock
import warnings
from concurrent.futures import ThreadPoolExecutor

import attnkit

try:
    import torch
except ImportError:
    torch = None
else:
    import torch.nn.functional as F
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    import attnkit.torch
    from attnkit.torch import attention, register_transformers, replace
    from attnkit.torch._masks import hides_later_keys
    from test_torch import plain_weights


def setUpModule():
    if torch is None:
        raise unittest.SkipTest("PyTorch is not installed")
    warnings.filterwarnings("ignore", "The PyTorch API of nested tensors")


def causal_mask(length):
    """As floats, −inf where a query may not attend."""
    return torch.full((length, length), -math.inf).triu(1)


def encoder(**options):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, **{"dropout": 0.0, "batch_first": True, **options})
    made = nn.TransformerEncoder(layer, 2)
    for parameter in made.parameters():  # the layers are copies
        nn.init.normal_(parameter, std=0.3)
    return made


def plain_encoder(model, x, weights_of):
    """The forward pass of `encoder`, written out with weights_of(scores)."""
    batch, length, width = x.shape
    for layer in model.layers:
        own = layer.self_attn
        q, k, v = (part.view(batch, length, 4, 4).transpose(1, 2)
                   for part in F.linear(x, own.in_proj_weight, own.in_proj_bias).chunk(3, -1))
        joined = (weights_of(q @ k.transpose(-1, -2) / 2) @ v).transpose(1, 2).reshape(batch, length, width)
        x = layer.norm1(x + own.out_proj(joined))
        x = layer.norm2(x + layer.linear2(F.relu(layer.linear1(x))))
    return x


class Replaced(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def check_same(self, module, *inputs, **arguments):
        """Outputs and gradients are those of PyTorch, to 1e-5 of the largest."""
        def compute():
            given = [x.detach().requires_grad_() for x in inputs]
            module.zero_grad()
            found = module(*given, **arguments)
            found = [x for x in (found if isinstance(found, tuple) else [found]) if x is not None]
            sum((x * torch.linspace(-1, 1, x.numel()).view_as(x)).sum() for x in found).backward()
            return found + [x.grad for x in (*given, *module.parameters()) if x.grad is not None]

        expected = compute()
        with replace(scheme="unas"):
            found = compute()
        self.assertEqual(len(found), len(expected))
        for one, other in zip(found, expected):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-5 * max(1, float(other.abs().max())))

    def refused(self, text, call, hint=None):
        with self.assertRaisesRegex(attnkit.UsageError, text) as raised:
            call()
        if hint is not None:
            self.assertIn(hint, raised.exception.hint)


class MultiheadAttention(Replaced):
    def test_every_way_to_ask_for_weights(self):
        x = torch.randn(3, 7, 16)
        for batch_first in (False, True):
            module = nn.MultiheadAttention(16, 4, batch_first=batch_first)
            for arguments in ({}, {"need_weights": False}, {"average_attn_weights": False}):
                self.check_same(module, x, torch.randn_like(x), torch.randn_like(x), **arguments)

    def test_without_a_batch(self):
        module = nn.MultiheadAttention(16, 4, batch_first=True, bias=False)
        x, y = torch.randn(5, 16), torch.randn(6, 16)
        padding = torch.tensor([False] * 4 + [True] * 2)
        for average in (True, False):
            self.check_same(module, x, y, y, key_padding_mask=padding, average_attn_weights=average)
        self.check_same(module, x, y, y, attn_mask=torch.rand(4, 5, 6) < 0.3)

    def test_masks(self):
        module = nn.MultiheadAttention(16, 4, batch_first=True)
        x, y, z = torch.randn(2, 5, 16), torch.randn(2, 7, 16), torch.randn(2, 7, 16)
        padding = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
        hidden = torch.rand(5, 7) < 0.3
        by_head = torch.rand(8, 5, 7) < 0.3
        hidden[:, 0] = by_head[..., 0] = False  # PyTorch has NaN for queries without keys
        least = torch.finfo(torch.float32).min
        for mask in (
            None, hidden, by_head, torch.randn(5, 7), torch.randn(8, 5, 7),
            torch.randn(5, 7).masked_fill(hidden, -math.inf), torch.zeros(5, 7).masked_fill(hidden, least),
        ):
            for real in (None, padding):
                self.check_same(module, x, y, z, attn_mask=mask, key_padding_mask=real)
        self.check_same(module, x, y, z, key_padding_mask=torch.zeros(2, 7).masked_fill(padding, -math.inf))

    def test_a_mask_may_be_learned(self):
        module = nn.MultiheadAttention(16, 4)
        x = torch.randn(5, 2, 16)
        for start in (torch.zeros(5, 5), torch.linspace(-1, 1, 25).view(5, 5)):
            gradients = []
            for context in (replace(), warnings.catch_warnings()):
                learned = start.clone().requires_grad_()
                with context:
                    out = module(x, x, x, attn_mask=learned + causal_mask(5))[0]
                    gradients += torch.autograd.grad(out.square().sum(), [learned])
            torch.testing.assert_close(*gradients, rtol=0, atol=1e-5)

    def test_keys_of_the_module_and_other_widths(self):
        x, y, z = torch.randn(2, 5, 16), torch.randn(2, 6, 8), torch.randn(2, 6, 4)
        padding = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
        for bias, zeros in ((True, False), (False, True), (True, True)):
            module = nn.MultiheadAttention(
                16, 4, batch_first=True, kdim=8, vdim=4, add_bias_kv=bias, add_zero_attn=zeros)
            if module.bias_k is not None:
                nn.init.normal_(module.bias_k)
            mask = torch.rand(5, 6) < 0.3
            self.check_same(
                module, x, y, z, key_padding_mask=padding, attn_mask=mask, average_attn_weights=False)

    def test_padding_of_a_self_attention_does_not_count(self):
        module = nn.MultiheadAttention(16, 4, batch_first=True)
        x = torch.randn(2, 7, 16)
        padding = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
        with replace(scheme="dnas"):
            out, weights = module(x, x, x, key_padding_mask=padding)
            alone, its_weights = module(x[1:, :4], x[1:, :4], x[1:, :4])
        torch.testing.assert_close(out[1:, :4], alone, rtol=0, atol=1e-6)
        torch.testing.assert_close(weights[1:, :4, :4], its_weights, rtol=0, atol=1e-6)

    def test_dropout_drops_in_training_alone(self):
        module = nn.MultiheadAttention(16, 4, dropout=0.5)
        x = torch.randn(5, 2, 16)
        with replace():
            self.assertFalse(torch.equal(module(x, x, x)[0], module(x, x, x)[0]))
            module.eval()
            self.assertTrue(torch.equal(module(x, x, x)[0], module(x, x, x)[0]))

    def test_static_keys_are_refused(self):
        x = torch.randn(5, 1, 4)
        given = x, x, x, 4, 1, torch.randn(12, 4), None, None, None, False, 0.0, torch.eye(4), None
        with replace():
            self.refused("static_k", lambda: F.multi_head_attention_forward(*given, static_k=x))


class Encoder(Replaced):
    def test_outputs_and_gradients_are_those_of_pytorch(self):
        x = torch.randn(3, 7, 16)
        padding = torch.tensor([[False] * 7, [False] * 5 + [True] * 2, [False] * 2 + [True] * 5])
        for options in ({}, {"norm_first": True}, {"batch_first": False}):
            model = encoder(**options)
            given = x if options.get("batch_first", True) else x.transpose(0, 1)
            self.check_same(model, given, src_key_padding_mask=padding)
            self.check_same(model, given, mask=causal_mask(7))

    def test_inference_is_replaced(self):
        """With its fast paths, which compute a whole layer in one call."""
        model, x = encoder(), torch.randn(3, 7, 16)
        padding = torch.tensor([[False] * 7, [False] * 5 + [True] * 2, [False] * 2 + [True] * 5])
        for arguments in ({}, {"src_key_padding_mask": padding}):
            real = ~arguments.get("src_key_padding_mask", torch.zeros(3, 7, dtype=torch.bool))
            with replace(scheme="dnas"):
                expected = model.train()(x, **arguments)[real].detach()
            model.eval()
            with torch.no_grad():
                fast = model(x, **arguments)[real]
                with replace(scheme="dnas"):
                    found = model(x, **arguments)[real]
                    of_layer = model.layers[1](model.layers[0](x, **arguments), **arguments)[real]
                with replace():
                    torch.testing.assert_close(model(x, **arguments)[real], fast, rtol=0, atol=1e-5)
            self.assertTrue(torch.equal(found, expected))
            self.assertTrue(torch.equal(of_layer, expected))
            self.assertGreater(float((found - fast).abs().max()), 0.01)

    def test_a_fast_path_that_is_called_is_refused(self):
        layer = encoder().layers[0].self_attn
        x = torch.randn(2, 5, 16)
        with replace(), torch.no_grad():
            self.refused("_native_multi_head_attention", lambda: torch._native_multi_head_attention(
                x, x, x, 16, 4, layer.in_proj_weight, layer.in_proj_bias, *layer.out_proj.parameters()))

    def train_both(self, replacing, weights_of, share=None):
        """The losses of 50 steps of both models; `share` is a logit that both learn."""
        x, target = torch.randn(4, 9, 16), torch.randn(4, 9, 16)
        losses = []
        for is_replaced in (True, False):
            model = encoder()
            logit = None if share is None else share.clone().requires_grad_()
            parameters = [*model.parameters(), *([] if logit is None else [logit])]
            optimizer = torch.optim.Adam(parameters, 0.01)
            losses.append([])
            for _ in range(50):
                optimizer.zero_grad()
                u = None if logit is None else torch.sigmoid(logit)
                if is_replaced:
                    with replace(**replacing, **({} if u is None else {"hybrid": u})):
                        out = model(x)
                else:
                    out = plain_encoder(model, x, lambda scores: weights_of(scores, u))
                loss = F.mse_loss(out, target)
                loss.backward()
                optimizer.step()
                losses[-1].append(loss.item())
            if logit is not None:
                self.assertGreater(float((logit.detach() - share).abs().max()), 0.01)
        self.assertLess(losses[0][-1], 0.8 * losses[0][0])
        torch.testing.assert_close(torch.tensor(losses[0]), torch.tensor(losses[1]), rtol=0, atol=1e-5)

    def test_training_under_dnas_follows_the_formula(self):
        self.train_both({"scheme": "dnas"}, lambda scores, _: plain_weights("dnas", scores))

    def test_training_under_hnas_learns_its_shares(self):
        self.train_both(
            {"scheme": "hnas"},
            lambda scores, u: plain_weights("hnas", scores, u=u[:, None, None]),
            share=torch.tensor([-1.0, 0.0, 0.5, 2.0]),
        )

    def test_what_a_backward_pass_computes_again_is_replaced(self):
        model, x = encoder(), torch.randn(2, 5, 16, requires_grad=True)
        gradients = []
        with replace(scheme="dnas"):
            for compute in (
                model,
                lambda y: checkpoint(model, y, use_reentrant=True),
                lambda y: checkpoint(model, y, use_reentrant=False),
            ):
                x.grad = None
                compute(x).square().sum().backward()
                gradients.append(x.grad)
        for gradient in gradients[1:]:
            self.assertTrue(torch.equal(gradient, gradients[0]))


    def test_autocast_gives_its_own_type(self):
        model, x = encoder().layers[0].self_attn, torch.randn(2, 5, 16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            expected = model(x, x, x)[0]
            with replace():
                found = model(x, x, x)[0]
        self.assertEqual(found.dtype, torch.bfloat16)
        # Both round to 8 bits several times.
        torch.testing.assert_close(found, expected, rtol=0, atol=0.03 * float(expected.abs().max()))


class Refusals(Replaced):
    def test_a_leak_must_be_allowed(self):
        model, x = encoder(), torch.randn(2, 5, 16)
        boolean = causal_mask(5) != 0
        by_head = boolean.expand(8, 5, 5)
        for scheme, options in (("dnas", {}), ("hnas", {"hybrid": 0.5}), ("sinkhorn", {"iterations": 2})):
            for mask in (causal_mask(5), boolean, by_head):
                with replace(scheme=scheme, **options):
                    self.refused("later tokens", lambda: model(x, mask=mask), "allow_leak=True")
                with replace(scheme=scheme, allow_leak=True, **options):
                    self.assertTrue(bool(model(x, mask=mask).isfinite().all()))
            entering = replace(scheme=scheme, causal=True, **options).__enter__
            self.refused("later tokens", entering, "allow_leak=True")
        with replace(scheme="unas"):
            model(x, mask=boolean)
        banded = (torch.arange(5)[:, None] - torch.arange(5)).abs() > 1
        with replace(scheme="dnas"):
            model(x, mask=banded)
            model(x, src_key_padding_mask=torch.tensor([[False] * 2 + [True] * 3] * 2))

    def test_masks_that_hide_later_keys(self):
        def below(queries, keys, diagonal=0):
            return torch.ones(queries, keys, dtype=torch.bool).tril(diagonal)

        prefix = below(4, 4)
        prefix[:2, :2] = True
        padding = torch.tensor([True, True, False, False])
        for mask, expected in (
            (below(2, 2), True), (below(5, 5), True), (below(3, 5, 2), True), (below(5, 3), True),
            (below(5, 5).triu(-1), True), (below(5, 5).expand(2, 1, 5, 5), True),
            (below(4, 4) & padding, True),
            (None, False), (padding, False), (below(1, 1), False), (below(1, 5, 4), False),
            (below(5, 5, 1), False), (prefix, False), (padding[None], False), (padding.expand(4, 4), False), (below(5, 5).T, False),
            (torch.stack([below(5, 5), below(5, 5, 1)]), False),
        ):
            self.assertEqual(hides_later_keys(mask), expected, mask)

    def test_a_causal_call_needs_its_mask(self):
        x = torch.randn(5, 1, 4)
        given = x, x, x, 4, 1, torch.randn(12, 4), None, None, None, False, 0.0, torch.eye(4), None
        with replace(scheme="dnas"):
            self.refused("without attn_mask", lambda: F.multi_head_attention_forward(*given, is_causal=True))
            self.refused("later tokens", lambda: F.multi_head_attention_forward(
                *given, attn_mask=torch.zeros(5, 5), is_causal=True))

    def test_keys_of_the_module_do_not_hide_a_leak(self):
        module = nn.MultiheadAttention(16, 4, add_bias_kv=True)
        x = torch.randn(5, 2, 16)
        with replace(scheme="dnas"):
            self.refused("later tokens", lambda: module(x, x, x, attn_mask=causal_mask(5)))

    def test_a_cache_must_be_allowed(self):
        module = nn.MultiheadAttention(16, 4, batch_first=True)
        x, y = torch.randn(2, 5, 16), torch.randn(2, 3, 16)
        with replace(scheme="dnas"):
            self.refused("cache", lambda: module(x[:, -1:], x, x), "allow_cache=True")
            module(y, x, x)
            module(x, y, y)
        with replace(scheme="dnas", allow_cache=True):
            module(x[:, -1:], x, x)
        with replace(scheme="unas"):
            module(x[:, -1:], x, x)

    def test_options_are_checked_on_entry(self):
        for arguments in ({"scheme": "dans"}, {"sclae": 2}, {"emit": "out"}, {"mask": torch.ones(2, 2)},
                          {"scheme": "hnas"}, {"scheme": "unas", "iterations": 2}):
            with self.subTest(arguments), self.assertRaises(attnkit.UsageError):
                replace(**arguments).__enter__()


class Scope(Replaced):
    def setUp(self):
        super().setUp()
        self.module = nn.MultiheadAttention(16, 4)
        self.x = torch.randn(5, 2, 16)

    def out(self):
        return self.module(self.x, self.x, self.x)[0]

    def test_replacements_nest_and_end(self):
        plain, original = self.out(), F.multi_head_attention_forward
        with replace(scheme="dnas"):
            outer = self.out()
            with replace(scheme="unas", scale=0.0):
                inner = self.out()
            self.assertTrue(torch.equal(self.out(), outer))
        self.assertIs(F.multi_head_attention_forward, original)
        self.assertTrue(torch.equal(self.out(), plain))
        with self.assertRaises(KeyError), replace(scheme="dnas"), replace(scheme="unas", scale=0.0):
            raise KeyError
        self.assertIs(F.multi_head_attention_forward, original)
        self.assertTrue(torch.equal(self.out(), plain))
        v = F.linear(self.x, self.module.in_proj_weight[32:], self.module.in_proj_bias[32:])
        mean = self.module.out_proj(v.mean(0)).expand(5, 2, 16)  # of scores that are all 0
        torch.testing.assert_close(inner, mean, rtol=0, atol=1e-6)
        self.assertGreater(float((outer - plain).abs().max()), 1e-3)

    def test_other_threads_are_not_concerned(self):
        plain, found = self.out(), []
        with replace(scheme="dnas"):
            thread = threading.Thread(target=lambda: found.append(self.out()))
            thread.start()
            thread.join()
        self.assertTrue(torch.equal(found[0], plain))


    def test_threads_have_their_own_replacements(self):
        def compute(index):
            with replace(scheme=("unas", "dnas")[index % 2], scale=1 + index):
                return [self.out() for _ in range(5)]

        original = F.multi_head_attention_forward
        alone = [compute(index) for index in range(12)]
        with ThreadPoolExecutor(6) as pool:
            together = list(pool.map(compute, range(12)))
        for one, other in zip(alone, together):
            for first, second in zip(one, other):
                self.assertTrue(torch.equal(first, second))
        self.assertIs(F.multi_head_attention_forward, original)


class ScaledDotProductAttention(Replaced):
    """PyTorch 2 has this function. Before, one in its place shows how its calls arrive."""

    def setUp(self):
        super().setUp()
        if not hasattr(F, "scaled_dot_product_attention"):
            F.scaled_dot_product_attention = dispatched
            self.addCleanup(delattr, F, "scaled_dot_product_attention")
        self.q, self.k, self.v = (torch.randn(2, 4, 6, 8) for _ in range(3))

    def call(self, *args, **kwargs):
        return F.scaled_dot_product_attention(*args, **kwargs)

    def test_arguments(self):
        q, k, v = self.q, self.k, self.v
        mask = torch.rand(2, 1, 6, 6) < 0.7
        bias = torch.randn(6, 6)
        below = torch.ones(6, 6, dtype=torch.bool).tril()
        scores = q @ k.transpose(-1, -2) / 8**0.5
        with replace():
            for found, weights in (
                (self.call(q, k, v), plain_weights("unas", scores)),
                (self.call(q, k, v, mask), plain_weights("unas", scores, mask)),
                (self.call(q, k, v, attn_mask=bias), plain_weights("unas", scores + bias)),
                (self.call(q, k, v, None, 0.0, True), plain_weights("unas", scores, below)),
                (self.call(q, k, v, scale=0.3), plain_weights("unas", scores * (0.3 * 8**0.5))),
            ):
                torch.testing.assert_close(found, weights @ v, rtol=0, atol=1e-5)
        original = F.scaled_dot_product_attention
        with replace(scheme="dnas"):
            expected = plain_weights("dnas", scores) @ v
            for function in (self.call, original):
                torch.testing.assert_close(function(q, k, v), expected, rtol=0, atol=1e-5)
        with replace():
            dropped = [self.call(q, k, v, dropout_p=0.5) for _ in range(2)]
            grouped = self.call(q, k[:, :2], v[:, :2], enable_gqa=True)
        self.assertFalse(torch.equal(*dropped))
        repeated = attention(q, *(x[:, :2].repeat_interleave(2, 1) for x in (k, v)))
        torch.testing.assert_close(grouped, repeated, rtol=0, atol=1e-6)

    def test_refusals(self):
        q, k, v = self.q, self.k, self.v
        below = torch.ones(6, 6, dtype=torch.bool).tril()
        padded = below.expand(2, 1, 6, 6).clone()
        padded[0, :, :, :2] = False
        padded[0, :, :2] = True  # as models open rows of padding
        with replace(scheme="dnas"):
            self.refused("later tokens", lambda: self.call(q, k, v, is_causal=True), "allow_leak=True")
            self.refused("later tokens", lambda: self.call(q, k, v, below), "allow_leak=True")
            self.refused("later tokens", lambda: self.call(q, k, v, padded), "allow_leak=True")
            self.refused("cache", lambda: self.call(q[:, :, -1:], k, v), "allow_cache=True")
        with replace(scheme="dnas", allow_leak=True, allow_cache=True):
            self.call(q, k, v, below)
            self.call(q[:, :, -1:], k, v)

    def test_masks_that_hide_nothing_or_are_finite(self):
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        x = torch.randn(2, 6, 16)
        later = torch.ones(6, 6, dtype=torch.bool).triu(1)
        with replace(scheme="dnas"):
            layer(x, torch.zeros(6, 6, dtype=torch.bool))
            for lowest in (-1e9, -1e4, float("-inf")):
                self.refused("later tokens", lambda: layer(x, torch.zeros(6, 6).masked_fill(later, lowest)),
                             "allow_leak=True")
            with self.assertRaisesRegex(attnkit.InputError, "an axis is empty"):
                layer(x[:0])

    def test_says_that_it_reached_nothing(self):
        with self.assertWarnsRegex(attnkit.Warning, "has reached no attention"):
            with replace(scheme="dnas"):
                torch.ones(3).softmax(0)


def dispatched(*args, **kwargs):
    """A function of PyTorch that is replaced, or fails."""
    return torch.overrides.handle_torch_function(dispatched, args[:3], *args, **kwargs)


class Registry(dict):
    def register(self, name, function):
        self[name] = function


class Transformers(Replaced):
    """The library is large; a module in its place has what is used of it."""

    def setUp(self):
        super().setUp()
        modeling, masking = types.ModuleType("modeling_utils"), types.ModuleType("masking_utils")
        modeling.ALL_ATTENTION_FUNCTIONS = Registry()
        masking.ALL_MASK_ATTENTION_FUNCTIONS = Registry()
        masking.eager_mask = object()
        library = unittest.mock.patch.dict(sys.modules, {
            "transformers": types.ModuleType("transformers"),
            "transformers.modeling_utils": modeling,
            "transformers.masking_utils": masking,
        })
        library.start()
        self.addCleanup(library.stop)
        register_transformers()
        self.assertIs(masking.ALL_MASK_ATTENTION_FUNCTIONS["attnkit"], masking.eager_mask)
        self.function = modeling.ALL_ATTENTION_FUNCTIONS["attnkit"]
        self.q, self.k, self.v = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8)
        self.layer = nn.Module()
        self.layer.is_causal = False

    def test_the_scheme_is_that_of_the_replacement(self):
        mask = torch.zeros(2, 1, 6, 9)
        mask[0, ..., 4:] = torch.finfo(torch.float32).min
        sinks = torch.randn(4)
        k, v = (x.repeat_interleave(2, 1) for x in (self.k, self.v))
        scores = 0.4 * self.q @ k.transpose(-1, -2)
        allowed = mask[..., :6] == 0
        for scheme in ("unas", "dnas"):
            with replace(scheme=scheme):
                out, weights = self.function(
                    self.layer, self.q, self.k, self.v, mask, scaling=0.4, s_aux=sinks,
                    output_attentions=True, sliding_window=None)
            expected = plain_weights(scheme, scores, allowed, sink=sinks)
            torch.testing.assert_close(weights, expected, rtol=0, atol=1e-5)
            torch.testing.assert_close(out, (expected @ v).transpose(1, 2), rtol=0, atol=1e-5)
        alone, none = self.function(self.layer, self.q, self.k, self.v, None)
        self.assertIsNone(none)
        torch.testing.assert_close(alone, attention(self.q, self.k, self.v).transpose(1, 2), rtol=0, atol=0)

    def test_refusals(self):
        given = self.layer, self.q, self.k, self.v
        mask = torch.full((6, 6), torch.finfo(torch.float32).min).triu(1)
        self.layer.is_causal = True
        with replace(scheme="dnas"):
            self.refused("later tokens", lambda: self.function(*given, None), "allow_leak=True")
            self.refused("later tokens", lambda: self.function(*given, mask), "allow_leak=True")
            last = self.layer, self.q[:, :, -1:], self.k, self.v
            self.refused("cache", lambda: self.function(*last, None), "allow_cache=True")
        self.refused("head_mask", lambda: self.function(*given, None, head_mask=torch.ones(4)))

    def test_importing_registers_if_its_models_are_there(self):
        modeling = sys.modules["transformers.modeling_utils"]
        del modeling.ALL_ATTENTION_FUNCTIONS["attnkit"]
        importlib.reload(attnkit.torch)
        self.assertIs(modeling.ALL_ATTENTION_FUNCTIONS["attnkit"], self.function)
        sys.modules["transformers.masking_utils"] = None
        importlib.reload(attnkit.torch)  # an older version

    def test_it_must_be_installed(self):
        sys.modules["transformers.masking_utils"] = None
        self.refused("4.53", register_transformers)


if __name__ == "__main__":
    unittest.main()
