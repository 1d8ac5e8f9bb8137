"""mode-collapse-sim: points from files, reports, bits, pictures, and what is refused."""

import importlib.util
import json
import sys
import unittest

import numpy as np

from attn import SANITIZED, SOURCE
from collapse import PAIR, UNBALANCED, CollapseTest, attention


class Runs(CollapseTest):

    def test_bits_depend_on_neither_threads_nor_memory(self):
        options = [*PAIR, "--seeds=5", "--steps=2", "--scheme=unas,dnas,hnas,sinkhorn",
                   "--hybrid=0.5", "--iterations=3"]
        environment = {"SOURCE_DATE_EPOCH": "1"}
        whole = self.sim("simulate", *options)
        for more in (["--threads=1"], ["--threads=2"], ["--threads=7"], ["--memory=8M"],
                     ["--compress=gzip"]):
            self.assert_same_bits(self.sim("simulate", *options, *more), whole)
        files = [self.run_tool("mode-collapse-sim", "simulate", *options, "-q",
                               environment=environment).out for _ in range(3)]
        self.assertEqual(len(set(files)), 1)

    def test_points_from_elsewhere(self):
        random = np.random.default_rng(3)
        x = random.normal(size=(2, 3, 20, 4)).astype(np.float32)
        label = np.tile([7, -2], 10)
        self.write("in.h5", x=x, label=label, other=np.arange(3))
        bundle, result = self.sim("simulate", "in.h5", "--steps=1", json=True)
        self.assertEqual(result["labels"], [-2, 7])
        self.assertEqual(bundle["unas/trajectory"].dtype, np.float32)
        self.assertEqual(bundle["unas/trajectory"].shape, (2, 3, 2, 20, 4))
        np.testing.assert_array_equal(bundle["other"], np.arange(3))
        expected = attention(x[1, 2].astype(float), "dnas", "dot")
        self.assert_near("dnas", bundle["dnas/trajectory"][1, 2, 1], expected,
                         3e-5 * np.abs(expected).max())
        double = self.sim("simulate", "in.h5", "--steps=1", "--precision=f64")
        self.assert_near("f64", double["dnas/trajectory"][1, 2, 1], expected, 1e-12)
        by_set = np.broadcast_to(label, (2, 3, 20))
        self.write("sets.h5", x=x, label=by_set)
        self.assert_same_bits(self.sim("simulate", "sets.h5", "--steps=1", "--only"), bundle,
                              ["unas/centre", "dnas/centre", "unas/spread"])

    def test_arrays_of_numpy(self):
        random = np.random.default_rng(4)
        x, label = random.normal(size=(30, 2)), np.arange(30) % 3
        np.save(self.folder / "x.npy", x)
        np.save(self.folder / "label.npy", label)
        self.write("in.h5", x=x, label=label)
        bundle = self.sim("simulate", "-i", "x=x.npy", "-i", "label=label.npy", "--energy=gaussian")
        self.assert_same_bits(bundle, self.sim("simulate", "in.h5", "--energy=gaussian"))

    def test_a_long_run(self):
        done = self.run_tool("mode-collapse-sim", "simulate", *PAIR, "--steps=1000", "--scheme=unas",
                             "--energy=gaussian", "--emit=modes", "-o", "s.h5", "--json=s.json")
        told = json.loads((self.folder / "s.json").read_text())
        self.assertEqual(len(told["result"]["schemes"]["unas"]["steps"]), 1001)
        self.assertEqual((told["params"]["steps"], told["params"]["precision"]), (1000, "f64"))
        self.assertLess(done.out.count(b"\n"), 50)
        self.assertRegex(done.out.decode(), r"(?m)^ +1000 ")

    def test_a_second_run_replaces_the_first(self):
        self.sim("simulate", *PAIR, "--steps=3", json=True)
        again = self.sim("simulate", "sim.h5", "--steps=1", "--emit=modes")
        self.assertEqual(sorted(again), ["dnas/modes", "label", "unas/modes", "x"])
        self.assertEqual(again.attributes_of["dnas"]["attn_scheme"], "dnas")
        self.assertEqual(again.attributes["history"].count("mode-collapse-sim simulate"), 2)

    def test_sinkhorn_that_does_not_converge(self):
        done = self.run_tool("mode-collapse-sim", "simulate", *PAIR, "--scheme=sinkhorn",
                             "--iterations=1", "--tolerance=1e-14", "-o", "s.h5", "--json=r.json",
                             status=1)
        self.assertIn("did not converge", done.err)
        attributes = self.read("s.h5").attributes_of["sinkhorn"]
        self.assertEqual(attributes["attn_status"], "not_converged")
        self.assertEqual(attributes["attn_tolerance"], 1e-14)
        self.run_tool("mode-collapse-sim", "simulate", *PAIR, "--scheme=sinkhorn", "--steps=1",
                      "-o", "usual.h5")
        usual = self.read("usual.h5").attributes_of["sinkhorn"]
        self.assertEqual(usual["attn_tolerance"], 1e-10)

    def test_table(self):
        done = self.run_tool("mode-collapse-sim", "simulate", *PAIR, "--seeds=4", "-o", "s.h5")
        self.assertRegex(done.out.decode(), r"(?m)^unas +0 +3\.\d+ .* 0$")
        self.assertRegex(done.err, r"(?m)^mode-collapse-sim: points 4 x 42 x 2, 2 clusters, 4 steps")

    def test_never_reads_standard_input(self):
        with open("/dev/zero", "rb") as endless:
            self.run_tool("mode-collapse-sim", "curve", "-o", "c.h5", stdin=endless)
            self.run_tool("mode-collapse-sim", "simulate", *PAIR, "-o", "s.h5", stdin=endless)

    def test_dry_run(self):
        done = self.run_tool("mode-collapse-sim", "simulate", *PAIR, "--seeds=3", "--dry-run",
                             "--json")
        told = done.json()["result"]
        bundle = self.sim("simulate", *PAIR, "--seeds=3")
        self.assertEqual(told["result_bytes"], sum(a.nbytes for a in bundle.values()))
        self.run_tool("mode-collapse-sim", "curve", "--dry-run")
        em = self.run_tool("mode-collapse-sim", "em", *PAIR, "--dry-run", "--json").json()["result"]
        bundle = self.sim("em", *PAIR)
        self.assertEqual(em["result_bytes"], sum(a.nbytes for a in bundle.values()))


