"""What `observe` has seen as a bundle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from .._errors import error_of
from .._recording.bundle import Bundle, time_stamp
from .._recording.errors import DumpError

if TYPE_CHECKING:
    from ._seen import Seen, SeenCall

# The names of the last axes, by how the name of an array ends.
_AXES = {"queries_of_key": ("head", "key"), "col_sum": ("head", "key"),
         "row_entropy": ("head", "query"), "largest_logit": ("head",)}


def write(seen: Seen, path: Any, force: bool) -> None:
    """Writes a bundle with a group for each call."""
    try:
        import h5py  # noqa: F401
    except ImportError as missing:
        raise error_of(2, f"{missing}: save() needs h5py", "pip install h5py") from None
    try:
        bundle = Bundle(path, force=force)
        try:
            for name, call in seen.items():
                _put(bundle, name, call)
            with bundle.writing():
                bundle.file.attrs.update(seen.attributes)
            made = f"{_core.version}, PyTorch {torch.__version__}"
            bundle.finish(f"{time_stamp()}: attnkit.torch.observe ({made})")
        finally:
            bundle.discard()
    except DumpError as error:
        raise error_of(error.status, str(error), error.hint or "") from None


def _put(bundle: Bundle, name: str, call: SeenCall) -> None:
    group = bundle.group(name)
    for what, array in call.items():
        bundle.put(group, what, torch.from_numpy(array))
    if call.tokens is not None:
        bundle.put_strings(group, "tokens", call.tokens)
    with bundle.writing():
        group.attrs.update(call.attributes)
        for what in call:
            dataset = group[what]
            axes = next(axes for end, axes in _AXES.items() if what.endswith(end))
            for label, dimension in zip(reversed(axes), reversed(list(dataset.dims))):
                dimension.label = label
            dataset.attrs["attn_result"] = json.dumps({"name": what, **call.made})
