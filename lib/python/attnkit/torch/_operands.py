"""The operands of attention as tensors: their checks, types and arrays."""

from __future__ import annotations

from typing import Any, Dict

import torch
from torch.autograd import forward_ad as _forward_ad

from .._errors import error_of

NUMBERS = ("q", "k", "v", "bias", "gate", "sink", "hybrid", "preference", "cost", "rel_bias", "w", "w1", "w2",
           "b1")
"""Operands of floating-point numbers."""

INTEGERS = ("mask", "query_length", "key_length", "query_start", "key_start", "query_offset", "cu_seqlens_q",
            "cu_seqlens_k")
"""Operands of integers. The mask may be boolean."""


def checked(operands: Dict[str, Any], precision: Any = None) -> Dict[str, torch.Tensor]:
    """The operands that are there, all numbers in the type of the computation.

    This is float64 if one of them is float64, else float32, unless `precision` says which. Raises
    InputError for what is no tensor of a fitting type in the memory of the CPU.
    """
    there = {name: _checked(name, value) for name, value in operands.items() if value is not None}
    numbers = [tensor for name, tensor in there.items() if name in NUMBERS]
    wide = precision == "f64" or (precision is None and any(one.dtype == torch.float64 for one in numbers))
    dtype = torch.float64 if wide else torch.float32
    return {name: tensor.to(dtype).resolve_neg() if name in NUMBERS else tensor for name, tensor in there.items()}


def _checked(name: str, value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        kind = type(value).__name__
        raise error_of(3, f"{name} is a {kind}, expected a tensor", f"torch.as_tensor({name})")
    if value.device.type != "cpu":
        raise error_of(3, f"{name} is on {value.device}, expected the memory of the CPU", f"{name}.cpu()")
    if value.layout != torch.strided or value.is_nested:
        raise error_of(3, f"{name} is nested or sparse, expected a dense tensor")
    if _forward_ad._current_level >= 0 and _has_tangent(value):
        raise error_of(2, f"{name} has a tangent, but attention() has no derivatives in forward mode")
    dtype = str(value.dtype).replace("torch.", "")
    if name in NUMBERS and not value.is_floating_point():
        raise error_of(3, f"{name} is {dtype}, expected floating-point numbers", f"{name}.float()")
    if name in INTEGERS and (value.is_floating_point() or value.is_complex()):
        hint = "a mask that is added to scores is bias" if name == "mask" else f"{name}.long()"
        raise error_of(3, f"{name} is {dtype}, expected integers", hint)
    return value


def _has_tangent(tensor: torch.Tensor) -> bool:
    return _forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]


def arrays_of(tensors: Dict[str, torch.Tensor]) -> Dict[str, Any]:
    """The numbers of tensors, where they lie."""
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}
