"""Attention of tensors on a GPU: the potentials of each scheme, and sums, by passes of flex_attention."""

from __future__ import annotations

import math
from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .._errors import error_of
from ._flex import Pass, Term, not_compiled, require, run
from ._gpu_inputs import refuse, require_known, require_problem, require_tensors
from ._pairs import BLOCK, FAR, Pairs, tokens_of
from ._potential import finite, run_with_potential

@not_compiled
def attend(operands: Dict[str, Any], options: Dict[str, Any], dropout: float = 0.0, weights: bool = False,
           warns: bool = False) -> Tensor:
    """out (…, Lq, dv) of attention, in the type of q, with gradients for all numbers.

    `operands` and `options` are those of `attnkit.torch.attention`; one that a GPU does not know raises UsageError.
    Scores, potentials and sums are float32 numbers.
    """
    if dropout != 0:
        refuse("attention() has no dropout")
    if weights:
        refuse("attention() has no weights as a result")
    return _Problem(operands, options, warns).out()


@not_compiled
def sums(operands: Dict[str, Any], options: Dict[str, Any]) -> Tuple[Tensor, Tensor]:
    """(column sums (…, Lk), entropies of the rows (…, Lq)) of the weights, in float32."""
    with torch.no_grad():
        return _Problem({**operands, "v": operands["k"]}, options, False).sums()


class _Shape(NamedTuple):
    batch: int
    heads: int
    queries: int
    keys: int


