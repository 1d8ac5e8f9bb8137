# Written by tests/python/test_stubs.py from the tools' tables of options.
from typing import Any, Callable, Dict, List, Literal, Optional, Sequence, Tuple, Union

from ._results import Results

Array = Any  # what has the buffer protocol or DLPack, or a bundle as the first argument

def curve(
    *,
    x: Array = ...,
    label: Array = ...,
    start: Array = ...,
    out: Union[Array, Dict[str, Array], None] = ...,
    progress: Optional[Callable[[float], object]] = ...,
    r: Optional[Union[str, float, Sequence[Any]]] = ...,
    a: Optional[Union[float, Sequence[float]]] = ...,
    threads: Optional[int] = ...,
    memory: Optional[Union[int, str]] = ...,
    dry_run: Optional[bool] = ...
) -> Results: ...

def simulate(
    x: Array = ...,
    *,
    label: Array = ...,
    start: Array = ...,
    out: Union[Array, Dict[str, Array], None] = ...,
    progress: Optional[Callable[[float], object]] = ...,
    centres: Optional[Union[str, Sequence[Sequence[float]]]] = ...,
    variance: Optional[Union[float, Sequence[float]]] = ...,
    diagonal: Optional[Union[str, Sequence[Sequence[float]]]] = ...,
    covariance: Optional[Union[str, Sequence[Sequence[float]]]] = ...,
    counts: Optional[Union[int, Sequence[int]]] = ...,
    seed: Optional[int] = ...,
    seeds: Optional[int] = ...,
    steps: Optional[int] = ...,
    emit: Optional[Union[str, Sequence[Literal["x", "label", "trajectory", "centre", "centre_distance", "spread", "modes", "log_likelihood", "variance", "prior"]]]] = ...,
    scheme: Optional[Union[str, Sequence[Literal["unas", "dnas", "hnas", "sinkhorn"]]]] = ...,
    energy: Optional[Literal["dot", "gaussian"]] = ...,
    scale: Optional[float] = ...,
    residual: Optional[bool] = ...,
    hybrid: Optional[float] = ...,
    iterations: Optional[int] = ...,
    tolerance: Optional[float] = ...,
    width: Optional[float] = ...,
    merged: Optional[float] = ...,
    allow_external: Optional[bool] = ...,
    precision: Optional[Literal["f32", "f64"]] = ...,
    threads: Optional[int] = ...,
    memory: Optional[Union[int, str]] = ...,
    dry_run: Optional[bool] = ...
) -> Results: ...

def em(
    x: Array = ...,
    *,
    label: Array = ...,
    out: Union[Array, Dict[str, Array], None] = ...,
    progress: Optional[Callable[[float], object]] = ...,
    centres: Optional[Union[str, Sequence[Sequence[float]]]] = ...,
    variance: Optional[Union[float, Sequence[float]]] = ...,
    diagonal: Optional[Union[str, Sequence[Sequence[float]]]] = ...,
    covariance: Optional[Union[str, Sequence[Sequence[float]]]] = ...,
    counts: Optional[Union[int, Sequence[int]]] = ...,
    seed: Optional[int] = ...,
    seeds: Optional[int] = ...,
    steps: Optional[int] = ...,
    emit: Optional[Union[str, Sequence[Literal["x", "label", "trajectory", "centre", "centre_distance", "spread", "modes", "log_likelihood", "variance", "prior"]]]] = ...,
    start: Optional[Array] = ...,
    priors: Optional[Literal["fixed", "estimated", "dnas"]] = ...,
    model_variance: Optional[Union[float, Sequence[float]]] = ...,
    estimate_variance: Optional[Union[bool, Literal["shared", "each"]]] = ...,
    min_variance: Optional[float] = ...,
    allow_external: Optional[bool] = ...,
    precision: Optional[Literal["f32", "f64"]] = ...,
    threads: Optional[int] = ...,
    memory: Optional[Union[int, str]] = ...,
    dry_run: Optional[bool] = ...
) -> Results: ...
