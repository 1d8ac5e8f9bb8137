#!/usr/bin/env python3
"""Writes the inputs of a PyTorch model's attention into a bundle, one group per layer.

As a script, around one that runs a model:

    dump-attention.py -o dump.h5 infer.py [its arguments]
    attn-compute --each '/*' dump.h5 | explain-away-stats --each '/*'

As a module (with scripts/ on PYTHONPATH):

    from dump_attention import dump_attention
    with torch.no_grad(), dump_attention(model, "dump.h5"):
        model(tokens)

Dumps every call of nn.MultiheadAttention, of F.scaled_dot_product_attention (if this PyTorch has
it) and of the functions named on the command line ("package.module:function"). A group has the name
of the module in the model, "encoder.layers.0.self_attn"; its second call gets "@2", and so on. A
group holds:

    q (B,H,Lq,d), k (B,H,Lk,d), v (B,H,Lk,dv)   after projection, by head
    mask                                        true = may attend (the opposite of PyTorch's
                                                nn.MultiheadAttention)
    bias                                        added to the scores
    attn_energy, attn_scale, attn_causal        attributes that define the scores. If the scale
                                                is not 1/sqrt(d), energy is "dot". The mask of a
                                                causal call is also stored in `mask`.

bfloat16 becomes float32, which holds it exactly. Needs only torch, h5py and numpy.
"""

import argparse
import contextlib
import datetime
import importlib
import inspect
import os
import runpy
import shlex
import sys
import warnings

import h5py
import torch
import torch.nn.functional as F
from torch.nn.modules import module as hooks

__all__ = ["DumpError", "dump_attention"]

SDPA = "torch.nn.functional:scaled_dot_product_attention"
# As of PyTorch 2.5; the function itself is built in and has no signature.
SDPA_PARAMETERS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale")
ALIASES = {"q": ("query", "q"), "k": ("key", "k"), "v": ("value", "v"),
           "mask": ("attn_mask", "mask", "attention_mask"), "causal": ("is_causal", "causal"),
           "scale": ("scale", "softmax_scale"), "dropout": ("dropout_p",)}


@contextlib.contextmanager
def dump_attention(model, path, functions=(), force=False):
    """Dumps the attention of `model` (None: of every model) into a new bundle at `path` while the
    context lasts. `functions` names further functions to record, "package.module:function": they
    take query, key and value first, or under these names or q, k, v; the arguments attn_mask
    (boolean: true = may attend; else added to the scores), is_causal and scale have the meaning of
    scaled_dot_product_attention. A function is replaced under the given name: a copy made elsewhere
    by `from ... import` must be named there. Raises DumpError if no call was recorded or a call
    cannot be dumped, and FileExistsError; on any exception no file is left behind."""
    if os.path.exists(path) and not force:
        raise FileExistsError(f"{path} exists (force=True replaces it)")
    part = f"{path}.part{os.getpid()}"
    try:
        with new_file(part) as file:
            recorder = Recorder(file, model)
            with recorder.watching(functions):
                yield recorder
            if not recorder.calls:
                raise DumpError("no attention was called; name the function that computes it")
            now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            file.attrs["history"] = f"{now}: {recorder.command} (PyTorch {torch.__version__})"
        os.replace(part, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)


class DumpError(RuntimeError):
    """An attention call cannot be dumped, or there was none."""


