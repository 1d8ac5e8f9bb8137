"""Array files made by hand, byte by byte; only .npy uses NumPy."""

import io
import json
import struct

import numpy as np

SAFETENSORS = {"float16": "F16", "float32": "F32", "float64": "F64", "int8": "I8", "int16": "I16",
               "int32": "I32", "int64": "I64", "uint8": "U8", "uint16": "U16", "uint32": "U32",
               "uint64": "U64", "bool": "BOOL"}
ORDER = ["U64", "I64", "F64", "F32", "U32", "I32", "BF16", "F16", "U16", "I16", "I8", "U8", "BOOL"]


class Brain(np.ndarray):
    """uint16 bits as bfloat16."""


def brain(values):
    """float32 numbers that bfloat16 holds, as bits."""
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16).view(Brain)


def widened(bits):
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def dtype_of(array):
    return "BF16" if isinstance(array, Brain) else SAFETENSORS[array.dtype.name]


def framed(header, data=b""):
    """A .safetensors with this header (text, or an object to be written as JSON) and data."""
    text = header
    if not isinstance(header, bytes):
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def safetensors(arrays, metadata=None):
    """In the order of the reference implementation: by type, then by name."""
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name in sorted(arrays, key=lambda n: (ORDER.index(dtype_of(arrays[n])), n)):
        array = arrays[name]
        raw = np.asarray(array).tobytes()
        header[name] = {"dtype": dtype_of(array), "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    return framed(header, data)


def typed(arrays):
    """A .safetensors of {name: (type as the format calls it, array of these bytes)}."""
    header, data = {}, b""
    for name, (kind, array) in arrays.items():
        raw = np.asarray(array).tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    return framed(header, data)


def read_safetensors(content):
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8:8 + length]), content[8 + length:]
    numpy = {code: np.dtype(name) for name, code in SAFETENSORS.items()} | {"BF16": np.dtype("u2")}
    arrays = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        arrays[name] = np.frombuffer(data[begin:end], numpy[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def safetensors_metadata(content):
    """The entry __metadata__ of a header: text by name."""
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8:8 + length]).get("__metadata__", {})


def npy(array, **options):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(array), **options)
    return stream.getvalue()


def npy_with(header, data=b"", version=(1, 0)):
    """An .npy with a header as given, padded as NumPy does."""
    text = header.encode() if isinstance(header, str) else header
    size = 10 if version[0] == 1 else 12
    text += b" " * (-(size + len(text) + 1) % 64) + b"\n"
    length = struct.pack("<H" if version[0] == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text + data
