"""attn-train: recipes, runs that go on, checkpoints, logs, and what is refused."""

import json
import os
import random
import signal
import subprocess
import time
import unittest

from attn import BIN, SOURCE, ToolTest, load

PROSE = SOURCE / "data/prose.txt"
RECIPE = f"""
[data]
text = "{PROSE}"
length = 16
[model]
layers = 2
width = 12
heads = 2
inner = 10
[objective]
kind = "causal"
[run]
steps = 12
batch = 9
log-every = 3
evaluate-every = 6
checkpoint-every = 4
dropout = 0.1
weight-dropout = 0.1
"""


def lines_of(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:  # what the clock says differs from run to run
        line.pop("seconds", None)
        line.pop("tokens_per_s", None)
    return lines
