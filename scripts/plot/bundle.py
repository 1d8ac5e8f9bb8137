"""Bundles, read with h5py: datasets of the right shape, or one line of error."""

import copy
import io
import os
import sys

from command import fail
from libraries import h5py

MOST_NAMES = 12  # in an error


def _text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _split(address):
    """(file, group) of FILE:/group, or of a file whose name has a colon; the group may be empty."""
    path, _, group = address.rpartition(":")
    return (address, "") if os.path.exists(address) or not path else (path, group)


def file_of(address):
    """The file of FILE or FILE:/group."""
    return _split(address)[0]


class Bundle:
    """The datasets of a file (or of its group, FILE:/group; "-" is a stream on standard input)."""

    _stream_taken = False

    def __init__(self, address, content=None):
        """`content`: what standard input held, if it has been read."""
        path, group = _split(address)
        self.name = "standard input" if address == "-" else address
        try:
            if address == "-":
                self.file = h5py.File(io.BytesIO(content) if content else self._stream(), "r")
            elif not os.path.exists(path):
                fail(3, f"{path}: no such file")
            elif os.path.isdir(path):
                fail(3, f"{path}: is a folder")
            else:
                self.file = h5py.File(path, "r")
        except OSError as error:
            other = path.endswith((".npz", ".npy", ".safetensors"))
            fail(3, f"{self.name}: not an HDF5 file: {str(error).partition('(')[0].strip() or error}",
                 f"tensor-convert {path} -o {os.path.splitext(path)[0]}.h5" if other else None)
        if group and not isinstance(self.file.get(group), h5py.Group):
            fail(3, f"{path}: no group {group}")
        self.root = self.file[group] if group else self.file

    @classmethod
    def _stream(cls):
        if cls._stream_taken:
            fail(2, "standard input can be used for only one bundle")
        cls._stream_taken = True
        if sys.stdin.isatty():
            fail(2, "the input would be read from the terminal", "give a file, or use a pipe")
        stream = sys.stdin.buffer.read()
        if not stream:
            fail(3, "standard input: is empty", "the command before it failed")
        return io.BytesIO(stream)

    def below(self, group):
        """The same file from one of its groups on."""
        made = copy.copy(self)
        if group:
            made.name, made.root = f"{self.name}:/{group}", self.root[group]
        return made

    def names(self):
        """Paths of all datasets."""
        found = []
        self.root.visititems(
            lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
        return found

    def __contains__(self, name):
        return isinstance(self.root.get(name), h5py.Dataset)

    def _numbers(self, name, axes, exactly, made_by):
        if name not in self:
            names = self.names()
            inside = next((other for other in names if other.endswith(f"/{name}")), None)
            if inside:
                made_by = f"one group of the file: {self.name}{'/' if self.root.name != '/' else ':/'}" \
                          f"{inside.rpartition('/')[0]}"
            more = f", and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            fail(3, f"{self.name}: no dataset {name}; there is {', '.join(names[:MOST_NAMES]) or 'none'}{more}",
                 made_by)
        dataset = self.root[name]
        if dataset.dtype.kind not in "fiub" or dataset.shape is None:
            fail(3, f"{self.name}:/{name}: holds no numbers")
        if dataset.ndim != axes if exactly else dataset.ndim < axes:
            fail(3, f"{self.name}:/{name}: is of shape {dataset.shape}, expected {axes} "
                    f"{'' if exactly else 'or more '}axes")
        if dataset.size == 0:
            fail(3, f"{self.name}:/{name}: is empty")
        return dataset

    def array(self, name, axes, made_by=None):
        """A dataset of numbers with this many axes. `made_by` is the hint if it is missing."""
        return self._numbers(name, axes, True, made_by)[()]

    def whole(self, name, axes, made_by=None):
        """A dataset of numbers with at least this many axes."""
        return self._numbers(name, axes, False, made_by)[()]

    def labels(self, name):
        """The names of the axes of a dataset; "" for an axis without one."""
        return [axis.label for axis in self.root[name].dims]

    def axes(self, name):
        """The number of axes of a dataset; 0 if it is missing."""
        return self.root[name].ndim if name in self else 0

    def position(self, name, axes, index, made_by=None):
        """The position `index` of the axes that precede the last `axes`, complete: None is the first,
        and axes of size 1 before it may be left out."""
        dataset = self._numbers(name, axes, False, made_by)
        leading = dataset.shape[:dataset.ndim - axes]
        if index is None:
            return (0,) * len(leading)
        if len(index) < len(leading) and set(leading[:len(leading) - len(index)]) == {1}:
            index = (0,) * (len(leading) - len(index)) + tuple(index)
        if len(index) != len(leading) or not all(-n <= i < n or n == 1
                                                 for i, n in zip(index, leading)):
            fail(2, f"{self.name}:/{name}: its leading axes are {leading}, expected a "
                    f"position within them, got {','.join(map(str, index))}")
        return tuple(i % n for i, n in zip(index, leading))

    def part(self, name, axes, index, made_by=None):
        """The last `axes` axes of a dataset of numbers at position `index` of the leading axes, a
        tuple like (0, 3), or None for the first; an axis of size 1 broadcasts. Reads nothing
        else."""
        place = self.position(name, axes, index, made_by)
        return self.root[name][place]

    def strings(self, name):
        """A dataset of strings, or of integers such as the ids of tokens as strings, or None."""
        if name not in self:
            return None
        dataset = self.root[name]
        if dataset.dtype.kind in "iu":
            return dataset[()].astype(str)
        return dataset.asstr(errors="replace")[()] if h5py.check_string_dtype(dataset.dtype) else None

    def attribute(self, name, group=""):
        """An attribute of a group or, if missing, of the file; or None."""
        for holder in (self.root[group] if group else self.root, self.root, self.file):
            if name in holder.attrs:
                value = holder.attrs[name]
                return _text(value) if isinstance(value, (bytes, str)) else value
        return None

    def commands(self):
        """The commands that made it, first to last, from `history`."""
        history = self.file.get("history")
        text = history[()] if isinstance(history, h5py.Dataset) else self.file.attrs.get("history", "")
        lines = [line.partition(": ")[2].rpartition(" (")[0] for line in _text(text).splitlines()]
        return [line for line in reversed(lines) if line]
