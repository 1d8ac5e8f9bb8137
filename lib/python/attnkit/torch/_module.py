"""Attention as a module."""

from __future__ import annotations

import math
from typing import Any, Dict, NoReturn, Optional, Union

import torch
from torch import Tensor, nn

from .._errors import error_of
from ._attention import attend
from ._masks import allowed_by, hides_later_keys
from ._operands import INTEGERS, NUMBERS
from ._plans import probe


def refuse_leak(scheme: str) -> NoReturn:
    """Raises UsageError for causal attention with a scheme that also normalises over queries."""
    message = f"scheme is {scheme}, which lets later tokens change the weights of earlier ones"
    raise error_of(2, message, "allow_leak=True")


class Attention(nn.Module):
    """`attnkit.torch.attention` with fixed options, without projections.

    hybrid: under hnas, the share u of dnas: a number, or "learned". A learned share is a parameter
        `hybrid_logit` (heads), u = 1/(1 + exp(−hybrid_logit)), which starts at u = `hybrid_start`.
    allow_leak: without it, causal attention, also by a mask or a bias, raises UsageError under a scheme that also normalises
        over queries, because the weights of a query would depend on later queries.
    dropout: the probability with which a weight is dropped in training. PyTorch's generator draws.
    options: options of `attention`, such as scale, causal and iterations.
    """

    def __init__(
        self,
        scheme: str = "unas",
        hybrid: Union[float, str, None] = None,
        heads: Optional[int] = None,
        *,
        hybrid_start: float = 0.5,
        allow_leak: bool = False,
        dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__()
        self.options: Dict[str, Any] = {"scheme": scheme, **options}
        self.dropout = dropout
        self.allow_leak = allow_leak
        if isinstance(hybrid, Tensor):
            raise error_of(2, 'hybrid is a tensor, expected a number or "learned"', "attention() takes tensors")
        learned = hybrid == "learned"
        if learned != (heads is not None):
            raise error_of(2, "heads is the number of shares to learn", 'hybrid="learned", heads=8')
        if not learned and hybrid is not None:
            self.options["hybrid"] = hybrid
        operands = ["hybrid"] if learned else []
        if probe("Attention", self.options, operands).leaks and not allow_leak:
            refuse_leak(scheme)
        causal = {**self.options, "causal": "top-left"}
        self._leaks_if_causal = bool(probe("Attention", causal, operands).leaks)
        if heads is not None:
            if not 0 < hybrid_start < 1:
                raise error_of(2, f"hybrid_start is {hybrid_start}, expected 0 < hybrid_start < 1")
            logit = math.log(hybrid_start / (1 - hybrid_start))
            self.hybrid_logit = nn.Parameter(torch.full((heads,), logit))

    @property
    def u(self) -> Tensor:
        """The learned shares (heads)."""
        return torch.sigmoid(self.hybrid_logit.float())

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Optional[Tensor] = None,
        bias: Optional[Tensor] = None,
        **operands: Optional[Tensor],
    ) -> Tensor:
        """out (B, H, Lq, dv) of q (B, H, Lq, d), k (B, H, Lk, d) and v (B, H, Lk, dv).

        `operands` are other operands of `attention`, such as sink and key_length.
        """
        for name in operands:
            if name not in NUMBERS + INTEGERS or name == "hybrid":
                raise error_of(2, f"Attention has no operand {name}", "options belong to its constructor")
        if self._leaks_if_causal and not self.allow_leak and hides_later_keys(allowed_by(mask, bias)):
            refuse_leak(self.options["scheme"])
        given = {"q": q, "k": k, "v": v, "mask": mask, "bias": bias, **operands}
        if "hybrid_logit" in self._parameters:
            given["hybrid"] = self.u
        rate = self.dropout if self.training else 0.0
        return attend(given, self.options, dropout=rate, warns=not self.allow_leak)[0]

    def extra_repr(self) -> str:
        shown = {**self.options, "dropout": self.dropout}
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())
