"""The marks by which tools know results of earlier runs, and results without one."""

import json
import unittest

import h5py
import numpy as np

from stale import NOT_COPIED, Stale


class OlderFiles(Stale):
    """Results without a mark."""

    def test_beside_attributes_of_a_run(self):
        self.made("attn-compute", "--emit=out,weights,grad_q", "in.h5")
        self.strip_marks("made.h5")
        with h5py.File(self.folder / "made.h5", "r+") as file:
            file["error"] = np.arange(3.0)  # the user's own: no sinkhorn-iter was here
        sinkhorn = self.made("sinkhorn-iter", "made.h5", "--emit=plan", name="other.h5")
        self.dropped(sinkhorn, "attn-compute", "out", "weights", "grad_q")
        np.testing.assert_array_equal(sinkhorn["error"], np.arange(3.0))
        dual = self.made("lambda-solve", "made.h5", name="other.h5")
        self.dropped(dual, "attn-compute", "weights", "grad_q")
        self.assertNotIn("attn_scheme", dual.attributes)
        self.write("q.h5", q=self.normal(2, 7, 4))
        named = self.made("explain-away-stats", "-i", "q=q.h5", "made.h5", name="other.h5")
        self.dropped(named, "attn-compute", "out", "weights", "grad_q")

    def test_plan_and_dual(self):
        self.made("sinkhorn-iter", "--emit=plan,error", "in.h5")
        self.strip_marks("made.h5")
        self.dropped(self.made("attn-compute", "made.h5"), "sinkhorn-iter", "plan", "error")
        self.made("lambda-solve", "--emit=out,p,gap", "in.h5")
        self.strip_marks("made.h5")
        self.dropped(self.made("attn-compute", "--emit=weights", "made.h5"), "lambda-solve", "gap",
                     "out", "p")


class Marks(Stale):

    def test_contents_of_a_mark(self):
        made = self.made("attn-compute", "--emit=out,weights", "--scale=3", "in.h5")
        mark = json.loads(made.attributes_of["out"]["attn_result"])
        self.assertEqual((mark["name"], mark["tool"]), ("out", "attn-compute"))
        self.assertLessEqual({"q", "k", "v"}, set(mark["from"]))
        self.assertEqual(mark["with"]["attn_scale"], 3)
        self.assertNotIn("v", json.loads(made.attributes_of["weights"]["attn_result"])["from"])
        told = self.run_tool("tensor-info", "made.h5")
        self.assertIn("\nresults\n  attn-compute: out, weights\n", told.out.decode())
        self.assertNotIn("attn_result", told.out.decode())
        listed = self.run_tool("tensor-info", "--json", "made.h5").json()["result"]["datasets"]
        self.assertIn("attn_result", {d["path"]: d["attributes"] for d in listed}["out"])

    def test_a_text_that_is_not_a_mark(self):
        for text in ("", "{", "[]", '{"name": "out"}', '{"name": "out", "tool": 1, "from": {}}',
                     '{"name": "out", "tool": "nobody", "from": [], "with": {}}'):
            self.write("own.h5", {"attn_scheme": "unas"}, **self.data, out=np.zeros(2))
            with h5py.File(self.folder / "own.h5", "r+") as file:
                file["out"].attrs["attn_result"] = text
            self.dropped(self.made("attn-compute", "--emit=col_sum", "own.h5"), "attn-compute", "out")
        with h5py.File(self.folder / "own.h5", "r+") as file:
            file["out"].attrs["attn_result"] = np.arange(4)
        self.dropped(self.made("attn-compute", "--emit=col_sum", "own.h5"), "attn-compute", "out")

    def test_a_mark_that_would_overflow_the_stack(self):
        deep = ["[" * 100000 + "]" * 100000, '{"with":' * 200000 + "1" + "}" * 200000,
                "[" * 30000 + "]" * 30000, '{"a":' * 10000 + "1" + "}" * 10000]
        marks = [f'{{"name":"out","tool":"attn-compute","from":{{}},"with":{value}}}'
                 for value in deep] + [f'{{"name":{value}}}' for value in deep] + deep
        marks.append(json.dumps({"name": "out", "tool": "attn-compute", "from": {},
                                 "with": {"attn_scheme": "unas"}}) + " " * 65536)
        for text in marks:
            self.write("own.h5", {"attn_scheme": "unas"}, **self.data, out=np.zeros(2))
            with h5py.File(self.folder / "own.h5", "r+", libver="latest") as file:
                file["out"].attrs["attn_result"] = text
            self.dropped(self.made("attn-compute", "--emit=col_sum", "own.h5"), "attn-compute", "out")
            told = self.run_tool("tensor-info", "own.h5")
            self.assertNotIn("\nresults\n", told.out.decode())

    def test_comparison(self):
        self.made("attn-compute", "in.h5", name="a.h5")
        self.made("attn-compute", "in.h5", name="b.h5")
        self.strip_marks("b.h5")
        self.assertIn("attn_result", self.read("a.h5").attributes_of["out"])
        self.run_tool("tensor-compare", "--attributes", "a.h5", "b.h5")

    def test_left_out_results_take_no_space(self):
        self.write("big.h5", q=self.normal(400, 4), k=self.normal(400, 4), v=self.normal(400, 4))
        self.made("sinkhorn-iter", "--emit=plan", "big.h5")
        self.made("attn-compute", "--emit=out", "made.h5", name="small.h5")
        self.assertLess((self.folder / "small.h5").stat().st_size, 60000)

    def test_refused_runs_do_not_report_it(self):
        self.made("attn-compute", "--emit=out,grad_v", "in.h5")
        self.write("nan.h5", q=np.full((2, 7, 4), np.nan, np.float32))
        self.dropped(self.made("sinkhorn-iter", "made.h5", name="other.h5"), "attn-compute",
                     "grad_v", "out")
        self.refused("sinkhorn-iter", "-i", "q=nan.h5", "made.h5", status=3, says=["nan.h5:/q"])
        self.refused("attn-compute", "-i", "q=nan.h5", "made.h5", status=3, says=["nan.h5:/q"])

    def test_in_the_json(self):
        self.made("attn-compute", "--emit=weights", "in.h5")
        done = self.run_tool("attn-compute", "--emit=out", "--scale=2", "made.h5", "-q", "--json",
                             "-o", "out.h5")
        self.assertEqual(done.err, "")
        self.assertIn(NOT_COPIED + "weights (of an earlier attn-compute)", done.json()["warnings"])


if __name__ == "__main__":
    unittest.main()