@unittest.skipIf(importlib.util.find_spec("matplotlib") is None, "matplotlib is not there")
@unittest.skipIf(SANITIZED, "runs the tool 52 times as other tests do")
class Phases(CollapseTest):

    def test_table_and_picture(self):
        done = self.shell(f"{sys.executable} {SOURCE}/scripts/collapse-phases --seeds 3 --steps 4 "
                          "-o phases 2>&1")
        folder = self.folder / "phases"
        self.assertEqual((folder / "phases.png").read_bytes()[:4], b"\x89PNG")
        lines = (folder / "phases.tsv").read_text().splitlines()
        rows = [dict(zip(lines[0].split("\t"), line.split("\t"))) for line in lines[1:]]
        self.assertEqual(len(rows), 2 * 2 * 13 * 2 * 5)
        bundle = self.sim("simulate", *UNBALANCED, "--seeds=3")
        for row in rows:
            if (row["energy"], row["balance"], row["variance"]) != ("dot", "unbalanced", "0.1"):
                continue
            distances = bundle[f"{row['scheme']}/centre_distance"][:, int(row["step"])]
            self.assertEqual(float(row["median_distance"]), np.median(distances))
            self.assertEqual(int(row["merged"]), (distances < 0.1).sum())
        self.assertIn("dot, unbalanced", done.out.decode())

    def test_a_folder_that_cannot_be_made(self):
        (self.folder / "file").write_text("")
        done = self.shell(f"! {sys.executable} {SOURCE}/scripts/collapse-phases -o file/phases 2>&1")
        self.assertIn("collapse-phases: error: file/phases/runs", done.out.decode())
        self.assertNotIn("Traceback", done.out.decode())


