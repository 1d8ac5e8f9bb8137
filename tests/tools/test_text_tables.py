"""Tables of numbers as text (.csv, .tsv): tensor-convert reads them, other tools name it."""

import os
import unittest

import numpy as np

from attn import ToolTest


class TextTables(ToolTest):

    def put(self, name, text):
        content = text if isinstance(text, bytes) else text.encode()
        (self.folder / name).write_bytes(content)
        return name

    def table(self, name, text, *options):
        """The matrix that tensor-convert makes of a table, and what it says."""
        self.put(name, text)
        done = self.run_tool("tensor-convert", f"x={name}", *options, "-o", "x.h5", "--force")
        return self.read("x.h5")["x"], done.err

    def refused_table(self, name, text, says, hint=None):
        self.put(name, text)
        self.refused("tensor-convert", f"x={name}", status=3, says=[name, says], hint=hint,
                     output="no.h5")

    def assert_table(self, name, text, expected):
        found, err = self.table(name, text)
        self.assertEqual(found.dtype, np.float64)
        np.testing.assert_array_equal(found, expected, err_msg=repr(text))
        self.assertNotIn("note", err)
        self.assertNotIn("warning", err)

    def test_forms(self):
        matrix = [[1, 2.5], [-3e-7, 4]]
        lines = ["1,2.5", "-3e-7,4"]
        for text in ("\n".join(lines), "\n".join(lines) + "\n", "\r\n".join(lines) + "\r\n",
                     "\n \n" + "\n\n".join(lines) + "\n\n", "\ufeff" + "\n".join(lines),
                     '"1","2.5"\n-3e-7, 4', " 1 ,\t+2.5\n-3e-7,4"):
            if "\t" not in text:
                self.assert_table("a.csv", text, matrix)
                self.assert_table("A.CSV", text.replace(",", ";"), matrix)
            self.assert_table("a.csv", text.replace("\t", "").replace(",", "\t"), matrix)
            self.assert_table("a.tsv", text.replace("\t", "").replace(",", "\t"), matrix)
        self.assert_table("one.csv", "3\n4\n5\n", [[3], [4], [5]])
        self.assert_table("row.csv", "3,4,5", [[3, 4, 5]])
        self.assert_table("odd.csv", "nan,inf\n-Inf,NaN\n", [[np.nan, np.inf], [-np.inf, np.nan]])
        self.assert_table("tiny.csv", "5e-324,1e-400\n", [[5e-324, 0]])

    def test_numbers_are_read_back_exactly(self):
        values = np.random.default_rng(1).normal(size=(700, 300)) * 10.0 ** np.arange(-150, 150)
        np.savetxt(self.folder / "a.csv", values, delimiter=",", fmt="%.17g")
        found, _ = self.table("a.csv", (self.folder / "a.csv").read_bytes())
        self.assertEqual(found.tobytes(), values.tobytes())
        # More cells in a line than are kept at a time, below a header of as many.
        wide = np.arange(20000.0).reshape(2, 10000) + 0.5
        text = ",".join(f"c{n}" for n in range(10000)) + "\n"
        text += "\n".join(",".join(map(str, row)) for row in wide)
        found, err = self.table("wide.csv", text)
        np.testing.assert_array_equal(found, wide)
        self.assertIn("line 1 is a header of 10000 cells: c0, c1, c2, c3, c4, c5, c6, c7, ...\n", err)

    def test_headers(self):
        found, err = self.table("a.csv", '"mass, kg",x\n1,2\n3,4\n')
        self.assertEqual(found.tolist(), [[1, 2], [3, 4]])
        self.assertIn("note: a.csv: line 1 is a header of 2 cells: mass, kg, x\n", err)
        found, err = self.table("a.csv", "\n# x,y\n1,2\n")  # by numpy.savetxt
        self.assertEqual(found.tolist(), [[1, 2]])
        self.assertIn("line 2 is a header", err)

    def test_what_pandas_writes_besides(self):
        index = ",0,1\n0,1.5,2.5\n1,3.5,4.5\n"
        found, err = self.table("a.csv", index)
        self.assertEqual(found.shape, (2, 3))
        self.assertIn("warning: a.csv: line 1 is a header without a first name", err)
        self.assertIn("leave it out with a.csv[:,1:]", err)
        self.run_tool("tensor-convert", "x=a.csv[:,1:]", "-o", "y.h5")
        self.assertEqual(self.read("y.h5")["x"].tolist(), [[1.5, 2.5], [3.5, 4.5]])
        found, err = self.table("a.csv", "0,1\n1.5,2.5\n")
        self.assertEqual(found.shape, (2, 2))
        self.assertIn("warning: a.csv: line 1 counts the columns from 0", err)
        self.assertIn("leave it out with a.csv[1:]", err)
        self.assert_table("a.csv", "1.5,2.5\n0,1\n", [[1.5, 2.5], [0, 1]])

    def test_refused(self):
        for text, says, hint in (
                ("1,2\n3,4x\n", "line 2, column 2 has 4x, expected a number", "by a comma"),
                ("1,2\n\n3\n", "line 3 has 1 cell, but line 1 has 2 cells", "by a comma"),
                ("a,b\n1,2,3\n", "line 2 has 3 cells, but line 1 has 2 cells", None),
                ("1,2\n3,\n", "line 2, column 2 is empty, expected a number", "nan"),
                ("1,x\n3,4\n", "line 1, column 2 has x, expected a number", None),
                ("1,2\n3,-1e400\n", "line 2, column 2 has -1e400, which is beyond float64", None),
                ("1;2\n3,5;4\n", "line 2, column 1 has 3,5", "a decimal point, not a comma"),
                ("1 2\n3 4\n", "line 2, column 1 has 3 4", "by a comma"),
                ("1,2\n0x10,4\n", "line 2, column 1 has 0x10", None),
                ('1,2\n"3,4\n5,6\n', "line 2, column 1 has a quote that does not end", None),
                ("1,2\n3," + "x" * 9000 + "\n", "line 2, column 2 has " + "x" * 40 + "...", None),
                (b"1,2\n3,\xff\x00\x1b\n", "line 2, column 2 has ?", None),
                ("a,b\n", "has no numbers", "a header line has no numbers"),
                ("\n\n", "has no numbers", None),
                ("", "is empty", None)):
            with self.subTest(text=text[:40]):
                self.refused_table("bad.csv", text, says, hint)
        self.refused_table("bad.tsv", "1,2;\n3,4;\n", "line 2, column 1 has 3,4;", "by a tab")
        self.put("a.csv", "1,2\n")
        self.refused("tensor-convert", "a.csv", status=3, output="no.h5",
                     says="a.csv is a single array", hint="without -i")
        done = self.run_tool("tensor-convert", "x=-", "-o", "no.h5", status=3, stdin=b"1,2\n")
        self.assertIn("whose names end in .csv or .tsv", done.err)

    def test_types_and_formats(self):
        found, _ = self.table("a.csv", "1,0.1\n", "--dtype", "f32")
        self.assertEqual(found.dtype, np.float32)
        self.run_tool("tensor-convert", "a=a.csv[0]", "-o", "a.npz")
        self.assertEqual(np.load(self.folder / "a.npz")["a"].tolist(), [1, 0.1])
        self.run_tool("tensor-convert", "a=a.csv", "-o", "a.npy")
        self.assertEqual(np.load(self.folder / "a.npy").tolist(), [[1, 0.1]])

    def test_other_tools_name_tensor_convert(self):
        self.put("q.csv", "1,2\n3,4\n")
        for arguments in (["tensor-info", "q.csv"], ["explain-away-stats", "q.csv"],
                          ["tensor-compare", "q.csv", "q.csv"],
                          ["attn-compute", "-i", "q=q.csv", "-o", "no.h5"]):
            done = self.run_tool(*arguments, status=3)
            self.assertIn("q.csv is a table of text, expected HDF5", done.err, arguments)
            self.assertIn("tensor-convert NAME=q.csv -o NAME.h5", done.err, arguments)
            self.assertFalse(os.path.exists(self.folder / "no.h5"))

    def test_memory_does_not_grow(self):
        line = ",".join(["0.125"] * 1000) + "\n"
        peaks = []
        for lines in (10, 3000):
            with open(self.folder / "a.csv", "w", encoding="utf-8") as file:
                for _ in range(lines):
                    file.write(line)
            done = self.run_tool("tensor-convert", "x=a.csv", "-o", "a.npy", "--force",
                                 "--memory", "1M", "--json")
            peaks.append(done.json()["runtime"]["peak_rss_bytes"])
        self.assertLess(peaks[1] - peaks[0], 4 << 20)

    def test_a_full_disk(self):
        self.put("a.csv", "0.5,1.5\n" * 50000)
        done = self.shell("ulimit -f 100; tensor-convert x=a.csv -o x.h5", status=None)
        self.assertEqual(done.status, 5, done.err)
        self.assertIn("a.csv cannot be unpacked in ", done.err)
        self.assertEqual(os.listdir(self.folder), ["a.csv"])


if __name__ == "__main__":
    unittest.main()
