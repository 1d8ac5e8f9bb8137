"""Whether what is recorded is what the model computed: some queries, computed anew."""

from __future__ import annotations

from typing import Optional

import torch

from .call import Call
from .logits import block, logits_of, sequence
from .masks import Masks

_ROWS = 4  # per sequence


def agrees(call: Call, error: float) -> bool:
    """Whether a difference of this size is rounding."""
    return error <= (0.05 if call.q.dtype in (torch.float16, torch.bfloat16) else 1e-3)


def largest_error(call: Call, masks: Masks) -> Optional[float]:
    """The largest difference between the model's output and softmax over the recorded operands, for
    some queries of the first and last sequence, relative to the largest output; None if the model's
    output is not known."""
    if call.out is None or call.q.dim() != 4 or call.k.dim() != 4:
        return None
    errors = [_of_sequence(call, masks, b) for b in sorted({0, len(call.q) - 1})]
    known = [error for error in errors if error is not None]
    return max(known) if known else None


def _of_sequence(call: Call, masks: Masks, b: int) -> Optional[float]:
    heads, queries, keys = call.q.shape[1], call.q.shape[2], call.k.shape[2]
    start, length = block(masks, "query", b, queries)
    if not length or not block(masks, "key", b, keys)[1]:
        return None
    rows = torch.linspace(start, start + length - 1, min(_ROWS, length)).long()
    key_heads = call.k.shape[1]
    scores, allowed = logits_of(call, masks, b, slice(0, key_heads), rows)
    if call.sink is not None:
        sink = call.sink.to(scores).reshape(-1, 1, 1).expand(heads, len(rows), 1)
        scores = torch.cat([scores, sink], -1)
    weights = scores.softmax(-1)[..., :keys]
    out = (weights.reshape(key_heads, -1, keys) @ sequence(call.v, b)).reshape(heads, len(rows), -1)
    known = allowed.any(-1).all(0)  # models differ in what a query without keys gets
    rows = rows.to(call.out.device)
    wanted = sequence(call.out, b)
    if call.join is None:
        wanted = wanted[:, rows]
    else:
        out = call.join(out.transpose(0, 1).flatten(1).to(call.q.dtype)).to(out.dtype)
        wanted = wanted[rows]
    out, wanted = (x[..., known, :] for x in (out, wanted))
    if not out.numel():
        return None
    return float((out - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30))
