"""What the tests of dump-attention share: running recorded numbers through attn-compute, and plain
attention in PyTorch. Without torch, what derives from DumpTest is skipped."""

import importlib.util
import sys
import unittest
import warnings

import h5py
import numpy as np

from attn import SOURCE, ToolTest

sys.path.insert(0, str(SOURCE / "scripts"))
# pylint: disable=wrong-import-position
from dump_attention import recording
from dump_attention.errors import DumpWarning

WITHOUT_TORCH = importlib.util.find_spec("torch") is None

if WITHOUT_TORCH:
    print("no torch for this Python, so dump-attention is not tested", file=sys.stderr)
else:
    import torch


class SomethingRuns(unittest.TestCase):
    """Makes a run without torch say that it skips the tests, in every file that imports this."""

    def test_torch_is_installed(self):
        if WITHOUT_TORCH:
            self.skipTest("torch is not installed")


def plain_attention(q, k, v, attn_mask=None, is_causal=False, scale=None):
    """scaled_dot_product_attention, as documented."""
    scale = q.shape[-1]**-0.5 if scale is None else scale
    scores = q @ k.transpose(-2, -1) * scale
    if is_causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~allowed, -np.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -np.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return scores.softmax(-1) @ v


@unittest.skipIf(WITHOUT_TORCH, "torch is not installed")
class DumpTest(ToolTest):
    """A test with the dump dump.h5."""

    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        self.path = self.folder / "dump.h5"

    def record(self, model, *arguments, dump=(), expect=(), **named):
        """Runs model(*arguments, **named) without gradients while it is recorded with the options
        `dump`; returns its result. `expect`: patterns of the warnings, no others may come."""
        with warnings.catch_warnings(record=True) as seen, torch.no_grad():
            warnings.simplefilter("always", DumpWarning)
            with recording(self.path, model, force=True, **dict(dump)):
                result = model(*arguments, **named)
        told = [str(one.message) for one in seen if one.category is DumpWarning]
        self.assertEqual(len(told), len(expect), told)
        for text, pattern in zip(told, expect):
            self.assertRegex(text, pattern)
        return result

    def groups(self):
        with h5py.File(self.path) as file:
            return sorted(file)

    def attributes(self, group=None):
        with h5py.File(self.path) as file:
            return dict((file[group] if group else file).attrs)

    def names(self, group):
        with h5py.File(self.path) as file:
            return set(file[group])

    def values(self, group, name):
        with h5py.File(self.path) as file:
            return file[group][name][()]

    def computed(self, group, *options, emit="out"):
        """What attn-compute makes of a group; attributes of the group are its defaults."""
        return self.compute(f"dump.h5:/{group}", f"--emit={emit}", "--only", *options)

    def check(self, group, out, *options, limit=1e-5, rows=None):
        """attn-compute's `out` of a group equals `out` (B, H, L, d), at the real queries `rows`
        (B, L) if given. With padding on the left each sequence is computed by itself."""
        out = out.detach().numpy()
        mine = self.sequences(group, *options) if "key_start" in self.names(group) else (
            self.computed(group, *options)["out"])
        if rows is not None:
            rows = np.broadcast_to(np.asarray(rows)[:, None, :, None], out.shape)
            mine, out = np.where(rows, mine, 0), np.where(rows, out, 0)
        self.assert_near(group, mine, out, limit)

    def sequences(self, group, *options):
        """`out` of each sequence, computed from its own rows, with zeros elsewhere."""
        self.assertFalse(self.names(group) & {"mask", "bias"})
        with h5py.File(self.path) as file:
            lengths = {name: file[group][name][()] for name in file[group] if name.startswith(
                ("key_", "query_"))}
            shape = (*file[group]["q"].shape[:-1], file[group]["v"].shape[-1])
            attributes = dict(file[group].attrs)
        out = np.zeros(shape, "f4")
        for b in range(shape[0]):
            spans = {}
            for what, size in (("query", shape[2]), ("key", None)):
                start = int(lengths.get(f"{what}_start", np.zeros(shape[0], int))[b])
                length = lengths.get(f"{what}_length")
                spans[what] = slice(start, start + int(length[b]) if length is not None else size)
            with h5py.File(self.path) as file:
                parts = {name: file[group][name][b][:, spans["query" if name == "q" else "key"]]
                         for name in "qkv"}
                more = {name: file[group][name][()] for name in ("sink", "rel_bias")
                        if name in file[group]}
            self.write("one.h5", attributes=attributes, **parts, **more)
            out[b][:, spans["query"]] = self.compute("one.h5", "--emit=out", "--only", *options)["out"]
        return out

    def heads_of(self, joined, heads):
        """(B, L, H·d) as (B, H, L, d)."""
        return joined.reshape(*joined.shape[:2], heads, -1).transpose(1, 2)
