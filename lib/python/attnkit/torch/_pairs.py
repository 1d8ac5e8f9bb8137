"""Which pairs of a query and a key are allowed, in O(L) memory, and in which blocks of the scores they lie."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

BLOCK = 128
"""Queries and keys of a block: what flex_attention skips as a whole."""

FAR = 1 << 29
"""Beyond all positions. Differences of positions are 32-bit integers, too."""


def at(tensor: Tensor, *places: Any) -> Tensor:
    """The numbers at the places, one for each axis. An axis of 1 has the same number everywhere."""
    index = []
    for axis, place in enumerate(places):
        index.append(place if tensor.shape[axis] > 1 else place * 0)
    return tensor[tuple(index)]


class Tokens(NamedTuple):
    """The queries or the keys: the sequence (B or 1, L) of each, -1 or -2 for padding, and its position
    within the sequence, both int32."""

    sequence: Tensor
    position: Tensor


class Pairs(NamedTuple):
    """A pair is allowed if query and key are of one sequence, the key's position is at most `right` behind and
    `left` before the query's (None: any), and the mask, which broadcasts to (B, H, Lq, Lk), is true."""

    queries: Tokens
    keys: Tokens
    left: Optional[int]
    right: Optional[int]
    mask: Optional[Tensor]

    @property
    def layout(self) -> Any:
        """What decides how a pass over the pairs is compiled."""
        mask = None if self.mask is None else (self.mask.shape, self.mask.stride())
        return (self.queries.sequence.shape, self.keys.sequence.shape, self.left, self.right, mask)

    def blocks(self) -> Tuple[Tensor, Tensor]:
        """(some, all) (B or 1, H or 1, blocks of queries, blocks of keys): false where no pair of the block is
        allowed, and true where every pair is. Where sequences meet, `some` may be true without a pair."""
        q, k = _ranges(self.queries), _ranges(self.keys)
        rows, cols = (..., slice(None), None), (..., None, slice(None))
        some = (q["first"][rows] <= k["last"][cols]) & (k["first"][cols] <= q["last"][rows])
        every = q["one"][rows] & k["one"][cols] & (q["first"][rows] == k["first"][cols])
        nearest, farthest = k["low"][cols] - q["high"][rows], k["high"][cols] - q["low"][rows]
        if self.right is not None:
            some, every = some & (nearest <= self.right), every & (farthest <= self.right)
        if self.left is not None:
            some, every = some & (farthest >= -self.left), every & (nearest >= -self.left)
        some, every = some[:, None], every[:, None]
        if self.mask is None:
            return some, every
        cut = _cut(self.mask.expand(*self.mask.shape[:2], self.queries.position.shape[-1],
                                    self.keys.position.shape[-1]))
        return some & cut.any(-1).any(-1), every & cut.all(-1).all(-1)


def allowed_in(pairs: Pairs, swapped: bool) -> Callable[..., Tensor]:
    """Whether query i of head h of batch b may attend to key j, as a function of (b, h, i, j); with `swapped`,
    of (b, h, j, i)."""
    # flex_attention compiles a function with tensors in its closure, and no method.
    of_query, at_query = pairs.queries
    of_key, at_key = pairs.keys
    left, right, mask = pairs.left, pairs.right, pairs.mask

    def allowed(b: Any, h: Any, i: Any, j: Any) -> Tensor:
        query, key = (j, i) if swapped else (i, j)
        found = at(of_query, b, query) == at(of_key, b, key)
        if left is not None or right is not None:
            ahead = at(at_key, b, key) - at(at_query, b, query)
            if right is not None:
                found = found & (ahead <= right)
            if left is not None:
                found = found & (ahead >= -left)
        return found if mask is None else found & at(mask, b, h, query, key)

    return allowed


def _cut(mask: Tensor) -> Tensor:
    """A mask (B, H, Lq, Lk) by blocks: (B, H, blocks, blocks, BLOCK, BLOCK)."""
    rows, cols = (size // BLOCK for size in mask.shape[-2:])
    return mask.reshape(*mask.shape[:-2], rows, BLOCK, cols, BLOCK).transpose(-3, -2)


def _ranges(tokens: Tokens) -> Dict[str, Tensor]:
    """For each block (B or 1, blocks): the first and last sequence, whether it has all tokens from one, and
    the lowest and highest position. Padding counts for `one` only."""
    sequence, position = (part.reshape(len(part), -1, BLOCK) for part in tokens)
    real = sequence >= 0
    first = sequence.masked_fill(~real, FAR).amin(-1)
    last = sequence.amax(-1)
    return {
        "first": first, "last": last, "one": real.all(-1) & (first == last),
        "low": position.masked_fill(~real, FAR).amin(-1),
        "high": position.masked_fill(~real, -FAR).amax(-1),
    }


def tokens_of(length: int, padded: int, missing: int, start: Optional[Tensor], count: Optional[Tensor],
              bounds: Optional[Tensor], shift: Any, device: Any) -> Tokens:
    """Tokens 0 <= i < length of each batch, and padding up to `padded`, which has the sequence `missing`.

    start, count (B): the real tokens of each batch. bounds (S + 1): the first tokens of packed sequences,
    and the end of the last. shift (a number, or one for each batch or packed sequence) is added to the
    positions, which begin at 0 in each sequence.
    """
    i = torch.arange(padded, device=device)[None]
    if bounds is not None:
        sequence = torch.searchsorted(bounds.long(), i, right=True) - 1
        real = (sequence >= 0) & (sequence < len(bounds) - 1) & (i < length)
        sequence = sequence.clamp(0, max(len(bounds) - 2, 0))
        begin = bounds.long()[sequence]
        if isinstance(shift, Tensor):
            shift = shift.long().reshape(-1)
            shift = shift[sequence] if len(shift) > 1 else shift
    else:
        begin = i.new_zeros(1, 1) if start is None else start.long().reshape(-1, 1)
        end = begin + count.long().reshape(-1, 1) if count is not None else i.new_full((1, 1), length)
        real = (i >= begin) & (i < end) & (i < length)
        sequence = torch.zeros_like(real, dtype=torch.long)
        if isinstance(shift, Tensor):
            shift = shift.long().reshape(-1, 1)
    position = i - begin + shift
    batch = max(len(sequence), len(position))
    sequence, real, position = (part.expand(batch, -1) for part in (sequence, real, position))
    return Tokens(sequence.masked_fill(~real, missing).int(), position.clamp(-FAR, FAR).int())
