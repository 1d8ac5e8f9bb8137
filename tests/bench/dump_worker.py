"""Writes the queries, keys and values of some layers into a new file: as dump-attention does
("dump"), or by h5py in the fastest of the ways below ("h5py"). The caller removes the files.

Tensors are "contiguous", or "strided": by head, but in memory by token, as a projection leaves
them; "copied" is strided with a contiguous copy made before the time is taken.
"""

import itertools
import sys
from pathlib import Path

import h5py
import numpy as np
import torch
from worker import THREADS, serve

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from dump_attention.bundle import Bundle  # pylint: disable=wrong-import-position

torch.set_num_threads(THREADS)


class Written:
    """The answers, which are read only if somebody asks."""

    def __init__(self, path):
        self.path = path

    def items(self):
        with h5py.File(self.path) as file:
            return [(name, file[f"layer0/{name}"][()]) for name in "qkv"]


def by_recorder(path, layers, tensors):
    bundle = Bundle(path)
    for layer in range(layers):
        group = bundle.group(f"layer{layer}")
        for name, tensor in tensors.items():
            bundle.put(group, name, tensor)
    bundle.finish("")


def given(group, name, array):
    group.create_dataset(name, data=array)


def directly(group, name, array):
    group.create_dataset(name, array.shape, array.dtype).write_direct(np.ascontiguousarray(array))


def by_h5py(path, layers, arrays, put):
    with h5py.File(path, "w") as file:
        for layer in range(layers):
            group = file.create_group(f"layer{layer}")
            for name, array in arrays.items():
                put(group, name, array)


def prepare(problem):
    layers, batch, heads, length, depth = problem.shape
    arrays = {}
    for name in "qkv":
        if problem.direction == "contiguous":
            arrays[name] = problem.input(name, shape=(batch, heads, length, depth))
        else:
            by_token = problem.input(name, shape=(batch, length, heads, depth))
            arrays[name] = by_token.transpose(0, 2, 1, 3)
        if problem.direction == "copied":
            arrays[name] = np.ascontiguousarray(arrays[name])
    numbers = itertools.count()

    def to_new_file(write, *arguments):
        path = problem.folder / f"{problem.scheme}{next(numbers)}.h5"
        write(path, layers, *arguments)
        return Written(path)

    if problem.scheme == "dump":
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return {"as recorded": lambda: to_new_file(by_recorder, tensors)}
    return {"create_dataset": lambda: to_new_file(by_h5py, arrays, given),
            "write_direct": lambda: to_new_file(by_h5py, arrays, directly)}


serve(prepare)
