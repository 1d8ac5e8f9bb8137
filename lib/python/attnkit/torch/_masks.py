"""Masks of PyTorch as masks and biases of attnkit."""

from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import Tensor

from .._recording.call import hides


_HIDES = -9984.0  # -1e4 in bfloat16


def split(mask: Optional[Tensor], *, true_hides: bool = False) -> Tuple[Optional[Tensor], Optional[Tensor]]:
    """(mask, bias) of a mask that is boolean, or added to the scores.

    In the result, true allows a pair. Numbers that are added hide a pair as `hides` says.
    """
    if mask is None:
        return None, None
    if not mask.is_floating_point():
        return (mask == 0 if true_hides else mask != 0), None
    hidden: Tensor = hides(mask)
    if not hidden.any():
        return None, mask
    bias = mask.masked_fill(hidden, 0)
    return ~hidden, bias if bias.requires_grad or bias.any() else None


def both(first: Optional[Tensor], second: Optional[Tensor]) -> Optional[Tensor]:
    """The pairs that both masks allow."""
    return second if first is None else first if second is None else first & second


def total(first: Optional[Tensor], second: Optional[Tensor]) -> Optional[Tensor]:
    """The sum of two biases."""
    return second if first is None else first if second is None else first + second


def allowed_by(mask: Optional[Tensor], bias: Optional[Tensor]) -> Optional[Tensor]:
    """The pairs that a mask, and a bias above what models write to hide a pair (-1e4 or less), allow."""
    seen = None if bias is None else bias > _HIDES
    return both(mask if mask is None else mask != 0, seen)


def hides_later_keys(allowed: Optional[Tensor]) -> bool:
    """Whether a mask (…, Lq, Lk) hides from each query the keys behind its place, which others see.

    With more keys than queries, the last query is at the place of the last key. Masks that open some
    later keys, as of a prefix, hide not all of them.
    """
    if allowed is None or allowed.dim() < 2:
        return False
    original = allowed
    queries, keys = allowed.shape[-2:]
    # Models open the rows of padding in causal masks to all keys.
    opened = allowed.all(-1, keepdim=True)
    opened[..., -1:, :] = False
    allowed = allowed & ~opened
    later = torch.ones(queries, keys, dtype=torch.bool, device=allowed.device).triu(max(0, keys - queries) + 1)
    seen = allowed.any(-2, keepdim=True)
    return not bool((allowed & later).any()) and bool((later & seen & ~original).any())
