"""Bad datasets and options: for each kind its exit status, one line that names the mistake and its
place, at most one hint, and nothing written."""

import unittest

import h5py
import numpy as np

from attn import ToolTest

BOTH = ("attn-compute", "explain-away-stats")
COMPUTE = ("attn-compute",)
STATS = ("explain-away-stats",)


def good():
    random = np.random.default_rng(0)
    return {n: random.normal(size=(2, 5, 4)).astype(np.float32) for n in "qkv"}


def with_value(value, where, name="q"):
    data = good()
    data[name][where] = value
    return data


class BadInput(ToolTest):

    def setUp(self):
        super().setUp()
        self.write("good.h5", **good())

    def table(self, cases):
        """Rows of (name, tools, datasets, options, status, words of the error) and perhaps words of the hint."""
        for what, tools, data, options, status, says, *hint in cases:
            for tool in tools:
                with self.subTest(what, tool=tool):
                    (self.folder / "in.h5").unlink(missing_ok=True)
                    self.write("in.h5", **data)
                    self.refused(tool, "in.h5", *options, status=status, says=says, hint=hint[0] if hint else None)

    def test_datasets(self):
        def data(**changed):
            return {name: a for name, a in (good() | changed).items() if a is not None}

        f32, zeros = np.float32, np.zeros
        self.table([
            ("missing k", COMPUTE, data(k=None), [], 3, ["in.h5", "no dataset k", "q, v"]),
            ("missing scores", BOTH, data(), ["--from=scores"], 3,
             ["no dataset scores", "k, q, v"]),
            ("one axis", BOTH, data(q=zeros(4, f32)), [], 3, ["in.h5:/q", "(4)", "queries, d"], "x[None]"),
            ("no axis", BOTH, data(k=f32(1)), [], 3, ["in.h5:/k", "keys, d"]),
            ("v of one axis", COMPUTE, data(v=zeros(5, f32)), [], 3, ["in.h5:/v", "(5)"]),
            ("q and k disagree", BOTH, data(q=zeros((2, 5, 3), f32)), [], 3,
             ["in.h5:/k: last axis is 4", "in.h5:/q has 3"]),
            ("k and v disagree", COMPUTE, data(v=zeros((2, 6, 4), f32)), [], 3,
             ["in.h5:/v: 6 keys", "in.h5:/k has 5"], "v needs a row for each key"),
            ("heads that do not divide", BOTH, data(k=zeros((3, 5, 4), f32)), [], 3,
             ["in.h5:/q has 2 heads", "in.h5:/k has 3", "multiple"]),
            ("heads the wrong way round", BOTH, data(k=zeros((4, 5, 4), f32)), [], 3,
             ["in.h5:/q has 2 heads", "in.h5:/k has 4"]),
            ("heads of v that do not divide", COMPUTE, data(v=zeros((3, 5, 4), f32)), [], 3,
             ["in.h5:/v", "(3)"]),
            ("heads of v that are not those of k", COMPUTE,
             data(q=zeros((12, 5, 4), f32), k=zeros((4, 5, 4), f32), v=zeros((6, 5, 4), f32)), [], 3,
             ["in.h5:/v has leading axes (6)", "in.h5:/k has (4)", "heads"]),
            ("batches that do not broadcast", BOTH, data(q=zeros((2, 2, 5, 4), f32),
                                                         k=zeros((3, 2, 5, 4), f32)), [], 3,
             ["in.h5:/q", "(2, 2)", "in.h5:/k", "(3, 2)"]),
            ("text", BOTH, data(q=np.array([["a", "b"]], dtype=object)), [], 3,
             ["in.h5:/q", "string"], "x.astype(numpy.float32)"),
            ("fixed text", BOTH, data(q=np.array([[b"ab"]])), [], 3, ["in.h5:/q"]),
            ("integers", BOTH, data(k=zeros((2, 5, 4), np.int32)), [], 3, ["in.h5:/k", "int32"]),
            ("bool", BOTH, data(q=zeros((2, 5, 4), bool)), [], 3, ["in.h5:/q", "bool"]),
            ("complex", BOTH, data(q=zeros((2, 5, 4), complex)), [], 3,
             ["in.h5:/q has type complex128"], "real and imaginary parts apart"),
            ("compound", BOTH, data(q=zeros((2, 5, 4), [("a", "f4"), ("i", "f4")])), [], 3,
             ["in.h5:/q has type a compound type"], "each member"),
            ("long double", BOTH, data(q=zeros((2, 5, 4), np.longdouble)), [], 3,
             ["in.h5:/q"], "x.astype(numpy.float64)"),
            ("lengths as heads", BOTH, data(q=zeros((1, 7, 2, 4), f32), k=zeros((1, 5, 2, 4), f32)), [], 3,
             ["in.h5:/q has 7 heads, in.h5:/k has 5"], "--layout blhd"),
            ("no values", BOTH, data(q=h5py.Empty("f4")), [], 3, ["in.h5:/q"]),
            ("no queries", BOTH, data(q=zeros((2, 0, 4), f32)), [], 3, ["in.h5:/q", "(2, 0, 4)"]),
            ("no keys", BOTH, data(k=zeros((2, 0, 4), f32)), [], 3, ["in.h5:/k", "empty"]),
            ("no channels", BOTH, data(q=zeros((2, 5, 0), f32), k=zeros((2, 5, 0), f32)), [], 3,
             ["in.h5:/q", "empty"]),
            ("no heads", BOTH, data(q=zeros((0, 5, 4), f32)), [], 3, ["in.h5:/q", "empty"]),
            ("NaN in q", BOTH, with_value(np.nan, (1, 2, 3)), [], 3,
             ["in.h5:/q", "nan", "[1, 2, 3]"]),
            ("inf in k", BOTH, with_value(np.inf, (0, 4, 1), "k"), [], 3,
             ["in.h5:/k", "inf", "[0, 4, 1]"]),
            ("-inf in v", COMPUTE, with_value(-np.inf, (1, 0, 0), "v"), [], 3,
             ["in.h5:/v", "-inf", "[1, 0, 0]"]),
            ("NaN in a bias", BOTH, data(bias=np.array([0, np.nan, 0, 0, 0])), [], 3,
             ["in.h5:/bias", "nan", "[1]"]),
            ("inf in a bias", BOTH, data(bias=np.full((5, 1), np.inf)), [], 3,
             ["in.h5:/bias", "inf", "[0, 0]"]),
            ("inf in scores", BOTH, {"scores": np.full((3, 2), np.inf)}, ["--from=scores"], 3,
             ["in.h5:/scores", "inf", "[0, 0]"]),
            ("NaN in scores", BOTH, {"scores": np.full((3, 2), np.nan)}, ["--from=scores"], 3,
             ["in.h5:/scores", "nan", "[0, 0]"]),
            ("mask of the wrong shape", BOTH, data(mask=zeros((4, 5), bool)), [], 3,
             ["in.h5:/mask", "(4, 5)", "(2, 5, 5)"]),
            ("mask of the wrong heads", BOTH, data(mask=zeros((3, 1, 5), bool)), [], 3,
             ["in.h5:/mask", "(3)", "(2)"]),
            ("mask with too many axes", BOTH, data(mask=zeros((1, 2, 5, 5), bool)), [], 3,
             ["in.h5:/mask"]),
            ("mask of floats", BOTH, data(mask=zeros((5, 5), f32)), [], 3,
             ["in.h5:/mask", "float32"]),
            ("mask of text", BOTH, data(mask=np.array(["x"] * 5, dtype=object)), [], 3,
             ["in.h5:/mask"]),
            ("bias of integers", BOTH, data(bias=zeros(5, np.int32)), [], 3,
             ["in.h5:/bias", "int32"]),
            ("bias of the wrong shape", BOTH, data(bias=zeros(4)), [], 3, ["in.h5:/bias", "(4)"]),
            ("hybrid above 1", COMPUTE, data(hybrid=np.array([0.5, 1.5])), ["--scheme=hnas"], 3,
             ["in.h5:/hybrid", "1.5", "[1]", "[0, 1]"]),
            ("hybrid below 0", BOTH, data(hybrid=-0.1), ["--scheme=hnas"], 3,
             ["in.h5:/hybrid", "-0.1"]),
            ("hybrid that is NaN", BOTH, data(hybrid=np.nan), ["--scheme=hnas"], 3,
             ["in.h5:/hybrid", "nan"]),
            ("hybrid of the wrong shape", BOTH, data(hybrid=zeros(3)), ["--scheme=hnas"], 3,
             ["in.h5:/hybrid", "(3)"]),
            ("hybrid of text", BOTH, data(hybrid="half"), ["--scheme=hnas"], 3, ["in.h5:/hybrid"]),
            ("hnas without hybrid", BOTH, data(), ["--scheme=hnas"], 2, ["--hybrid"]),
            ("causal of what", BOTH, data(q=zeros((2, 6, 4), f32)), ["--causal"], 2,
             ["--causal", "6", "5"]),
            ("nothing stored", STATS, data(), ["--scheme=stored"], 3,
             ["in.h5", "row_potential"], "stored needs what attn-compute writes"),
            ("weights that do not add up", STATS, data(weights=np.full((2, 5, 5), 0.3)),
             ["--scheme=stored"], 3, ["in.h5:/weights", "[0]", "query 0", "1.5"]),
            ("weights below 0", STATS, data(weights=np.eye(5) * [1, 1, 1, 1, -1e-30] + zeros((2, 5, 5))),
             ["--scheme=stored"], 3, ["in.h5:/weights", "[0]", "query 4", "key 4", "-1e-30"]),
            ("weights that are NaN", STATS, data(weights=np.full((2, 5, 5), np.nan)),
             ["--scheme=stored"], 3, ["in.h5:/weights", "nan", "[0, 0, 0]"]),
            ("weights of integers", STATS, data(weights=zeros((2, 5, 5), np.int32)),
             ["--scheme=stored"], 3, ["in.h5:/weights", "int32"]),
            ("weights that would broadcast", STATS, data(weights=np.full((1, 5), 0.2)),
             ["--scheme=stored"], 3, ["in.h5:/weights", "(1, 5)", "(2, 5, 5)"]),
            ("weight where the mask forbids", STATS,
             data(weights=np.full((2, 5, 5), 0.2), mask=np.arange(5) > 0), ["--scheme=stored"], 3,
             ["in.h5:/weights", "key 0", "no query"]),
        ])

    def test_attributes(self):
        # They act as options for an analysed bundle, and have the same ranges.
        for name, value in (("attn_energy", "chebyshev"), ("attn_causal", "middle"),
                            ("attn_source", "nowhere"), ("attn_scale", np.nan),
                            ("attn_scale", np.inf), ("attn_hybrid", 1.5), ("attn_hybrid", np.nan),
                            ("attn_iterations", 0), ("attn_iterations", -3),
                            ("attn_tolerance", -1e-3), ("attn_tolerance", np.nan),
                            ("attn_precision", "f16"), ("attn_scheme", "softmax"),
                            # An attribute of another type, or with several values, must not be
                            # treated as missing.
                            ("attn_scale", "x"), ("attn_causal", 1), ("attn_energy", 2.0),
                            ("attn_iterations", [1, 2]), ("attn_iterations", 2.7),
                            ("attn_tolerance", "1e-3"), ("attn_precision", 32)):
            with self.subTest(name=name, value=value):
                self.write("in.h5", {name: value}, hybrid=0.5, weights=np.zeros((2, 5, 5)),
                           **good())
                self.refused("explain-away-stats", "in.h5", "--scheme=hnas,sinkhorn,stored",
                             status=3, says=[f"in.h5: attribute {name} is "])
        words = "expected one of none, top-left, bottom-right"
        self.write("in.h5", {"attn_causal": True}, **good())
        self.refused("explain-away-stats", "in.h5", status=3, says="attn_causal is not one text", hint=words)
        self.write("in.h5", {"attn_causal": "yes"}, **good())
        self.refused("explain-away-stats", "in.h5", status=3, says=f"attn_causal is yes, {words}")

    def test_options(self):
        rows = [
            (BOTH, ["--bogus"], ["--bogus"]),
            (BOTH, ["--schem=unas"], ["--schem"]),  # abbreviations are not accepted
            (COMPUTE, ["--scheme=softmax"], ["softmax", "unas, dnas, hnas, sinkhorn, fenchel"]),
            (STATS, ["--scheme=unas,softmax"], ["softmax", "unas, dnas, hnas, sinkhorn, fenchel, stored"]),
            (BOTH, ["--energy=chebyshev"], ["chebyshev", "scaled-dot", "gaussian"]),
            (BOTH, ["--causal=middle"], ["middle", "top-left", "bottom-right"]),
            (COMPUTE, ["--emit=out,nonsense"], ["nonsense", "col_sum"]),
            (BOTH, ["--hybrid=1.5"], ["--hybrid", "1.5", "[0, 1]"]),
            (BOTH, ["--hybrid=-0.5"], ["--hybrid", "-0.5"]),
            (BOTH, ["--hybrid=nan"], ["--hybrid", "nan"]),
            (BOTH, ["--hybrid=half"], ["--hybrid", "half"]),
            (BOTH, ["--scale=inf"], ["--scale", "inf"]),
            (BOTH, ["--scale="], ["--scale"]),
            (COMPUTE, ["--iterations=0"], ["--iterations", "0"]),
            (COMPUTE, ["--iterations=2.5"], ["--iterations", "2.5"]),
            (COMPUTE, ["--tolerance=0"], ["--tolerance", "0"]),
            # Options without effect.
            (COMPUTE, ["--iterations=3"], ["--iterations", "sinkhorn"]),
            (COMPUTE, ["--scheme=dnas", "--tolerance=0.1"], ["--tolerance", "sinkhorn"]),
            (BOTH, ["--hybrid=0.5"], ["--hybrid", "hnas"]),
            (BOTH, ["--from=scores", "--energy=dot"], ["--energy", "scores"]),
            (BOTH, ["--json=good.h5"], ["--json=good.h5", "good.h5"]),
            (BOTH, ["--json=out.h5"], ["--json", "out.h5"]),
            (STATS, ["--epsilon=1e-8,-1"], ["--epsilon", "-1"]),
            (STATS, ["--bins=0"], ["--bins", "0"]),
            (STATS, ["--top=-1"], ["--top", "-1"]),
            (BOTH, ["--threads=0"], ["--threads", "0"]),
            (BOTH, ["--threads=99999999999999999999"], ["--threads"]),
            (BOTH, ["--memory=12X"], ["--memory", "12X"]),
            (BOTH, ["--precision=f16"], ["f16", "f32", "f64"]),
            (BOTH, ["--scale=1", "--scale=1"], ["--scale", "twice"]),
            (BOTH, ["-i", "q"], ["q", "NAME=ADDRESS"]),
            (BOTH, ["-i", "q=good.h5:/q[x]"], ["good.h5:/q[x]", "x"]),
            (BOTH, ["-i", "q=good.h5:/q[::0]"], ["good.h5:/q[::0]", "step"]),
            (BOTH, ["-i", "q=-:/q", "-i", "k=-:/k"], ["standard input"]),
            # A second INPUT.
            (["attn-compute"], ["good.h5"], ["good.h5"]),
            (["explain-away-stats"], ["good.h5"], ["several INPUTs make no bundle"]),
        ]
        whole = (self.folder / "good.h5").read_bytes()
        for tools, options, says in rows:
            for tool in tools:
                with self.subTest(options=options, tool=tool):
                    self.refused(tool, "good.h5", *options, status=2, says=says)
                    self.assertEqual((self.folder / "good.h5").read_bytes(), whole)

    def test_output_options_without_an_output(self):
        for option in ("--only", "--compress=gzip"):
            self.refused("explain-away-stats", "good.h5", option, status=2, output=None,
                         says=[option.partition("=")[0]], hint="-o FILE")
        self.run_tool("explain-away-stats", "good.h5", "--force")

    def test_scores_beyond_float32(self):
        big = {n: np.full((3, 2), 1e25, np.float32) for n in "qkv"}
        for tool in BOTH:
            for energy in ("dot", "scaled-dot"):
                with self.subTest(tool=tool, energy=energy):
                    self.write("big.h5", **big)
                    self.refused(tool, "big.h5", f"--energy={energy}", status=4,
                                 says=["query 0", "key 0", "float32"], hint="--precision f64")
                    self.run_tool(tool, "big.h5", f"--energy={energy}", "--precision=f64",
                                  "-o", "/dev/null")
        # In float64 all scores are equal, so all weights are, too.
        found = self.compute("big.h5", "--precision=f64", "--emit=weights")
        np.testing.assert_allclose(found["weights"], 1 / 3)
        # Forbidden entries may have any size.
        apart = {n: np.ones((3, 2), np.float32) for n in "qkv"}
        apart["q"][0] = apart["k"][0] = 1e25
        self.write("apart.h5", mask=~np.diag([True, False, False]), **apart)
        self.refused("attn-compute", "apart.h5", "--energy=dot", "--scale=1e20", status=4)
        apart["q"][0] = 1
        self.write("apart.h5", mask=np.arange(3) > 0, **apart)
        found = self.compute("apart.h5", "--energy=dot", "--scale=1e20", "--emit=weights")
        np.testing.assert_allclose(found["weights"], [[0, 0.5, 0.5]] * 3)
        # In float64, only numbers beyond float64 are refused.
        self.write("big.h5", **{n: np.full((3, 2), 1e200) for n in "qkv"})
        self.refused("attn-compute", "big.h5", status=4, says=["float64"])
        self.refused("attn-compute", "big.h5", "--precision=f32", status=4,
                     says=["big.h5:/q", "float32"], hint="--precision f64")

    def test_finite_numbers_meant_as_masks(self):
        random = np.random.default_rng(5)
        vectors = {n: random.normal(size=(2, 6, 4)).astype(np.float32) for n in "qk"}
        closed = np.arange(6) > 3
        warning = "bias has finite values of -1e4 or less, which forbid nothing under"
        brain = np.float32(-9984)  # -1e4 in bfloat16
        for low in (np.float16(-65504), np.float16(-1e4), brain, np.float32(-1e9), -1e9):
            bias = np.where(closed, low, 0).astype(np.asarray(low).dtype)
            self.write("in.h5", bias=np.broadcast_to(bias, (2, 1, 6)), **vectors)
            for tool in BOTH:
                for scheme, warned in (("unas", False), ("fenchel", False), ("dnas", True),
                                       ("sinkhorn", True)):
                    done = self.run_tool(tool, "in.h5", f"--scheme={scheme}", "-o", "/dev/null",
                                         status=None)
                    self.assertIn(done.status, (0, 1))  # sinkhorn need not converge here
                    self.assertEqual(done.err.count(f"{warning} {scheme}:"), int(warned))
        done = self.run_tool("explain-away-stats", "in.h5")
        self.assertEqual(done.err.count(f"{warning} dnas:"), 1)
        # The same in a bias that is read by tiles.
        large = np.zeros((1600, 1500), np.float32)
        large[1000, 700] = -1e9
        self.write("in.h5", bias=large, q=np.ones((1600, 2)), k=np.ones((1500, 2)))
        done = self.run_tool("attn-compute", "in.h5", "--scheme=dnas", "--memory=16M", "-o",
                             "/dev/null")
        self.assertEqual(done.err.count(f"{warning} dnas:"), 1)
        for bias in (np.where(closed, -np.inf, 0), np.where(closed, -9000.0, 0)):
            self.write("in.h5", bias=bias, **vectors)
            done = self.run_tool("attn-compute", "in.h5", "--scheme=dnas", "-o", "/dev/null")
            self.assertNotIn("warning", done.err)
        # The lowest number of a format leaves no range for scores.
        for kind, options in ((np.float32, []), (np.float32, ["--scheme=dnas"]), (np.float64, []),
                              (np.float64, ["--precision=f32"])):
            bias = np.where(closed, np.finfo(kind).min, 0).astype(kind)
            self.write("in.h5", bias=bias, **vectors)
            for tool in BOTH:
                with self.subTest(tool=tool, kind=kind, options=options):
                    done = self.run_tool(tool, "in.h5", *options, "-q", status=4)
                    self.assertIn("hint: ", done.err)
                    self.assertIn("-inf", done.err.partition("hint: ")[2])
                    self.assertEqual(done.out, b"")

    def test_errors_do_not_depend_on_memory(self):
        # NaN in pairs that causality forbids anyway, in a bias that is held or read by tiles.
        bias = np.zeros((1600, 1500), np.float32)
        bias[3, 1400] = np.nan
        vectors = {n: np.ones((length, 2), np.float32) for n, length in (("q", 1600), ("k", 1500))}
        self.write("in.h5", bias=bias, **vectors)
        for memory in ("1G", "16M"):
            for tool in BOTH:
                with self.subTest(memory=memory, tool=tool):
                    self.refused(tool, "in.h5", "--causal=top-left", f"--memory={memory}", status=3,
                                 says=["in.h5:/bias has nan at [3, 1400]"])

    def test_chunks_larger_than_memory(self):
        ones = np.ones((256, 32, 64))
        for name, options in (("large.h5", {"chunks": ones.shape, "compression": 1}),
                              ("small.h5", {"chunks": (1, 32, 64), "compression": 1}),
                              ("plain.h5", {"chunks": ones.shape})):
            with h5py.File(self.folder / name, "w") as file:
                for vectors in "qk":
                    file.create_dataset(vectors, data=ones, **options)
        for name in ("small.h5", "plain.h5"):
            self.run_tool("attn-compute", name, "--memory=2M", "-o", "/dev/null")
        says = ["large.h5:/", "4.0 MiB", "--memory allows 2.0 MiB"]
        for tool, words, output in (("attn-compute", [], "out.h5"),
                                    ("explain-away-stats", [], None),
                                    ("tensor-compare", ["small.h5"], None),
                                    ("tensor-convert", [], "out.npz"),
                                    ("tensor-convert", ["--dtype=f32"], "out.h5")):
            with self.subTest(tool=tool, output=output):
                self.refused(tool, "large.h5", *words, "--memory=2M", status=6, says=says,
                             hint="h5repack", output=output)
        self.run_tool("tensor-convert", "large.h5", "--memory=2M", "-o", "copy.h5")
        self.run_tool("attn-compute", "large.h5", "--memory=5M", "-o", "/dev/null")

    def test_too_little_memory(self):
        for tool in BOTH:
            with self.subTest(tool=tool):
                self.refused(tool, "good.h5", "--memory=1K", status=6, says=["--memory"],
                             hint="--memory")


if __name__ == "__main__":
    unittest.main()
