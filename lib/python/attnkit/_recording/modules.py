"""Modules that compute attention by themselves: nn.MultiheadAttention, and that of T5."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F

from .call import Call, both, split_mask
from .errors import DumpError
from .masks import Masks

if TYPE_CHECKING:
    from .watcher import Watcher

Describe = Callable[[Any, Dict[str, Any], Any, "Watcher"], Call]


def self_recording(module: Any) -> Optional[Describe]:
    """The function that describes a call of this module; None if it is not such a module."""
    if isinstance(module, torch.nn.MultiheadAttention):
        return multihead_call
    code = getattr(type(module).forward, "__code__", None)
    if (all(isinstance(getattr(module, name, None), torch.nn.Linear) for name in "qkvo") and
            hasattr(module, "n_heads") and hasattr(module, "key_value_proj_dim") and
            # Else it is seen there.
            "ALL_ATTENTION_FUNCTIONS" not in getattr(code, "co_names", ())):
        return t5_call
    return None


def arguments_of(describe: Describe, module: Any, args: Tuple[Any, ...],
                 kwargs: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments of a call of such a module by name."""
    # A subclass of nn.MultiheadAttention may hand them on as *args.
    described: Any = torch.nn.MultiheadAttention if describe is multihead_call else type(module)
    bound = inspect.signature(described.forward).bind(module, *args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


# --- nn.MultiheadAttention. -----------------------------------------------------------------------


def multihead_call(module: Any, given: Dict[str, Any], result: Any, _: Watcher) -> Call:
    """A call of nn.MultiheadAttention: its projections, computed anew."""
    inputs = [given[name] for name in ("query", "key", "value")]
    if any(getattr(tensor, "is_nested", False) for tensor in inputs):
        raise DumpError("nested tensors cannot be recorded", 3,
                        "enable_nested_tensor=False avoids them")
    out = result[0]
    batched = inputs[0].dim() == 3
    of_itself = given["query"] is given["key"]
    if not batched:
        inputs, out = [tensor.unsqueeze(0) for tensor in inputs], out.unsqueeze(0)
    elif not module.batch_first:
        inputs, out = [tensor.transpose(0, 1) for tensor in inputs], out.transpose(0, 1)
    if module._qkv_same_embed_dim:  # pylint: disable=protected-access
        weights = module.in_proj_weight.chunk(3)
    else:
        weights = module.q_proj_weight, module.k_proj_weight, module.v_proj_weight
    biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    q, k, v = map(F.linear, inputs, weights, biases)
    batch, heads, queries = len(q), module.num_heads, q.shape[1]
    more = 0  # keys that belong to the module, which no mask covers
    if module.bias_k is not None:
        k = torch.cat([k, module.bias_k.expand(batch, 1, -1)], 1)
        v = torch.cat([v, module.bias_v.expand(batch, 1, -1)], 1)
        more += 1
    if module.add_zero_attn:
        k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
        more += 1
    q, k, v = (x.reshape(batch, -1, heads, x.shape[-1] // heads).transpose(1, 2)
               for x in (q, k, v))

    def split(mask: Any) -> Tuple[Any, Any]:
        if mask is None:
            return None, None
        # In PyTorch, a boolean true is shut out.
        allowed, bias = split_mask(mask if mask.is_floating_point() else ~mask.bool())
        return (None if allowed is None else F.pad(allowed, (0, more), value=True),
                None if bias is None else F.pad(bias, (0, more)))

    real, added = split(given.get("key_padding_mask"))
    allowed, bias = split(given.get("attn_mask"))
    if allowed is not None and allowed.dim() == 3:
        allowed = allowed.reshape(batch, heads, queries, -1)
    if bias is not None and bias.dim() == 3:
        bias = bias.reshape(batch, heads, queries, -1)
    if added is not None:
        bias = both(bias, added.reshape(batch, 1, 1, -1), torch.add)

    def inputs_of(note: Callable[[str], None]) -> Dict[str, Any]:
        if more or given["key"] is not given["value"]:
            note("the inputs are not recorded, as " +
                 ("bias_k or add_zero_attn adds a key" if more else
                  "keys and values come from different inputs"))
            return {}
        made = {"x": inputs[0]} if of_itself else {"x": inputs[0], "y": inputs[1]}
        for name, weight, one in zip("qkv", weights, biases):
            made["w" + name] = by_head(weight, heads)
            if one is not None:
                made["b" + name] = one.reshape(heads, -1)
        return made

    return Call(q, k, v, allowed=allowed, bias=bias, of_itself=of_itself, out=out,
                real_keys=None if real is None else real.reshape(batch, -1),
                dropout=module.dropout if module.training else 0, join=module.out_proj,
                inputs=inputs_of)


def fast_layer_call(layer: Any, given: Dict[str, Any], _: Any, watcher: Watcher) -> Call:
    """The attention of an nn.TransformerEncoderLayer that ran as one kernel, from the layer's input."""
    x, padding = given["src"], given.get("src_key_padding_mask")
    if x.is_nested:
        lengths = torch.tensor([len(one) for one in x.unbind()], device=x.device)
        x = x.to_padded_tensor(0.0)
        padding = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
    if layer.norm_first:
        x = layer.norm1(x)
    of_attention = {"query": x, "key": x, "value": x, "key_padding_mask": padding,
                    "attn_mask": given.get("src_mask")}
    return multihead_call(layer.self_attn, of_attention, (None,), watcher)


def by_head(weight: Any, heads: int) -> Any:
    """(H, D, d) of the weight (H·d, D) of a linear module."""
    return weight.reshape(heads, -1, weight.shape[-1]).transpose(1, 2)


# --- T5. ------------------------------------------------------------------------------------------


def t5_call(module: Any, given: Dict[str, Any], result: Any, watcher: Watcher) -> Call:
    """A call of T5's attention: scores without a scale, plus a bias that its result holds together
    with the mask."""
    x, y = given["hidden_states"], given.get("key_value_states")
    source = x if y is None else y
    heads, depth = module.n_heads, module.key_value_proj_dim
    q, k, v = (linear(tensor).reshape(len(tensor), -1, heads, depth).transpose(1, 2)
               for linear, tensor in ((module.q, x), (module.k, source), (module.v, source)))
    added = next((part for part in result if isinstance(part, torch.Tensor) and part.dim() == 4 and
                  part.shape[1] == heads and part.shape[2] == q.shape[2]), None)
    if added is None:
        raise DumpError("the attention of T5 did not return its bias")
    if added.shape[-1] != k.shape[2]:
        raise DumpError("the attention of T5 used a cache", 3,
                        "call the model with use_cache=False")
    allowed, bias = split_mask(added)
    call = Call(q, k, v, scale=1.0, allowed=allowed, bias=_common(bias, allowed),
                of_itself=y is None, out=result[0], join=module.o,
                dropout=module.dropout if module.training else 0)
    if call.bias is not None:
        _use_table(call, allowed, watcher.tables())

    def inputs_of(_: Callable[[str], None]) -> Dict[str, Any]:
        made = {"x": x} if y is None else {"x": x, "y": y}
        for name, linear in zip("qkv", (module.q, module.k, module.v)):
            made["w" + name] = by_head(linear.weight, heads)
            if linear.bias is not None:
                made["b" + name] = linear.bias.reshape(heads, -1)
        return made

    call.inputs = inputs_of
    return call


def _common(bias: Any, allowed: Any) -> Any:
    """The bias (1, H, Lq, Lk) that all sequences share, as far as they have one."""
    if bias is None or len(bias) == 1 or allowed is None:
        return bias
    shared = bias.masked_fill(~allowed, -math.inf).amax(0, keepdim=True)
    shared = shared.masked_fill(shared == -math.inf, 0)
    return shared if bool(((shared == bias) | ~allowed).all()) else bias


def _use_table(call: Call, allowed: Any, modules: Sequence[Any]) -> None:
    """Puts T5's table in place of the bias, if that is what it was made from."""
    queries, keys = call.q.shape[-2], call.k.shape[-2]
    masks = Masks(call)
    if queries != keys or masks.mask is not None or any("start" in name for name in masks.lengths):
        return
    for table in {id(module): module.relative_attention_bias.weight for module in modules}.values():
        if table.shape[-1] != call.q.shape[-3]:
            continue
        made = t5_bias(table, torch.arange(queries), keys, masks.causal != "none")
        near = (made - call.bias).abs() <= 1e-6 * made.abs().max()
        if bool((near if allowed is None else near | ~allowed).all()):
            call.rel_bias, call.bias = table, None
            return


def t5_bias(table: Any, rows: Any, keys: int, causal: bool) -> Any:
    """T5's bias (1, H, rows, Lk) of the queries `rows` from its table (buckets, H), for distances up
    to 128."""
    ahead = torch.arange(keys)[None] - rows[:, None]
    side = len(table) if causal else len(table) // 2
    distance = -ahead.clamp(max=0) if causal else ahead.abs()
    exact = side // 2
    far = torch.log(distance.clamp(min=1).float() / exact) / math.log(128 / exact) * (side - exact)
    bucket = torch.where(distance < exact, distance, (exact + far.long()).clamp(max=side - 1))
    if not causal:
        bucket = bucket + side * (ahead > 0)
    return table[bucket.to(table.device)].permute(2, 0, 1).unsqueeze(0)
