"""Shared by the tests of attn-train: a recipe, and runs of it."""

import json

from attn import SOURCE, ToolTest

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


class TrainTest(ToolTest):

    def setUp(self):
        super().setUp()
        self.environment["SOURCE_DATE_EPOCH"] = "1700000000"
        (self.folder / "r.toml").write_text(RECIPE)

    def train(self, *words, output="run.h5", **more):
        return self.run_tool("attn-train", "r.toml", "-o", output, *words, **more)

    def settings(self, **values):
        """--set for keys whose dots are double underscores and whose dashes are single ones."""
        words = []
        for key, value in values.items():
            words += ["--set", key.replace("__", ".").replace("_", "-") + f"={value}"]
        return words

    def bytes_of(self, name):
        return (self.folder / name).read_bytes()

    def log(self, name):
        """The lines of a log, without what the clock says."""
        lines = [json.loads(line) for line in (self.folder / name).read_text().splitlines()]
        for line in lines:
            line.pop("seconds", None)
            line.pop("tokens_per_s", None)
        return lines
