"""How fast dump-attention writes what it records, beside h5py.

Only writing is timed, not the model. The file lies in memory (/dev/shm) where there is such a
folder, so that no disk is measured. Tensors are contiguous, or strided as the heads of
(batch, length, heads, depth) are."""

import statistics
import sys
import tempfile
import time
from pathlib import Path

SHAPE = (4, 16, 1024, 64)  # batch, heads, length, depth
TENSORS = 9
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def _ours(path, tensors):
    from dump_attention.bundle import Bundle
    bundle = Bundle(path, force=True)
    group = bundle.group("layer")
    for number, tensor in enumerate(tensors):
        bundle.put(group, str(number), tensor)
    bundle.finish("bench")


def _h5py(path, arrays):
    import h5py
    with h5py.File(path, "w") as file:
        for number, array in enumerate(arrays):
            file.create_dataset(f"layer/{number}", data=array)


def _seconds(write, path, values):
    path.unlink(missing_ok=True)
    begun = time.perf_counter()
    write(path, values)
    return time.perf_counter() - begun


def _measure(folder, strided, runs):
    import torch
    batch, heads, length, depth = SHAPE
    generator = torch.Generator().manual_seed(1)

    def tensor():
        if not strided:
            return torch.randn(SHAPE, generator=generator)
        return torch.randn(batch, length, heads, depth, generator=generator).transpose(1, 2)

    tensors = [tensor() for _ in range(TENSORS)]
    contenders = {"dump-attention": (_ours, tensors),
                  "h5py": (_h5py, [each.contiguous().numpy() for each in tensors])}
    if strided:
        contenders["h5py, strided"] = (_h5py, [each.numpy() for each in tensors])
    seconds = {name: [] for name in contenders}
    for turn in range(runs + 1):
        for name, (write, values) in contenders.items():
            found = _seconds(write, folder / "dump.h5", values)
            if turn:  # the first one warms up
                seconds[name].append(found)
    return seconds


def print_dump(conditions):
    """Measures and prints; None without torch or h5py."""
    print("dump-attention: GB/s of writing float32, and its share of h5py's")
    sys.path.insert(0, str(SCRIPTS))
    memory = Path("/dev/shm")
    figures = []
    try:
        for kind in ("contiguous", "strided"):
            with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
                seconds = _measure(Path(folder), kind == "strided", conditions.runs)
            size = 4 * TENSORS * SHAPE[0] * SHAPE[1] * SHAPE[2] * SHAPE[3]
            medians = {name: statistics.median(times) for name, times in seconds.items()}
            share = {name: median / medians["dump-attention"] for name, median in medians.items()}
            print(f"{kind:12}" + "".join(
                f"{name}: {size / median / 1e9:.2f} ({share[name]:.2f})  "
                for name, median in medians.items()), flush=True)
            figures.append({"tensors": kind, "shape": SHAPE, "seconds": seconds, "share_of": share,
                            "gbytes": size / medians["dump-attention"] / 1e9})
    except ImportError as missing:
        print(f"skipped: {missing}")
    print()
    return figures
