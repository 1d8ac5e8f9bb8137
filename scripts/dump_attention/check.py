"""Whether what is recorded is what the model computed: some queries, computed anew."""

import torch

from .modules import t5_bias

_ROWS = 4  # per sequence


def agrees(call, error):
    """Whether a difference of this size is rounding."""
    return error <= (0.05 if call.q.dtype in (torch.float16, torch.bfloat16) else 1e-3)


def largest_error(call, masks):
    """The largest difference between the model's output and softmax over the recorded operands, for
    some queries of the first and last sequence, relative to the largest output; None if the model's
    output is not known."""
    if call.out is None or call.q.dim() != 4 or call.k.dim() != 4:
        return None
    errors = [_of_sequence(call, masks, b) for b in sorted({0, len(call.q) - 1})]
    errors = [error for error in errors if error is not None]
    return max(errors) if errors else None


def _of_sequence(call, masks, b):
    heads, queries, keys = call.q.shape[1], call.q.shape[2], call.k.shape[2]
    device = call.q.device
    exact = torch.float64 if call.q.dtype == torch.float64 else torch.float32

    def block(what, size):
        length = masks.lengths.get(f"{what}_length")
        start = masks.lengths.get(f"{what}_start")
        return 0 if start is None else int(start[b]), size if length is None else int(length[b])

    def of(tensor, size):
        """The part of one sequence, with all heads."""
        tensor = tensor[b if len(tensor) > 1 else 0]
        return tensor.repeat_interleave(heads // len(tensor), 0)[..., :size, :].to(exact)

    row_start, row_length = block("query", queries)
    column_start, column_length = block("key", keys)
    if not row_length or not column_length:
        return None
    rows = torch.linspace(row_start, row_start + row_length - 1, min(_ROWS, row_length)).long()
    q, k, v = of(call.q, queries)[:, rows.to(device)], of(call.k, keys), of(call.v, keys)
    scores = q @ k.transpose(-1, -2) * call.factor
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)

    def rows_of(tensor):
        whole = tensor.expand(len(call.q), heads, queries, keys)
        return whole[b][:, rows.to(tensor.device)].to(device)

    if call.bias is not None:
        scores = scores + rows_of(call.bias)
    if call.rel_bias is not None:
        scores = scores + rows_of(t5_bias(call.rel_bias, queries, keys, masks.causal != "none"))
    j = torch.arange(keys) - column_start
    open_ = ((j >= 0) & (j < column_length)).expand(len(rows), keys)
    position = rows - row_start
    if masks.causal == "bottom-right":
        position = position + column_length - row_length
    ahead = j[None] - position[:, None]
    if masks.causal != "none":
        open_ = open_ & (ahead <= 0)
    if masks.window is not None:
        open_ = open_ & (ahead.abs() < masks.window)
    open_ = open_.to(device).expand(heads, -1, -1)
    if masks.mask is not None:
        open_ = open_ & rows_of(masks.mask)
    scores = scores.masked_fill(~open_, -torch.inf)
    if call.sink is not None:
        sink = call.sink.to(scores).reshape(-1, 1, 1).expand(heads, len(rows), 1)
        weights = torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1)
    out = weights @ v
    known = open_.any(-1).all(0)  # models differ in what a query without keys gets
    wanted = call.out[b].to(exact)
    if call.join is None:
        wanted = wanted[:, rows.to(device)]
    else:
        out = call.join(out.transpose(0, 1).flatten(1).to(call.q.dtype)).to(exact)
        wanted = wanted[rows.to(device)]
    out, wanted = (x[..., known.to(device), :] for x in (out, wanted))
    if not out.numel():
        return None
    return float((out - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30))
