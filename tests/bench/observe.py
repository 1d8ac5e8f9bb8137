"""What attnkit.torch.observe costs beside a model whose attention makes no weights of L × L numbers.

    PYTHONPATH=build/release/python python3 tests/bench/observe.py --tokens 16384

Prints the memory and the time of the model alone and with observe. The time of attention is that of
`attend` below, which is the model's own. With --against-dump, the column sums are also compared with
those of dump-attention and explain-away-stats, to the last bit.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

ROWS = 128  # of weights at a time: the fastest of 64, 128 and 512
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
spent = 0.0  # seconds in attend


def attend(q, k, v):
    """softmax(q kᵀ / √d) v of (B, H, L, d), some rows of one head at a time."""
    global spent
    begun = time.perf_counter()
    out = torch.empty_like(q)
    for b in range(len(q)):
        for h in range(q.shape[1]):
            scaled, keys, values = q[b, h] * q.shape[-1] ** -0.5, k[b, h].T, v[b, h]
            for first in range(0, len(scaled), ROWS):
                out[b, h, first:first + ROWS] = (scaled[first:first + ROWS] @ keys).softmax(-1) @ values
    spent += time.perf_counter() - begun
    return out


class Attention(nn.Module):
    def __init__(self, heads, depth):
        super().__init__()
        self.heads, width = heads, heads * depth
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.proj(attend(q, k, v).transpose(1, 2).flatten(2))


class Blocks(nn.Module):
    """Layers of attention, each behind a normalisation."""

    def __init__(self, layers, heads, depth):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(heads * depth) for _ in range(layers))
        self.layers = nn.ModuleList(Attention(heads, depth) for _ in range(layers))

    def forward(self, x):
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return x


def peak_bytes():
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def function_here():
    """The name of `attend` for observe and dump-attention."""
    return f"{__name__}:attend"


def timed(run):
    """(result, seconds, seconds in attend)."""
    before, begun = spent, time.perf_counter()
    result = run()
    return result, time.perf_counter() - begun, spent - before


def dump_has_the_same(model, x, seen):
    """Whether dump-attention and explain-away-stats give the same bits."""
    import h5py
    import numpy
    sys.path.append(str(SCRIPTS))
    import dump_attention
    stats = Path(os.environ["ATTN_BIN"]) / "explain-away-stats"
    with tempfile.TemporaryDirectory() as folder:
        dump, found = (os.path.join(folder, name) for name in ("dump.h5", "stats.h5"))
        with torch.no_grad(), dump_attention.recording(dump, model, function=function_here()):
            model(x)
        subprocess.run([stats, dump, "--each=/*", "--only", "-o", found, "-q"], check=True)
        with h5py.File(found) as file:
            return sorted(file) == sorted(seen) and all(
                numpy.array_equal(file[name][what][()], seen[name][what])
                for name in file for what in file[name])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("tokens", 16384), ("layers", 4), ("heads", 8), ("depth", 64), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--against-dump", action="store_true")
    options = parser.parse_args()
    from attnkit.torch._observe import observe
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    model = Blocks(options.layers, options.heads, options.depth).eval()
    x = torch.randn(1, options.tokens, options.heads * options.depth)
    weights = 4 * options.layers * options.heads * options.tokens ** 2
    print(f"{options.layers} layers of {options.heads} heads at {options.tokens} tokens: "
          f"all weights would take {weights / 1e9:.1f} GB", flush=True)
    with torch.no_grad():
        alone, seconds, attending = timed(lambda: model(x))
        peak, rest = peak_bytes(), seconds - attending
        print(f"the model alone: {seconds:.1f} s, of which attention takes {attending:.1f} s; "
              f"at most {peak / 1e6:.0f} MB", flush=True)
        with observe(model, function=function_here(), threads=options.threads) as seen:
            together, watched, attending = timed(lambda: model(x))
        # What is neither attention nor the rest of the model. Attention is that of the same run, since other
        # programs may have slowed one of the runs.
        more = watched - attending - rest
        kept = sum(array.nbytes for call in seen.values() for array in call.values())
        print(f"observed: {watched:.1f} s; observing takes {more:.1f} s, {more / attending:.2f} times the "
              f"attention ({attending:.1f} s); {(peak_bytes() - peak) / 1e6:.0f} MB more, of which the "
              f"statistics take {kept / 1e6:.0f} MB")
        print("the output of the model is", "the same" if torch.equal(alone, together) else "DIFFERENT")
        if options.against_dump:
            same = dump_has_the_same(model, x, seen)
            print("the statistics of the dump are", "the same" if same else "DIFFERENT")


if __name__ == "__main__":
    main()
