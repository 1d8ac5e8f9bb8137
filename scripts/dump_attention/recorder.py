"""Writes each call of the attention of models as soon as it is over."""

import contextlib
import shlex
import sys
import warnings

from . import version
from .bundle import Bundle, time_stamp
from .errors import DumpError, DumpWarning, without_library

try:
    import torch
except ImportError as missing:
    raise without_library(missing) from missing

# pylint: disable=wrong-import-position
from .masks import Masks
from .operands import attributes_of, datasets_of
from .tokens import name_all, strings_of
from .watcher import Watcher, class_name


@contextlib.contextmanager
def recording(path, model, *, tokenizer, tokens, inputs, layers, heads, calls, functions, dtype,
              compress, name, force):
    """What dump_attention.recording() promises."""
    recorder = Recorder(model, inputs, layers, heads, calls)
    recorder.bundle = bundle = Bundle(path, dtype, compress, force)
    try:
        recorder.tokenizer, recorder.tokens, recorder.name = tokenizer, tokens, name
        with recorder.watching(functions):
            yield recorder
        recorder.finish()
    finally:
        bundle.discard()


class Recorder(Watcher):
    """A watcher that writes into `bundle`, if `inputs` with the inputs of the projections. `bytes`,
    `seconds`: what was written, and how long that took."""

    keeps_fast_paths = False  # so that every call can be checked against the output of the model
    prefix = "--"
    unseen_hint = ("name a function that it calls (--function MODULE:CLASS.METHOD), or load a model of "
                   "Hugging Face with attn_implementation=\"sdpa\" (--attention sdpa)")
    idle_hint = "name the function that computes it, package.module:function (--function)"

    def __init__(self, model, inputs, layers, heads, calls):
        super().__init__(model, layers, heads, calls)
        self.bundle = None
        self.groups_with_tokens = 0
        self.tokenizer = self.tokens = self.name = None
        self.about = {}  # more attributes of the file
        # As it was typed, where Python tells.
        self.command = shlex.join(getattr(sys, "orig_argv", None) or sys.argv)
        self._inputs = inputs
        self._ids = {}  # token ids by group

    @property
    def bytes(self):
        return self.bundle.bytes

    @property
    def seconds(self):
        return self.bundle.seconds

    def take(self, layer, name, call, module):
        def note(text):
            self.notes.add(layer, text)

        if call.dropout > 0:
            note("dropout is on; what is computed from the dump has none")
        if self._inputs and call.inputs is None:
            note("the inputs are not recorded: no linear modules have names such as q_proj")
        call.inputs = call.inputs(note) if self._inputs and call.inputs else {}
        chosen, heads = self.heads_among(call, layer)
        if len(chosen) < heads:
            call.keep_heads(chosen)
        elif call.inputs:
            call.inputs |= call.joining()
        masks = Masks(call)
        error = self.error_of(layer, call, masks)
        bundle = self.bundle
        group = bundle.group(name)
        for what, tensor in (datasets_of(call, masks) | call.inputs).items():
            bundle.put(group, what, tensor, pack=what == "mask")  # large, and compresses well
        self._note_tokens(group, layer, call)
        with bundle.writing():
            group.attrs.update(attributes_of(call, masks))
            if error is not None:
                group.attrs["model_error"] = error
            if module is not None:
                group.attrs["module_class"] = class_name(module)
            if len(chosen) < heads:
                group.attrs["heads"] = chosen

    def _note_tokens(self, group, layer, call):
        keys, batch = call.k.shape[-2], call.k.shape[0] if call.k.dim() > 2 else 1
        ids = self._sequences.of_keys(keys, batch, call.of_itself, layer)
        if ids is not None:
            self.bundle.put(group, "token_ids", ids)
            self._ids[group.name] = ids
        elif self.tokens is not None:
            self._ids[group.name] = None
        if self.tokens is not None and not name_all(self.tokens, keys, batch):
            self._ids.pop(group.name, None)

    def finish(self):
        """Writes what is known at the end."""
        self.conclude()
        for name, ids in self._ids.items():
            if self.tokens is not None:
                strings = self.tokens
            elif self.tokenizer is not None:
                strings = strings_of(self.tokenizer, ids)
            else:
                break
            self.bundle.put_strings(self.bundle.file[name], "tokens", strings)
            self.groups_with_tokens += 1
        if self.tokens is not None and not self.groups_with_tokens:
            raise DumpError(f"--tokens: {len(self.tokens)} strings, and no layer has as many keys")
        with self.bundle.writing():
            root = self.bundle.file.attrs
            root["model_class"] = self.model_class
            name = self.name or self.model_name
            if name:
                root["model_name"] = name
            root.update(self.about)
        for line in self.notes.lines():
            warnings.warn(line, DumpWarning, stacklevel=4)  # where recording() ends
        made = f"{version.read()}, PyTorch {torch.__version__}"
        self.bundle.finish(f"{time_stamp()}: {self.command} ({made})")
