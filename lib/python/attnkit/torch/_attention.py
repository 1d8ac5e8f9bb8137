"""Attention of tensors, with gradients."""

from __future__ import annotations

import importlib
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor

from .._errors import NotConverged, error_of
from .._functions import depth_of_caller
from ._operands import INTEGERS, NUMBERS, arrays_of, checked
from ._plans import Words, plan_for, require_options, words_of

class Dropout(NamedTuple):
    """Dropout of weights. The same seed drops the same weights of problems of the same shape."""

    rate: float
    seed: int


class _Call(NamedTuple):
    """How tensors become attention: the options, and the names of the tensors."""

    words: Words
    names: Tuple[str, ...]
    dropout: Dropout


class _Attention(torch.autograd.Function):
    """out, the weights or None, and whether all problems converged."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, plan: Any, call: _Call, *tensors: Tensor
    ) -> Tuple[Tensor, Optional[Tensor], bool]:
        results, converged = _run(plan, call, dict(zip(call.names, tensors)))
        weights = results.pop("weights", None)
        ctx.call = call
        ctx.results = tuple(results) if plan.reuses_results else ()
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *(results[name] for name in ctx.results))
        return results["out"], weights, converged

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, grad_out: Optional[Tensor], grad_weights: Optional[Tensor], _: None
    ) -> Any:
        if torch.is_grad_enabled():
            raise error_of(2, "gradients of attention() have no gradients", "create_graph=False")
        call: _Call = ctx.call
        count = len(call.names)
        operands = dict(zip(call.names, ctx.saved_tensors))
        wanted = [name for name, needs in zip(call.names, ctx.needs_input_grad[2:]) if needs]
        by_out, by_weights = {}, {}
        if grad_out is not None:
            results = dict(zip(ctx.results, ctx.saved_tensors[count:]))
            by_out = _gradients(call, operands, grad_out, wanted, results)
        if grad_weights is not None:
            by_weights = _gradients_by_weights(call, operands, grad_weights, wanted)
        sums = {name: by_out[name] + by_weights[name] for name in by_out.keys() & by_weights.keys()}
        found = {**by_out, **by_weights, **sums}
        return (None, None, *(_as(operands[name], found.get(name)) for name in call.names))


def _as(operand: Tensor, gradient: Optional[Tensor]) -> Optional[Tensor]:
    return None if gradient is None else gradient.to(operand.dtype)


def _run(plan: Any, call: _Call, operands: Dict[str, Tensor]) -> Tuple[Dict[str, Tensor], bool]:
    plan.set_dropout(*call.dropout, 0)
    results, converged = plan.run(arrays_of(operands), {})
    return {name: torch.from_numpy(array) for name, array in results.items()}, converged


def _gradients(
    call: _Call, operands: Dict[str, Tensor], upstream: Tensor, wanted: List[str], results: Dict[str, Tensor]
) -> Dict[str, Tensor]:
    arrays = arrays_of(operands)
    with plan_for(call.words, arrays) as plan:
        plan.set_dropout(*call.dropout, 0)
        found = plan.gradients(arrays, upstream.numpy(), wanted, arrays_of(results) if results else None)
    return {name: torch.from_numpy(array) for name, array in found.items()}


def _gradients_by_weights(
    call: _Call, operands: Dict[str, Tensor], upstream: Tensor, wanted: List[str]
) -> Dict[str, Tensor]:
    """The gradients of a loss, from its gradient `upstream` by the weights before dropout.

    With the identity matrix as values, out is the weights.
    """
    scored = {name: operand for name, operand in operands.items() if name not in ("v", "gate")}
    identity = torch.eye(operands["k"].shape[-2], dtype=upstream.dtype, device="cpu")
    plain = call._replace(dropout=Dropout(0.0, 0))
    of_scores = [name for name in wanted if name in scored]
    return _gradients(plain, {**scored, "v": identity}, upstream, of_scores, {})


def attend(
    operands: Dict[str, Any],
    options: Dict[str, Any],
    *,
    dropout: float = 0.0,
    seed: Optional[int] = None,
    weights: bool = False,
    warns: bool = True,
) -> Tuple[Tensor, Optional[Tensor]]:
    """`attention`, and with `weights` the weights (…, Lq, Lk) before dropout, with gradients.

    If a loss depends on these weights, its gradients take O(Lq·Lk·(d + Lk)) operations. With `warns`,
    a new plan warns of what `attnkit.attention` would warn of.
    """
    if torch.jit.is_tracing():  # type: ignore[attr-defined]
        raise error_of(2, "attention() is computed outside of PyTorch and cannot be traced or exported")
    require_options("attention", options)
    options, operands = _with_numbers(options, operands)
    if _is_on_gpu(operands["q"]):
        return _gpu().attend(operands, options, dropout, weights, warns), None
    options = {"threads": torch.get_num_threads(), **options}
    tensors = checked(operands, options.get("precision"))
    differentiates = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors.values())
    if weights:
        options["emit"] = ["out", "weights", *(("row_potential", "col_potential") if differentiates else ())]
    elif not differentiates:
        options["emit"] = "out"
    call = _Call(words_of(options), tuple(tensors), _dropout(dropout, seed))
    with plan_for(call.words, arrays_of(tensors), warns) as plan:
        if differentiates:
            out, made, converged = _Attention.apply(plan, call, *tensors.values())
        else:
            results, converged = _run(plan, call, tensors)
            out, made = results["out"], results.get("weights")
    if not converged:
        line = "attention() did not converge: allow more iterations, or a larger tolerance"
        warnings.warn(line, NotConverged, stacklevel=depth_of_caller())
    dtype = operands["q"].dtype
    return out.to(dtype), None if made is None else made.to(dtype)


def _with_numbers(options: Dict[str, Any], operands: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Options and operands, where numbers in the place of tensors are options."""
    numbers = {name: operands[name] for name in ("hybrid", "query_offset")
               if isinstance(operands.get(name), (int, float))}
    return {**options, **numbers}, {name: value for name, value in operands.items() if name not in numbers}


