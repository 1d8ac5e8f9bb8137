"""Plans of attention: made once, run many times."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _core
from ._functions import places_of, warn
from ._options import command_line


class AttentionPlan:
    """Attention of arrays of some shapes: options are checked once, and memory is kept from run to run.

    The arguments are those of `attnkit.attention`; the arrays say which shapes the plan is for, and
    whether it computes in float64. Several threads may call one plan; their runs take turns.

    >>> plan = AttentionPlan(q, k, v, scheme="dnas", emit=["out", "col_sum"])
    >>> plan(q, k, v)["out"]
    """

    def __init__(self, q: Any = None, k: Any = None, v: Any = None, **arguments: Any) -> None:
        given = {name: array for name, array in (("q", q), ("k", k), ("v", v)) if array is not None}
        words, arrays = command_line("AttentionPlan", "attn-compute", "", {**given, **arguments})
        self._plan = _core.Plan(words, arrays)
        self.warnings: List[str] = self._plan.warnings
        """What `attnkit.attention` would warn of."""
        self.leaks: bool = self._plan.leaks
        """Whether a query's weights depend on later queries although they are causal."""
        warn(self.warnings)

    def __call__(
        self, q: Any = None, k: Any = None, v: Any = None, *, out: Any = None, **arrays: Any
    ) -> Dict[str, Any]:
        """The results by name. `out` is an array for the result out, or a dict of arrays by name."""
        results, converged = self._plan.run(_with(arrays, q, k, v), places_of(out))
        self.converged = converged
        return results

    converged = True
    """Whether all problems of the last run converged."""

    def gradients(
        self,
        grad_out: Any,
        q: Any = None,
        k: Any = None,
        v: Any = None,
        *,
        wanted: Union[str, Sequence[str]] = ("q", "k", "v"),
        results: Optional[Mapping[str, Any]] = None,
        **arrays: Any,
    ) -> Dict[str, Any]:
        """The gradients of a loss by the arrays `wanted`, from its gradient `grad_out` by out.

        `results` of a run on the same arrays, which must have out and the potentials, save time.
        """
        names = wanted.split(",") if isinstance(wanted, str) else list(wanted)
        known = None if results is None else dict(results)
        return self._plan.gradients(_with(arrays, q, k, v), grad_out, names, known)

    def set_dropout(self, rate: float, seed: int = 0, stream: int = 0) -> None:
        """Dropout of weights in all later calls: the same weights for the same `seed` and `stream`."""
        self._plan.set_dropout(rate, seed, stream)

    @property
    def dtype(self) -> str:
        """The type of the computation: "float32" or "float64"."""
        return str(self._plan.dtype)

    @property
    def workspace_bytes(self) -> int:
        """The most memory that a run keeps."""
        return int(self._plan.workspace_bytes)


def _with(arrays: Dict[str, Any], q: Any, k: Any, v: Any) -> Dict[str, Any]:
    if q is not None:
        arrays["q"] = q
    if k is not None:
        arrays["k"] = k
    if v is not None:
        arrays["v"] = v
    return arrays