class Recorder:
    """The calls so far: `calls` counts them by name of layer."""

    def __init__(self, file, model):
        self.calls = {}
        self.command = shlex.join(sys.argv)  # for the history
        self._file = file
        self._model = model
        self._names = {}  # names of modules, by identity
        self._roots = []  # kept alive, so that no identity is reused
        self._stack = []  # running modules, innermost last
        self._inside = False  # whether a recorded call is running
        self._undo = contextlib.ExitStack()
        if model is not None:
            self._enter_root(model)

    @contextlib.contextmanager
    def watching(self, functions):
        """Replaces the functions, and restores them at the end."""
        names = list(functions)
        if hasattr(F, "scaled_dot_product_attention") and SDPA not in names:
            names.append(SDPA)
        with self._undo:
            for name in names:
                self._wrap_function(name)
            self._replace(torch.nn.MultiheadAttention, "forward", self._wrap_module)
            before = hooks.register_module_forward_pre_hook(self._before)
            self._undo.callback(before.remove)
            after = hooks.register_module_forward_hook(self._after)
            self._undo.callback(after.remove)
            yield

    # --- Running modules. ----------------------------------------------------------------------

    def _before(self, module, _):
        if not self._stack and self._model is None and id(module) not in self._names:
            self._enter_root(module)
        self._stack.append(module)

    def _after(self, module, _, __):
        # A module that raised a caught exception never came here.
        while self._stack and self._stack.pop() is not module:
            pass

    def _enter_root(self, root):
        prefix = f"{type(root).__name__}." if self._roots else ""
        self._roots.append(root)
        for name, module in root.named_modules():
            self._names.setdefault(id(module), (prefix + name).strip("."))
            self._keep_off_fast_path(module)

    def _keep_off_fast_path(self, module):
        """In evaluation, an encoder's layers may run as one fused kernel without calling the
        modules, and on nested tensors, which have no padding."""
        if isinstance(module, torch.nn.TransformerEncoderLayer):
            self._replace(module, "activation_relu_or_gelu", lambda _: 0)
        if isinstance(module, torch.nn.TransformerEncoder):
            self._replace(module, "enable_nested_tensor", lambda _: False)
            self._replace(module, "use_nested_tensor", lambda _: False)

    def _replace(self, owner, attribute, make):
        if not hasattr(owner, attribute):
            return
        original = getattr(owner, attribute)
        setattr(owner, attribute, make(original))
        self._undo.callback(setattr, owner, attribute, original)

    def _layer(self, fallback):
        """The innermost running module of the model; None: a module of another model."""
        for module in reversed(self._stack):
            if id(module) in self._names:
                return self._names[id(module)] or fallback
        return fallback if self._model is None else None

    # --- Recorded calls. -----------------------------------------------------------------------

    @contextlib.contextmanager
    def _once(self):
        before, self._inside = self._inside, True
        try:
            yield
        finally:
            self._inside = before

    def _wrap_module(self, original):
        parameters = inspect.signature(original)

        def forward(module, *args, **kwargs):
            with self._once():
                result = original(module, *args, **kwargs)
            name = self._names.get(id(module))
            if name is None and self._model is None:
                name = type(module).__name__
            if name is not None:
                bound = parameters.bind(module, *args, **kwargs)
                bound.apply_defaults()
                with torch.no_grad():
                    self._write(name or "attention", module_call(module, bound.arguments))
            return result

        return forward

    def _wrap_function(self, name):
        owner, attribute = find(name)
        self._replace(owner, attribute, lambda original: self._recorded(original, attribute, name))

    def _recorded(self, original, attribute, name):
        if name == SDPA:
            parameters = SDPA_PARAMETERS
        else:
            parameters = tuple(inspect.signature(original).parameters)

        def call(*args, **kwargs):
            if self._inside:
                return original(*args, **kwargs)
            with self._once():
                result = original(*args, **kwargs)
            layer = self._layer(attribute)
            if layer is not None:
                given = dict(zip(parameters, args)) | kwargs
                with torch.no_grad():
                    self._write(layer, function_call(given, name))
            return result

        return call

    def _write(self, layer, call):
        self.calls[layer] = self.calls.get(layer, 0) + 1
        count = self.calls[layer]
        group = self._file.create_group(layer if count == 1 else f"{layer}@{count}")
        if call.pop("dropout") > 0:
            warnings.warn(f"{layer}: dropout is on, what is computed from the dump has none")
        for name in ("q", "k", "v", "mask", "bias"):
            if call.get(name) is not None:
                values = to_numpy(call[name])
                # Masks are large and compress well.
                packed = {"compression": "gzip"} if name == "mask" and values.size > 4096 else {}
                group.create_dataset(name, data=values, **packed)
        depth = call["q"].shape[-1]
        scale = call.get("scale")
        usual = scale is None or abs(scale * depth**0.5 - 1) < 1e-12
        group.attrs["attn_energy"] = "scaled-dot" if usual else "dot"
        group.attrs["attn_scale"] = 1.0 if usual else float(scale)
        group.attrs["attn_causal"] = "top-left" if call.get("causal") else "none"


def new_file(path):
    try:
        return h5py.File(path, "w-")
    except OSError as error:
        raise DumpError(f"{path} cannot be written: {error}") from error


def find(name):
    """The owner and the attribute of "package.module:function" or "...:Class.method"."""
    module, _, attribute = name.partition(":")
    try:
        owner = importlib.import_module(module)
        *path, last = attribute.split(".")
        for part in path:
            owner = getattr(owner, part)
        getattr(owner, last)
    except (ImportError, AttributeError, ValueError) as error:
        raise DumpError(f"{name}: {error}; expected package.module:function") from error
    return owner, last


def to_numpy(tensor):
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def masks_of(*given):
    """Combines `mask` (true = may attend) and `bias` of tensors that broadcast: boolean tensors are
    masks, others are added."""
    mask, bias = None, None
    for tensor in given:
        if tensor is None:
            continue
        if tensor.is_floating_point():
            bias = tensor if bias is None else bias + tensor
        else:
            tensor = tensor.bool()
            mask = tensor if mask is None else mask & tensor
    return {"mask": mask, "bias": bias}


