"""Watches models run, and hands on each call of their attention as soon as it is over."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F

from .call import Call
from .check import agrees, largest_error
from .errors import DumpError, Notes, Unseen, one_and_more
from .functions import SDPA, Functions
from .masks import Masks
from .modules import arguments_of, fast_layer_call, self_recording
from .projections import Frame
from .registry import Registries
from .selection import Layers, Numbers
from .tokens import Sequences

_BY_ITSELF = "computes its attention by itself, not by a function that is recorded"


class _Running(threading.local):
    """What runs in a thread."""

    def __init__(self) -> None:
        self.stack: List[Frame] = []  # modules, innermost last
        self.silent = 0  # > 0 while a recorded call runs


class Watcher:
    """Watches `model`, or every model if that is None, and calls take() for the calls of attention
    that `layers` and `calls` choose. `calls` becomes how many were taken of each layer, by name.
    `largest_error`: the largest relative difference between what the model computed and what follows
    from the recorded numbers, over some queries of each call."""

    keeps_fast_paths = True
    """Whether layers of an encoder may run as one fused kernel, as without a watcher. It computes other
    last bits than the modules of a layer do, and its output does not show that of attention."""
    prefix = ""
    """What stands before the name of an option in messages."""
    unseen_hint = ('name a function that it calls (function="MODULE:CLASS.METHOD"), or load a model of '
                   'Hugging Face with attn_implementation="sdpa"')
    idle_hint = 'name the function that computes it, function="package.module:function"'

    def __init__(self, model: Any, layers: Any = None, heads: Any = None, calls: Any = None) -> None:
        self.calls: Dict[str, int] = {}
        self.largest_error = 0.0
        self._model = model
        self._layers = Layers(layers, self.prefix + "layers")
        self._heads = Numbers(heads, self.prefix + "heads")
        self._numbers = Numbers(calls, self.prefix + "calls")
        self.notes = Notes()
        self._differing: Dict[str, float] = {}
        self._seen: Dict[str, int] = {}  # calls of each layer, taken or not
        self._of_attention: Dict[str, Any] = {}  # modules of attention that ran, by name
        self._names: Dict[int, str] = {}  # names of modules, by identity
        self._roots: List[Any] = []  # kept alive, so that no identity is reused
        self._running = _Running()
        self._taking = threading.Lock()
        self._sequences = Sequences()
        self._functions = Functions(self)
        self._registries = Registries(self)
        self._undo = contextlib.ExitStack()
        if model is not None:
            if not isinstance(model, torch.nn.Module):
                raise DumpError(f"the model is a {type(model).__name__}, expected a "
                                "torch.nn.Module", 2)
            self._names_of(model)

    def take(self, layer: str, name: str, call: Call, module: Any) -> None:
        """Takes a call; `name` tells it from the other calls of its layer."""
        raise NotImplementedError

    # --- Watching. ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def watching(self, functions: Sequence[str]) -> Iterator[None]:
        """Replaces what calls attention, and restores it at the end."""
        with self._undo:
            for name in functions:
                self._functions.replace(name)
            if hasattr(F, "scaled_dot_product_attention") and SDPA not in functions:
                self._functions.replace(SDPA)
            if not self.keeps_fast_paths:
                self._keep_off_fast_path()
            if self._model is not None:
                self._enter_root(self._model)
            self.replace(torch.nn.Module, "__call__", self._watched(torch.nn.Module.__call__))
            yield

    def replace(self, owner: Any, attribute: str, value: Any) -> None:
        """Sets an attribute until the recording ends."""
        own = attribute in vars(owner)
        original = getattr(owner, attribute)
        setattr(owner, attribute, value)
        if own:
            self._undo.callback(setattr, owner, attribute, original)
        else:
            self._undo.callback(delattr, owner, attribute)

    def at_the_end(self, call: Callable[..., object], *arguments: Any) -> None:
        """Undoes something when the recording ends."""
        self._undo.callback(call, *arguments)

    def _keep_off_fast_path(self) -> None:
        mha = getattr(torch.backends, "mha", None)
        if mha is not None and hasattr(mha, "set_fastpath_enabled"):
            self._undo.callback(mha.set_fastpath_enabled, mha.get_fastpath_enabled())
            mha.set_fastpath_enabled(False)

    def _watched(self, original: Any) -> Any:
        """Module.__call__ that keeps a stack of the running modules."""
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if self._running.silent:
                return original(module, *args, **kwargs)
            if not self._running.stack:
                self._begin(module, args, kwargs)
            describe = self_recording(module)
            fast = self._fast_layer(module)
            frame = Frame(module)
            self._running.stack.append(frame)
            self._running.silent += describe is not None
            try:
                result = original(module, *args, **kwargs)
            finally:
                self._running.silent -= describe is not None
                self._running.stack.pop()
            if describe is not None:
                name = self.layer_of(module)
                if name is not None:
                    given = arguments_of(describe, module, args, kwargs)
                    self.record(name, functools.partial(describe, module, given, result, self), module)
            elif fast is not None and fast == self._fast_layer(module):
                given = arguments_of(fast_layer_call, module, args, kwargs)
                self.record(fast[0], functools.partial(fast_layer_call, module, given, result, self),
                            module.self_attn)
            elif isinstance(module, torch.nn.Embedding):
                if args and isinstance(args[0], torch.Tensor):
                    self._sequences.embedded(module, args[0])
            elif self._running.stack:
                self._running.stack[-1].projected(module, args, result)
            if frame.of_attention and id(module) in self._names:
                self._of_attention[self._names[id(module)]] = module
            return result

        return call

    def _fast_layer(self, module: Any) -> Optional[Tuple[str, int]]:
        """The name of the attention of a layer that may run as one kernel, and its calls so far, which
        a run as one kernel does not change."""
        if not (self.keeps_fast_paths and isinstance(module, torch.nn.TransformerEncoderLayer)):
            return None
        name = self.layer_of(module.self_attn)
        return None if name is None else (name, self._seen.get(name, 0))

    def _begin(self, module: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        """A module is called from outside of any other."""
        self._functions.replace_pending()
        if self._model is None and id(module) not in self._names:
            self._names_of(module)
            self._enter_root(module)
        for root in self._roots:
            self._registries.watch(root)
        try:
            bound = inspect.signature(type(module).forward).bind(module, *args, **kwargs)
            given = dict(bound.arguments)
            for extra in [name for name, value in given.items() if isinstance(value, dict)]:
                given.update({str(key): value for key, value in given.pop(extra).items()})
            for extra in [name for name, value in given.items() if isinstance(value, tuple)]:
                given.update({f"{extra}{n}": value for n, value in enumerate(given.pop(extra))})
        except TypeError:
            given = {}
        self._sequences.begin(given)

    def _names_of(self, root: Any) -> None:
        prefix = f"{type(root).__name__}." if self._roots else ""
        self._roots.append(root)
        for name, module in root.named_modules():
            self._names.setdefault(id(module), (prefix + name).strip("."))

    def _enter_root(self, root: Any) -> None:
        self._functions.replace_copies(root)
        if self.keeps_fast_paths:
            return
        for module in root.modules():
            # In evaluation, an encoder's layers may run as one fused kernel without calling the
            # modules, and on nested tensors, which have no padding.
            if isinstance(module, torch.nn.TransformerEncoderLayer):
                self._set(module, "activation_relu_or_gelu", 0)
            if isinstance(module, torch.nn.TransformerEncoder):
                self._set(module, "enable_nested_tensor", False)
                self._set(module, "use_nested_tensor", False)

    def _set(self, module: Any, attribute: str, value: Any) -> None:
        if hasattr(module, attribute):
            self.replace(module, attribute, value)

    # --- What runs. -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def silence(self) -> Iterator[None]:
        """What a recorded call calls itself is not recorded."""
        self._running.silent += 1
        try:
            yield
        finally:
            self._running.silent -= 1

    @property
    def silent(self) -> bool:
        return self._running.silent > 0

    def frames(self) -> List[Frame]:
        """The running modules, innermost first."""
        return list(reversed(self._running.stack))

    def tables(self) -> List[Any]:
        """The modules of the models that hold T5's table of biases."""
        return [module for root in self._roots for module in root.modules()
                if isinstance(getattr(module, "relative_attention_bias", None), torch.nn.Embedding)]

    def layer_of(self, module: Any = None, fallback: Optional[str] = None) -> Optional[str]:
        """The name of a module of the model, or of the innermost that runs; None: it belongs to
        another model."""
        for one in [module] if module is not None else [frame.module for frame in self.frames()]:
            if id(one) in self._names:
                return self._names[id(one)] or "attention"
        if self._model is not None:
            return None
        return fallback if module is None else type(module).__name__

    # --- Calls. ---------------------------------------------------------------------------------

    def record(self, layer: str, describe: Callable[[], Call], module: Any = None) -> None:
        """Takes the call that describe() returns as the next one of the layer."""
        with self._taking:
            self._record(layer, describe, module)

    def _record(self, layer: str, describe: Callable[[], Call], module: Any) -> None:
        self._seen[layer] = count = self._seen.get(layer, 0) + 1
        if layer not in self._layers or count not in self._numbers:
            return
        with torch.no_grad(), self.silence():
            try:
                call = describe()
            except DumpError as error:
                kind = "" if module is None else f" ({class_name(module)})"
                raise DumpError(f"{layer}{kind}: {error}", error.status, error.hint) from error
            self.take(layer, layer if count == 1 else f"{layer}@{count}", call, module)
        self.calls[layer] = self.calls.get(layer, 0) + 1

    def heads_among(self, call: Call, layer: str) -> Tuple[List[int], int]:
        """The chosen query heads of a call, and the number of all of them."""
        count = call.q.shape[-3] if call.q.dim() > 2 else 1
        return self._heads.among(count, layer), count

    def error_of(self, layer: str, call: Call, masks: Masks) -> Optional[float]:
        """The difference between the output of the model and what follows from the call; None if it is
        not known."""
        error = None if call.dropout > 0 else largest_error(call, masks)
        if error is not None:
            self.largest_error = max(self.largest_error, error)
            if not agrees(call, error):
                self._differing[layer] = error
        return error

    # --- The end. -------------------------------------------------------------------------------

    def _unseen(self) -> Dict[str, List[str]]:
        """The names of the layers whose attention ran, but was not seen, by the name of the class.
        A module that contains another one of these is not meant."""
        def paths(names: Any) -> List[str]:
            return ["." if name in ("", "attention") else f".{name}." for name in names]

        seen, ran = paths(self._seen), paths(self._of_attention)
        result: Dict[str, List[str]] = {}
        for path, (name, module) in zip(ran, self._of_attention.items()):
            if not (any(one.startswith(path) or path.startswith(one) for one in seen) or
                    any(one.startswith(path) for one in ran if one != path)):
                if name in self._layers:
                    result.setdefault(class_name(module), []).append(name or "the model")
        return result

    def conclude(self) -> None:
        """Notes what the calls lack. Throws if none was taken."""
        self._functions.replace_pending(at_the_end=True)
        unseen = self._unseen()
        if not self.calls:
            if unseen:
                raise Unseen("no attention was recorded: " + "; ".join(
                    f"{one_and_more(names)}: {kind} {_BY_ITSELF}" for kind, names in unseen.items()
                ), 3, self.unseen_hint)
            if self._seen:
                options = "{0}layers, {0}heads and {0}calls".format(self.prefix)
                raise DumpError(f"no call was recorded: {options} leave out all "
                                f"of {', '.join(list(self._seen)[:8])}", 2)
            raise DumpError("no attention was called", 3, self.idle_hint)
        for layer in self._differing:
            self.notes.add(layer, "the model's output differs from what follows from the recorded "
                            f"numbers, by up to {max(self._differing.values()):.2g} of its size: "
                            "the model does more than was recorded")
        for kind, names in unseen.items():
            for name in names:
                self.notes.add(name, f"not recorded: {kind} {_BY_ITSELF}; {self.unseen_hint}")

    @property
    def model_class(self) -> str:
        """The classes of the models that ran."""
        return ", ".join(dict.fromkeys(map(class_name, self._roots)))

    @property
    def model_name(self) -> Optional[str]:
        """The name in the configuration of a model, if there is one."""
        return next(filter(None, map(_configured_name, self._roots)), None)


def class_name(module: Any) -> str:
    """Such as torch.nn.modules.activation.MultiheadAttention."""
    kind = type(module)
    home = "" if kind.__module__ == "__main__" else f"{kind.__module__}."
    return home + kind.__qualname__


def _configured_name(model: Any) -> Optional[str]:
    config = getattr(model, "config", None)
    return getattr(config, "name_or_path", None) or getattr(config, "_name_or_path", None)
