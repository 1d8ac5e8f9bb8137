"""Watches models run, and writes each call of their attention as soon as it is over."""

import contextlib
import inspect
import shlex
import sys

from . import version
from .bundle import Bundle, time_stamp
from .errors import DumpError, Notes, Unseen, one_and_more, without_library
from .selection import Layers, Numbers

try:
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    raise without_library(missing) from missing

# pylint: disable=wrong-import-position
from .check import agrees, largest_error
from .functions import SDPA, Functions
from .masks import Masks
from .modules import self_recording
from .projections import Frame
from .registry import Registries
from .tokens import Sequences, strings_of

_BY_ITSELF = "computes its attention by itself, not by a function that is recorded"
_FOR_UNSEEN = ("name a function that it calls (--function MODULE:CLASS.METHOD), or load a model of "
               "Hugging Face with attn_implementation=\"sdpa\" (--attention sdpa)")


@contextlib.contextmanager
def recording(path, model, *, tokenizer, tokens, inputs, layers, heads, calls, functions, dtype,
              compress, name, force):
    """What dump_attention.recording() promises."""
    chosen = Layers(layers), Numbers(heads, "--heads"), Numbers(calls, "--calls")
    bundle = Bundle(path, dtype, compress, force)
    try:
        recorder = Recorder(bundle, model, chosen, inputs)
        recorder.tokenizer, recorder.tokens, recorder.name = tokenizer, tokens, name
        with recorder.watching(functions):
            yield recorder
        recorder.finish()
    finally:
        bundle.discard()


