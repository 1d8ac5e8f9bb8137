"""Inputs may be nested to any depth: the result is an error, never a crash."""

import resource
import unittest

import h5py
import numpy as np
from h5py import h5d, h5s, h5t

from attn import SANITIZED, ToolTest

CLAIM = """
[[claim]]
id = "one"
source = "A paper"
statement = {statement}
command = "true"
value = "status"
relation = "="
expected = 0
"""


class Depth(ToolTest):

    def claims(self, text):
        (self.folder / "claims.toml").write_text(text)

    def test_keys_of_many_parts(self):
        dotted = ".".join("a" * 50000)
        rows = {
            "key": f"x = 1\n{dotted} = 1\n",
            "quoted": "x = 1\n" + " . ".join(['"a.b"', "'c'"] * 25000) + " = 1\n",
            "header": f"\n[{dotted}]\n",
            "array of tables": f"\n[[{dotted}]]\n",
            "inline": f"# here\nx = {{ {dotted} = 1 }}\n",
            "after strings": f"x = [\"\\\"#\", '''a\\'''''', 'b\\']\n{dotted} = 1\n",
        }
        for name, text in rows.items():
            with self.subTest(name=name):
                self.claims(text)
                self.refused("claim-check", "claims.toml", output=None, status=3,
                             says=["claims.toml:2: a key has more than 32 parts"])

    def test_brackets(self):
        for name, text in (("arrays", "[" * 10**6), ("tables", "{a=" * 10**6),
                           ("closed", "[" * 33 + "]" * 33), ("mixed", "[{a=" * 17 + "1" + "}]" * 17)):
            with self.subTest(name=name):
                self.claims(f"x = 1\ny = {text}\n")
                self.refused("claim-check", "claims.toml", output=None, status=3,
                             says=["claims.toml:2: a value has more than 32 nested brackets"])

    def test_keys_within_bounds_that_add_up(self):
        # 31 parts in each of 31 nested tables: the deepest text within the bounds.
        self.claims("y = " + ("{" + ".".join("a" * 31) + " = ") * 31 + "1" + "}" * 31 + "\n")
        self.refused("claim-check", "claims.toml", output=None, status=3, says=["no such key"],
                     preexec_fn=None if SANITIZED else self.small_stack)

    def test_strings_and_comments_may_hold_anything(self):
        dots, brackets = "." * 100, "[{" * 100
        for statement in (f'"{dots}{brackets}\\"{dots}"', f"'{brackets}\\'  # {dots}'{brackets}\"",
                          f'"""{dots}\n\\"""{brackets}\n"" """  # {brackets}',
                          f'"""{brackets}"""""  # {dots}', f"'''{dots}\n'{brackets}'''''"):
            with self.subTest(statement=statement):
                self.claims(CLAIM.format(statement=statement))
                self.run_tool("claim-check", "claims.toml")
        # Numbers have a dot each.
        numbers = ", ".join(["0.5"] * 200)
        self.claims(CLAIM.format(statement='"x"').replace("expected = 0", f"expected = [{numbers}]"))
        done = self.run_tool("claim-check", "claims.toml", status=1)
        self.assertNotIn("parts", done.err)

    def test_endless_loops(self):
        self.refused("claim-check", "/dev/zero", output=None, status=3, says=["/dev/zero is a device"])
        with open(self.folder / "zeros", "wb") as file:
            file.truncate(2**30)
        self.refused("claim-check", "zeros", output=None, status=3, says=["zeros", "64.0 MiB"])

    def test_words_of_many_signs(self):
        self.write("in.h5", **{n: np.ones((2, 2)) for n in "qkv"})
        word = "q" + "=" * 100000
        done = self.run_tool("attn-compute", "in.h5", "-i", word, "--json=r.json", status=3,
                             preexec_fn=None if SANITIZED else self.small_stack)
        self.assertTrue(done.err.startswith("attn-compute: error: cannot open ="))

    @staticmethod
    def small_stack(size=1 << 20):
        resource.setrlimit(resource.RLIMIT_STACK, (size, resource.getrlimit(resource.RLIMIT_STACK)[1]))

    @unittest.skipIf(SANITIZED, "a sanitizer reports the overflow by itself")
    def test_stack_overflow_in_hdf5(self):
        # HDF5 recurses over types of types.
        kind = h5t.NATIVE_INT8.copy()
        for _ in range(2500):
            kind = h5t.vlen_create(kind)
        with h5py.File(self.folder / "deep.h5", "w") as file:
            for name in "qkv":
                file[name] = np.ones((2, 2))
            h5d.create(file.id, b"deep", kind, h5s.create(h5s.SCALAR))
        for tool in ("tensor-info", "attn-compute"):
            for source in ("deep.h5", "-"):
                with self.subTest(tool=tool, source=source):
                    self.refused(tool, source, status=3, says=["is damaged: HDF5 crashed on it"],
                                 output="out.h5" if tool == "attn-compute" else None,
                                 stdin=(self.folder / "deep.h5").read_bytes(),
                                 environment={"OMP_NUM_THREADS": "1"}, preexec_fn=lambda: self.small_stack(200 << 10))


if __name__ == "__main__":
    unittest.main()
