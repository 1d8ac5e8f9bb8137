"""What takes the place of a model's attention: a scheme, and what it refuses."""

from __future__ import annotations

import math
from typing import Any, Dict, Optional, Tuple

from torch import Tensor

from .._errors import error_of
from ._attention import attend
from ._masks import allowed_by, hides_later_keys
from ._module import refuse_leak
from ._operands import NUMBERS
from ._plans import probe

_OF_ALL_CALLS = frozenset(NUMBERS) - {"q", "k", "v", "bias"}


class Replacement:
    """The scheme, and the options and operands that all calls have in common."""

    def __init__(self, scheme: str, allow_leak: bool, allow_cache: bool, arguments: Dict[str, Any]) -> None:
        self.scheme = scheme
        self.calls = 0
        """How many calls of attention it has replaced."""
        self.allow_leak = allow_leak
        self.allow_cache = allow_cache
        self.operands = {
            name: value
            for name, value in arguments.items()
            if name in _OF_ALL_CALLS and isinstance(value, Tensor)
        }
        others = {name: value for name, value in arguments.items() if name not in self.operands}
        self.options: Dict[str, Any] = {"scheme": scheme, **others}
        if probe("replace", self.options, self.operands).leaks and not allow_leak:
            refuse_leak(scheme)
        causal = {**self.options, "causal": "top-left"}
        self.normalises_over_queries = bool(probe("replace", causal, self.operands).leaks)

    def require_no_leak(self, mask: Optional[Tensor], bias: Optional[Tensor], causal: bool = False) -> None:
        """Raises UsageError if later keys are hidden, the scheme leaks, and leaks are not allowed."""
        if not self.normalises_over_queries or self.allow_leak:
            return
        if causal or hides_later_keys(allowed_by(mask, bias)):
            refuse_leak(self.scheme)

    def require_all_queries(self, where: str, queries: int, keys: int) -> None:
        """Raises UsageError for queries that may be only the last ones of the keys' sequence."""
        if queries < keys and self.normalises_over_queries and not self.allow_cache:
            message = (
                f"{where} has fewer queries ({queries}) than keys ({keys}), as with a cache of keys; "
                f"{self.scheme} would normalise over these queries alone"
            )
            raise error_of(2, message, "allow_cache=True, also if queries and keys are different sequences")

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Optional[Tensor] = None,
        bias: Optional[Tensor] = None,
        causal: bool = False,
        factor: Optional[float] = None,
        softcap: Optional[float] = None,
        sink: Optional[Tensor] = None,
        dropout: float = 0.0,
        weights: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """out, and with `weights` the weights. `factor` takes the place of 1/√d.

        The arguments replace operands and options that all calls have in common.
        """
        self.calls += 1
        options = dict(self.options)
        if causal:
            options["causal"] = "top-left"
        if factor is not None:
            options["scale"] = options.get("scale", 1.0) * factor * math.sqrt(q.shape[-1])
        if softcap is not None:
            options["softcap"] = softcap
        operands = {**self.operands, "q": q, "k": k, "v": v, "mask": mask, "bias": bias}
        if sink is not None:
            operands["sink"] = sink
        return attend(operands, options, dropout=dropout, weights=weights, warns=False)
