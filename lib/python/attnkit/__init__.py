"""The mathematics of attention: the tools of attnkit as functions on arrays.

>>> import numpy, attnkit
>>> q, k, v = (numpy.random.default_rng(0).normal(size=(8, 128, 64)) for _ in range(3))
>>> results = attnkit.attention(q, k, v, scheme="dnas", emit=["out", "col_sum"])
>>> results.out.shape
(8, 128, 64)

Names, options, defaults, checks and bits are those of the tools; `help(attnkit.attention)` has them.
Arrays are taken where they lie: NumPy's, and all that have the buffer protocol or DLPack, as
PyTorch's. float32 and float64 are computed as they are; float16 and bfloat16 are widened to float32.
"""

from . import collapse, paths
from ._bundle import Bundle, LazyArray, open
from ._core import version as __version__
from ._errors import (
    Error,
    InputError,
    NotConverged,
    NumericalError,
    OutOfMemory,
    OutputError,
    UsageError,
    Warning,
)
from ._plan import AttentionPlan
from ._results import Results
from ._tools import attention, barycentre, bulk, divergence, exact, sinkhorn, solve_dual, stats, unbalanced

__all__ = [
    "attention", "stats", "sinkhorn", "unbalanced", "exact", "divergence", "barycentre", "bulk",
    "solve_dual", "collapse", "paths",
    "AttentionPlan", "Results", "Bundle", "LazyArray",
    "Error", "UsageError", "InputError", "NumericalError", "OutputError", "OutOfMemory",
    "NotConverged", "__version__",
]
# Not open and Warning, which `from attnkit import *` would put in the place of Python's own.
