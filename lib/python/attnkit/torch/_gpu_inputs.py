"""What attention on a GPU takes."""

from __future__ import annotations

from typing import Any, Dict, NoReturn

import torch
from torch import Tensor

from .._errors import error_of
from .._functions import warn
from ._operands import NUMBERS
from ._plans import probe, require_options, words_of

_SCHEMES = ("unas", "dnas", "hnas", "sinkhorn")
_ENERGIES = ("scaled-dot", "dot")
_OPTIONS = ("scheme", "energy", "scale", "softcap", "causal", "window", "query_offset", "iterations", "hybrid",
            "precision")
_OPERANDS = ("q", "k", "v", "mask", "bias", "sink", "hybrid", "query_length", "key_length", "query_start",
             "key_start", "query_offset", "cu_seqlens_q", "cu_seqlens_k")
_TYPES = (torch.float32, torch.float16, torch.bfloat16)


def refuse(what: str, hint: str = "q.cpu(), k.cpu() and so on") -> NoReturn:
    """Raises UsageError for what a GPU does not know."""
    raise error_of(2, what + " on a GPU", hint)


_known: Dict[Any, Any] = {}
"""The warnings of options that the library knows."""


def require_known(operands: Dict[str, Any], options: Dict[str, Any], warns: bool) -> None:
    """Raises UsageError for options and operands that do not exist, or not on a GPU. With `warns`, warns once of what
    the library warns of."""
    require_options("attention", {name: value for name, value in options.items() if name != "hybrid"})
    scheme = options.get("scheme", "unas")
    if scheme not in _SCHEMES:
        refuse(f"there is no scheme {scheme}")
    if options.get("energy", "scaled-dot") not in _ENERGIES:
        refuse(f"there is no energy {options['energy']}")
    if options.get("precision", "f32") != "f32":
        refuse(f"there is no precision {options['precision']}")
    for name in options:
        if name not in _OPTIONS:
            refuse(f"attention() has no option {name}")
    for name in operands:
        if name not in _OPERANDS:
            refuse(f"attention() has no operand {name}")
    if scheme == "sinkhorn" and options.get("iterations") is None:
        raise error_of(2, "sinkhorn on a GPU needs a number of iterations", "iterations=20")
    words = (words_of(options), "sink" in operands, "hybrid" in operands)
    if words not in _known:
        _known[words] = probe("attention", options, [name for name in ("sink", "hybrid") if name in operands]).warnings
        if warns:
            warn(_known[words])


def require_tensors(operands: Dict[str, Any]) -> None:
    """Raises InputError or UsageError for what is no dense tensor of a fitting type on the device of q."""
    device = operands["q"].device
    for name, value in operands.items():
        if not isinstance(value, Tensor):
            if name in ("query_offset", "hybrid"):
                continue
            raise error_of(3, f"{name} is a {type(value).__name__}, expected a tensor")
        if value.device != device:
            raise error_of(3, f"{name} is on {value.device}, but q is on {device}", f"{name}.to(q.device)")
        if value.layout != torch.strided or value.is_nested:
            raise error_of(3, f"{name} is nested or sparse, expected a dense tensor")
        dtype = str(value.dtype).replace("torch.", "")
        if name in NUMBERS:
            if value.dtype == torch.float64:
                refuse(f"{name} is float64, which attention() does not compute", f"{name}.float(), or q.cpu()")
            if value.dtype not in _TYPES:
                raise error_of(3, f"{name} is {dtype}, expected floating-point numbers", f"{name}.float()")
        elif value.is_floating_point() or value.is_complex():
            hint = "a mask that is added to scores is bias" if name == "mask" else f"{name}.long()"
            raise error_of(3, f"{name} is {dtype}, expected integers", hint)


def require_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raises InputError for tensors of four axes that do not belong together, or without numbers."""
    fits = q.shape[-1] == k.shape[-1] and k.shape[2] == v.shape[2]
    for x in (k, v):
        fits = fits and x.shape[0] in (1, q.shape[0]) and x.shape[1] > 0 and q.shape[1] % x.shape[1] == 0
    if not fits:
        shapes = ", ".join(str(tuple(x.shape)) for x in (q, k, v))
        raise error_of(3, f"q, k and v have the shapes {shapes}, expected (B, H, Lq, d), (B, H, Lk, d), (B, H, Lk, dv)")
    if 0 in q.shape or 0 in k.shape or 0 in v.shape:
        raise error_of(3, "q, k or v has no numbers", "an empty attention belongs to the CPU")