class Recorder:
    """`calls`: how many calls of each layer were recorded, by name. `bytes`, `seconds`: what was
    written, and how long that took. `largest_error`: the largest relative difference between what
    the model computed and what follows from the recorded numbers, over some queries of each call.
    """

    def __init__(self, bundle, model, chosen, inputs):
        self.calls = {}
        self.groups_with_tokens = 0
        self.largest_error = 0.0
        self.tokenizer = self.tokens = self.name = None
        self.about = {}  # more attributes of the file
        # As it was typed, where Python tells.
        self.command = shlex.join(getattr(sys, "orig_argv", None) or sys.argv)
        self._bundle, self._model = bundle, model
        self._layers, self._heads, self._numbers = chosen
        self._inputs = inputs
        self._notes, self._differing = Notes(), {}
        self._seen = {}  # calls of each layer, recorded or not
        self._of_attention = {}  # modules of attention that ran, by name
        self._ids = {}  # token ids by group
        self._names = {}  # names of modules, by identity
        self._roots = []  # kept alive, so that no identity is reused
        self._stack = []  # running modules, innermost last
        self._silent = 0  # > 0 while a recorded call runs
        self._sequences = Sequences()
        self._functions = Functions(self)
        self._registries = Registries(self)
        self._undo = contextlib.ExitStack()
        if model is not None:
            if not isinstance(model, torch.nn.Module):
                raise DumpError(f"the model is a {type(model).__name__}, expected a "
                                "torch.nn.Module", 2)
            self._names_of(model)

    @property
    def bytes(self):
        return self._bundle.bytes

    @property
    def seconds(self):
        return self._bundle.seconds

    # --- Watching. ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def watching(self, functions):
        """Replaces what calls attention, and restores it at the end."""
        with self._undo:
            for name in functions:
                self._functions.replace(name)
            if hasattr(F, "scaled_dot_product_attention") and SDPA not in functions:
                self._functions.replace(SDPA)
            self._keep_off_fast_path()
            if self._model is not None:
                self._enter_root(self._model)
            self.replace(torch.nn.Module, "__call__", self._watched)
            yield

    def replace(self, owner, attribute, make):
        """Sets an attribute to make(its value) until the recording ends."""
        own = attribute in vars(owner)
        original = getattr(owner, attribute)
        setattr(owner, attribute, make(original))
        if own:
            self._undo.callback(setattr, owner, attribute, original)
        else:
            self._undo.callback(delattr, owner, attribute)

    def at_the_end(self, call, *arguments):
        """Undoes something when the recording ends."""
        self._undo.callback(call, *arguments)

    def _keep_off_fast_path(self):
        mha = getattr(torch.backends, "mha", None)
        if mha is not None and hasattr(mha, "set_fastpath_enabled"):
            self._undo.callback(mha.set_fastpath_enabled, mha.get_fastpath_enabled())
            mha.set_fastpath_enabled(False)

    def _watched(self, original):
        """Module.__call__ that keeps a stack of the running modules."""
        def call(module, *args, **kwargs):
            if self._silent:
                return original(module, *args, **kwargs)
            if not self._stack:
                self._begin(module, args, kwargs)
            describe = self_recording(module)
            frame = Frame(module)
            self._stack.append(frame)
            self._silent += describe is not None
            try:
                result = original(module, *args, **kwargs)
            finally:
                self._silent -= describe is not None
                self._stack.pop()
            if describe is not None:
                name = self.layer_of(module)
                if name is not None:
                    signature = inspect.signature(describe.forward_of(module))
                    bound = signature.bind(module, *args, **kwargs)
                    bound.apply_defaults()
                    self.record(name, lambda: describe(module, bound.arguments, result, self),
                                module)
            elif isinstance(module, torch.nn.Embedding):
                if args and isinstance(args[0], torch.Tensor):
                    self._sequences.embedded(module, args[0])
            elif self._stack:
                self._stack[-1].projected(module, args, result)
            if frame.of_attention and id(module) in self._names:
                self._of_attention[self._names[id(module)]] = module
            return result

        return call

    def _begin(self, module, args, kwargs):
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
                given |= {str(key): value for key, value in given.pop(extra).items()}
            for extra in [name for name, value in given.items() if isinstance(value, tuple)]:
                given |= {f"{extra}{n}": value for n, value in enumerate(given.pop(extra))}
        except TypeError:
            given = {}
        self._sequences.begin(given)

    def _names_of(self, root):
        prefix = f"{type(root).__name__}." if self._roots else ""
        self._roots.append(root)
        for name, module in root.named_modules():
            self._names.setdefault(id(module), (prefix + name).strip("."))

    def _enter_root(self, root):
        self._functions.replace_copies(root)
        for module in root.modules():
            # In evaluation, an encoder's layers may run as one fused kernel without calling the
            # modules, and on nested tensors, which have no padding.
            if isinstance(module, torch.nn.TransformerEncoderLayer):
                self._set(module, "activation_relu_or_gelu", 0)
            if isinstance(module, torch.nn.TransformerEncoder):
                self._set(module, "enable_nested_tensor", False)
                self._set(module, "use_nested_tensor", False)

    def _set(self, module, attribute, value):
        if hasattr(module, attribute):
            self.replace(module, attribute, lambda _: value)

    # --- Recording. -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def silence(self):
        """What a recorded call calls itself is not recorded."""
        self._silent += 1
        try:
            yield
        finally:
            self._silent -= 1

    @property
    def silent(self):
        return self._silent > 0

    def frames(self):
        """The running modules, innermost first."""
        return list(reversed(self._stack))

    def tables(self):
        """The modules of the models that hold T5's table of biases."""
        return [module for root in self._roots for module in root.modules()
                if isinstance(getattr(module, "relative_attention_bias", None), torch.nn.Embedding)]

    def layer_of(self, module=None, fallback=None):
        """The name of a module of the model, or of the innermost that runs; None: it belongs to
        another model."""
        for one in [module] if module is not None else [frame.module for frame in self.frames()]:
            if id(one) in self._names:
                return self._names[id(one)] or "attention"
        if self._model is not None:
            return None
        return fallback if module is None else type(module).__name__

    def record(self, layer, describe, module=None):
        """Writes the call that describe() returns as the next one of the layer."""
        self._seen[layer] = count = self._seen.get(layer, 0) + 1
        if layer not in self._layers or count not in self._numbers:
            return
        with torch.no_grad(), self.silence():
            try:
                call = describe()
            except DumpError as error:
                kind = "" if module is None else f" ({class_name(module)})"
                raise DumpError(f"{layer}{kind}: {error}", error.status, error.hint) from error
            self._write(layer, layer if count == 1 else f"{layer}@{count}", call, module)
        self.calls[layer] = self.calls.get(layer, 0) + 1

    def _write(self, layer, name, call, module):
        def note(text):
            self._notes.add(layer, text)

        if call.dropout > 0:
            note("dropout is on; what is computed from the dump has none")
        if self._inputs and call.inputs is None:
            note("the inputs are not recorded: no linear modules have names such as q_proj")
        call.inputs = call.inputs(note) if self._inputs and call.inputs else {}
        heads = call.q.shape[-3] if call.q.dim() > 2 else 1
        chosen = self._heads.among(heads, layer)
        if len(chosen) < heads:
            call.keep_heads(chosen)
        elif call.inputs:
            call.inputs |= call.joining()
        masks = Masks(call)
        error = None if call.dropout > 0 else largest_error(call, masks)
        if error is not None:
            self.largest_error = max(self.largest_error, error)
            if not agrees(call, error):
                self._differing[layer] = error
        bundle = self._bundle
        group = bundle.group(name)
        for what in ("q", "k", "v", "bias", "sink", "rel_bias"):
            if getattr(call, what) is not None:
                bundle.put(group, what, getattr(call, what))
        if masks.mask is not None:
            bundle.put(group, "mask", masks.mask, pack=True)  # large, and compresses well
        for what, tensor in (masks.lengths | call.inputs).items():
            bundle.put(group, what, tensor)
        self._note_tokens(group, layer, call)
        with bundle.writing():
            self._attributes(group, call, masks, module, error)
            if len(chosen) < heads:
                group.attrs["heads"] = chosen

    @staticmethod
    def _attributes(group, call, masks, module, error):
        usual = call.scale is None or abs(call.scale * call.q.shape[-1] ** 0.5 - 1) < 1e-6
        group.attrs["attn_energy"] = "scaled-dot" if usual else "dot"
        group.attrs["attn_scale"] = 1.0 if usual else float(call.scale)
        group.attrs["attn_causal"] = masks.causal
        if masks.window is not None:
            group.attrs["attn_window"] = masks.window
        if call.softcap is not None:
            group.attrs["attn_softcap"] = float(call.softcap)
        if call.rel_bias is not None:
            group.attrs["attn_relative_bias"] = "t5"
        if error is not None:
            group.attrs["model_error"] = error
        if module is not None:
            group.attrs["module_class"] = class_name(module)

    def _note_tokens(self, group, layer, call):
        keys, batch = call.k.shape[-2], call.k.shape[0] if call.k.dim() > 2 else 1
        ids = self._sequences.of_keys(keys, batch, call.of_itself, layer)
        if ids is not None:
            self._bundle.put(group, "token_ids", ids)
            self._ids[group.name] = ids
        elif self.tokens is not None:
            self._ids[group.name] = None
        if self.tokens is not None and not self._given_tokens(keys, batch):
            self._ids.pop(group.name, None)

    def _given_tokens(self, keys, batch):
        """Whether the given strings name the keys."""
        if any(not isinstance(word, str) for word in self.tokens):
            return len(self.tokens) in (1, batch) and all(len(row) == keys for row in self.tokens)
        return len(self.tokens) == keys

    def _unseen(self):
        """The names of the layers whose attention ran, but was not seen, by the name of the class.
        A module that contains another one of these is not meant."""
        def paths(names):
            return ["." if name in ("", "attention") else f".{name}." for name in names]

        seen, ran = paths(self._seen), paths(self._of_attention)
        result = {}
        for path, (name, module) in zip(ran, self._of_attention.items()):
            if not (any(one.startswith(path) or path.startswith(one) for one in seen) or
                    any(one.startswith(path) for one in ran if one != path)):
                if name in self._layers:
                    result.setdefault(class_name(module), []).append(name or "the model")
        return result

    def finish(self):
        """Writes what is known at the end."""
        self._functions.replace_pending(at_the_end=True)
        unseen = self._unseen()
        if not self.calls:
            if unseen:
                raise Unseen("no attention was recorded: " + "; ".join(
                    f"{one_and_more(names)}: {kind} {_BY_ITSELF}" for kind, names in unseen.items()
                ), 3, _FOR_UNSEEN)
            if self._seen:
                raise DumpError("no call was recorded: --layers, --heads and --calls leave out all "
                                f"of {', '.join(list(self._seen)[:8])}", 2)
            raise DumpError("no attention was called", 3, "name the function that computes it, "
                            "package.module:function (--function)")
        for name, ids in self._ids.items():
            if self.tokens is not None:
                strings = self.tokens
            elif self.tokenizer is not None:
                strings = strings_of(self.tokenizer, ids)
            else:
                break
            self._bundle.put_strings(self._bundle.file[name], "tokens", strings)
            self.groups_with_tokens += 1
        if self.tokens is not None and not self.groups_with_tokens:
            raise DumpError(f"--tokens: {len(self.tokens)} strings, and no layer has as many keys")
        with self._bundle.writing():
            root = self._bundle.file.attrs
            root["model_class"] = ", ".join(dict.fromkeys(map(class_name, self._roots)))
            name = self.name or next(filter(None, map(_configured_name, self._roots)), None)
            if name:
                root["model_name"] = name
            for what, value in self.about.items():
                root[what] = value
        made = f"{version.read()}, PyTorch {torch.__version__}"
        for layer in self._differing:
            self._notes.add(layer, "the model's output differs from what follows from the recorded "
                            f"numbers, by up to {max(self._differing.values()):.2g} of its size: "
                            "the model does more than was recorded")
        for kind, names in unseen.items():
            for name in names:
                self._notes.add(name, f"not recorded: {kind} {_BY_ITSELF}; {_FOR_UNSEEN}")
        self._notes.tell()
        self._bundle.finish(f"{time_stamp()}: {self.command} ({made})")


def class_name(module):
    """Such as torch.nn.modules.activation.MultiheadAttention."""
    kind = type(module)
    home = "" if kind.__module__ == "__main__" else f"{kind.__module__}."
    return home + kind.__qualname__


def _configured_name(model):
    config = getattr(model, "config", None)
    return getattr(config, "name_or_path", None) or getattr(config, "_name_or_path", None)
