"""attn-plot and scripts/figures.mk: pictures of what the tools write."""

import re
import subprocess
import unittest

import h5py
import numpy as np

from attn import LONG, SOURCE, TIMEOUT, sample
from figure import CLUSTERS, PASSAGE, FigureTest, matplotlib


class Figures(FigureTest):

    def test_all_are_drawn_exactly_once(self):
        out = self.folder / "figures"
        before = {path: path.stat().st_mtime for path in SOURCE.glob("data/**/*")}
        chosen = [] if LONG else ["FIGURES=column-sums relative-deviation"]
        self.make("figures.mk", f"OUT={out}", "DPI=100", "-j2", *chosen)
        drawn = sorted(path.stem for path in out.glob("*.png"))
        self.assertGreaterEqual(len(drawn), 8 if LONG else 2)
        self.assertEqual(drawn, sorted(path.stem for path in out.glob("*.pdf")))
        for name in drawn:
            with self.subTest(figure=name):
                picture = matplotlib.image.imread(out / f"{name}.png")
                self.assertEqual(picture.shape[1], 700)
                colours = np.ascontiguousarray(255 * picture, np.uint8).view(np.uint32)
                self.assertGreater(len(np.unique(colours)), 50)
                self.assertTrue((out / f"{name}.pdf").read_bytes().startswith(b"%PDF"))
        self.assertIn("Nothing to be done", self.make("figures.mk", f"OUT={out}", *chosen))
        # If an input of one figure changes, only that figure is drawn again; so is a deleted one. In short runs make
        # only says what it would do.
        only_say = [] if LONG else ["-n"]
        (out / "relative-deviation.png").rename(self.folder / "away.png")
        self.assertEqual(self.make("figures.mk", f"OUT={out}", *only_say, *chosen).count(" -o "), 1)
        (self.folder / "away.png").rename(out / "relative-deviation.png")
        (out / "data/column-sums.h5").unlink()
        again = self.make("figures.mk", f"OUT={out}", *only_say, *chosen)
        self.assertEqual(again.count("scripts/attn-plot"), 1)
        self.assertIn("scripts/attn-plot column-sums", again)
        self.assertEqual({path: path.stat().st_mtime for path in SOURCE.glob("data/**/*")}, before)

    def test_deviations_of_a_model_by_layer_and_by_head(self):
        with h5py.File(self.folder / "dump.h5", "w") as file:
            draws = np.random.default_rng(1)
            for name in ("encoder/layer0/self", "encoder/layer10/self", "decoder/layer0/cross"):
                for operand in "qk":
                    file[f"{name}/{operand}"] = draws.normal(size=(2, 9, 3))
        script = SOURCE / "scripts/deviation-figures"
        done = subprocess.run([script, "dump.h5", "made", "--alpha", "2"], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        drawn = {path.name for path in (self.folder / "made").iterdir()}
        names = ["layers-encoder-layer-self", "layers-decoder-layer-cross", "heads-encoder-layer0-self",
                 "heads-encoder-layer10-self", "heads-decoder-layer0-cross"]
        self.assertEqual(drawn, {"deviation.h5", *(f"{name}.{kind}" for name in names for kind in ("png", "pdf"))})
        self.run_tool("lambda-solve", "--alpha=2", "--emit=relative_deviation,lambda", "--only", "dump.h5", "-o", "d.h5")
        self.run_tool("tensor-compare", "made/deviation.h5", "d.h5")
        self.assertEqual(subprocess.run([script, "dump.h5"], capture_output=True, check=False).returncode, 2)

    def test_column_sums_says_what_the_sums_are(self):
        self.run_tool("explain-away-stats", PASSAGE, "--only", "-o", "stats.h5")
        words = self.words("column-sums", "stats.h5", "--epsilon", "1e-6", "--caption")
        for scheme in ("unas", "dnas"):
            sums = self.read("stats.h5")[f"{scheme}_col_sum"]
            line = next(text for text in words if text.startswith(f"{scheme}:"))
            least, share = re.fullmatch(rf"{scheme}: least (\S+), (\S+)% below 1e-6", line).groups()
            self.assert_near("least", float(least), sums.min(), 0.05 * sums.min())
            below = 100 * np.mean(sums < 1e-6)
            self.assert_near("share", float(share), below, 0.05 * below)
        self.assertIn("ε = 1e-6", words)
        self.assertIn("$ explain-away-stats passage.h5", " ".join(words))
        self.assertIn("log₁₀ of the column sum c (attention that a key gets from all queries)", words)
        words = self.words("column-sums", "stats.h5", "--natural")
        self.assertIn("ln of the column sum c (attention that a key gets from all queries)", words)
        self.assertIn("−20", words)  # of the least sum, 5e-10, the logarithm is −21

    def test_column_sums_of_a_pipe_and_of_one_head(self):
        stream = self.run_tool("attn-compute", PASSAGE, "--emit", "col_sum", "--scheme",
                               "dnas").out
        words = self.words("column-sums", "--head", "1", stdin=stream)
        least = self.stats(PASSAGE)["dnas"]["heads"][1]["col_sum"]["min"]
        self.assertIn(f"dnas, head 1: least {least:.2g}, 0% below 1e-8", words)
        self.write("batch.h5", unas_col_sum=np.full((2, 3, 4), 0.5))
        self.assertIn("unas, batch 1, head 2: least 0.5, 0% below 1e-8",
                      self.words("column-sums", "batch.h5", "--head", "1,-1"))

    def test_numbers_of_few_keys_can_be_read(self):
        for most, numbers in sample(((1, {"1", "2"}), (3, {"1", "2", "3"}), (12, {"4", "8", "12"}),
                                     (40, {"1", "10"})), 2):
            self.write("s.h5", unas_col_sum=[[0.25] * most + [0.5, 2]])
            words = self.words("column-sums", "s.h5")
            axis = {word for word in words if word.isdigit()}
            self.assertTrue(numbers | {"0"} <= axis, (most, words))

    def test_keys_without_attention_are_counted(self):
        self.write("a.h5", unas_col_sum=[[0, 0.5, 2.5]])
        self.assertIn("unas: least 0, 33% below 1e-8 (1 get none: not drawn)",
                      self.words("column-sums", "a.h5"))
        self.write("b.h5", unas_col_sum=[[0.0]])  # nothing to draw, which is not an error
        self.words("column-sums", "b.h5")

    def test_collapse_curves_find_the_largest_gap(self):
        self.run_tool("mode-collapse-sim", "curve", "--r", "1:1e8:3201", "-o", "curve.h5")
        words = self.words("collapse-curves", "curve.h5")
        for a, r in ((0.5, "7.1"), (1, "27"), (2, "1.6e5")):  # 26.8
            self.assertTrue(any(text.endswith(f"at r ≈ {r}") for text in words), (a, words))
            self.assertTrue(any(text.startswith(f"a = {a},") for text in words), (a, words))

    def test_collapse_steps_say_how_far_apart(self):
        self.run_tool("mode-collapse-sim", "simulate", "--counts", "500,50", *CLUSTERS, "-o",
                      "un.h5")
        self.run_tool("mode-collapse-sim", "simulate", "--counts", "60,60", *CLUSTERS, "--seeds",
                      "2", "--scheme", "dnas", "-o", "eq.h5")
        words = self.words("collapse-steps", "un.h5")
        self.assertIn("mean of a cluster; the number is the distance of the nearest two", words)
        for scheme in ("unas", "dnas"):
            for apart in self.read("un.h5")[f"{scheme}/centre_distance"]:
                self.assertIn(f"{apart:#.3g}", words)
        words = self.words("collapse-steps", "eq.h5", "--set", "1", "--steps", "0,4")
        distances = self.read("eq.h5")["dnas/centre_distance"]
        for step in (0, 4):
            self.assertIn(f"{distances[1, step]:#.3g}", words)
        self.assertEqual(sum(text in ("start", "step 4") for text in words), 2)

    def test_relative_deviation_by_head_and_by_layer(self):
        self.run_tool("lambda-solve", PASSAGE, "-o", "d.h5")
        words = self.words("relative-deviation", "d.h5")
        deviations = self.read("d.h5")["relative_deviation"]
        for row in deviations:
            self.assertIn(f"mean {row.mean():.3g}", words)
        self.assertIn("head", words)
        self.write("layers.h5", **{f"text__{text}__layer{layer}__relative_deviation":
                                   deviations[:, :8] * (layer + 1)
                                   for text in "ab" for layer in (2, 10)})
        words = self.words("relative-deviation", "layers.h5")
        self.assertIn("layer", words)
        self.assertLess(words.index("2"), words.index("10"))
        for layer in (2, 10):
            self.assertIn(f"mean {deviations[:, :8].mean() * (layer + 1):.3g}", words)

    def test_relative_deviation_names_the_layers_of_two_stacks(self):
        names = [f"{stack}.layers.{layer}.{one}" for stack, ones in (
            ("encoder", ["self_attn"]), ("decoder", ["self_attn", "multihead_attn"]))
                 for layer in (0, 1) for one in ones]
        self.write("d.h5", **{f"{name}__relative_deviation": [[0.25, 0.5]] for name in names})
        words = self.words("relative-deviation", "d.h5")
        self.assertTrue({"encoder 1", "decoder 0 self", "decoder 1 multihead"} <= set(words), words)

    def history(self, *rows):
        header = ["date", "commit", "id", "headroom"]
        return "".join("\t".join(map(str, row)) + "\n" for row in (header, *rows)).encode()

    def test_claims_over_records(self):
        days = [(f"2026-01-0{n}T00:00:00.000Z", f"abcdef{n}12345") for n in (1, 2)]
        table = self.history(*((*day, name, room) for n, day in enumerate(days)
                               for name, room in (("near", 0.3 - n / 4), ("far", 0.9), ("exact", ""))))
        words = self.words("claims", stdin=table)
        self.assertTrue({"near", "far", "headroom (a claim fails at 0)", "2026-01-01 abcdef1", "2026-01-02 abcdef2"} <= set(words), words)
        self.assertNotIn("exact", words)
        self.assertNotIn("far", self.words("claims", "--claims", "1", stdin=table))
        self.assertNotIn("near", self.words("claims", "--id", "far", stdin=table))
        for arguments, content, status, says in (
                (["--id", "x"], table, 3, "no claim has the id x"), (["--claims", "0"], table, 2, "--claims is 0"),
                ([], b"a\tb\n1\t2\n", 3, "no table of records"), ([], b"", 3, "no table of records"),
                ([], self.history((*days[0], "a", "x")), 3, "headroom is x"),
                ([], self.history((*days[0], "a", "")), 3, "no claim has a headroom")):
            self.refused("claims", *arguments, "-o", "f", stdin=content, status=status, says=[says])

    def test_sinkhorn_error_counts_iterations(self):
        self.run_tool("tensor-gen", "uniform", "q=2x30x2", "k=2x30x2", "-o", "points.h5")
        for epsilon in ("0.5", "0.1"):
            self.run_tool("sinkhorn-iter", "points.h5", "--epsilon", epsilon, "-o",
                          f"e{epsilon}.h5")
        words = self.words("sinkhorn-error", "e0.5.h5", "e0.1.h5", "--caption")
        for epsilon in ("0.5", "0.1"):
            count = self.read(f"e{epsilon}.h5")["error"].shape[-1]
            self.assertIn(f"ε = {epsilon}, {count} iterations", words)
        self.assertIn("$ for x in 0.5 0.1; do sinkhorn-iter points.h5 --epsilon \"$x\"; done", words)
        self.assertIn("$ tensor-gen uniform q=2x30x2 k=2x30x2 -o points.h5", words)

    def test_an_error_of_zero_has_no_logarithm(self):
        self.write("zeros.h5", error=[1e-3, 0.0, 0.0])
        run = self.plot("sinkhorn-error", "zeros.h5", "-o", "figure.svg")
        self.assertNotIn("warning", run.err)
        self.assertIn("zeros.h5, 3 iterations, 0 from iteration 2 on", self.words_of_figure())

    def test_evidence(self):
        self.run_tool("tensor-gen", "normal", "t=2x30x3", "z=2x4x3", "-o", "problem.h5")
        for alpha in ("1", "10"):
            self.run_tool("lambda-solve", "problem.h5", "--alpha", alpha, "-o", f"a{alpha}.h5")
        words = self.words("evidence", "a1.h5", "a10.h5", "--head", "1")
        self.assertTrue({"α = 1, head 1", "α = 10, head 1", "exact ĥ", "second order"} <= set(words), words)

        self.run_tool("lambda-solve", "problem.h5", "--scale", "3", "--max-iterations", "1", "--alpha",
                      "100", "--tolerance", "1e-14", "-o", "rough.h5", status=1)
        self.assertIn("α = 100, head 0 (not_converged)", self.words("evidence", "rough.h5"))
        self.run_tool("lambda-solve", "problem.h5", "--radius", "50", "-o", "near.h5")
        self.assertIn("r = 50, head 0", self.words("evidence", "near.h5"))
        self.write("one.h5", t=np.eye(2), z=np.eye(2), h=np.eye(2))
        self.assertIn("one.h5", self.words("evidence", "one.h5"))
        for name, values in (("mask", np.ones((4, 30))), ("bias", np.zeros((4, 30)))):
            self.write(f"{name}.h5", t=np.ones((30, 2)), z=np.ones((4, 2)), h=np.ones((4, 2)),
                       **{name: values})
            self.refused("evidence", f"{name}.h5", "-o", "f", status=3, says=[f"because of {name}"])

    def test_a_caption_repeats_the_commands(self):
        self.run_tool("tensor-gen", "normal", "q=9x4", "k=9x4", "--output=$in put.h5")
        for scheme in ("unas", "dnas"):
            self.run_tool("attn-compute", "$in put.h5", f"--scheme={scheme}", "--emit", "col_sum",
                          "-o", f"{scheme}.h5", "--quiet")
        words = self.words("column-sums", "unas.h5", "dnas.h5", "--caption")
        lines = "\n".join(text[2:] for text in words if text.startswith("$ "))
        said = self.shell('tensor-gen() { printf "%s|" tensor-gen "$@"; echo; }\n'
                          'attn-compute() { printf "%s|" attn-compute "$@"; echo; }\n' + lines)
        self.assertEqual(said.out.decode().splitlines(), [
            "tensor-gen|normal|q=9x4|k=9x4|-o|$in put.h5|",
            *(f"attn-compute|$in put.h5|--scheme|{scheme}|--emit|col_sum|"
              for scheme in ("unas", "dnas"))])

    def test_masked_keys_are_not_explained_away(self):
        generator = np.random.default_rng(1)
        mask = np.ones((6, 8), bool)
        mask[:, 2:5] = False
        self.write("in.h5", q=generator.normal(size=(6, 3)), k=generator.normal(size=(8, 3)), mask=mask)
        self.run_tool("explain-away-stats", "in.h5", "-o", "stats.h5")
        words = self.words("column-sums", "stats.h5")
        self.assertIn("keys per bin (number, without 3 masked)", words)
        for scheme in ("unas", "dnas"):
            sums = np.delete(self.read("stats.h5")[f"{scheme}_col_sum"], [2, 3, 4])
            self.assertIn(f"{scheme}: least {sums.min():.2g}, 0% below 1e-8", words)
        # At the end of a causal sequence of 40, keys 37 to 39 have fewer than four queries.
        self.write("causal.h5", q=generator.normal(size=(40, 3)), k=generator.normal(size=(40, 3)))
        self.run_tool("explain-away-stats", "causal.h5", "--causal", "-o", "tails.h5")
        words = self.words("column-sums", "tails.h5")
        self.assertIn("without 3 with few queries)", words)
        self.assertIn(f"unas: least {self.read('tails.h5')['unas_col_sum'][:37].min():.2g}, 0% below 1e-8", words)
        # Softmax alone, and of a padded batch without its lengths: queries_of_key tells.
        self.run_tool("explain-away-stats", "in.h5", "--scheme=unas", "-o", "unas.h5")
        words = self.words("column-sums", "unas.h5")
        self.assertIn("keys per bin (number, without 3 masked)", words)
        data = {name: generator.normal(size=(2, 1, 9, 3)) for name in "qk"}
        self.write("batch.h5", **data, key_length=np.array([9, 4]), query_length=np.array([9, 4]))
        self.run_tool("explain-away-stats", "batch.h5", "--scheme=unas", "--only", "-o", "only.h5")
        sums = self.read("only.h5")["unas_col_sum"]
        self.assertIn(f"unas: least {sums[sums > 0].min():.2g}, 0% below 1e-8",
                      self.words("column-sums", "only.h5"))

    def test_the_bound_of_dnas_counts_the_sink(self):
        generator = np.random.default_rng(2)
        data = {name: generator.normal(size=(2, 40, 8)) for name in "qk"}
        self.write("in.h5", **data, sink=np.array([5.0, 4.0]))
        for more, seen, unseen in (([], "1/(Lk + e^sink), the bound of dnas", "1/Lk, the bound of dnas"),
                                   (["--only"], "dnas", "1/Lk, the bound of dnas")):
            self.run_tool("explain-away-stats", "in.h5", "-o", "stats.h5", "--force", *more)
            words = self.words("column-sums", "stats.h5")
            self.assertIn(seen, " ".join(words))
            self.assertNotIn(unseen, words)
        self.write("plain.h5", **{name: 4 * values for name, values in data.items()})
        self.run_tool("explain-away-stats", "plain.h5", "-o", "stats.h5", "--force")
        self.assertIn("1/Lk, the bound of dnas", self.words("column-sums", "stats.h5"))

    def test_queries_without_a_template_do_not_deviate(self):
        self.write("d.h5", relative_deviation=[[0.0, 0.25, 0.75], [0.0, 0.5, 0.5]],
                   **{"lambda": [[[0.0], [1], [1]], [[1], [1], [1]]]})
        words = self.words("relative-deviation", "d.h5")
        self.assertIn("mean 0.5", words)
        self.assertIn("mean 0.333", words)
        self.assertIn("mean of all 5, 0.4 (without 1)", words)

    def test_text_is_text(self):
        self.write("w.h5", weights=np.eye(4), tokens=["$$", "$\\foo$", "a_b^c", "two\nlines"])
        words = self.words("attention-map", "w.h5", "--title", "$x$", "--caption=100$ \\frac")
        for text in ("$$", "$\\foo$", "a_b^c", "two\\nlines", "$x$", "100$ \\frac"):
            self.assertIn(text, words)

    def test_a_line_for_each_bundle(self):
        for name, least in (("a", 0.25), ("b", 0.5)):
            self.write(f"{name}.h5", unas_col_sum=[[least, 1.0]], dnas_col_sum=[[least, 1.5]])
        words = self.words("column-sums", "a.h5", "b.h5", "--epsilon", "0.3")
        for name, least, share in (("a", 0.25, 50), ("b", 0.5, 0)):
            for scheme in ("unas", "dnas"):
                self.assertIn(f"{name}.h5, {scheme}: least {least}, {share}% below 0.3", words)
        (self.folder / "x").mkdir()
        self.write("x/a.h5", unas_col_sum=[[0.125, 1.0]])
        words = self.words("column-sums", "a.h5", self.folder / "x/a.h5")
        self.assertIn("x/a.h5, unas: least 0.12, 0% below 1e-8", words)

    def test_the_mean_over_heads_of_each_query(self):
        values = np.array([[0.25, 0.5], [0.75, 1.0]])  # heads, queries
        self.write("layers.h5", layer0__relative_deviation=values,
                   layer1__relative_deviation=values / 2)
        words = self.words("relative-deviation", "layers.h5")
        self.assertTrue({"largest 1", "largest 0.5"} <= set(words), words)
        words = self.words("relative-deviation", "layers.h5", "--average", "heads")
        self.assertTrue({"mean 0.625", "largest 0.75", "mean 0.312", "largest 0.375"} <= set(words),
                        words)
        self.assertIn("mean of all 4, 0.469", words)
        self.write("padded.h5", relative_deviation=np.array([values, values]), query_length=[2, 1])
        self.assertIn("mean of all 3, 0.583 (without 1)",
                      self.words("relative-deviation", "padded.h5", "--average", "heads"))

    def test_captions_are_printed_on_request(self):
        self.run_tool("mode-collapse-sim", "curve", "-o", self.folder / "curve.h5")
        words = self.words("collapse-curves", "curve.h5", "--caption")
        self.assertIn("$ mode-collapse-sim curve", words)
        self.run_tool("explain-away-stats", "--each", "/*", "-o", "s.h5", self.dump(), status=0)
        self.assertFalse([text for text in self.words("column-sums", "s.h5") if text.startswith("$")])
        words = " ".join(self.words("column-sums", "s.h5", "--caption"))
        self.assertIn("explain-away-stats --each '/*' dump.h5", words)
        self.assertNotIn(str(self.folder), words)

    def dump(self):
        """The absolute path of a bundle with groups."""
        generator = np.random.default_rng(1)
        self.write("dump.h5", **{f"layer{layer}__{name}": generator.normal(size=(2, 5, 3))
                                 for layer in (0, 1) for name in "qk"})
        return self.folder / "dump.h5"

    def test_same_data_same_file(self):
        self.write("s.h5", unas_col_sum=[[0.25, 0.5, 2]], dnas_col_sum=[[0.5, 1, 1.5]])
        for name in ("a", "b"):
            self.plot("column-sums", "s.h5", "-o", name, "--dpi", "50")
            self.plot("column-sums", "s.h5", "-o", f"{name}.svg")
        for ending in (".png", ".pdf", ".svg"):
            self.assertEqual((self.folder / f"a{ending}").read_bytes(),
                             (self.folder / f"b{ending}").read_bytes(), ending)

    def test_custom_caption(self):
        self.run_tool("explain-away-stats", self.dump(), "--each", "/*", "-o", "s.h5")
        words = self.words("column-sums", "s.h5", "--caption=as printed", "--title", "T")
        self.assertIn("as printed", words)
        self.assertIn("T", words)
        self.assertFalse([text for text in words if "explain-away-stats" in text])


class Refused(FigureTest):

    SCRIPTS = ("column-sums", "collapse-curves", "collapse-steps", "evidence", "relative-deviation",
               "sinkhorn-error", "attention-map")

    def test_missing_inputs(self):
        self.write("other.h5", other=[1.0, 2.0])
        (self.folder / "text.h5").write_text("not HDF5")
        for script in self.SCRIPTS:
            with self.subTest(script=script):
                self.refused(script, "other.h5", "-o", "f", status=3, says=["other.h5", "no "])
        # All of them use scripts/plot/plotting.py.
        self.refused(script, "none.h5", "-o", "f", status=3, says=["none.h5", "no such file"])
        self.refused(script, "text.h5", "-o", "f", status=3, says=["text.h5", "not an HDF5 file"])
        self.refused(script, "other.h5:/group", "-o", "f", status=3, says=["other.h5", "/group"])
        np.savez(self.folder / "w.npz", weights=np.eye(2))
        self.refused(script, "w.npz", "-o", "f", status=3,
                     says=["w.npz: not an HDF5 file", "tensor-convert w.npz -o w.h5"])
        self.write("dump.h5", **{f"layer{n}/weights": np.eye(2) for n in range(20)})
        self.refused(script, "dump.h5", "-o", "f", status=3,
                     says=["no dataset weights", "and 8 more", "one group of the file: dump.h5:/layer0"])
        self.refused(script, "-o", "f", status=3, says=["standard input", "empty"])

    def test_wrong_values_and_shapes(self):
        self.write("nan.h5", unas_col_sum=[1.0, np.nan])
        self.refused("column-sums", "nan.h5", "-o", "f", status=3, says=["unas_col_sum", "finite"])
        self.write("w.h5", weights=np.ones((2, 3, 4)))
        self.refused("attention-map", "w.h5", "--head", "2", "-o", "f", status=2, says=["(2,)"])
        self.refused("attention-map", "w.h5", "--keys", "9:", "-o", "f", status=2, says=["--keys"])
        self.write("flat.h5", weights=np.ones(4), error=np.ones((2, 0)), r=[1], a=[1],
                   unas_distance=[[1]], dnas_distance=[[1, 2]])
        self.refused("attention-map", "flat.h5", "-o", "f", status=3, says=["(4,)"])
        self.refused("sinkhorn-error", "flat.h5", "-o", "f", status=3, says=["empty"])
        self.refused("collapse-curves", "flat.h5", "-o", "f", status=3, says=["(1, 2)"])

    def test_usage(self):
        self.write("w.h5", weights=np.ones((3, 4)))
        for option, value in (("--dpi", "0"), ("--dpi", "nan"), ("--width", "1e6"), ("-o", ""),
                              ("-o", "/"), ("-o", "-"), ("--keys", "3"), ("--head", "x")):
            self.refused("attention-map", "w.h5", "-o", "f", option, value, status=2, says=[option])
        self.refused("attention-map", "w.h5", status=2, says=["-o"])
        self.refused("attention-map", "-", "-", "-o", "f", status=2, says=["standard input"],
                     stdin=(self.folder / "w.h5").read_bytes())

    def test_invalid_points(self):
        for name, value in (("nan", np.nan), ("inf", np.inf)):
            self.write(f"{name}.h5", unas__trajectory=np.full((2, 3, 2), value), label=[0, 0, 1])
            self.refused("collapse-steps", f"{name}.h5", "-o", "f", status=3, says=["finite"])
        self.write("same.h5", unas__trajectory=np.full((2, 3, 2), 1.5), label=[0, 0, 1])
        self.plot("collapse-steps", "same.h5", "-o", "same")

    def test_output(self):
        self.write("s.h5", unas_col_sum=[[0.5, 1]])
        self.refused("column-sums", "s.h5", "-o", "none/f", status=5, says=["none/f"])
        before = sorted(self.folder.iterdir())
        run = self.plot("column-sums", "s.h5", "-o", "f", status=5, room=1024)
        self.assertRegex(run.err, r"\Aattn-plot: error: f\.png: .+\n\Z")
        self.assertEqual(sorted(self.folder.iterdir()), before)
        # The first of two fits and the second does not: neither remains.
        self.plot("column-sums", "s.h5", "-o", "f", "--dpi", "20")
        png, pdf = ((self.folder / f"f{ending}").stat().st_size for ending in (".png", ".pdf"))
        self.assertLess(png, pdf)
        for ending in (".png", ".pdf"):
            (self.folder / f"f{ending}").unlink()
        run = self.plot("column-sums", "s.h5", "-o", "f", "--dpi", "20", status=5, room=png)
        self.assertRegex(run.err, r"\Aattn-plot: error: f\.pdf: .+\n\Z")
        self.assertEqual(sorted(self.folder.iterdir()), before)


if __name__ == "__main__":
    unittest.main()
