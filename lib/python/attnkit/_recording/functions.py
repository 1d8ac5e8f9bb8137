"""Functions of query, key and value: scaled_dot_product_attention, and those that a user names.

Those that a user names take (B, H, L, d) or (B, L, H, d), and align causality with the first or the
last keys: what gives the function's own output is recorded.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Sequence, Tuple

import torch

from .call import Call, split_mask
from .check import agrees, largest_error
from .errors import DumpError
from .masks import Masks
from .projections import Frame, projections_of

if TYPE_CHECKING:
    from .watcher import Watcher

SDPA = "torch.nn.functional:scaled_dot_product_attention"
# Of PyTorch 2.5; the function itself is built in and has no signature.
_SDPA_PARAMETERS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale",
                    "enable_gqa")
_ALIASES = {"q": ("query", "q"), "k": ("key", "k"), "v": ("value", "v"),
            "mask": ("attn_mask", "mask", "attention_mask"), "causal": ("is_causal", "causal"),
            "scale": ("scale", "softmax_scale", "scaling"), "dropout": ("dropout_p", "dropout"),
            "softcap": ("softcap",)}


def find(name: str) -> Tuple[Any, str]:
    """The owner and the attribute of "package.module:function" or "…:Class.method"."""
    module, _, attribute = name.partition(":")
    try:
        owner = importlib.import_module(module)
        *path, last = attribute.split(".")
        for part in path:
            owner = getattr(owner, part)
        getattr(owner, last)
    except (ImportError, AttributeError, ValueError) as error:
        raise DumpError(f"{name}: {error}; expected package.module:function", 2) from error
    return owner, last


class Functions:
    """The functions that a watcher replaces."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._replaced: List[Tuple[Any, Any]] = []  # (original, replacement)
        self._pending: List[str] = []  # names of functions of the script, which is not there yet

    def replace(self, name: str) -> None:
        """Replaces a function. One of the script, "__main__:function", may come later."""
        try:
            owner, attribute = find(name)
        except DumpError:
            if not name.startswith("__main__:"):
                raise
            self._pending.append(name)
            return
        original = getattr(owner, attribute)
        bind = _bind_sdpa
        if name != SDPA:
            try:
                bind = _binding(inspect.signature(original))
            except (TypeError, ValueError) as error:
                raise DumpError(f"{name}: {error}; expected a Python function", 2) from error
        replacement = self._recorded(original, attribute, name, bind)
        self._replaced.append((original, replacement))
        self._watcher.replace(owner, attribute, replacement)

    def replace_pending(self, at_the_end: bool = False) -> None:
        """Replaces the functions that the script has by now."""
        pending, self._pending = self._pending, []
        for name in pending:
            self.replace(name)
        if at_the_end and self._pending:
            find(self._pending[0])  # throws

    def replace_copies(self, root: Any) -> None:
        """Replaces what the modules of a model imported by `from … import`."""
        homes = {type(module).__module__ for module in root.modules()}
        for home in filter(None, map(sys.modules.get, homes - {"torch.nn.functional"})):
            for name, value in list(vars(home).items()):
                for original, replacement in self._replaced:
                    if value is original:
                        self._watcher.replace(home, name, replacement)

    def _recorded(self, original: Any, attribute: str, name: str, bind: Callable[..., Dict[str, Any]]) -> Any:
        watcher = self._watcher

        def call(*args: Any, **kwargs: Any) -> Any:
            if watcher.silent:
                return original(*args, **kwargs)
            with watcher.silence():
                result = original(*args, **kwargs)
            layer = watcher.layer_of(fallback=attribute)
            if layer is not None:
                given = bind(*args, **kwargs)
                frames = watcher.frames()
                watcher.record(layer, lambda: described(given, result, frames, name),
                               frames[0].module if frames else None)
            return result

        return call


def _bind_sdpa(*args: Any, **kwargs: Any) -> Dict[str, Any]:
    return {**dict(zip(_SDPA_PARAMETERS, args)), **kwargs}


def _binding(signature: inspect.Signature) -> Callable[..., Dict[str, Any]]:
    """The arguments of a call by name, with their defaults."""
    def bind(*args: Any, **kwargs: Any) -> Dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                given.update(given.pop(name))
        return given

    return bind


def described(given: Dict[str, Any], result: Any, frames: Sequence[Frame], name: str) -> Call:
    """The call of a function like scaled_dot_product_attention with these arguments."""
    def argument(what: str) -> Any:
        values = (given.get(alias) for alias in _ALIASES[what])
        return next((value for value in values if value is not None), None)

    q, k, v = (argument(what) for what in "qkv")
    if any(not isinstance(tensor, torch.Tensor) or tensor.dim() < 2 for tensor in (q, k, v)):
        raise DumpError(f"{name} has no arguments query, key and value (or q, k, v) to record")
    if any(getattr(tensor, "is_nested", False) for tensor in (q, k, v)):
        raise DumpError(f"{name}: nested tensors cannot be recorded")
    mask = argument("mask")
    allowed, bias = split_mask(mask)
    out = result[0] if isinstance(result, tuple) else result
    call = Call(q, k, v, scale=argument("scale"), allowed=allowed, bias=bias,
                causal="top-left" if argument("causal") else "none", softcap=argument("softcap"),
                dropout=argument("dropout") or 0)
    readings = _readings(call, out, of_any_layout=name != SDPA)
    call = next(filter(_as_computed, readings), readings[0]) if len(readings) > 1 else readings[0]
    projections_of(call, frames)
    return call


def _readings(call: Call, out: Any, of_any_layout: bool) -> List[Call]:
    """What a call and its output may mean, the likeliest first."""
    calls = [call]
    if of_any_layout and call.q.dim() == call.k.dim() == call.v.dim() == 4:
        swapped = {name: getattr(call, name).transpose(1, 2) for name in "qkv"}
        calls = [one for one in (call, replace(call, **swapped)) if _fits(one)]
        if not calls:
            shapes = ", ".join(str(tuple(getattr(call, name).shape)) for name in "qkv")
            raise DumpError(f"query, key and value of {shapes} are neither (B, H, L, d) nor "
                            "(B, L, H, d)")
        calls += [replace(one, causal="bottom-right") for one in calls
                  if one.causal != "none" and one.q.shape[-2] != one.k.shape[-2]]
    return [replace(one, out=made) for one in calls for made in _outputs(out, one) or [None]]


def _fits(call: Call) -> bool:
    """Whether q, k and v of (B, H, L, d) belong together."""
    return bool(call.k.shape[:3] == call.v.shape[:3] and call.q.shape[1] % max(call.k.shape[1], 1) == 0)


def _outputs(out: Any, call: Call) -> List[Any]:
    """What an output may mean as (…, Lq, dv): nothing if it has another shape."""
    if not isinstance(out, torch.Tensor):
        return []
    wanted = (*call.q.shape[:-1], call.v.shape[-1])
    if len(wanted) == 4 and out.dim() == 3 and out.shape[-1] == wanted[1] * wanted[-1]:
        out = out.unflatten(-1, (wanted[1], wanted[-1]))
    layouts = [out, out.transpose(1, 2)] if len(wanted) == 4 and out.dim() == 4 else [out]
    return [one for one in layouts if one.shape == wanted]


def _as_computed(call: Call) -> bool:
    """Whether the output of the call follows from its operands."""
    if call.dropout > 0:
        return False
    try:
        error = largest_error(call, Masks(call))
    except (RuntimeError, IndexError):  # its mask has another shape
        return False
    return error is not None and agrees(call, error)
