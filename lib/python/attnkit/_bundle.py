"""Bundles on disk: groups of lazy arrays and attributes."""

from __future__ import annotations

import operator
import os
from typing import Any, Dict, Iterator, List, Mapping, Tuple, Union

import numpy

from . import _core


class LazyArray:
    """An array of a file, which is read when it is indexed, or as the argument of a function.

    ``array[0, :10]`` reads a part, and ``array[...]`` or ``numpy.asarray(array)`` the whole. Strings
    become an array of str.
    """

    def __init__(self, file: Any, path: str, address: str, dtype: str, shape: Tuple[int, ...],
                 attributes: Dict[str, Any]) -> None:
        self._file = file
        self._path = path
        self.attnkit_address = address
        self.dtype = dtype
        """The name of the stored type: "float32", "bfloat16", "strings"."""
        self.shape = shape
        self.attributes = attributes

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return numpy.asarray(self[...], dtype)

    def __getitem__(self, index: Any) -> Any:
        if "string" in self.dtype:  # read whole
            texts = numpy.array(self._file.read(self._path, [], []), object).reshape(self.shape)
            return texts[index]
        items = list(index) if isinstance(index, tuple) else [index]
        ellipses = [at for at, item in enumerate(items) if item is ...]
        if len(ellipses) > 1:
            raise IndexError("an index can only have one ellipsis")
        if not ellipses:
            items.append(...)
        at = ellipses[0] if ellipses else len(items) - 1
        fill = self.ndim - (len(items) - 1)
        if fill < 0:
            raise IndexError(f"{self._path} has {self.ndim} axes, but {len(items) - 1} were indexed")
        items[at : at + 1] = [slice(None)] * fill
        start: List[int] = []
        count: List[int] = []
        then: List[Any] = []
        for axis, item in enumerate(items):
            length = self.shape[axis]
            if isinstance(item, slice):
                first, last, step = item.indices(length)
                if step != 1:
                    first, last, step_left = 0, length, item
                else:
                    step_left = slice(None)
                start.append(first)
                count.append(max(0, last - first))
                then.append(step_left)
            else:
                if isinstance(item, bool) or not hasattr(item, "__index__") or getattr(item, "shape", ()) != ():
                    raise IndexError(f"{item!r} is no index of a lazy array, expected integers, slices or an ellipsis")
                place = operator.index(item)
                if not -length <= place < length:
                    raise IndexError(f"index {place} is out of bounds for axis {axis} with size {length}")
                start.append(place % length)
                count.append(1)
                then.append(0)
        return self._file.read(self._path, start, count)[tuple(then)]

    def __repr__(self) -> str:
        return f"<attnkit.LazyArray {self.attnkit_address}: {self.dtype} {self.shape}>"


class Bundle(Mapping[str, Union["Bundle", LazyArray]]):
    """A bundle, or a group of one: arrays and groups by name, and attributes.

    ``bundle["layer0"]["q"]``, ``bundle["layer0/q"]`` and ``bundle["layer0.q"]`` are the same. A bundle or a group may be the
    first argument of a function, as a file may.
    """

    def __init__(self, file: Any, items: Dict[str, Any], path: str, root: str) -> None:
        self._items = items
        self._file = file
        self._path = path
        self._root = root  # "FILE:" or "FILE:/group"
        self.attnkit_address = f"{root}/{path}" if path else root.rstrip(":")
        self.attributes: Dict[str, Any] = items[path][3]

    def _below(self, name: str) -> str:
        return f"{self._path}/{name}" if self._path else name

    def __getitem__(self, name: str) -> Any:
        path = self._below(name.strip("/"))
        if path not in self._items:  # a dot separates groups, too
            path = self._below(name.strip("/").replace(".", "/"))
        if path not in self._items or path == self._path:
            raise KeyError(name)
        is_group, dtype, shape, attributes = self._items[path]
        if is_group:
            return Bundle(self._file, self._items, path, self._root)
        return LazyArray(self._file, path, f"{self._root}/{path}", dtype, shape, attributes)

    def __iter__(self) -> Iterator[str]:
        start = self._path + "/" if self._path else ""
        for path in self._items:
            if path == self._path or not path.startswith(start):
                continue
            name = path[len(start) :]
            # An array of an archive may have a name that can be no path, such as "a//b".
            if "/" not in name or self._below(name.partition("/")[0]) not in self._items:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<attnkit.Bundle {self.attnkit_address}: {', '.join(self) or 'empty'}>"


def open(path: Union[str, "os.PathLike[str]"]) -> Bundle:
    """Opens a bundle, FILE or FILE:/group: HDF5, .npz or .safetensors. Its arrays are read on demand."""
    file = _core.File(os.fspath(path))
    items = {item[0]: item[1:] for item in file.contents()}
    return Bundle(file, items, "", file.root)
