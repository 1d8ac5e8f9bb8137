"""What attention on a GPU takes."""

from __future__ import annotations

from typing import Any, Dict, NoReturn, Set, Tuple

import numpy
import torch
from torch import Tensor

from .._errors import error_of
from .._functions import warn
from ._operands import INTEGERS, NUMBERS
from ._plans import make, require_options, words_of

_SCHEMES = ("unas", "dnas", "hnas", "sinkhorn")
_ENERGIES = ("scaled-dot", "dot")
_OPTIONS = ("scheme", "energy", "scale", "softcap", "causal", "window", "query_offset", "iterations", "hybrid",
            "precision")
_OPERANDS = ("q", "k", "v", "bias", "sink", "hybrid", *INTEGERS)
_PLACES = tuple(name for name in INTEGERS if name != "mask")
_TYPES = (torch.float32, torch.float16, torch.bfloat16)


def refuse(what: str, hint: str = "q.cpu(), k.cpu() and so on") -> NoReturn:
    """Raises UsageError for what a GPU does not know."""
    raise error_of(2, what + " on a GPU", hint)


def require_known(operands: Dict[str, Any], options: Dict[str, Any]) -> None:
    """Raises UsageError for options and operands that do not exist, or not on a GPU."""
    require_options("attention", options)
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


def require_tensors(operands: Dict[str, Any]) -> None:
    """Raises InputError or UsageError for what is no dense tensor of a fitting type on the device of q."""
    for name in ("q", "k", "v"):
        if name not in operands:
            raise error_of(3, f"{name} is None, expected a tensor")
    device = operands["q"].device
    for name, value in operands.items():
        if not isinstance(value, Tensor):
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


_sound: Set[Any] = set()
_MOST_SOUND = 1000  # lengths may differ in each call


def require_problem(operands: Dict[str, Any], options: Dict[str, Any], warns: bool) -> None:
    """Raises what the library raises for tensors of these shapes, with these lengths and options. With `warns`, warns
    once of what the library warns of. Masks, biases and numbers are not looked at."""
    q, k, v = (operands[name] for name in ("q", "k", "v"))
    if not 2 <= min(q.dim(), k.dim(), v.dim()) <= max(q.dim(), k.dim(), v.dim()) <= 4:
        refuse(f"q, k and v have {q.dim()}, {k.dim()} and {v.dim()} axes, expected 2 to 4", "q.flatten(0, -4)")
    places = {name: numpy.array(operands[name].tolist(), "i8") for name in _PLACES if name in operands}
    for name, value in places.items():
        if q.dim() < 4 and value.size > 1 and not name.startswith("cu_"):
            raise error_of(3, f"{name} has {value.size} numbers, but q has no axis of as many sequences", "q[:, None]")
    words = words_of(options)
    numbers = {name: operands[name].shape for name in ("q", "k", "v", "sink", "hybrid") if name in operands}
    key = (words, warns, tuple(numbers.items()), tuple((name, value.tobytes()) for name, value in places.items()))
    if key in _sound:
        return
    # Zeros in the place of the numbers: once with all heads for one query and key, once for all of them with one head.
    arrays = {name: _zeros(shape) for name, shape in numbers.items()}
    arrays.update({name: _zeros((*numbers[name][:-2], 1, numbers[name][-1])) for name in ("q", "k", "v")})
    make(words, arrays)
    batch = q.shape[:1] if q.dim() == 4 and places else (1,)
    arrays = {name: _zeros((*batch, 1, numbers[name][-2], 1)) for name in ("q", "k", "v")}
    if "hybrid" in operands:
        arrays["hybrid"] = _zeros(())
    plan = make(words, {**arrays, **places})
    for x in (k, v):
        if x.dim() > q.dim() or x.dim() == 4 and x.shape[0] not in (1, q.shape[0]):
            refuse("k and v have more batches than q", "q.expand(...)")
    if 0 in q.shape or 0 in k.shape or 0 in v.shape:
        refuse("there is no attention without numbers")
    if len(_sound) >= _MOST_SOUND:
        _sound.clear()
    _sound.add(key)
    if warns:
        warn(plan.warnings)


def _zeros(shape: Tuple[int, ...]) -> Any:
    return numpy.zeros(tuple(shape), "f4")
