"""The logits of a call, a few queries at a time: what its softmax sees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional, Tuple

import torch

from .call import Call
from .masks import Masks
from .modules import t5_bias

_NUMBERS = 1 << 20  # logits at a time: they stay in cache
_NUMBERS_ON_GPU = 1 << 26  # a step costs as much as ten million logits


def block(masks: Masks, what: str, b: int, size: int) -> Tuple[int, int]:
    """The start and the length of the real queries (what = "query") or keys of sequence b."""
    start, length = masks.lengths.get(f"{what}_start"), masks.lengths.get(f"{what}_length")
    return 0 if start is None else int(start[b]), size if length is None else int(length[b])


def sequence(tensor: Any, b: int) -> Any:
    """The part (H, L, d) of sequence b, in the type of the computation."""
    exact = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    return tensor[b if len(tensor) > 1 else 0].to(exact)


def logits_of(call: Call, masks: Masks, b: int, heads: slice, rows: Any) -> Tuple[Any, Any]:
    """(logits, allowed), both (H, rows, Lk), of the queries `rows` (positions) of sequence b under the
    query heads that share the key heads `heads`. Logits are −∞ where attention is not allowed."""
    k = sequence(call.k, b)[heads]
    group = call.q.shape[1] // call.k.shape[1]
    own = slice(heads.start * group, heads.stop * group)
    device, keys = k.device, k.shape[1]
    q = sequence(call.q, b)[own][:, rows.to(device)]
    shape = (len(q), len(rows), keys)
    scores = ((q * call.factor).reshape(len(k), -1, q.shape[-1]) @ k.transpose(-1, -2)).reshape(shape)
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)

    def rows_of(tensor: Any) -> Any:
        whole = tensor.expand(len(call.q), call.q.shape[1], call.q.shape[2], keys)
        return whole[b, own][:, rows.to(tensor.device)].to(device)

    if call.bias is not None:
        scores = scores + rows_of(call.bias)
    if call.rel_bias is not None:
        scores = scores + t5_bias(call.rel_bias[:, own], rows, keys, masks.causal != "none")[0]
    allowed = _pattern(call, masks, b, rows)
    allowed = None if allowed is None else allowed.to(device).expand(shape)
    if masks.mask is not None:
        mask = rows_of(masks.mask)
        allowed = mask if allowed is None else allowed & mask
    if allowed is None:
        return scores, torch.ones((), dtype=torch.bool, device=device).expand(shape)
    return scores.masked_fill(~allowed, -torch.inf), allowed


def _pattern(call: Call, masks: Masks, b: int, rows: Any) -> Any:
    """What lengths, causality and the window allow, (rows, Lk); None: everything."""
    queries, keys = call.q.shape[2], call.k.shape[2]
    if not masks.lengths and masks.causal == "none" and masks.window is None:
        return None
    row_start, row_length = block(masks, "query", b, queries)
    start, length = block(masks, "key", b, keys)
    j = torch.arange(keys) - start
    allowed = ((j >= 0) & (j < length)).expand(len(rows), keys)
    position = rows - row_start
    if masks.causal == "bottom-right":
        position = position + length - row_length
    ahead = j[None] - position[:, None]
    if masks.causal != "none":
        allowed = allowed & (ahead <= 0)
    if masks.window is not None:
        allowed = allowed & (ahead.abs() < masks.window)
    return allowed


def largest_logits(call: Call, masks: Masks) -> Optional[Any]:
    """The largest logit of each head, of the leading axes of q: −∞ where nothing is allowed. None if
    q has more axes than (B, H, L, d)."""
    leading = call.q.shape[:-2]
    if len(leading) > 2:
        return None
    if len(leading) < 2:
        lift = (None,) * (2 - len(leading))
        call = replace(call, q=call.q[lift], k=call.k[(None,) * (4 - call.k.dim())])
    batch, heads, queries = call.q.shape[:3]
    key_heads, keys = call.k.shape[1:3]
    group = heads // key_heads
    numbers = _NUMBERS if call.q.device.type == "cpu" else _NUMBERS_ON_GPU
    together = key_heads if heads * queries * keys <= numbers else 1
    step = max(1, numbers // (together * group * keys))
    found = torch.full((batch, heads), -torch.inf, dtype=torch.float64)
    for b in range(batch):
        first, length = block(masks, "query", b, queries)
        for head in range(0, key_heads, together):
            own = slice(head * group, (head + together) * group)
            for row in range(first, first + length, step):
                rows = torch.arange(row, min(row + step, first + length))
                scores, _ = logits_of(call, masks, b, slice(head, head + together), rows)
                found[b, own] = torch.maximum(found[b, own], scores.amax((1, 2)).to(found))
    return found.reshape(leading)
