"""torch.nn.functional.multi_head_attention_forward under another scheme."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .._errors import error_of
from ._masks import both, split, total
from ._replacement import Replacement


def multi_head_attention_forward(
    replacement: Replacement,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Optional[Tensor],
    in_proj_bias: Optional[Tensor],
    bias_k: Optional[Tensor],
    bias_v: Optional[Tensor],
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Optional[Tensor],
    training: bool = True,
    key_padding_mask: Optional[Tensor] = None,
    need_weights: bool = True,
    attn_mask: Optional[Tensor] = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Optional[Tensor] = None,
    k_proj_weight: Optional[Tensor] = None,
    v_proj_weight: Optional[Tensor] = None,
    static_k: Optional[Tensor] = None,
    static_v: Optional[Tensor] = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,  # says that attn_mask is causal
) -> Tuple[Tensor, Optional[Tensor]]:
    """Arguments, shapes and results are PyTorch's; the weights are those before dropout.

    A query that may attend to no key has attention 0, where PyTorch may have NaN. In self-attention,
    queries of padding do not count in a normalisation over queries, and have attention 0 then.
    """
    if static_k is not None or static_v is not None:
        raise error_of(2, "nn.MultiheadAttention has static_k or static_v, which cannot be replaced")
    if is_causal and attn_mask is None:
        raise error_of(2, "nn.MultiheadAttention has is_causal without attn_mask, which says what it hides")
    of_itself = query is key
    batched = query.dim() == 3
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
    queries, batch, width = query.shape
    keys = len(key)
    if queries < keys and key.shape[-1] == width and torch.equal(query, key[keys - queries :]):
        replacement.require_all_queries("nn.MultiheadAttention", queries, keys)

    projections: Sequence[Any] = (q_proj_weight, k_proj_weight, v_proj_weight)
    if not use_separate_proj_weight:
        assert in_proj_weight is not None
        projections = in_proj_weight.chunk(3)
    biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    q, k, v = map(F.linear, (query, key, value), projections, biases)
    if bias_k is not None and bias_v is not None:
        k = torch.cat([k, bias_k.expand(1, batch, -1)])
        v = torch.cat([v, bias_v.expand(1, batch, -1)])
    if add_zero_attn:
        k, v = F.pad(k, (0, 0, 0, 0, 0, 1)), F.pad(v, (0, 0, 0, 0, 0, 1))
    q, k, v = (
        x.view(len(x), batch, num_heads, x.shape[-1] // num_heads).permute(1, 2, 0, 3) for x in (q, k, v)
    )

    if attn_mask is not None and attn_mask.dim() == 3:
        attn_mask = attn_mask.reshape(batch, num_heads, queries, keys)
    allowed, bias = split(attn_mask, true_hides=True)
    replacement.require_no_leak(allowed, bias, is_causal)
    if key_padding_mask is not None:
        real, padding_bias = split(key_padding_mask.view(batch, 1, 1, keys), true_hides=True)
        allowed, bias = both(allowed, real), total(bias, padding_bias)
        if real is not None and of_itself and replacement.normalises_over_queries:
            allowed = both(allowed, real.transpose(-1, -2))
    added = k.shape[-2] - keys  # keys of the module, which no mask covers
    if added and allowed is not None:
        allowed = F.pad(allowed, (0, added), value=True)
    if added and bias is not None:
        bias = F.pad(bias, (0, added))

    out, shown = replacement.attend(
        q, k, v, mask=allowed, bias=bias, dropout=dropout_p if training else 0.0, weights=need_weights
    )
    out = F.linear(out.permute(2, 0, 1, 3).reshape(queries, batch, v.shape[-1] * num_heads), out_proj_weight, out_proj_bias)
    if shown is not None and average_attn_weights:
        shown = shown.mean(1)
    if batched:
        return out, shown
    return out.squeeze(1), None if shown is None else shown.squeeze(0)
