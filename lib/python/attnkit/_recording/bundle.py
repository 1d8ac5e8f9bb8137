"""The bundle that is written: it appears complete or not at all."""

from __future__ import annotations

import contextlib
import datetime
import errno
import os
import re
import secrets
import time
from typing import Any, Dict, Iterator, Optional, Tuple

from .errors import DumpError, without_library

_OTHER_FORMATS = {".npz", ".npy", ".safetensors", ".csv", ".tsv", ".json", ".pt", ".pth", ".mat",
                  ".gz", ".zst", ".zip"}
_LARGE = 1 << 16  # bytes: smaller datasets are not compressed
_PIECE = 1 << 22  # bytes that are copied and written at once: they stay in cache


def compression(text: Optional[str]) -> Dict[str, Any]:
    """Options of h5py for "gzip" or "gzip:N"."""
    if text is None:
        return {}
    match = re.fullmatch(r"gzip(?::([1-9]))?", text)
    if not match:
        raise DumpError(f"--compress: expected gzip or gzip:N with N from 1 to 9, got '{text}'", 2)
    return {"compression": "gzip", "compression_opts": int(match[1] or 4), "shuffle": True}


def time_stamp() -> str:
    """The time in UTC, or that of SOURCE_DATE_EPOCH, as the tools write it."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    if fixed and not fixed.isdecimal():
        raise DumpError(f"SOURCE_DATE_EPOCH is '{fixed}', expected seconds since 1970", 2)
    zone = datetime.timezone.utc
    now = datetime.datetime.now(zone)
    if fixed:
        now = datetime.datetime.fromtimestamp(int(fixed), zone)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


class Bundle:
    """A bundle beside `path` that finish() gives its name. `seconds` and `bytes` count what was
    written so far: the numbers, and the time that this took."""

    def __init__(self, path: Any, dtype: Optional[str] = None, compress: Optional[str] = None,
                 force: bool = False) -> None:
        try:
            import h5py  # pylint: disable=import-outside-toplevel
        except ImportError as missing:
            raise without_library(missing) from missing
        import numpy  # pylint: disable=import-outside-toplevel
        import torch  # pylint: disable=import-outside-toplevel
        self._h5py, self._numpy, self._torch = h5py, numpy, torch
        if dtype not in (None, "f16", "f32"):
            raise DumpError(f"--dtype: expected f16 or f32, got '{dtype}'", 2)
        self.path: str = os.fspath(path)
        self._force = force
        ending = os.path.splitext(self.path)[1].lower()
        if ending in _OTHER_FORMATS:
            raise DumpError(f"{self.path}: only HDF5 is written, not {ending}", 2,
                            "name it .h5; tensor-convert makes other formats of a group")
        self._dtype = {None: None, "f16": torch.float16, "f32": torch.float32}[dtype]
        self._packed = compression(compress)
        self._buffer: Any = None
        self.seconds, self.bytes = 0.0, 0
        self._refuse_existing()
        folder, name = os.path.split(self.path)
        if not name:
            raise DumpError(f"cannot write {self.path}: it is a folder", 5)
        self._part = os.path.join(folder, f".{name[:200]}.{secrets.token_hex(4)}.tmp")
        with self.writing():
            self.file = h5py.File(self._part, "w-")

    def _exists(self) -> DumpError:
        return DumpError(f"{self.path} exists", 5, "replace it with --force (force=True)")

    def _refuse_existing(self) -> None:
        if os.path.isdir(self.path):
            raise DumpError(f"cannot write {self.path}: it is a folder", 5)
        if os.path.lexists(self.path) and not os.path.isfile(self.path):
            raise DumpError(f"cannot write {self.path}: it is not a regular file", 5)
        if os.path.exists(self.path) and not self._force:
            raise self._exists()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Counts the time, and makes errors of the system one line."""
        begun = time.perf_counter()
        try:
            yield
        except (OSError, RuntimeError) as error:
            if isinstance(error, DumpError):
                raise
            raise DumpError(f"cannot write {self.path}: {_reason(error)}", 5) from error
        finally:
            self.seconds += time.perf_counter() - begun

    def group(self, name: str) -> Any:
        """A new group."""
        with self.writing():
            return self.file.create_group(name)

    def put(self, group: Any, name: str, tensor: Any, pack: bool = False) -> None:
        """Writes a tensor; `pack`: compresses it even if others are not."""
        with self.writing():
            tensor = self._converted(group, name, tensor.detach())
            size = tensor.numel() * tensor.element_size()
            kind = tensor.new_empty(0).cpu().numpy().dtype
            packed = self._packed
            if pack and not packed:
                packed = {"compression": "gzip", "compression_opts": 1}
            if size < _LARGE or not tensor.dim():
                packed = {}
            at_hand = tensor.is_contiguous() and tensor.device.type == "cpu"
            if packed or not tensor.dim() or at_hand or size < _PIECE:
                values = tensor.cpu().contiguous().numpy()
                group.create_dataset(name, data=values, **packed)
            else:
                self._in_pieces(self._empty(group, name, tuple(tensor.shape), kind), tensor)
            self.bytes += size

    def _converted(self, group: Any, name: str, tensor: Any) -> Any:
        torch = self._torch
        if not tensor.is_floating_point():
            return tensor
        wanted = self._dtype or (torch.float32 if tensor.dtype == torch.bfloat16 else tensor.dtype)
        result = tensor.to(wanted)
        if torch.finfo(wanted).max < torch.finfo(tensor.dtype).max:
            if not torch.equal(torch.isfinite(result), torch.isfinite(tensor)):
                largest = float(tensor[torch.isfinite(tensor)].abs().max())
                raise DumpError(f"{group.name}/{name}: {largest:.3g} is too large for "
                                f"{str(wanted).replace('torch.', '')}", 3, "--dtype f32 holds it")
        return result

    def _empty(self, group: Any, name: str, shape: Tuple[int, ...], kind: Any) -> Any:
        """A new dataset, whose numbers are not filled in first."""
        h5py = self._h5py
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        return h5py.h5d.create(group.id, name.encode(), h5py.h5t.py_create(kind, logical=True),
                               h5py.h5s.create_simple(shape), settings)

    def _in_pieces(self, dataset: Any, tensor: Any) -> None:
        """Copies and writes a tensor that is not contiguous, a part of its leading axes at a time:
        each part is written while it is in cache."""
        axis, size = 0, tensor[0].numel() * tensor.element_size()
        while size > _PIECE and axis < tensor.dim() - 2:
            axis += 1
            size = size // tensor.shape[axis]
        step = max(1, _PIECE // max(size, 1))
        place = dataset.get_space()
        for index in self._numpy.ndindex(*tensor.shape[:axis]):
            for first in range(0, tensor.shape[axis], step):
                piece = self._copied(tensor[index][first:first + step])
                start = (*index, first, *(0,) * (tensor.dim() - axis - 1))
                place.select_hyperslab(start, (1,) * axis + piece.shape)
                dataset.write(self._h5py.h5s.create_simple(piece.shape), place, piece)

    def _copied(self, piece: Any) -> Any:
        """A contiguous copy, in memory that is used again and again: new memory is slow."""
        size = piece.numel() * piece.element_size()
        if self._buffer is None or self._buffer.numel() < size:
            self._buffer = self._torch.empty(size, dtype=self._torch.uint8)
        room = self._buffer[:size].view(piece.dtype).view(piece.shape)
        if piece.device.type == "cpu":
            # By one thread: PyTorch's would wait for each other where processors are busy.
            self._numpy.copyto(room.numpy(), piece.numpy())
        else:
            room.copy_(piece)
        return room.numpy()

    def put_strings(self, group: Any, name: str, strings: Any) -> None:
        """Writes UTF-8 strings, nested lists of equal lengths."""
        with self.writing():
            values = self._numpy.array(strings, dtype=object)
            group.create_dataset(name, data=values, dtype=self._h5py.string_dtype())

    def finish(self, history: str) -> None:
        """Closes the file, and gives it its name."""
        with self.writing():
            # As the tools write it: one string of variable length.
            self.file.attrs["history"] = history.replace("\n", " ")
            self.file.flush()
            self.file.close()
            descriptor = os.open(self._part, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if self._force:
                self._refuse_existing()
                os.replace(self._part, self.path)
            else:
                self._name_it()

    def _name_it(self) -> None:
        # Unlike a rename, a link does not replace a file that came meanwhile.
        try:
            os.link(self._part, self.path)
            os.unlink(self._part)
        except FileExistsError:
            raise self._exists() from None
        except OSError:  # no hard links here
            self._refuse_existing()
            os.rename(self._part, self.path)

    def discard(self) -> None:
        """Removes the temporary, if it is still there."""
        with contextlib.suppress(Exception):
            self.file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._part)


def _reason(error: Exception) -> str:
    number = getattr(error, "errno", None)
    if number:
        return os.strerror(number)
    # HDF5's own text: "Can't write data (file write failed: time = …, errno = 28, …)".
    match = re.search(r"errno = (\d+)", str(error))
    return os.strerror(int(match[1])) if match else str(error) or os.strerror(errno.EIO)