def _is_on_gpu(q: Any) -> bool:
    return isinstance(q, Tensor) and q.device.type == "cuda"


def _gpu() -> Any:
    # It loads PyTorch's compiler, which takes a second.
    return importlib.import_module("attnkit.torch._gpu")


def _dropout(rate: float, seed: Optional[int]) -> Dropout:
    if not 0 <= rate < 1:
        raise error_of(2, f"dropout is {rate}, expected 0 <= dropout < 1")
    if rate == 0:
        return Dropout(0.0, 0)
    if seed is None:
        seed = int(torch.randint(2**63 - 1, (), device="cpu"))
    if not 0 <= seed < 2**64:
        raise error_of(2, f"seed is {seed}, expected 0 <= seed < 2**64")
    return Dropout(rate, seed)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scheme: str = "unas",
    mask: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    sink: Optional[Tensor] = None,
    gate: Optional[Tensor] = None,
    preference: Optional[Tensor] = None,
    cost: Optional[Tensor] = None,
    hybrid: Union[float, Tensor, None] = None,
    rel_bias: Optional[Tensor] = None,
    query_length: Optional[Tensor] = None,
    key_length: Optional[Tensor] = None,
    query_start: Optional[Tensor] = None,
    key_start: Optional[Tensor] = None,
    query_offset: Union[int, Tensor, None] = None,
    cu_seqlens_q: Optional[Tensor] = None,
    cu_seqlens_k: Optional[Tensor] = None,
    w: Optional[Tensor] = None,
    w1: Optional[Tensor] = None,
    w2: Optional[Tensor] = None,
    b1: Optional[Tensor] = None,
    dropout: float = 0.0,
    seed: Optional[int] = None,
    **options: Any,
) -> Tensor:
    """The output (…, Lq, dv) of attention with q (…, Lq, d), k (…, Lk, d) and v (…, Lk, dv).

    Operands, options and formulas are those of `attnkit.attention`. The options are energy, scale,
    softcap, causal, window, relative_bias, alpha, gamma, iterations, tolerance, estimate, min_variance,
    precision and threads, which is `torch.get_num_threads()` by default. A query may attend to a key
    where the mask is true. A query that may attend to no key has the output 0.

    All operands of floating-point numbers have gradients. Gradients are exact and take O(L·d) memory,
    under transport O(Lk²). They cannot be differentiated again.

    Numbers are computed in float64 if an operand is float64, else in float32; float16 and bfloat16
    are converted to float32. The output has the type of q. Tensors in the memory of the CPU are used
    where they lie, also with strides, such as q.transpose(1, 2).

    On a GPU, there are the schemes unas, dnas, hnas and sinkhorn (with iterations), and the energies dot
    and scaled-dot. Numbers may be float32, float16 or bfloat16; scores and sums are float32. There is no
    dropout. PyTorch's flex_attention computes, which is compiled once for each configuration.

    With dropout > 0, each weight is dropped with this probability, and the others are divided by
    1 − dropout. `seed` and the shapes decide which; without a seed, PyTorch's generator draws one.

    Plans (`attnkit.AttentionPlan`) are kept for later calls with the same shapes, types and options:
    at most 16 that no call uses. Each keeps working memory of O(L·d) for each of its threads.
    Calls from several threads do not wait for each other.

    Raises InputError for tensors of unfit types or shapes, on several devices, or, on the CPU, with numbers
    that are not finite (but bias and gate may be -inf), UsageError for options that do not fit, and
    NumericalError for scores or gradients beyond the range of the type. Warns once for each plan, as
    `attnkit.attention` does, and if sinkhorn does not converge.
    """
    operands = {
        "q": q, "k": k, "v": v, "mask": mask, "bias": bias, "sink": sink, "gate": gate,
        "preference": preference, "cost": cost, "hybrid": hybrid, "rel_bias": rel_bias,
        "query_length": query_length, "key_length": key_length,
        "query_start": query_start, "key_start": key_start, "query_offset": query_offset,
        "cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k, "w": w, "w1": w1, "w2": w2, "b1": b1,
    }
    return attend(operands, {"scheme": scheme, **options}, dropout=dropout, seed=seed)[0]