def _padded(length: int) -> int:
    return -(-length // BLOCK) * BLOCK


def _channels(count: int) -> int:
    """Channels of a pass: a power of 2, which kernels are made for."""
    return max(16, 1 << (count - 1).bit_length())


class _Problem:
    """The scores of a call, and the passes over them."""

    def __init__(self, operands: Dict[str, Any], options: Dict[str, Any], warns: bool) -> None:
        operands = {name: value for name, value in operands.items() if value is not None}
        require_known(operands, options)
        require()
        require_tensors(operands)
        require_problem(operands, options, warns)
        self._scheme = options.get("scheme", "unas")
        self._steps = int(options["iterations"]) if self._scheme == "sinkhorn" else 1
        q, k, v = (_lifted(operands[name]) for name in ("q", "k", "v"))
        self._leading = operands["q"].shape[:-2]
        self._type = operands["q"].dtype
        self._dv = v.shape[-1]
        self.shape = _Shape(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        scale = options.get("scale")
        self._scale = 1.0 if scale is None else float(scale)
        if options.get("energy", "scaled-dot") == "scaled-dot":
            self._scale /= math.sqrt(q.shape[-1])
        softcap = options.get("softcap") or "none"
        self._softcap = None if softcap == "none" else float(softcap)
        common = torch.promote_types(torch.promote_types(q.dtype, k.dtype), v.dtype)
        self._q, self._k, self._v = (self._prepared(x.to(common)) for x in (q, k, v))
        self._bias = self._of_pairs("bias", operands.get("bias"), 0.0)
        hybrid = operands.get("hybrid", options.get("hybrid"))
        if hybrid is not None and not isinstance(hybrid, Tensor):
            hybrid = torch.tensor(float(hybrid), device=q.device)
        self._hybrid = None if hybrid is None else self._of_heads(hybrid)
        sink = operands.get("sink")
        self._sink = None if sink is None else self._of_heads(sink)
        self._pairs = self._allowed(operands, options)

    def _prepared(self, x: Tensor) -> Tensor:
        """(B, H, L, d) with the heads of the queries, whole blocks, and channels that kernels are made for."""
        x = x.repeat_interleave(self.shape.heads // x.shape[1], 1).expand(self.shape.batch, -1, -1, -1)
        missing = (_channels(x.shape[-1]) - x.shape[-1], _padded(x.shape[-2]) - x.shape[-2])
        return F.pad(x, (0, missing[0], 0, missing[1])) if any(missing) else x.contiguous()

    def _of_heads(self, value: Tensor) -> Tensor:
        """(B or 1, H or 1, 1) of (), (H) or (B, H), in float32."""
        return value.float().reshape((1,) * (2 - value.dim()) + value.shape + (1,))

    def _of_pairs(self, name: str, value: Optional[Tensor], fill: Any) -> Optional[Tensor]:
        """(B or 1, H or 1, padded Lq or 1, padded Lk or 1)."""
        if value is None:
            return None
        if value.dim() > 4 or any(size not in (1, want) for size, want in
                                  zip(reversed(value.shape), reversed(self.shape))):
            raise error_of(3, f"{name} has the shape {tuple(value.shape)}, expected what broadcasts to "
                              f"{tuple(self.shape)}")
        value = value.reshape((1,) * (4 - value.dim()) + value.shape)
        rows, cols = (0 if size == 1 else _padded(size) - size for size in value.shape[2:])
        value = F.pad(value, (0, cols, 0, rows), value=fill) if rows or cols else value.contiguous()
        if value.numel() >= 2**31:
            refuse(f"{name} has {value.numel()} numbers, with blocks of {BLOCK} queries and keys, and 2**31 are too many")
        return value

    def _allowed(self, operands: Dict[str, Any], options: Dict[str, Any]) -> Optional[Pairs]:
        _, _, queries, keys = self.shape
        left, right = _window(options.get("window"))
        causal = options.get("causal") or "none"
        if causal != "none":
            right = 0 if right is None else min(right, 0)
        mask = operands.get("mask")
        if mask is not None:
            mask = self._of_pairs("mask", mask != 0, False)
        names = ("query_length", "key_length", "query_start", "key_start", "cu_seqlens_q", "cu_seqlens_k")
        given = {name: operands[name] for name in names if name in operands}
        padding = queries % BLOCK or keys % BLOCK
        if not given and mask is None and left is None and right is None and not padding:
            return None
        shift = operands.get("query_offset", options.get("query_offset"))
        if causal == "bottom-right":
            shift = _difference(given, queries, keys)
        shift = 0 if shift is None else shift
        device = self._q.device
        of_queries = tokens_of(queries, _padded(queries), -1, given.get("query_start"),
                               given.get("query_length"), given.get("cu_seqlens_q"), shift, device)
        of_keys = tokens_of(keys, _padded(keys), -2, given.get("key_start"), given.get("key_length"),
                            given.get("cu_seqlens_k"), 0, device)
        return Pairs(of_queries, of_keys, left, right, mask)

    def _pass(self, v: Optional[Tensor], potential: Optional[Tensor] = None, swapped: bool = False,
              weights: Optional[Term] = None) -> Tuple[Tensor, Tensor]:
        q, k = (self._k, self._q) if swapped else (self._q, self._k)
        if v is None:
            v = k.new_zeros(*k.shape[:-1], 16)  # only the LSE is of interest
        one = Pass(q, k, v, self._scale, self._softcap, self._bias, weights, self._pairs, swapped)
        return run(one) if potential is None else run_with_potential(one, potential)

    def _rows(self, v: Optional[Tensor], g: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
        """Σ_j v_j exp(s_ij − g_j − f_i), and f."""
        out, lse = self._pass(v, g)
        if self._sink is None:
            return out, lse
        closed = lse == -math.inf
        lse = lse.masked_fill(closed, 0)
        f = torch.where(closed, self._sink, torch.logaddexp(lse, self._sink))
        return out.float() * torch.sigmoid(lse - self._sink)[..., None], f

    def _columns(self, f: Optional[Tensor]) -> Tensor:
        """LSE_i(s_ij − f_i)."""
        return self._pass(None, None if f is None else finite(f), swapped=True)[1]

    def _potential(self) -> Tensor:
        """g of dnas, or of the last iteration of sinkhorn."""
        g = self._columns(None)
        for _ in range(self._steps - 1):
            g = self._columns(self._rows(None, finite(g))[1])
        return g

    def out(self) -> Tensor:
        """out, without padding, as q is."""
        if self._scheme == "unas":
            out = self._rows(self._v, None)[0]
        else:
            out = self._rows(self._v, finite(self._potential()))[0]
        if self._hybrid is not None:
            soft = self._rows(self._v, None)[0]
            out = torch.lerp(soft.float(), out.float(), self._hybrid[..., None])
        out = out[:, :, : self.shape.queries, : self._dv].to(self._type)
        return out.reshape(*self._leading, *out.shape[2:])

    def sums(self) -> Tuple[Tensor, Tensor]:
        """Column sums and entropies of rows."""
        g = None if self._scheme == "unas" else finite(self._potential())
        f = self._rows(None, g)[1]
        columns = self._sums_by(f, g)
        to_sink = None if self._sink is None else torch.exp(self._sink - finite(f))
        term = Term(g, -finite(f))
        if self._hybrid is not None:
            soft = self._rows(None, None)[1]
            columns = torch.lerp(self._sums_by(soft, None), columns, self._hybrid)
            if to_sink is not None:
                to_sink = torch.lerp(torch.exp(self._sink - finite(soft)), to_sink, self._hybrid)
            term = Term(g, self._hybrid.log() - finite(f), torch.log1p(-self._hybrid) - finite(soft))
        entropies = self._pass(None, weights=term)[1].exp()
        if self._sink is not None:
            entropies = entropies + torch.special.entr(to_sink)
        columns, entropies = columns[..., : self.shape.keys], entropies[..., : self.shape.queries]
        return columns.reshape(*self._leading, -1), entropies.reshape(*self._leading, -1)

    def _sums_by(self, f: Tensor, g: Optional[Tensor]) -> Tensor:
        logs = self._columns(f)
        return torch.exp(logs if g is None else logs - g)


def _lifted(x: Tensor) -> Tensor:
    return x.reshape((1,) * (4 - x.dim()) + x.shape)


def _window(window: Any) -> Tuple[Optional[int], Optional[int]]:
    """(left, right) of "LEFT:RIGHT", or of W, which is |p − j| < W. None: open."""
    if window is None or window == "none":
        return None, None
    sides = str(window).split(":") if ":" in str(window) else [str(int(window) - 1)] * 2
    left, right = (None if side == "" else max(-2 * FAR, min(2 * FAR, int(side))) for side in sides)
    return left, right


def _difference(given: Dict[str, Tensor], queries: int, keys: int) -> Any:
    """Lk − Lq of each sequence: where the last query stands at the last key."""
    if "cu_seqlens_q" in given:
        return given["cu_seqlens_k"].diff() - given["cu_seqlens_q"].diff()
    counts = [given.get(f"{what}_length", size - given.get(f"{what}_start", 0))
              for what, size in (("query", queries), ("key", keys))]
    return counts[1] - counts[0]
