"""Models of Hugging Face, which take their attention from a registry of functions.

A module asks ALL_ATTENTION_FUNCTIONS for the function that the configuration names, or uses
eager_attention_forward of its own file, and calls

    function(module, query, key, value, attention_mask, scaling=…, dropout=…, sliding_window=…,
             softcap=…, s_aux=…, is_causal=…)  ->  output (B, L, H, d), weights

with queries, keys and values of (B, H, L, d). The functions read these arguments differently.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Dict, List, Sequence, Tuple

import torch

from .call import Call, split_mask
from .errors import DumpError
from .projections import Frame, projections_of

if TYPE_CHECKING:
    from .watcher import Watcher

_REGISTRY = "ALL_ATTENTION_FUNCTIONS"


class Registries:
    """The registries that the modules of models use."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._homes: Dict[int, List[Any]] = {}  # Python modules of a model's classes, by the model's identity
        self._wrappers: Dict[int, Any] = {}  # our functions by identity, kept alive so that none is reused
        self._kept: List[Any] = []

    def watch(self, root: Any) -> None:
        """Replaces the functions that the modules of `root` may call. Cheap if nothing is new."""
        if id(root) not in self._homes:
            names = {type(module).__module__ for module in root.modules()}
            homes = [sys.modules[name] for name in names if name in sys.modules]
            self._homes[id(root)] = [home for home in homes if hasattr(home, _REGISTRY)]
            self._kept.append(root)
        for home in self._homes[id(root)]:
            self._replace_entries(getattr(home, _REGISTRY))
            for name, function in list(vars(home).items()):
                if (name.startswith("eager_") and name.endswith("attention_forward") and
                        id(function) not in self._wrappers):
                    self._watcher.replace(home, name, self._wrapped("eager", function))

    def _replace_entries(self, registry: Any) -> None:
        # A registry's own entries stand before those that all registries share.
        own = getattr(registry, "_local_mapping", registry)
        for name, function in list(registry.items()):
            if id(function) in self._wrappers:
                continue
            was_own = name in own
            registry[name] = self._wrapped(name, function)
            if was_own:
                self._watcher.at_the_end(registry.__setitem__, name, function)
            else:
                self._watcher.at_the_end(registry.__delitem__, name)

    def _wrapped(self, name: str, function: Any) -> Any:
        watcher = self._watcher

        def call(module: Any, query: Any, key: Any, value: Any, attention_mask: Any = None, *args: Any,
                 **kwargs: Any) -> Any:
            if watcher.silent:
                return function(module, query, key, value, attention_mask, *args, **kwargs)
            with watcher.silence():
                result = function(module, query, key, value, attention_mask, *args, **kwargs)
            layer = watcher.layer_of(module)
            if layer is not None:
                # By position, functions take scaling and dropout next.
                given = {**dict(zip(("scaling", "dropout"), args)), **kwargs}
                frames = watcher.frames()
                qkv = query, key, value
                watcher.record(layer, lambda: described(
                    name, module, qkv, attention_mask, given, result, frames), module)
            return result

        self._wrappers[id(call)] = call
        return call


def described(name: str, module: Any, qkv: Tuple[Any, Any, Any], mask: Any, given: Dict[str, Any],
              result: Any, frames: Sequence[Frame]) -> Call:
    """The call of a registered function with these arguments."""
    if "paged" in name:
        raise DumpError(f"{name}: the attention of continuous batches cannot be recorded", 3,
                        "choose another attn_implementation")
    q, k, v = qkv
    window, sinks = given.get("sliding_window"), given.get("s_aux")
    call = Call(q, k, v, scale=given.get("scaling"), dropout=given.get("dropout") or 0.0)
    if name.startswith("sdpa"):
        given = {**given, "softcap": None}  # it has none
    call.softcap = given.get("softcap")
    call.sink = getattr(module, "sinks", None) if sinks is None else sinks
    if isinstance(call.sink, torch.Tensor):
        call.sink = call.sink.reshape(-1)
    causal = given.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    queries, keys = q.shape[-2], k.shape[-2]
    if "flash" in name and (mask is None or mask.dim() == 2):
        # Counts from the last query and key; the mask says which keys are padding.
        if causal and queries > 1:
            call.causal = "top-left" if queries == keys else "bottom-right"
        call.window = window
        if mask is not None:
            call.real_keys = mask[:, :keys].bool()
    else:
        call.window_hint = window
        if mask is None:
            # The others are causal only through their masks.
            bare = name not in ("eager", "flex_attention") and queries > 1
            call.causal = "top-left" if causal and bare else "none"
        else:
            call.allowed, call.bias = split_mask(_dense(mask, q, keys))
    if getattr(module, "is_cross_attention", False):
        call.of_itself = False
    out = result[0] if isinstance(result, tuple) else result
    if isinstance(out, torch.Tensor) and out.dim() == 4:
        call.out = out.transpose(1, 2)
    projections_of(call, frames)
    return call


def _dense(mask: Any, q: Any, keys: int) -> Any:
    """A mask as a tensor: a BlockMask of flex attention has a function of (batch, head, i, j)."""
    if isinstance(mask, torch.Tensor):
        return mask[..., :keys] if mask.dim() == 4 else mask
    function = getattr(mask, "mask_mod", None)
    if not callable(function):
        raise DumpError(f"an attention mask is a {type(mask).__name__}, expected a tensor")
    sizes = q.shape[0], 1, q.shape[2], keys
    shapes = ([-1 if n == axis else 1 for n in range(4)] for axis in range(4))
    places = [torch.arange(size, device=q.device).reshape(shape)
              for size, shape in zip(sizes, shapes)]
    return torch.as_tensor(function(*places)).expand(sizes)
