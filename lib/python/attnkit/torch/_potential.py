"""A pass whose potential has a gradient.

A potential is subtracted from the scores: s'_ij = s_ij − g_j. With w_ij = exp(s'_ij − f_i), f the LSE and
D_i = ⟨dL/dout_i, out_i⟩, the chain rule says

    dL/dg_j = −Σ_i dL/ds'_ij = Σ_i w_ij (D_i − dL/df_i) − ⟨v_j, dL/dv_j⟩

The first sum takes a pass from keys to queries. flex_attention would instead add a number to the gradient for each
pair, in an order that differs from run to run.
"""

from __future__ import annotations

import math
from typing import Any, Tuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._flex import Pass, Term, run


def finite(potential: Tensor) -> Tensor:
    """A potential with 0 where no pair is allowed: nothing is subtracted from scores that count for nothing."""
    return potential.masked_fill(potential == -math.inf, 0)


def run_with_potential(one: Pass, potential: Tensor) -> Tuple[Tensor, Tensor]:
    """`run` of a pass without a term, with a potential (B, H, Lk) of its keys, which has a gradient."""
    one = one._replace(term=Term(potential.detach()))
    if not (torch.is_grad_enabled() and potential.requires_grad):
        return run(one)
    out, lse = run(one._replace(v=_Values.apply(one.v, potential)))
    made: Tuple[Tensor, Tensor] = _Results.apply(one, out, lse, potential)
    return made


class _Values(torch.autograd.Function):
    """The values, whose gradient is a part of the potential's."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, potential: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(v)
        return v.view_as(v)

    @staticmethod
    @once_differentiable  # type: ignore[misc]
    def backward(ctx: Any, grad: Tensor) -> Any:
        (v,) = ctx.saved_tensors
        return grad, -(v.float() * grad.float()).sum(-1)


class _Results(torch.autograd.Function):
    """The results, whose gradients are the other part."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, one: Pass, out: Tensor, lse: Tensor, potential: Tensor
    ) -> Tuple[Tensor, Tensor]:
        ctx.one = one._replace(q=None, k=None, v=None, bias=None, term=None)  # type: ignore[arg-type]
        ctx.save_for_backward(one.q, one.k, one.bias, out, lse, potential)
        return out.view_as(out), lse.view_as(lse)

    @staticmethod
    @once_differentiable  # type: ignore[misc]
    def backward(ctx: Any, grad_out: Tensor, grad_lse: Tensor) -> Any:
        q, k, bias, out, lse, potential = ctx.saved_tensors
        x = (grad_out.float() * out.float()).sum(-1) - grad_lse
        values = torch.nn.functional.pad(x[..., None], (0, 15)).to(q.dtype)
        one: Pass = ctx.one._replace(q=k, k=q, v=values, bias=bias, term=Term(finite(lse)))
        mean, logs = run(one._replace(swapped=not one.swapped))
        return None, grad_out, grad_lse, mean[..., 0].float() * torch.exp(logs - potential)
