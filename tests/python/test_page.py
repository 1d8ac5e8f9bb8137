"""The Python code of the package's page and of the README runs, block after block."""

import contextlib
import io
import os
import pathlib
import re
import unittest

import numpy

SOURCE = pathlib.Path(os.environ["ATTN_SOURCE"])


class Pages(unittest.TestCase):
    def test_code_runs(self):
        random = numpy.random.default_rng(1)
        given = {name: random.normal(size=(2, 9, 4)).astype("float32") for name in "qkv"}
        for page in ("README.md", "lib/python/README.md"):
            self.run_page(page, given)

    def run_page(self, page, names):
        text = (SOURCE / page).read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        self.assertGreater(len(blocks), 0)
        names = dict(names)
        for block in blocks:
            if "import torch" in block:
                try:
                    import torch  # noqa: F401
                except ImportError:
                    continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block, page, "exec"), names)


if __name__ == "__main__":
    unittest.main()
