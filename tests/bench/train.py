"""A training step of small language models beside PyTorch: forward, backward and SGD, float32."""

import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Layers, width, width of the feed-forward layer, sequences, length, vocabulary.
MODELS = [(1, 256, 512, 8, 256, 65), (6, 128, 256, 16, 256, 65), (1, 256, 512, 8, 256, 8000),
          (6, 128, 256, 16, 256, 8000)]
SCHEMES = ["unas", "dnas", "hnas", "si-sgd"]
STEPS, UNTIMED = 8, 3
# The allocator keeps freed memory, which PyTorch would touch anew in each step.
KEEPS_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000"}


def _seconds(command, environment, scheme, model, threads):
    words = [*command, scheme, *map(str, model), str(threads), str(STEPS)]
    done = subprocess.run(words, capture_output=True, text=True,
                          env={**os.environ, **KEEPS_MEMORY, **environment})
    if done.returncode != 0:
        return None, done.stderr
    *seconds, loss = map(float, done.stdout.split())
    # Untrained models on random tokens.
    assert abs(loss - math.log(model[-1])) < 0.5, (command, loss)
    return statistics.median(seconds[UNTIMED:]), ""


def print_train(conditions):
    """Measures and prints; each run is a process, and the contenders take turns."""
    print("\na training step: ms of the library, and PyTorch's time over it; the schemes over unas")
    ours = [str(conditions.build / "attn-bench-train-worker")]
    torch = [sys.executable, str(HERE / "torch_train_worker.py")]
    contenders = {scheme: (ours, {}, scheme) for scheme in SCHEMES}
    contenders["PyTorch"] = (torch, conditions.peer(), "unas")
    figures = []
    for model in MODELS:
        times = {name: [] for name in contenders}
        for _ in range(conditions.runs):
            for name, (command, environment, scheme) in contenders.items():
                seconds, said = _seconds(command, environment, scheme, model, conditions.threads)
                if seconds is None and name != "PyTorch":
                    sys.exit(f"run: {command}: {said}")
                if seconds is not None:
                    times[name].append(seconds)
        medians = {name: statistics.median(found) for name, found in times.items() if found}
        text = "  ".join(f"{name} {medians[name] / medians['unas']:.2f}"
                         for name in medians if name != "unas")
        layers, width, inner, sequences, length, vocabulary = model
        print(f"{layers} x {width}/{inner}, {sequences} x {length} tokens, {vocabulary} symbols: "
              f"{1e3 * medians['unas']:7.1f} ms  {text}", flush=True)
        figures.append({"model": model, "seconds": medians})
    return figures
