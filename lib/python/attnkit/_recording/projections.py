"""What the queries, keys and values of a layer were made of: its inputs and projections."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from .call import Call

# Names of linear modules, without underscores and in small letters.
_NAME = r"(?:to|w|linear|in)?{}(?:proj|projection|lin|linear|layer)?"
_PATTERNS = {"q": _NAME.format("(?:q|query|queries)"), "k": _NAME.format("(?:k|key|keys)"),
             "v": _NAME.format("(?:v|value|values)"),
             "qkv": _NAME.format("(?:qkv|querykeyvalue|cattn|inproj)"), "kv": _NAME.format("kv")}


class Frame:
    """A running module, and what its linear modules did so far."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.linear: Dict[str, Tuple[Any, Any, Any]] = {}  # q, k, v, qkv or kv: (module, input, output)

    @property
    def of_attention(self) -> bool:
        """Whether the module is one of attention, by its projections or the name of its class."""
        return ({"q", "k", "v"} <= self.linear.keys() or
                re.search(r"(?i)att(?:ention|n)[v\d]*$", type(self.module).__name__) is not None)

    def projected(self, module: Any, args: Tuple[Any, ...], result: Any) -> None:
        """A module inside of this one was called."""
        weight = getattr(module, "weight", None)
        if not (isinstance(weight, torch.Tensor) and weight.dim() == 2 and len(args) == 1 and
                isinstance(args[0], torch.Tensor) and isinstance(result, torch.Tensor)):
            return
        for name, child in self.module.named_children():
            if child is module:
                plain = name.lower().replace("_", "")
                for what, pattern in _PATTERNS.items():
                    if re.fullmatch(pattern, plain):
                        self.linear[what] = (module, args[0], result)


def _weight(module: Any) -> Any:
    """(out, in), also of the Conv1D of Hugging Face, which stores (in, out)."""
    return module.weight.T if type(module).__name__ == "Conv1D" else module.weight


def _same(one: Any, other: Any) -> bool:
    return one is other or bool(one.data_ptr() == other.data_ptr() and one.shape == other.shape)


class _Projection:
    """One of q, k, v: the rows of weight, bias and output of a linear module that make it."""

    def __init__(self, linear: Tuple[Any, Any, Any], rows: Any = slice(None)) -> None:
        module, self.x, output = linear
        self.weight, self.output = _weight(module)[rows], output[..., rows]
        bias = getattr(module, "bias", None)
        self.bias = None if bias is None else bias[rows]

    def factor(self, made: Any) -> Optional[float]:
        """c with made = c·output; None if there is none."""
        heads = made.shape[-3]
        batch = made.shape[0]
        if self.output.numel() != made.numel():
            return None
        own = self.output.reshape(batch, -1, heads, made.shape[-1]).transpose(1, 2)
        own, made = own.double(), made.double()
        size = float((own * own).sum())
        factor = float((own * made).sum()) / size if size else 1.0
        # A factor that is one but for rounding is one.
        factor = 1.0 if abs(factor - 1) < 1e-3 else factor
        limit = 2e-2 if self.output.dtype in (torch.float16, torch.bfloat16) else 1e-4
        error = float((factor * own - made).abs().max()) if own.numel() else 0.0
        return factor if error <= limit * max(float(made.abs().max()), 1e-30) else None

    def stored(self, heads: int, factor: float) -> Tuple[Any, Any]:
        """(w (H, D, d), b (H, d) or None)."""
        weight = self.weight.reshape(heads, -1, self.weight.shape[-1]).transpose(1, 2) * factor
        return weight, None if self.bias is None else self.bias.reshape(heads, -1) * factor


def _joint(frame: Frame, call: Call) -> Optional[Tuple[Tuple[Any, Any, Any], Sequence[int]]]:
    """The linear module that makes q, k, v or k, v together, with the sizes of these; None if there is
    none of these sizes."""
    sizes = [tensor.shape[-3] * tensor.shape[-1] for tensor in (call.q, call.k, call.v)]
    if "q" in frame.linear and "kv" in frame.linear:
        linear, sizes = frame.linear["kv"], sizes[1:]
    elif "qkv" in frame.linear:
        linear = frame.linear["qkv"]
    else:
        return None
    return (linear, sizes) if _weight(linear[0]).shape[0] == sum(sizes) else None


