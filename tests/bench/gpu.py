#!/usr/bin/env python3
"""Attention on a GPU beside PyTorch's: tables in Markdown, of times as ratios to SDPA's flash kernel, memory and errors.

  PYTHONPATH=build/release/python python3 tests/bench/gpu.py

Times are medians of runs in turn, of bfloat16 numbers. Errors are the largest differences from the library in
float64, relative to the largest number.
"""

import statistics
import sys
import time

import torch
import torch.nn.functional as F

import attnkit.torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = ((8, 4096, 64), (16, 16384, 128), (8, 65536, 64))
RUNS = 11


def inputs(shape, dtype):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, *shape, generator=generator).to(DEVICE, dtype).requires_grad_() for _ in range(3)]


def flash(q, k, v, causal=False):
    backend = torch.nn.attention.SDPBackend.FLASH_ATTENTION
    with torch.nn.attention.sdpa_kernel(backend):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def eager(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def scheme(name, **options):
    return lambda q, k, v: attnkit.torch.attention(q, k, v, scheme=name, **options)


SUMS = "column sums and entropies of dnas"
CONTENDERS = {
    "SDPA, flash": flash,
    "SDPA, flash, causal": lambda q, k, v: flash(q, k, v, True),
    "eager": eager,
    "unas": scheme("unas"),
    "unas, causal": scheme("unas", causal=True),
    "dnas": scheme("dnas"),
    "hnas": scheme("hnas", hybrid=0.5),
    "sinkhorn, 5 iterations": scheme("sinkhorn", iterations=5),
    SUMS: lambda q, k, v: attnkit.torch.sums(q, k, scheme="dnas"),
}


def seconds(function):
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    function()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def forward(contender, tensors):
    with torch.no_grad():
        contender(*tensors)


def both(contender, tensors):
    out = contender(*tensors)
    torch.autograd.grad(out.sum(), tensors)


def measured(step, names, shape):
    """{name: (median seconds, peak GiB)}; None where memory is too small."""
    tensors = inputs(shape, torch.bfloat16)
    times, memory = {name: [] for name in names}, {}
    for run in range(RUNS + 1):  # the first compiles
        for name in [name for name in names if times[name] is not None]:
            torch.cuda.reset_peak_memory_stats()
            try:
                took = seconds(lambda: step(CONTENDERS[name], tensors))
            except torch.cuda.OutOfMemoryError:
                times[name] = None
                continue
            memory[name] = torch.cuda.max_memory_allocated() / 2**30
            if run > 0:
                times[name].append(took)
    return {name: times[name] and (statistics.median(times[name]), memory[name]) for name in names}


def table(step, title, names):
    print(f"\n{title}: median time relative to SDPA's flash kernel, and peak memory\n")
    print("| | " + " | ".join(" x ".join(map(str, shape)) for shape in SHAPES) + " |")
    print("|---" * (len(SHAPES) + 1) + "|")
    found = [measured(step, names, shape) for shape in SHAPES]
    for name in names:
        cells = []
        for column in found:
            base = column["SDPA, flash"][0]
            cells.append("-" if column[name] is None else
                         f"{column[name][0] / base:.2f} ({1e3 * column[name][0]:.2f} ms), {column[name][1]:.2f} GiB")
        print(f"| {name} | " + " | ".join(cells) + " |")


def errors():
    print("\nLargest error against the library in float64, 4 x 2000 x 64\n")
    print("| | out | grad_q | grad_k | grad_v |\n|---|---|---|---|---|")
    for dtype in (torch.float32, torch.bfloat16):
        for name in ("unas", "dnas"):
            found = []
            for device, wide in (("cpu", torch.float64), (DEVICE, dtype)):
                tensors = [x.detach().to(device, wide).requires_grad_() for x in inputs((4, 2000, 64), dtype)]
                out = attnkit.torch.attention(*tensors, scheme=name)
                found.append([out, *torch.autograd.grad(out.cos().sum(), tensors)])
            cells = []
            for right, other in zip(*found):
                right, other = right.detach(), other.detach().cpu().double()
                cells.append(f"{((other - right).abs().max() / right.abs().max()).item():.1e}")
            print(f"| {name}, {str(dtype)[6:]} | " + " | ".join(cells) + " |")


def main():
    if DEVICE != "cuda":
        sys.exit("there is no GPU that PyTorch can use")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    errors()
    table(forward, "Forward", list(CONTENDERS))
    table(both, "Forward and backward", [name for name in CONTENDERS if name != SUMS])


if __name__ == "__main__":
    main()
