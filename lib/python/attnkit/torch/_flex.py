"""One pass over all scores as a call of PyTorch's flex_attention, which is compiled for the GPU."""

from __future__ import annotations

import contextlib
import importlib
import math
import types
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Tuple, TypeVar

import torch
from torch import Tensor

from .._errors import error_of
from ._pairs import BLOCK, Pairs, allowed_in, at

_Function = TypeVar("_Function", bound=Callable[..., Any])
Modified = Callable[[Tensor, Any, Any, Any, Any], Tensor]


class Term(NamedTuple):
    """Numbers (B, H, Lk) of the keys of a pass and (B, H, Lq) of its queries, in float32."""

    of_key: Optional[Tensor]
    of_query: Optional[Tensor] = None
    also_of_query: Optional[Tensor] = None
    """With of_query: the logarithms of weights are s_ij + log(exp(of_query_i − of_key_j) + exp(also_i)), and the
    LSE becomes the logarithm of their entropy. Without of_query: s_ij − of_key_j."""


class Pass(NamedTuple):
    """Softmax over the keys of the scores s_ij = softcap(scale ⟨q_i, k_j⟩) + bias_ij, which `term` may change, for
    tensors q, k (B, H, L, d) and v (B, H, Lk, dv) whose lengths are multiples of BLOCK.

    With `swapped`, q are the keys and k the queries of the problem, whose bias and pairs have the queries first.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    scale: float
    softcap: Optional[float]
    bias: Optional[Tensor]
    """Broadcasts to (B, H, queries, keys)."""
    term: Optional[Term]
    pairs: Optional[Pairs]
    """None: all pairs are allowed."""
    swapped: bool


def score_mod(softcap: Optional[float], bias: Optional[Tensor], term: Any, swapped: bool) -> Optional[Modified]:
    """What a pass does to scale ⟨q_i, k_j⟩; None: nothing. `term` is a Term, or its parts."""
    if softcap is None and bias is None and term is None:
        return None
    of_key, of_query, also_of_query = term or (None, None, None)

    def modified(score: Tensor, b: Any, h: Any, i: Any, j: Any) -> Tensor:
        if softcap is not None:
            score = softcap * torch.tanh(score / softcap)
        if bias is not None:
            score = score + (at(bias, b, h, j, i) if swapped else at(bias, b, h, i, j))
        if of_query is None:
            return score if of_key is None else torch.sub(score, of_key[b, h, j])
        added = of_query[b, h, i]
        if of_key is not None:
            added = added - of_key[b, h, j]
        if also_of_query is not None:
            added = torch.logaddexp(added, also_of_query[b, h, i])
        # All terms −w log w of an entropy are positive, and w log w is 0 for w = 0 and 1.
        log_weight = score + added
        inner = (log_weight < 0) & (log_weight > -math.inf)
        return torch.where(inner, log_weight + torch.log(torch.where(inner, -log_weight, 1.0)), -math.inf)

    return modified


def _traced(flex: Any, request: Any, q: Tensor, k: Tensor, v: Tensor, scale: float, softcap: Optional[float],
            bias: Optional[Tensor], term: Any, block_mask: Any, swapped: bool) -> Any:
    # Without compilation flex_attention makes all scores at once, without a warning. While this function is
    # compiled, the condition is a constant, and no part of what runs.
    if not torch.compiler.is_compiling():  # type: ignore[attr-defined]
        raise error_of(2, "PyTorch runs flex_attention without compiling it, which makes all Lq x Lk scores",
                       "is torch.compile switched off (TORCHDYNAMO_DISABLE), or a TorchDispatchMode active?")
    modified = score_mod(softcap, bias, term, swapped)
    if request is None:  # before PyTorch 2.9
        return flex(q, k, v, score_mod=modified, block_mask=block_mask, scale=scale, return_lse=True)
    out, made = flex(q, k, v, score_mod=modified, block_mask=block_mask, scale=scale, return_aux=request)
    return out, made.lse


def _library() -> Any:
    return importlib.import_module("torch.nn.attention.flex_attention")


def require() -> None:
    """Raises UsageError if this PyTorch has no flex_attention."""
    try:
        _library()
    except ImportError:
        raise error_of(2, f"attention of tensors on a GPU needs PyTorch 2.7 or later; this is {torch.__version__}",
                       "q.cpu()") from None


def not_compiled(function: _Function) -> _Function:
    """A function that a model's torch.compile leaves as it is: it compiles its passes itself."""
    compiler = getattr(torch, "compiler", None)  # from PyTorch 2.1
    return function if compiler is None else compiler.disable(function)  # type: ignore[no-any-return]


_compiled: Dict[Any, Callable[..., Any]] = {}


@not_compiled
def run(one: Pass) -> Tuple[Tensor, Tensor]:
    """(out (B, H, Lq, dv), LSE (B, H, Lq) in float32) of a pass; 0 and −∞ where no pair is allowed.

    A pass is compiled once for each configuration.
    """
    library = _library()
    request = library.AuxRequest(lse=True) if hasattr(library, "AuxRequest") else None
    tensors = (one.q, one.k, one.v, one.bias, *(one.term or ()))
    layouts = tuple(None if x is None else (x.dtype, x.device, x.shape, x.stride(), x.requires_grad) for x in tensors)
    allowed = None if one.pairs is None else one.pairs.layout
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    key = (layouts, one.scale, one.softcap, allowed, one.swapped, modes)
    compiled = _compiled.get(key)
    if compiled is None:
        # PyTorch counts the variants of each code object, and stops compiling at a limit.
        code = _traced.__code__.replace(co_name=f"attnkit_pass_{len(_compiled)}")
        own = types.FunctionType(code, globals())
        compiled = _compiled[key] = torch.compile(own, dynamic=False, fullgraph=True)  # type: ignore[attr-defined]
    term = None if one.term is None else tuple(one.term)
    with _plain_state(one.q.device.type):
        mask = None if one.pairs is None else _block_mask(one.pairs, one.swapped)
        out, lse = compiled(library.flex_attention, request, one.q, one.k, one.v, one.scale, one.softcap, one.bias,
                            term, mask, one.swapped)
    return out, lse


@contextlib.contextmanager
def _plain_state(device: str) -> Iterator[None]:
    """Without what would change a compiled pass, or keep it from being compiled."""
    with contextlib.ExitStack() as stack:
        # `replace` watches functions of PyTorch, and its function cannot be compiled.
        for _ in range(torch._C._len_torch_function_stack()):
            stack.enter_context(torch.overrides._pop_mode_temporarily())
        stack.enter_context(torch.amp.autocast_mode.autocast(device, enabled=False))
        yield


def _block_mask(pairs: Pairs, swapped: bool) -> Any:
    """The pairs as flex_attention takes them: blocks with some and with all pairs, and a function for the rest."""
    some, every = pairs.blocks()
    if swapped:
        some, every = some.transpose(-1, -2), every.transpose(-1, -2)
    numbers = []
    for chosen in (some & ~every, every):
        order = torch.argsort(chosen.int(), dim=-1, descending=True, stable=True)
        # The kernels take lists without gaps.
        numbers += [chosen.sum(-1).int().contiguous(), order.int().contiguous()]
    return _library().BlockMask.from_kv_blocks(*numbers, BLOCK_SIZE=BLOCK, mask_mod=allowed_in(pairs, swapped))
