"""The Python code of the package's page runs, block after block."""

import contextlib
import io
import os
import pathlib
import re
import unittest

PAGE = pathlib.Path(os.environ["ATTN_SOURCE"]) / "lib/python/README.md"


class Page(unittest.TestCase):
    def test_code_runs(self):
        blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        self.assertGreater(len(blocks), 1)
        names = {}
        for block in blocks:
            if "import torch" in block:
                try:
                    import torch  # noqa: F401
                except ImportError:
                    continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block, str(PAGE), "exec"), names)
            self.assertTrue(printed.getvalue(), f"prints nothing:\n{block}")


if __name__ == "__main__":
    unittest.main()