class Sums(NamedTuple):
    """Sums over the weights of attention, without gradients."""

    col_sum: Tensor
    """The attention c_j that each key receives, (…, Lk)."""
    row_entropy: Tensor
    """The entropy of each query's weights in nats, (…, Lq)."""


def sums(q: Tensor, k: Tensor, *, scheme: str = "unas", **arguments: Any) -> Sums:
    """The column sums and the entropies of the weights, which are not made: this takes O(L·d) memory.

    >>> attnkit.torch.sums(q, k, scheme="dnas").col_sum.amin(-1)

    `arguments` are operands and options of `attention`, but v, gate and dropout. The results are in the type of the
    computation, and where q is. Raises what `attention` raises.
    """
    operands = {name: value for name, value in arguments.items() if name in NUMBERS + INTEGERS and name != "v"}
    options = {name: value for name, value in arguments.items() if name not in operands}
    options, operands = _with_numbers({"scheme": scheme, **options}, {"q": q, "k": k, **operands})
    if _is_on_gpu(q):
        return Sums(*_gpu().sums(operands, options))
    require_options("sums", options)
    options = {"threads": torch.get_num_threads(), **options, "emit": ["col_sum", "row_entropy"]}
    tensors = checked(operands, options.get("precision"))
    with plan_for(words_of(options), arrays_of(tensors)) as plan:
        found, _ = plan.run(arrays_of(tensors), {})
    return Sums(*(torch.from_numpy(found[name]) for name in Sums._fields))
