"""The attention function "attnkit" of the library transformers."""

from __future__ import annotations

import functools
import importlib
from typing import Any, Optional, Tuple

from torch import Tensor, nn

from .._errors import error_of
from ._masks import split
from ._replace import active
from ._replacement import Replacement

_REFUSED = ("head_mask", "cu_seq_lens_q", "cu_seq_lens_k", "position_bias")


@functools.lru_cache(maxsize=None)
def _softmax() -> Replacement:
    return Replacement("unas", False, False, {})


def attention_function(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Optional[Tensor],
    scaling: Optional[float] = None,
    dropout: float = 0.0,
    is_causal: Optional[bool] = None,
    softcap: Optional[float] = None,
    s_aux: Optional[Tensor] = None,
    output_attentions: Optional[bool] = False,
    **others: Any,
) -> Tuple[Tensor, Optional[Tensor]]:
    """out (B, Lq, H, dv) and, with `output_attentions`, the weights (B, H, Lq, Lk).

    query is (B, H, Lq, d), key and value may have fewer heads. The scheme is that of the `replace`
    that the call is within, else softmax.
    """
    for name in _REFUSED:
        if others.get(name) is not None:
            raise error_of(2, f'the attention "attnkit" does not take {name}')
    replacement = active() or _softmax()
    queries, keys = query.shape[-2], key.shape[-2]
    if attention_mask is not None:
        attention_mask = attention_mask[..., :keys]  # a static cache has a longer one
    mask, bias = split(attention_mask)
    # What transformers does for scaled_dot_product_attention.
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    causal = bool(causal) and attention_mask is None and queries > 1
    replacement.require_no_leak(mask, bias, causal)
    replacement.require_all_queries(type(module).__name__, queries, keys)
    out, weights = replacement.attend(
        query, key, value, mask=mask, bias=bias, causal=causal, factor=scaling, softcap=softcap, sink=s_aux,
        dropout=dropout, weights=bool(output_attentions),
    )
    return out.transpose(1, 2).contiguous(), weights


def register_transformers() -> None:
    """Makes the attention "attnkit" known to transformers (>= 4.53), which must be installed.

    >>> attnkit.torch.register_transformers()
    >>> model = AutoModel.from_pretrained(name, attn_implementation="attnkit")

    Its scheme is that of the `replace` that the model is called within, else softmax. If models of
    transformers are imported before attnkit.torch, the import has done this.
    """
    try:
        modeling = importlib.import_module("transformers.modeling_utils")
        masking = importlib.import_module("transformers.masking_utils")
    except ImportError as error:
        raise error_of(2, f"transformers >= 4.53 is not installed: {error}") from error
    modeling.ALL_ATTENTION_FUNCTIONS.register("attnkit", attention_function)
    # Without a function for its masks, causal models would have none.
    masking.ALL_MASK_ATTENTION_FUNCTIONS.register("attnkit", masking.eager_mask)