def function_call(given, name):
    """The inputs of a call of a function like scaled_dot_product_attention with these arguments."""
    def argument(what):
        return next((given[alias] for alias in ALIASES[what] if given.get(alias) is not None), None)

    call = {what: argument(what) for what in ("q", "k", "v")}
    if any(not isinstance(tensor, torch.Tensor) or tensor.dim() < 2 for tensor in call.values()):
        raise DumpError(f"{name} has no arguments query, key and value (or q, k, v) to dump")
    queries, keys = call["q"].shape[-2], call["k"].shape[-2]
    causal = bool(argument("causal"))
    triangle = torch.ones(queries, keys, dtype=torch.bool).tril() if causal else None
    mask = argument("mask")
    return call | {"scale": argument("scale"), "causal": causal,
                   "dropout": argument("dropout") or 0} | masks_of(
                       triangle, mask.detach().cpu() if mask is not None else None)


def module_call(module, given):
    """The inputs of a call of nn.MultiheadAttention, by head, from its own projections."""
    inputs = [given[name] for name in ("query", "key", "value")]
    if any(getattr(tensor, "is_nested", False) for tensor in inputs):
        raise DumpError("nested tensors cannot be dumped; enable_nested_tensor=False avoids them")
    batched = inputs[0].dim() == 3
    if not batched:
        inputs = [tensor.unsqueeze(0) for tensor in inputs]
    elif not module.batch_first:
        inputs = [tensor.transpose(0, 1) for tensor in inputs]
    if module._qkv_same_embed_dim:  # pylint: disable=protected-access
        weights = module.in_proj_weight.chunk(3)
    else:
        weights = module.q_proj_weight, module.k_proj_weight, module.v_proj_weight
    biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    q, k, v = map(F.linear, inputs, weights, biases)
    batch, heads, queries = len(q), module.num_heads, q.shape[1]
    # Keys that belong to the module, which no mask covers.
    more = 0
    if module.bias_k is not None:
        k = torch.cat([k, module.bias_k.expand(batch, 1, -1)], 1)
        v = torch.cat([v, module.bias_v.expand(batch, 1, -1)], 1)
        more += 1
    if module.add_zero_attn:
        k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
        more += 1
    q, k, v = (x.reshape(batch, -1, heads, x.shape[-1] // heads).transpose(1, 2)
               for x in (q, k, v))

    def allowing(mask):
        # In PyTorch, true = masked.
        if mask is None:
            return None
        mask = mask.detach().cpu()
        mask = mask if mask.is_floating_point() else ~mask.bool()
        return F.pad(mask, (0, more), value=0 if mask.is_floating_point() else True)

    padding = allowing(given.get("key_padding_mask"))
    if padding is not None:
        padding = padding.reshape(batch, 1, 1, -1)
    mask = allowing(given.get("attn_mask"))
    if mask is not None and mask.dim() == 3:
        mask = mask.reshape(batch, heads, queries, -1)
    return {"q": q, "k": k, "v": v, "dropout": module.dropout if module.training else 0,
            } | masks_of(padding, mask)


def main():
    parser = argparse.ArgumentParser(
        description="Runs a Python script, and writes the inputs of its attention into a bundle.",
        epilog="Then: attn-compute --each '/*' dump.h5 | explain-away-stats --each '/*'")
    parser.add_argument("-o", "--output", metavar="FILE", required=True)
    parser.add_argument("--force", action="store_true", help="replace an existing FILE")
    parser.add_argument("--function", metavar="MODULE:NAME", action="append", default=[],
                        help="another function of query, key and value to record, besides "
                        "nn.MultiheadAttention and scaled_dot_product_attention; may be repeated")
    parser.add_argument("script", help="Python script that runs the model")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args()
    if not os.path.isfile(options.script):
        parser.error(f"there is no script {options.script}")
    # As Python does for a script: its arguments, and its folder for modules.
    sys.argv = [options.script, *options.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(options.script))
    command = shlex.join(["dump-attention.py", "-o", options.output, *sys.argv])
    try:
        with dump_attention(None, options.output, options.function, options.force) as recorder:
            recorder.command = command
            try:
                runpy.run_path(options.script, run_name="__main__")
            except SystemExit as leaving:
                if leaving.code not in (None, 0):
                    raise
    except (DumpError, FileExistsError) as error:
        parser.exit(1, f"{parser.prog}: error: {error}\n")
    print(f"{parser.prog}: {len(recorder.calls)} layers, {sum(recorder.calls.values())} calls -> "
          f"{options.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
