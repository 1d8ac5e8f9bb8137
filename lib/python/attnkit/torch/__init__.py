"""Attention under any scheme for PyTorch (>= 1.13): as a function, as a module, and in existing models.

>>> import torch, attnkit.torch
>>> q, k, v = (torch.randn(2, 4, 128, 64, requires_grad=True) for _ in range(3))
>>> attnkit.torch.attention(q, k, v, scheme="dnas").sum().backward()

Tensors on a GPU are computed there by PyTorch's flex_attention (PyTorch >= 2.7), all others by the library.
"""

import contextlib
import sys

from .._errors import UsageError
from ._attention import Sums, attention, sums
from ._module import Attention
from ._observe import observe
from ._replace import replace
from ._transformers import register_transformers

if "transformers.modeling_utils" in sys.modules:
    with contextlib.suppress(UsageError):  # an older version has no such function
        register_transformers()

__all__ = ["attention", "sums", "Sums", "Attention", "replace", "register_transformers", "observe"]