class Refused(CollapseTest):

    def test_usage(self):
        sim, em = ["simulate", *PAIR], ["em", *PAIR]
        for arguments, says in (
            ([], "curve, simulate, em"), (["walk"], "curve, simulate, em"),
            (["curve", "--r=1:10"], "LO:HI:N"), (["curve", "--r=10:1:5"], "LO <= HI"),
            (["curve", "--r=0:1:5"], "LO <= HI"), (["curve", "--r=1:2:0"], "N in"),
            (["curve", "--r=1:2:1"], "LO = HI"), (["curve", "--r=nan:2:3"], "LO:HI:N"),
            (["curve", "--a=0"], "--a"), (["curve", "--a=1e101"], "--a"),
            (["curve", "in.h5"], "in.h5"), (["curve", "--steps=3"], "--steps"),
            (["simulate"], "--centres"), (["simulate", "--centres=1;2"], "--counts"),
            (["simulate", "--centres=1;2", "--counts=1,2,3"], "--counts"),
            (["simulate", "--centres=1;2", "--counts=1,0"], "--counts"),
            ([*sim, "--variance=1,2,3"], "--variance"), ([*sim, "--variance=-1"], "--variance"),
            ([*sim, "--diagonal=1,2,3"], "--diagonal"), ([*sim, "--diagonal=1,-2"], "-2"),
            ([*sim, "--covariance=1,2;2,1"], "semidefinite"),
            (["simulate", "--centres=1,2,3", "--counts=4",
              "--covariance=1e200,1e200,1e199;1e200,1e200,-1e199;1e199,-1e199,1e200"],
             "semidefinite"),
            ([*sim, "--covariance=1,2;0,1"], "symmetric"), ([*sim, "--covariance=1,2"], "rows"),
            ([*sim, "--variance=1", "--diagonal=1,1"], "one of"),
            ([*sim, "--scheme=fenchel"], "--scheme"), ([*sim, "--scheme=unas,unas"], "unas"),
            ([*sim, "--scheme=hnas"], "--hybrid"), ([*sim, "--hybrid=0.5"], "hnas"),
            ([*sim, "--iterations=5"], "sinkhorn"), ([*sim, "--energy=mlp"], "--energy"),
            ([*sim, "--steps=0"], "--steps"), ([*sim, "--seeds=0"], "--seeds"),
            ([*sim, "--emit=log_likelihood"], "log_likelihood"), ([*sim, "--width=0"], "--width"),
            ([*em, "--emit=trajectory"], "trajectory"), ([*em, "--precision=f32"], "float64"),
            ([*em, "--start=1,2,3"], "--start"), ([*em, "--min-variance=1"], "--estimate"),
            ([*em, "--estimate-variance", "--model-variance=1e-9"], "--min-variance"),
            ([*em, "--model-variance=0"], "--model-variance"), ([*em, "--scheme=unas"], "--scheme"),
        ):
            with self.subTest(arguments=arguments):
                self.refused("mode-collapse-sim", *arguments, status=2, says=[says])

    def test_input(self):
        x = np.ones((6, 2))
        label = np.arange(6) % 2
        bad = x.copy()
        bad[4, 1] = np.nan
        for datasets, says in (
            ({"label": label}, ["x"]), ({"x": x}, ["label"]),
            ({"x": x, "label": label[:5]}, ["label", "(5)", "(6)"]),
            ({"x": x, "label": label.astype(float)}, ["label", "float64"]),
            ({"x": x[0], "label": label}, ["x"]), ({"x": x[:0], "label": label[:0]}, ["x"]),
            ({"x": bad, "label": label}, ["x", "[4, 1]", "nan"]),
            ({"x": x.astype(int), "label": label}, ["x", "int64"]),
            ({"x": np.stack([x, x]), "label": [label, label * 0]}, ["x [1]", "labelled 1"]),
        ):
            with self.subTest(says=says):
                self.write("in.h5", **datasets)
                self.refused("mode-collapse-sim", "simulate", "in.h5", status=3, says=says)
        self.write("in.h5", x=x, label=label, start=np.ones((3, 3)))
        self.refused("mode-collapse-sim", "em", "in.h5", status=3, says=["start", "(3, 3)"])
        self.refused("mode-collapse-sim", "simulate", "missing.h5", status=3, says=["missing.h5"])
        for option in (*PAIR, "--seed=1", "--seeds=2", "--variance=1"):
            self.refused("mode-collapse-sim", "simulate", "in.h5", option, status=2,
                         says=[option.split("=")[0], "in.h5"])

    def test_existing_points_are_not_emitted(self):
        self.write("in.h5", x=np.ones((6, 2)), label=np.arange(6) % 2)
        for name in ("x", "label"):
            self.refused("mode-collapse-sim", "simulate", "in.h5", f"--emit={name}", "--only",
                         status=2, says=[f"--emit {name}", "in.h5"])

    def test_shape_of_start(self):
        self.write("in.h5", x=np.ones((2, 6, 3)), start=np.ones((3, 4)))
        self.refused("mode-collapse-sim", "em", "in.h5", status=3,
                     says=["(M, 3) or (2, M, 3)"])
        self.write("in.h5", x=np.ones((6, 3)), start=np.ones((3, 4)))
        self.refused("mode-collapse-sim", "em", "in.h5", status=3, says=["expected (M, 3)"])

    def test_labels_that_do_not_fit(self):
        self.write("in.h5", x=np.ones((300000, 1), np.float32), label=np.zeros(300000, np.int8))
        for more in ([], ["--dry-run"]):
            self.refused("mode-collapse-sim", "simulate", "in.h5", "--memory=1M", *more, status=6,
                         says=["in.h5:/label", "--memory"])

    def test_points_that_exceed_the_format(self):
        far = ["--counts=3,3", "--centres=1e3;-1e3", "--residual", "--precision=f32", "--steps=200"]
        self.refused("mode-collapse-sim", "simulate", *far, status=4, says=["seed 0, unas, step"])
        self.refused("mode-collapse-sim", "simulate", "--counts=1", "--centres=1e39",
                     "--precision=f32", status=4, says=["seed 0"], hint="f64")
        self.refused("mode-collapse-sim", "em", "--counts=1000", "--centres=1e153", "--variance=0",
                     "--start=0", "--steps=3", status=4, says=["seed 0, step 1", "likelihood"])

    def test_memory(self):
        self.refused("mode-collapse-sim", "simulate", "--counts=100000,100", "--centres=1,1;0,0",
                     "--memory=1M", status=6, says=["100100 x 2", "--memory"])
        self.refused("mode-collapse-sim", "em", "--counts=100000,100", "--centres=1,1;0,0",
                     "--memory=1M", status=6, says=["--memory"])
        self.refused("mode-collapse-sim", "simulate", "--counts=3,3", "--centres=1;0",
                     "--steps=1000000000000", status=6, says=["--memory"])

    def test_unwritten_distances_take_no_memory(self):
        x = np.arange(2000.0)[:, None] / 2000
        self.write("in.h5", x=x, label=np.arange(2000))
        options = ["simulate", "in.h5", "--steps=2", "--memory=130M", "--threads=1"]
        self.refused("mode-collapse-sim", *options, status=6, says=["--memory"])
        self.assertIn("unas/centre", self.sim(*options, "--emit=centre"))

    def test_bytes_beyond_any_count(self):
        for options in (
            ["simulate", f"--counts={1 << 47}", "--centres=0", "--steps=1", "--scheme=unas"],
            ["simulate", f"--counts={1 << 48}", "--centres=0", "--steps=1", "--scheme=dnas"],
            ["em", f"--counts={1 << 47}", "--centres=0", "--steps=1", "--start=1"],
            ["em", f"--counts={1 << 48}", "--centres=0", "--steps=1"],
            ["simulate", "--counts=" + ",".join(["1"] * 300),
             "--centres=" + ";".join(map(str, range(300))), f"--steps={1 << 40}"],
        ):
            for count, memory in ((8, "1G"), (512, "1G"), (65536, "4194304T")):
                self.refused("mode-collapse-sim", *options, f"--seeds={count}",
                             f"--threads={count}", f"--memory={memory}", "--dry-run", status=6,
                             says=["of working memory"])


if __name__ == "__main__":
    unittest.main()
