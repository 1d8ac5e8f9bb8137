"""lambda-solve: its reports and tables, and what it refuses."""

import csv
import unittest

import h5py
import numpy as np

from dumps import MAP, MODEL
from test_lambda_solve import LambdaTest, solve


class LambdaReports(LambdaTest):

    def test_mean_over_heads_leaves_out_empty_queries(self):
        random = np.random.default_rng(10)
        mask = np.ones((2, 5, 5), bool)
        mask[0, 1], mask[:, 3] = False, False
        self.write("in.h5", q=random.normal(size=(2, 5, 3)), k=random.normal(size=(2, 5, 3)),
                   mask=mask)
        done = self.run_tool("lambda-solve", "--average=heads", "in.h5", "-o", "out.h5",
                             "--json=out.json")
        d = self.read("out.h5")["relative_deviation"]
        means = [d[:, 0].mean(), d[1, 1], d[:, 2].mean(), d[:, 4].mean()]
        found = self.read_json("out.json")["result"]["mean_over_heads"]
        self.assertEqual(found["queries"], 4)
        self.assertAlmostEqual(found["relative_deviation"]["mean"], np.mean(means), delta=1e-14)
        self.assertRegex(done.out.decode(), rf"(?m)^mean head +{np.mean(means):.4f} ")

    def test_table(self):
        random = np.random.default_rng(11)
        for name in ("a", "b"):
            self.write(f"{name}.h5", q=random.normal(size=(2, 2, 5, 3)),
                       k=random.normal(size=(2, 2, 5, 3)), v=random.normal(size=(2, 2, 5, 3)))
        self.run_tool("lambda-solve", "a.h5", "b.h5", "--average=heads", "-o", "out.csv",
                      "--json=out.json")
        with (self.folder / "out.csv").open(newline="") as table:
            rows = list(csv.DictReader(table))
        groups = self.read_json("out.json")["result"]["groups"]
        self.assertEqual([(row["file"], row["batch"], row["head"]) for row in rows],
                         [(f, b, h) for f in ("a.h5", "b.h5")
                          for b, h in (("0", "0"), ("0", "1"), ("1", "0"), ("1", "1"),
                                       ("", "mean"))])
        for group, own in zip(groups, (rows[:5], rows[5:]), strict=True):
            for row, head in zip(own, group["heads"]):
                self.assertEqual(float(row["deviation_median"]),
                                 head["relative_deviation"]["median"])
                self.assertEqual(float(row["out_deviation_mean"]), head["out_deviation"]["mean"])
                self.assertEqual(int(row["max_iterations"]), head["iterations"]["max"])
            self.assertEqual(float(own[4]["deviation_mean"]),
                             group["mean_over_heads"]["relative_deviation"]["mean"])
        # The report goes to standard output unless the bundle does; several INPUTs make none.
        self.assertIn(b"deviation", self.run_tool("lambda-solve", "a.h5", "b.h5").out)
        self.assertIn(b"deviation", self.run_tool("lambda-solve", "a.h5", "-o", "a_out.h5").out)
        self.assertIn("deviation", self.run_tool("lambda-solve", "a.h5").err)
        self.refused("lambda-solve", "--tsv", "a.h5", output=None, status=2,
                     says=["--tsv and the bundle both go to standard output"], hint="-o FILE")
        self.refused("lambda-solve", "--top=3", "a.h5", status=2, says=["--top has no effect"])
        text = self.run_tool("lambda-solve", "--sort=deviation_max", "--top=1", "a.h5", "-o",
                             "b_out.h5").out.decode().splitlines()
        self.assertEqual(len(text), 2)

    def test_not_converged(self):
        random = np.random.default_rng(9)
        self.write("in.h5", t=10 * random.normal(size=(20, 6)), z=random.normal(size=(5, 6)))
        done = self.run_tool("lambda-solve", "in.h5", "--max-iterations=1", "--json=r.json", "-o",
                             "out.h5", status=1)
        self.assertIn("not converged", done.err)
        found = self.read("out.h5")
        self.assertEqual(found.attributes["attn_status"], "not_converged")
        self.assertEqual(found.attributes["attn_dual_status"], "not_converged")
        again = self.solve("out.h5", "-q").attributes
        self.assertEqual(again["attn_dual_status"], "converged")
        self.assertNotIn("attn_status", again)
        self.assertTrue((found["iterations"] == 1).any())
        self.assertTrue(np.isfinite(found["lambda"]).all())

    def test_json(self):
        random = np.random.default_rng(10)
        u = np.ones((2, 5, 20))
        u[1, 3] = 0
        self.write("in.h5", t=random.normal(size=(2, 20, 6)), z=random.normal(size=(2, 5, 6)),
                   preference=u)
        done = self.run_tool("lambda-solve", "in.h5", "--json", "-o", "out.h5").json()
        found = self.read("out.h5")
        self.assertEqual(done["status"], "ok")
        result = done["result"]
        self.assertEqual((result["problems"], result["converged"], result["empty"]), (9, 9, 1))
        self.assertEqual([head["index"] for head in result["heads"]], [[0], [1]])
        self.assertEqual([head["problems"] for head in result["heads"]], [5, 4])
        self.assertEqual(result["max_gap"], found["gap"].max())
        self.assertEqual(result["max_gradient_norm"], found["gradient_norm"].max())
        self.assertEqual(result["iterations"]["max"], found["iterations"].max())
        self.assertAlmostEqual(result["iterations"]["mean"], found["iterations"].sum() / 9)
        deviations = np.delete(found["relative_deviation"].ravel(), 8)
        for name, value in (("mean", deviations.mean()), ("median", np.median(deviations)),
                            ("max", deviations.max())):
            self.assertAlmostEqual(result["relative_deviation"][name], value, delta=1e-14)
        self.assertAlmostEqual(result["heads"][0]["relative_deviation"]["quantiles"]["0.05"],
                               np.quantile(found["relative_deviation"][0], 0.05), delta=1e-14)
        self.assertLess(result["max_relative_gap"], 1e-10)
        self.assertEqual(done["params"]["tolerance"], 1e-10)

    def test_refused(self):
        random = np.random.default_rng(12)
        t, z = random.normal(size=(4, 3)), random.normal(size=(2, 3))
        cost = np.ones((4, 4))
        self.write("in.h5", t=t, z=z, cost=cost, bad=-cost)
        refused = lambda *arguments, **more: self.refused("lambda-solve", *arguments, **more)
        refused("in.h5", "--gamma=1", status=2, says=["--gamma", "ot"])
        refused("in.h5", "--divergence=ot", status=2, says=["--gamma"])
        refused("in.h5", "--energy=dot", status=2, says=["--energy"])
        refused("in.h5", "--alpha=0", status=2, says=["--alpha"])
        refused("in.h5", "--tolerance=1e-3", "--gradient-tolerance=1e-3", status=2,
                says=["--tolerance"])
        refused("in.h5", "--emit=out", status=3, says=["v"])
        refused("in.h5", "--from=qk", status=3, says=["q"])
        refused("in.h5", "-icost=in.h5:/bad", "--divergence=ot", "--gamma=1", status=3,
                says=["in.h5:/bad", "[0, 0]"])
        refused("in.h5", "-icost=in.h5:/t", "--divergence=ot", "--gamma=1", status=3,
                says=["in.h5:/t", "(4, 3)", "(4, 4)"])
        refused("in.h5", "-ipreference=in.h5:/bad[0]", status=3, says=["in.h5:/bad[0]", "[0]"])
        refused("in.h5", "-iz=in.h5:/cost", status=3, says=["cost", "last axis"])
        refused("in.h5", "--memory=1K", status=6, says=["--memory"])
        walls = np.full((4, 4), np.inf)
        self.write("walls.h5", t=t, z=z, cost=walls)
        refused("walls.h5", "--divergence=ot", "--gamma=1", status=4,
                says=["walls.h5:/cost", "source 0"])
        self.write("far.h5", t=t, z=z, cost=1e300 * cost)
        refused("far.h5", "--divergence=ot", "--gamma=1e-300", status=4,
                says=["far.h5:/cost", "[0, 0]", "--gamma"])
        done = self.run_tool("lambda-solve", "in.h5", "-iz=in.h5:/cost", "-o", "out.h5", status=3)
        self.assertNotIn("bilinear", done.err)
        with h5py.File(self.folder / "capped.h5", "w") as file:
            file.update({"q": z, "k": t}), file.attrs.update({"attn_softcap": 30.0})
        refused("capped.h5", status=3, says=["capped.h5", "softcap"], hint="--softcap none")
        self.run_tool("lambda-solve", "capped.h5", "--softcap", "none", "--only", "-o", "capped.out.h5")
        # A soft cap of an earlier run is left out, which a warning says.
        self.run_tool("attn-compute", "capped.h5", "-o", "earlier.h5")
        done = self.run_tool("lambda-solve", "earlier.h5", "--only", "-o", "of.earlier.h5")
        self.assertIn("warning: an earlier run used softcap 30;", done.err)
        done = self.run_tool("lambda-solve", "earlier.h5", "--softcap", "none", "--only", "--force",
                             "-o", "of.earlier.h5")
        self.assertNotIn("earlier run", done.err)
        self.write("plain.h5", q=z, k=t)
        self.run_tool("lambda-solve", "plain.h5", "--only", "-o", "plain.out.h5")
        np.testing.assert_array_equal(self.read("capped.out.h5")["lambda"], self.read("plain.out.h5")["lambda"])

    def test_values_beyond_float32(self):
        random = np.random.default_rng(14)
        q, k, v = random.normal(size=(3, 4)), random.normal(size=(5, 4)), random.normal(size=(5, 2))
        self.write("in.h5", q=q, k=k, v=np.full((5, 2), 1e39))
        self.refused("lambda-solve", "in.h5", "--precision=f32", status=4,
                     says=["in.h5:/v", "beyond float32"], hint="--precision f64")
        self.assert_near("out", self.solve("in.h5", "-q")["out"] / 1e39, np.ones((3, 2)), 1e-12)
        self.write("in.h5", q=q, k=k, v=v)
        expected = self.solve("in.h5", "-q")["out_deviation"]
        for size in (1e200, 1e-170):
            self.write("in.h5", q=q, k=k, v=v * size)
            self.assert_near("out_deviation", self.solve("in.h5", "-q")["out_deviation"], expected,
                             1e-9)

    def test_attributes_of_other_results_stay(self):
        random = np.random.default_rng(15)
        q, k, v = random.normal(size=(3, 4)), random.normal(size=(5, 4)), random.normal(size=(5, 2))
        self.write("in.h5", q=q, k=k, v=v)
        self.run_tool("attn-compute", "in.h5", "--scheme=fenchel", "--alpha=3", "-o", "made.h5")
        made = self.read("made.h5").attributes
        found = self.solve("made.h5", "-q", "--emit=lambda").attributes
        self.assertEqual(found["attn_dual_alpha"], 1)
        self.assertAlmostEqual(found["attn_dual_scale"], 0.5, delta=1e-15)  # 1/sqrt(4), the templates'
        self.assertEqual(found["attn_dual_divergence"], "kl")
        self.assertEqual({name: value for name, value in found.items()
                          if name.startswith("attn_") and not name.startswith("attn_dual_")},
                         {name: value for name, value in made.items() if name.startswith("attn_")})

    def test_no_query_has_a_template(self):
        self.write("in.h5", t=np.ones((4, 3)), z=np.ones((2, 3)), preference=np.zeros(4))
        done = self.run_tool("lambda-solve", "in.h5", "-o", "out.h5")
        self.assertNotIn("nan", done.err)
        self.assertIn("no template", done.err)

    def test_dry_run_writes_nothing(self):
        random = np.random.default_rng(13)
        self.write("in.h5", t=random.normal(size=(4, 3)), z=random.normal(size=(2, 3)))
        done = self.run_tool("lambda-solve", "in.h5", "--dry-run", "--json", "-o", "out.h5").json()
        self.assertEqual(done["result"]["shape"], [2, 4])
        self.assertFalse((self.folder / "out.h5").exists())

    def test_report_on_groups(self):
        random = np.random.default_rng(9)
        groups = {f"layer{n}/{name}": random.normal(size=(2, 3, 7, 4))
                  for n in range(2) for name in "qkv"}
        self.write("dump.h5", **groups)
        options = ["lambda-solve", "--average=heads", "dump.h5", "--force", "-o", "out.h5"]
        text = self.run_tool(*options).out.decode()
        self.assertIn("dump.h5: 2 groups; every cell pools the batch\n", text)
        results = self.read("out.h5")
        for title, name, reduce in (
                ("mean relative deviation of the queries", "relative_deviation", np.mean),
                ("largest relative deviation", "relative_deviation", np.max),
                ("mean relative deviation of the outputs", "out_deviation", np.mean)):
            lines = text.split(f"\n{title}\n")[1].splitlines()
            self.assertEqual(lines[0].split(), ["group", *"head 0 head 1 head 2".split(), "all"])
            for n in range(2):
                values = results[f"layer{n}/{name}"]
                found = lines[1 + n].split()
                self.assertEqual(found[0], f"layer{n}")
                expected = [reduce(values[:, h]) for h in range(3)] + [reduce(values)]
                self.assert_near(title, [float(cell) for cell in found[1:]], expected, 6e-4)
        lines = text.split("each query's mean over the heads\n")[1].splitlines()
        self.assertEqual(lines[0].split(), ["group", "mean", "5%", "50%", "95%", "max"])
        for n in range(2):
            means = results[f"layer{n}/relative_deviation"].mean(1)
            found = [float(cell) for cell in lines[1 + n].split()[1:]]
            self.assert_near("mean over heads", [found[0], found[-1]], [means.mean(), means.max()],
                             6e-5)
        long = self.run_tool(*options, "-v").out.decode()
        self.assertIn("layer0: templates times", long)

    @unittest.skipUnless(MODEL.exists(), f"{MODEL} is not there")

    def test_a_whole_model(self):
        done = self.run_tool("lambda-solve", "--each=/text/wikitext2_valid/layer*", *MAP, "--causal",
                             "--only", "--emit=lambda,relative_deviation,out,out_deviation", "--json",
                             "--tolerance=1e-10", MODEL, "-o", "out.h5").json()
        result = done["result"]
        self.assertEqual(len(result["groups"]), 5)
        self.assertEqual(result["converged"], result["problems"])
        self.assertLess(result["max_relative_gap"], 1e-10)
        found = self.read("out.h5")
        with h5py.File(MODEL) as file:
            for layer in range(5):
                place = f"text/wikitext2_valid/layer{layer}"
                q, k, v = (file[f"{place}/{name}"][()].astype(float) for name in "QKV")
                for head, query in ((0, 5), (3, 100), (7, q.shape[1] - 1)):
                    t = k[head // 2, :query + 1] / np.sqrt(8)
                    x, p = solve(t, q[head, query], np.ones(query + 1), 1)
                    size = np.linalg.norm(x)
                    self.assert_near("lambda", found[f"{place}/lambda"][head, query], x,
                                     2e-9 * max(1, size))
                    self.assert_near("deviation", found[f"{place}/relative_deviation"][head, query],
                                     np.linalg.norm(x - q[head, query]) / size, 1e-8)
                    # out has the type of v.
                    self.assert_near("out", found[f"{place}/out"][head, query],
                                     p @ v[head // 2, :query + 1], 1e-6)


if __name__ == "__main__":
    unittest.main()
