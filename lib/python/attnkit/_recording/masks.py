"""Masks as numbers where they are such: lengths, causality, windows in place of Lq × Lk booleans.

Each sequence is the block [start, start + length) of its rows, of keys and of queries, and
positions are counted inside of the blocks.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch

from .call import Call, both

_PLACES = 1 << 20  # of a mask that are looked at together


class Masks:
    """`lengths`: datasets key_length, key_start, query_length, query_start, each (B), those that
    are needed. `mask`: what else there is, or None. `causal`, `window`: as the attributes have
    them."""

    def __init__(self, call: Call) -> None:
        self.lengths: Dict[str, Any] = {}
        self.causal, self.window = call.causal, call.window
        self.mask = None
        self._queries, self._keys = call.q.shape[-2], call.k.shape[-2]
        self._of_itself = call.of_itself
        if call.of_itself is None and call.causal != "none":
            self._of_itself = True
        self._window_hint = call.window_hint
        self._batch = len(call.q)
        batched = call.q.dim() == 4
        padding = None if call.real_keys is None else call.real_keys.detach().cpu()
        allowed = _smallest(call.allowed)
        if padding is not None and not (batched and self._pad(padding)):
            # Not a block for each sequence.
            axes = 4 if batched else 3 if call.q.dim() == 3 else 1
            padding = padding.reshape([padding.shape[0], 1, 1, padding.shape[1]][4 - axes:])
            allowed = both(allowed, padding, torch.logical_and)
            padding = None
        if allowed is None:
            return
        if not (batched and allowed.dim() >= 2 and self._recognise(allowed, padding is not None)):
            self.mask = allowed

    def _pad(self, real: Any) -> bool:
        """Keeps the lengths of sequences whose real keys are one block each."""
        block = _blocks(real)
        if block is None:
            return False
        start, length = block
        if bool((length == self._keys).all()):
            return True
        self._keep("key", start, length)
        if self._of_itself and self._queries == self._keys:
            self._keep("query", start, length)
        return True

    def _keep(self, what: str, start: Any, length: Any) -> None:
        self.lengths[f"{what}_length"] = length.expand(self._batch)
        if start.any():
            self.lengths[f"{what}_start"] = start.expand(self._batch)

    def _recognise(self, allowed: Any, padded: bool) -> bool:
        """Whether the mask was padding, causality and a window, and is kept as such."""
        if allowed.dim() > 2 and allowed.shape[-3] > 1:
            return False  # differs by head
        batch = allowed.shape[0] if allowed.dim() == 4 else 1
        one = allowed.expand([*allowed.shape[:-2], self._queries, self._keys])
        one = one.reshape(batch, self._queries, self._keys)
        if padded:
            return self._keep_pattern(one, self._kept("query", self._queries),
                                      self._kept("key", self._keys))
        if self._find_blocks(one):
            return True
        # Models open the rows of padding on the left, in which nothing would be allowed.
        opened = one.all(-1)
        opened[:, -1] = False
        return bool(opened.any()) and self._find_blocks(one & ~opened[:, :, None])

    def _find_blocks(self, one: Any) -> bool:
        """Whether `one` is padding, causality and a window, and is kept as such."""
        every = torch.tensor([0]), torch.tensor([self._queries])
        if self._keep_pattern(one, every, (every[0], torch.tensor([self._keys]))):
            return True
        real = one.any(1)
        block = _blocks(real)
        if block is None:
            return False
        square = self._queries == self._keys
        if square and self._of_itself is not False:
            # That queries are padding too is known of a self-attention; causality shows that it is
            # one, if nothing else does.
            unknown = self._of_itself is None
            if self._keep_pattern(one, block, block, only_causal=unknown):
                self._of_itself = True
                return self._pad(real)
        if square and self._of_itself:
            return False
        return self._keep_pattern(one, every, block) and self._pad(real)

    def _kept(self, what: str, size: int) -> Tuple[Any, Any]:
        length = self.lengths.get(f"{what}_length")
        length = torch.tensor([size]) if length is None else length
        return self.lengths.get(f"{what}_start", torch.zeros_like(length)), length

    def _keep_pattern(self, one: Any, rows: Any, columns: Any, only_causal: bool = False) -> bool:
        """Whether `one` (B, Lq, Lk) is everything, causality or a window inside of the blocks."""
        def span(block: Any, b: int) -> slice:
            start, length = (int(part[b if len(part) > 1 else 0]) for part in block)
            return slice(start, start + length)

        count = max(len(one), len(rows[0]), len(columns[0]))
        parts = [one[b if len(one) > 1 else 0, span(rows, b), span(columns, b)]
                 for b in range(count)]
        given = self.causal
        # The simplest first.
        order = [("none", False), ("top-left", False), ("bottom-right", False),
                 ("top-left", True), ("bottom-right", True), ("none", True)]
        for causal, windowed in order:
            if given not in ("none", causal) or (only_causal and causal == "none"):
                continue
            window = _window(parts, causal, given != "none", self._window_hint, windowed)
            if window is not None:
                self.causal, self.window = causal, window or self.window
                return True
        return False


def _window(parts: List[Any], causal: str, cut: bool, hint: Optional[int], windowed: bool) -> Optional[int]:
    """The window that makes the parts (Lq, Lk) of all sequences; 0: they have none; None: they are
    something else. `cut`: causality is known, whatever the parts say."""
    def pieces() -> Iterator[Tuple[Any, Any]]:
        """Some rows at a time: what is open, and j − p_i."""
        for part in parts:
            queries, keys = part.shape
            shift = keys - queries if causal == "bottom-right" else 0
            j = torch.arange(keys, dtype=torch.int32)[None] - shift
            step = max(1, _PLACES // max(1, keys))
            for first in range(0, queries, step):
                rows = part[first:first + step]
                ahead = j - torch.arange(first, first + len(rows), dtype=torch.int32)[:, None]
                yield rows & (ahead <= 0) if cut else rows, ahead

    def fits(limit: int) -> bool:
        for found, ahead in pieces():
            wanted = torch.ones_like(found) if causal == "none" else ahead <= 0
            if limit:
                wanted = wanted & (ahead.abs() < limit)
            if not torch.equal(found, wanted):
                return False
        return True

    if hint is not None and fits(hint):
        return hint
    if not windowed:
        return 0 if fits(0) else None
    widths = [int(torch.where(found, ahead.abs() + 1, 0).max()) for found, ahead in pieces() if found.numel()]
    widest = max(widths, default=0)
    return widest if widest and fits(widest) else None


def _smallest(allowed: Any) -> Any:
    """Without axes along which all is the same; None if everything is allowed."""
    if allowed is None or bool(allowed.all()):
        return None
    allowed = allowed.detach().cpu()
    for axis in range(allowed.dim() - 2):
        first = allowed.narrow(axis, 0, 1)
        if allowed.shape[axis] > 1 and torch.equal(allowed, first.expand_as(allowed)):
            allowed = first
    return allowed


def _blocks(real: Any) -> Optional[Tuple[Any, Any]]:
    """(start, length) of the true part of each row of (B, L); None if one has several parts."""
    real = real.detach().cpu()
    length = real.sum(-1)
    start = real.int().argmax(-1)  # the first, and 0 if there is none
    place = torch.arange(real.shape[-1])[None]
    block = (place >= start[:, None]) & (place < (start + length)[:, None])
    return (start, length) if torch.equal(block, real) else None
