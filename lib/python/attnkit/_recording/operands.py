"""A call as datasets and attributes, under the names that the tools read."""

from __future__ import annotations

from typing import Any, Dict

import torch

from .call import Call
from .masks import Masks


def datasets_of(call: Call, masks: Masks) -> Dict[str, Any]:
    """Tensors by name: q, k, v, and those of bias, sink, rel_bias, mask and lengths that there are."""
    found = {name: getattr(call, name) for name in ("q", "k", "v", "bias", "sink", "rel_bias")}
    found["mask"] = masks.mask
    return {name: tensor for name, tensor in {**found, **masks.lengths}.items() if tensor is not None}


def attributes_of(call: Call, masks: Masks) -> Dict[str, Any]:
    """The attributes that say how scores are made of the datasets."""
    usual = call.scale is None or abs(call.scale * call.q.shape[-1] ** 0.5 - 1) < 1e-6
    found: Dict[str, Any] = {
        "attn_energy": "scaled-dot" if usual else "dot",
        "attn_scale": 1.0 if call.scale is None or usual else float(call.scale),
        "attn_causal": masks.causal,
    }
    if masks.window is not None:
        found["attn_window"] = masks.window
    if call.softcap is not None:
        found["attn_softcap"] = float(call.softcap)
    if call.rel_bias is not None:
        found["attn_relative_bias"] = "t5"
    return found


def as_array(tensor: Any) -> Any:
    """The NumPy array of a tensor, its own numbers where that is possible; bfloat16 becomes float32."""
    tensor = tensor.detach()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).cpu().numpy()
