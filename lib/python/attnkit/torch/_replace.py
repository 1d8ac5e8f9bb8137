"""Attention of existing models under another scheme."""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .._errors import Warning, error_of
from ._masks import split
from ._multihead import multi_head_attention_forward
from ._plans import lock
from ._replacement import Replacement


Handler = Callable[..., Any]
"""A function of a replacement, and of the arguments of the function whose place it takes."""


class _Active(threading.local):
    """The replacements of a thread, the innermost last."""

    def __init__(self) -> None:
        self.replacements: List[Replacement] = []


_active = _Active()


def active() -> Optional[Replacement]:
    """The replacement that this thread is within."""
    return _active.replacements[-1] if _active.replacements else None


def _scaled_dot_product_attention(
    replacement: Replacement,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,  # heads that are grouped need no word here
) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention."""
    mask, bias = split(attn_mask)
    replacement.require_no_leak(mask, bias, is_causal)
    replacement.require_all_queries("scaled_dot_product_attention", query.shape[-2], key.shape[-2])
    return replacement.attend(
        query, key, value, mask=mask, bias=bias, causal=is_causal, factor=scale, dropout=dropout_p
    )[0]


_HANDLERS: Dict[str, Handler] = {
    "multi_head_attention_forward": multi_head_attention_forward,
    "scaled_dot_product_attention": _scaled_dot_product_attention,
}
"""What takes the place of functions of torch.nn.functional."""

_LAYERS = ("_native_multi_head_attention", "_transformer_encoder_layer_fwd")
"""Functions of torch that compute whole layers in inference."""


class _Patch:
    """Puts functions in the place of those of torch.nn.functional, while a thread is within a `replace`."""

    def __init__(self) -> None:
        self.originals: Dict[str, Any] = {}
        self._users = 0

    def enter(self) -> None:
        with lock:
            self._users += 1
            if self._users == 1:
                self.originals = {name: getattr(F, name) for name in _HANDLERS if hasattr(F, name)}
                for name, original in self.originals.items():
                    setattr(F, name, _replaceable(original, _HANDLERS[name]))

    def leave(self) -> None:
        with lock:
            self._users -= 1
            if self._users == 0:
                for name, original in self.originals.items():
                    setattr(F, name, original)


_patch = _Patch()


def _replaceable(original: Callable[..., Any], handler: Handler) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        replacement = active()
        return original(*args, **kwargs) if replacement is None else handler(replacement, *args, **kwargs)

    return function


class _Mode(TorchFunctionMode):
    """Replaces what `_Patch` does not reach.

    PyTorch's modules compute whole layers in one call only if no mode is active. The original functions
    come here if they were imported by name. In a backward pass, no mode is active, but the patch is.
    """

    def __init__(self, replacement: Replacement) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._replacement = replacement
        self._handlers = {original: _HANDLERS[name] for name, original in _patch.originals.items()}
        self._refused = {getattr(torch, name): name for name in _LAYERS if hasattr(torch, name)}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self._refused:
            raise error_of(2, f"torch.{self._refused[func]} computes attention that cannot be replaced")
        handler = self._handlers.get(func)
        if handler is None:
            return func(*args, **(kwargs or {}))
        return handler(self._replacement, *args, **(kwargs or {}))


@contextlib.contextmanager
def replace(
    scheme: str = "unas", *, allow_leak: bool = False, allow_cache: bool = False, **options: Any
) -> Iterator[None]:
    """Within the `with`, PyTorch's attention is computed under this scheme, with gradients.

    >>> with attnkit.torch.replace(scheme="dnas"):
    ...     loss = model(batch).sum()
    ...     loss.backward()

    This holds for nn.MultiheadAttention, and so for nn.TransformerEncoder and the like, in training and
    inference; for torch.nn.functional.scaled_dot_product_attention, where PyTorch has it; and for models
    of `transformers` with attn_implementation="attnkit" (see `register_transformers`) or "sdpa".
    It does not reach attention that a model writes out by itself, nor what torch.jit.script or
    torch.compile has made.

    options: those of `attention`, for all calls. Operands that fit all calls may be among them, such as
        hybrid (H), with gradients, and sink (H). Under fenchel and transport, the energy has no factor 1/√d by default.
    allow_leak: without it, a causal mask raises UsageError under a scheme that also normalises over
        queries, because the weights of a query would depend on later queries.
    allow_cache: a scheme such as dnas normalises over the queries at hand. With a cache of keys, these
        are only the last queries of the sequence, and the result is another. Without `allow_cache`, fewer
        queries than keys therefore raise UsageError. nn.MultiheadAttention tells caches from other
        sequences by its inputs; the functions cannot, so that they need it also for cross-attention.

    A query that may attend to no key has attention 0, where PyTorch may have NaN. Weights that
    nn.MultiheadAttention returns are those before dropout. If keys of a self-attention in
    nn.MultiheadAttention are padding, their queries are padding, too, and do not count in a
    normalisation over queries. The functions cannot know this: there, only the keys are padding.

    This concerns the calling thread alone, until the `with` ends, also by an exception. The innermost
    `with` counts. What is computed again in a backward pass, as by torch.utils.checkpoint, is replaced
    only if that pass is within the `with`, too. Warns if no attention was reached.
    """
    replacement = Replacement(scheme, allow_leak, allow_cache, options)
    _patch.enter()
    _active.replacements.append(replacement)
    try:
        with _Mode(replacement):
            yield
        if replacement.calls == 0:
            warnings.warn("replace() has reached no attention", Warning, stacklevel=3)
    finally:
        _active.replacements.pop()
        _patch.leave()
