"""Functions of query, key and value: scaled_dot_product_attention, and those that a user names."""

import importlib
import inspect
import sys

import torch

from .call import Call, split_mask
from .errors import DumpError
from .projections import projections_of

SDPA = "torch.nn.functional:scaled_dot_product_attention"
# Of PyTorch 2.5; the function itself is built in and has no signature.
_SDPA_PARAMETERS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale",
                    "enable_gqa")
_ALIASES = {"q": ("query", "q"), "k": ("key", "k"), "v": ("value", "v"),
            "mask": ("attn_mask", "mask", "attention_mask"), "causal": ("is_causal", "causal"),
            "scale": ("scale", "softmax_scale", "scaling"), "dropout": ("dropout_p", "dropout"),
            "softcap": ("softcap",)}


def find(name):
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
    """The functions that a recorder replaces."""

    def __init__(self, recorder):
        self._recorder = recorder
        self._replaced = []  # (original, replacement)
        self._pending = []  # names of functions of the script, which is not there yet

    def replace(self, name):
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
        self._recorder.replace(owner, attribute, lambda _: replacement)

    def replace_pending(self, at_the_end=False):
        """Replaces the functions that the script has by now."""
        pending, self._pending = self._pending, []
        for name in pending:
            self.replace(name)
        if at_the_end and self._pending:
            find(self._pending[0])  # throws

    def replace_copies(self, root):
        """Replaces what the modules of a model imported by `from … import`."""
        homes = {type(module).__module__ for module in root.modules()}
        for home in filter(None, map(sys.modules.get, homes - {"torch.nn.functional"})):
            for name, value in list(vars(home).items()):
                for original, replacement in self._replaced:
                    if value is original:
                        self._recorder.replace(home, name, lambda _, new=replacement: new)

    def _recorded(self, original, attribute, name, bind):
        recorder = self._recorder

        def call(*args, **kwargs):
            if recorder.silent:
                return original(*args, **kwargs)
            with recorder.silence():
                result = original(*args, **kwargs)
            layer = recorder.layer_of(fallback=attribute)
            if layer is not None:
                given = bind(*args, **kwargs)
                frames = recorder.frames()
                recorder.record(layer, lambda: described(given, result, frames, name),
                                frames[0].module if frames else None)
            return result

        return call


def _bind_sdpa(*args, **kwargs):
    return dict(zip(_SDPA_PARAMETERS, args)) | kwargs


def _binding(signature):
    """The arguments of a call by name, with their defaults."""
    def bind(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                given |= given.pop(name)
        return given

    return bind


def described(given, result, frames, name):
    """The call of a function like scaled_dot_product_attention with these arguments."""
    def argument(what):
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
    if not isinstance(out, torch.Tensor) or out.shape[:-1] != q.shape[:-1]:
        out = None
    call = Call(q, k, v, scale=argument("scale"), allowed=allowed, bias=bias,
                causal="top-left" if argument("causal") else "none", softcap=argument("softcap"),
                dropout=argument("dropout") or 0, out=out)
    projections_of(call, frames)
    return call
