"""One call of attention, whatever computed it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Optional, Tuple

import torch


@dataclass
class Call:
    """The operands of attention: softmax of capped(scale·⟨q,k⟩) + bias over the allowed keys, and
    the sink, times v. Tensors are those of the model."""

    q: Any  # (…, Lq, d), usually (B, H, Lq, d)
    k: Any
    v: Any
    scale: Optional[float] = None  # None: 1/√d
    allowed: Any = None  # boolean, broadcastable to (…, Lq, Lk); None: everything
    bias: Any = None  # broadcastable to (…, Lq, Lk)
    real_keys: Any = None  # boolean (B, Lk): false is padding
    causal: str = "none"  # or top-left, bottom-right
    window: Optional[int] = None  # |i − j| < window
    window_hint: Optional[int] = None  # a window that `allowed` already has, if it has effect
    softcap: Optional[float] = None
    sink: Any = None  # (H)
    rel_bias: Any = None  # (buckets, H): T5's table, in place of bias
    dropout: float = 0.0
    of_itself: Optional[bool] = None  # queries and keys are the same sequence; None: unknown
    # x, y, wq, … by name; before they are asked for, a function that gets a function to
    # tell what is amiss, or None.
    inputs: Any = None
    # What the model made of it, by rows: (…, Lq, dv), or after `join` (B, Lq, D).
    out: Any = None
    join: Any = None  # the projection after the heads

    @property
    def factor(self) -> float:
        """What multiplies the dot products."""
        return float(self.q.shape[-1] ** -0.5 if self.scale is None else self.scale)

    def keep_heads(self, heads: Iterable[int]) -> None:
        """Leaves only these query heads. Keys and values of a grouped model are left for the heads
        that need them."""
        count, groups = self.q.shape[-3], self.q.shape[-3] // self.k.shape[-3]
        every = torch.arange(count)[list(heads)]

        def of(tensor: Any, axis: int, chosen: Any) -> Any:
            if tensor is None or tensor.dim() < -axis or tensor.shape[axis] == 1:
                return tensor
            return tensor.index_select(axis, chosen.to(tensor.device))

        keys = every // groups
        unique, counts = torch.unique_consecutive(keys, return_counts=True)
        if len(torch.unique(counts)) == 1:
            keys = unique  # still the same number of query heads for each key head
        self.q = of(self.q, -3, every)
        self.k, self.v = of(self.k, -3, keys), of(self.v, -3, keys)
        self.allowed, self.bias = of(self.allowed, -3, every), of(self.bias, -3, every)
        self.sink, self.rel_bias = of(self.sink, -1, every), of(self.rel_bias, -1, every)
        for name, tensor in self.inputs.items():
            if name[0] in "wb":
                axis = 0 if tensor.dim() == 2 else -3
                self.inputs[name] = of(tensor, axis - tensor.dim() if axis == 0 else axis,
                                       every if name[1] == "q" else keys)
        if self.join is None and self.out is not None:
            self.out = of(self.out, -3, every)
        else:
            self.out = None  # after the projection, the heads cannot be told apart

    def joining(self) -> Dict[str, Any]:
        """wo and bo by name, if the projection after the heads is a linear module."""
        weight, bias = (getattr(self.join, name, None) for name in ("weight", "bias"))
        if weight is None or weight.dim() != 2:
            return {}
        return {"wo": weight.T, **({} if bias is None else {"bo": bias})}


def hides(mask: Any) -> Any:
    """Where a mask that is added to scores hides a pair: from half of the least number of its type on.
    Models write −inf or the least number there."""
    return mask <= torch.finfo(mask.dtype).min / 2


def split_mask(mask: Any) -> Tuple[Any, Any]:
    """(allowed, bias) of a tensor that is added to scores or, if boolean, says what may attend.
    What is added counts as "may not" as hides() says."""
    if mask is None:
        return None, None
    if not mask.is_floating_point():
        return mask.bool(), None
    shut = hides(mask)
    if not shut.any():
        return None, mask if mask.any() else None
    if bool(((mask == 0) | shut).all()):
        return ~shut, None
    return ~shut, mask.masked_fill(shut, 0)


def both(first: Any, second: Any, join: Callable[[Any, Any], Any]) -> Any:
    """Joins two tensors, each of which may be None."""
    if first is None or second is None:
        return second if first is None else first
    return join(first, second)