def _sources(frame: Frame, call: Call) -> Optional[Tuple[Any, Any]]:
    """What queries and keys were made of; None if no linear modules have such names and sizes."""
    if all(name in frame.linear for name in "qkv"):
        return frame.linear["q"][1], frame.linear["k"][1]
    joint = _joint(frame, call)
    if joint is None:
        return None
    (_, source, _), sizes = joint
    return (frame.linear["q"][1] if len(sizes) == 2 else source), source


def _split(frame: Frame, call: Call) -> Optional[List[_Projection]]:
    """q, k, v as _Projections; None if the values are no part of a joint projection."""
    if all(name in frame.linear for name in "qkv"):
        return [_Projection(frame.linear[name]) for name in "qkv"]
    joint = _joint(frame, call)
    parts = joint and _parts(*joint, call)
    return parts if not parts or len(parts) == 3 else [_Projection(frame.linear["q"]), *parts]


def _parts(linear: Tuple[Any, Any, Any], sizes: Sequence[int], call: Call) -> Optional[List[_Projection]]:
    """The parts of a joint projection: one after the other, or by head, whichever makes v."""
    every = torch.arange(sum(sizes))
    orders = [every.split(sizes)]
    if len(set(sizes)) == 1:
        by_head = every.reshape(call.k.shape[-3], len(sizes), -1)
        orders.append([by_head[:, n].reshape(-1) for n in range(len(sizes))])
    for order in orders:
        parts = [_Projection(linear, part.to(linear[2].device)) for part in order]
        if parts[-1].factor(call.v) is not None:
            return parts
    return None


def projections_of(call: Call, frames: Sequence[Frame]) -> None:
    """Finds the projections of a call in the running modules, innermost first: sets of_itself, and
    `inputs`, which computes the rest when it is asked for."""
    if call.q.dim() != 4:
        return
    for frame in frames:
        sources = _sources(frame, call)
        if sources is None:
            continue
        if call.of_itself is None:
            call.of_itself = _same(*sources)
        call.inputs = lambda note: _inputs(frame, call, note)
        return


def _inputs(frame: Frame, call: Call, note: Callable[[str], None]) -> Dict[str, Any]:
    parts = _split(frame, call)
    if parts is None:
        note("the inputs are not recorded, as the values are not a part of the joint projection")
        return {}
    return _made(call, parts, note)


def _made(call: Call, parts: Sequence[_Projection], note: Callable[[str], None]) -> Dict[str, Any]:
    """The datasets by name; an empty dictionary if they cannot be told. note(text) tells why."""
    q, k, v = parts
    tensors = call.q, call.k, call.v
    if not _same(k.x, v.x) or any(part.output.numel() != tensor.numel()
                                  for part, tensor in zip(parts, tensors)):
        note("the inputs are not recorded, as keys and values come from several inputs or from a "
             "cache")
        return {}
    factors = [part.factor(tensor) for part, tensor in zip(parts, tensors)]
    made = {}
    for name, part, tensor, factor in zip("qkv", parts, tensors, factors):
        weight, bias = part.stored(tensor.shape[-3], 1.0 if factor is None else factor)
        made["w" + name] = weight
        if bias is not None:
            made["b" + name] = bias
    batch = call.q.shape[0]
    made["x"] = q.x.reshape(batch, -1, q.x.shape[-1])
    if not _same(q.x, k.x):
        made["y"] = k.x.reshape(batch, -1, k.x.shape[-1])
    differing = [name for name, factor in zip("qkv", factors) if factor is None]
    if differing:
        note(f"{' and '.join(differing)} are not the projections of the inputs alone (rotary "
             "positions, or a normalisation): --from projection leaves that out")
    return made
