"""scripts/sweep.mk: a table of statistics over scales and shares."""

import os
import unittest

from attn import LONG
from figure import PASSAGE, FigureTest


class Sweep(FigureTest):

    SIZE = ["SCALES=0.5 1", "SHARES=0 1"]

    def rows(self):
        lines = (self.folder / "sweep/table.tsv").read_text().splitlines()
        names = lines[0].split("\t")
        return [dict(zip(names, line.split("\t"))) for line in lines[1:]]

    def test_table_and_resuming(self):
        out = f"OUT={self.folder}/sweep"
        self.make("sweep.mk", out, "-j2", *self.SIZE)
        rows = self.rows()
        self.assertEqual(len(rows), 4 * 4)  # cells, heads
        for row in rows:
            options = ["--scheme", "hnas", "--hybrid", row["hybrid"], "--scale", row["scale"]]
            head = self.stats(*options, PASSAGE)["hnas"]["heads"][int(row["head"])]
            self.assertEqual(float(row["min_c"]), head["col_sum"]["min"])
        for again in ((), ("-n",)):
            self.assertIn("Nothing to be done", self.make("sweep.mk", out, *self.SIZE, *again))
        # After an interruption it continues; finished parts are not computed again.
        (self.folder / "sweep/stats/1_0.tsv").unlink()
        self.assertEqual(self.make("sweep.mk", out, *self.SIZE).count("--tsv"), 1)
        # What follows is about tables: short runs draw no further figures, which take a second each.
        table = [out] if LONG else [out, "PYTHON=true"]
        more = self.make("sweep.mk", *table, "SCALES=0.5 1 2", "SHARES=0 1")
        self.assertEqual(more.count("attn-compute"), 2)
        self.assertEqual(len(self.rows()), 6 * 4)
        # The table has only the requested rows of the requested input.
        self.make("sweep.mk", *table, "SCALES=2", "SHARES=1")
        self.assertEqual(len(self.rows()), 4)
        older = self.folder / "older.h5"
        self.run_tool("tensor-gen", "normal", "q=2x9x4", "k=2x9x4", "-o", older)
        os.utime(older, (0, 0))
        self.make("sweep.mk", *table, "SCALES=2", "SHARES=1", f"INPUT={older}")
        self.assertEqual([row["keys"] for row in self.rows()], ["9", "9"])
        self.assertEqual(self.make("sweep.mk", f"OUT={self.folder}/a b", status=2), "")

    def test_a_failed_cell_leaves_no_table(self):
        self.make("sweep.mk", f"OUT={self.folder}/sweep", "SCALES=x", "SHARES=0", status=2)
        self.assertFalse((self.folder / "sweep/table.tsv").exists())


if __name__ == "__main__":
    unittest.main()
