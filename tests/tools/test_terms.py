"""Every term of the scores, through the binaries, against the formulas in NumPy's long double:
energies, projections, relative biases, windows, padding, soft caps, preferences, layouts."""

import unittest

import numpy as np

import formulas
from attn import ToolTest
from formulas import FORBIDDEN, LONG

MODEL_SCHEMES = ["unas", "dnas", "hnas", "sinkhorn"]


def t5_bucket(relative, bidirectional, buckets=32, most=128):
    """As Hugging Face's T5Attention._relative_position_bucket, including its float32 logarithms;
    `relative` is key minus query position."""
    found = np.zeros_like(relative)
    if bidirectional:
        buckets //= 2
        found = found + (relative > 0) * buckets
        relative = np.abs(relative)
    else:
        relative = -np.minimum(relative, 0)
    exact = buckets // 2
    with np.errstate(divide="ignore"):
        large = exact + (np.log(relative.astype(np.float32) / np.float32(exact))
                         / np.float32(np.log(most / exact))
                         * np.float32(buckets - exact)).astype(np.float32)
    large = np.where(relative < exact, 0, large).astype(np.int64)
    return found + np.where(relative < exact, relative, np.minimum(large, buckets - 1))


def alibi_slopes(heads):
    """As in the reference implementation of Press et al."""
    power = 2 ** int(np.floor(np.log2(heads)))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    if power < heads:
        slopes += alibi_slopes(2 * power)[0::2][:heads - power]
    return slopes


def positions(queries, keys, causal, length=None):
    """Key minus query position: under bottom-right the last query is at the last key, of which
    `length` are not padding."""
    shift = (keys if length is None else length) - queries if causal == "bottom-right" else 0
    return np.arange(keys)[None, :] - (np.arange(queries)[:, None] + shift)


class Terms(ToolTest):

    def near(self, options, data, s, scheme="unas", v=None, precision="f64", **more):
        """Checks that attn-compute's out, weights and col_sum are those of scores `s`."""
        self.write("in.h5", **data)
        hybrid = [f"--hybrid={more['hybrid']}"] if "hybrid" in more else []
        iterations = ["--iterations=2"] if scheme == "sinkhorn" else []
        emit = "weights,col_sum" + (",out" if v is not None else "")
        found = self.compute("in.h5", "-q", "--only", f"--scheme={scheme}", f"--emit={emit}",
                             f"--precision={precision}", *options, *hybrid, *iterations)
        inner = "unas" if scheme == "fenchel" else scheme
        expected = formulas.attention(s, v, inner, more.get("hybrid"),
                                      2 if scheme == "sinkhorn" else 1)
        limit = formulas.tolerance(s, precision)
        for name in emit.split(","):
            exact = getattr(expected, name)
            room = limit if name != "col_sum" else limit[..., 0]
            axes = tuple(range(s.ndim - 2, exact.ndim))
            largest = np.abs(exact).max(axis=axes, keepdims=True)
            self.assert_near(f"{name} {scheme} {options}", found[name], exact, room * largest)
        return found

    def in_every_way(self, random, options, data, s, v=None):
        """Two random schemes in float64, and one in float32 with rounded data."""
        for scheme in random.choice(MODEL_SCHEMES, 2, replace=False):
            more = {"hybrid": 0.3} if scheme == "hnas" else {}
            self.near(options, data, s, scheme, v, **more)

    def shape(self, random):
        queries, keys = (int(n) for n in random.integers(1, 70, 2))
        heads = int(random.choice([1, 2, 3, 4]))
        groups = int(random.choice([g for g in (1, 2, 3, 4) if heads % g == 0]))
        return (int(random.integers(1, 3)), heads), (1, groups), queries, keys

    def vectors(self, random, dq=5, dk=5):
        leading, of_k, queries, keys = self.shape(random)
        return {"q": random.normal(size=(*leading, queries, dq)),
                "k": random.normal(size=(*of_k, keys, dk)),
                "v": random.normal(size=(*of_k, keys, 3))}

    def test_bilinear_and_mlp(self):
        random = np.random.default_rng(1)
        for number in range(6):
            dq, dk, hidden = (int(n) for n in random.integers(1, 9, 3))
            data = self.vectors(random, dq, dk)
            q, k, v = (data[n].astype(LONG) for n in "qkv")
            leading = formulas.leading_axes(q, k)
            q, k = formulas.stretched(q, leading, 2, False), formulas.stretched(k, leading, 2, True)
            with self.subTest(number=number):
                w = random.normal(size=(leading[-1], dq, dk) if number % 2 else (dq, dk))
                s = LONG(0.7) * (q @ w.astype(LONG)) @ np.swapaxes(k, -1, -2)
                self.in_every_way(random, ["--energy=bilinear", "--scale=0.7"], data | {"w": w}, s, v)
                w1 = random.normal(size=(hidden, dq + dk))
                more = {"w1": w1, "w2": random.normal(size=hidden)}
                if number % 2:
                    more["b1"] = random.normal(size=hidden)
                hidden_values = np.tanh((q @ w1[:, :dq].T.astype(LONG))[..., :, None, :]
                                        + (k @ w1[:, dq:].T.astype(LONG))[..., None, :, :]
                                        + more.get("b1", LONG(0)))
                s = hidden_values @ more["w2"].astype(LONG)
                self.in_every_way(random, ["--energy=mlp"], data | more, s, v)

    def test_relative_biases(self):
        random = np.random.default_rng(2)
        for number in range(8):
            data = self.vectors(random)
            leading = formulas.leading_axes(data["q"], data["k"])
            queries, keys = data["q"].shape[-2], data["k"].shape[-2]
            causal = [None, "top-left", "bottom-right"][number % 3]
            options = [f"--causal={causal}"] if causal else []
            apart = positions(queries, keys, causal)
            s = formulas.scores(data["q"], data["k"], causal=causal)
            with self.subTest(number=number, causal=causal):
                table = random.normal(size=(32, leading[-1]))
                bias = np.moveaxis(table[t5_bucket(apart, causal is None)], -1, 0)
                self.in_every_way(random, ["--relative-bias=t5", *options],
                                  data | {"rel_bias": table}, s + bias, data["v"])
                slopes = np.array(alibi_slopes(leading[-1]))
                bias = -slopes[:, None, None] * np.abs(apart)
                self.in_every_way(random, ["--relative-bias=alibi", *options], data, s + bias,
                                  data["v"])

    def test_windows_and_padding(self):
        random = np.random.default_rng(3)
        for number in range(8):
            data = self.vectors(random)
            leading = formulas.leading_axes(data["q"], data["k"])
            queries, keys = data["q"].shape[-2], data["k"].shape[-2]
            causal = [None, "top-left", "bottom-right"][number % 3]
            window = int(random.integers(1, 30))
            lengths = random.integers(0, keys + 1, leading[0])
            options = [f"--window={window}"] + ([f"--causal={causal}"] if causal else [])
            s = formulas.scores(data["q"], data["k"])

            def inside(length):
                """The scores that causality and the window leave among `length` keys."""
                apart = positions(queries, keys, causal, length)
                near = (np.abs(apart) < window) & (np.arange(keys) < length)
                return near if causal is None else near & (apart <= 0)
            padded = np.stack([inside(length) for length in lengths])[:, None]
            with self.subTest(number=number, window=window, causal=causal):
                self.in_every_way(random, options, data, np.where(inside(keys), s, FORBIDDEN),
                                  data["v"])
                self.in_every_way(random, options, data | {"key_length": lengths},
                                  np.where(padded, s, FORBIDDEN), data["v"])

    def test_padding_broadcasts(self):
        random = np.random.default_rng(13)
        data = {n: random.normal(size=(2, 3, 9, 4)) for n in "qkv"}
        for lengths in (np.int64(4), np.array([4]), np.array([7, 2]), np.array([[7], [2]]),
                        np.array([[1, 9, 3]]), np.array([[1, 2, 3], [4, 0, 9]])):
            with self.subTest(shape=lengths.shape):
                whole = np.broadcast_to(lengths if lengths.ndim != 1 else lengths[:, None], (2, 3))
                self.write("in.h5", **data, key_length=lengths)
                self.write("masked.h5", **data,
                           mask=np.arange(9) < whole[:, :, None, None])
                options = ["-q", "--scheme=dnas", "--emit=col_sum,out"]
                found, expected = (self.compute(f, *options) for f in ("in.h5", "masked.h5"))
                for name in ("col_sum", "out"):
                    self.assert_near(name, found[name], expected[name], 1e-12)
        for shape in ((3,), (2, 2), (1, 1, 1)):
            self.write("in.h5", **data, key_length=np.ones(shape, int))
            self.refused("attn-compute", "in.h5", status=3, says=["in.h5:/key_length", "(2, 3)"])

    def test_soft_caps(self):
        random = np.random.default_rng(4)
        for number in range(4):
            data = self.vectors(random)
            bias = random.normal(size=data["k"].shape[-2])
            bias[random.random(bias.size) < 0.3] = FORBIDDEN
            s = formulas.scores(data["q"], data["k"], energy="dot", scale=5)
            s = LONG(2.5) * np.tanh(s / LONG(2.5)) + bias
            with self.subTest(number=number):
                self.in_every_way(random, ["--energy=dot", "--scale=5", "--softcap=2.5"],
                                  data | {"bias": bias}, s, data["v"])

    def test_fenchel(self):
        random = np.random.default_rng(5)
        for number in range(4):
            data = self.vectors(random)
            queries, keys = data["q"].shape[-2], data["k"].shape[-2]
            u = random.random((keys,) if number % 2 else (queries, keys))
            u[random.random(u.shape) < 0.2] = 0
            s = formulas.scores(data["q"], data["k"], energy="dot", scale=LONG(1.7))
            with np.errstate(divide="ignore"):
                s = s + np.log(u.astype(LONG))
            with self.subTest(number=number):
                preferred = data | {"preference": u}
                self.near(["--alpha=1.7"], preferred, s, "fenchel", data["v"])
                # The bundle records it, so that its potentials can be used again.
                self.run_tool("attn-compute", "in.h5", "--scheme=fenchel", "--alpha=1.7", "--force",
                              "-o", "made.h5")
                attributes = self.read("made.h5").attributes
                self.assertEqual((attributes["attn_scheme"], attributes["attn_alpha"],
                                  attributes["attn_energy"]), ("fenchel", 1.7, "dot"))
                stats = self.stats("made.h5", "--scheme=stored,fenchel,unas")
                expected = formulas.attention(s).col_sum
                for scheme in ("stored", "fenchel"):
                    self.assert_near("max", stats[scheme]["col_sum"]["max"], expected.max(), 1e-9)
        # Without a preference all are equal; other schemes ignore it.
        s = formulas.scores(data["q"], data["k"], energy="dot")
        self.near([], data, s, "fenchel")
        self.near([], preferred, formulas.scores(data["q"], data["k"]), "unas")

    def test_transport(self):
        random = np.random.default_rng(8)
        for number in range(4):
            data = self.vectors(random)
            queries, keys = data["q"].shape[-2], data["k"].shape[-2]
            s = formulas.scores(data["q"], data["k"], energy="dot", scale=LONG(1.7) / LONG(0.6))
            u = random.random((keys,) if number % 2 else (queries, keys))
            u[random.random(u.shape) < 0.2] = 0
            more = {"cost": 3 * random.random((keys, keys) if number < 2 else (*s.shape[:-2], keys, keys))}
            if number != 1:
                more["preference"] = u
            if number == 2:
                # Exponentials of these costs are 0 in float64, those of costs less the least of a column are not.
                more["cost"] += 1e4 * np.arange(keys)
            if number == 3:
                more["mask"] = random.random((queries, keys)) < 0.7
                s = np.where(more["mask"], s, formulas.FORBIDDEN)
            expected = formulas.transport_weights(s, more["cost"] / LONG(0.6), more.get("preference"))
            self.write("in.h5", **data, **more)
            with self.subTest(number=number):
                found = self.compute("in.h5", "--scheme=transport", "--alpha=1.7", "--gamma=0.6",
                                     "--emit=weights,out,col_sum,row_entropy")
                self.assert_near("weights", found["weights"], expected, 1e-12)
                out = expected @ formulas.stretched(data["v"].astype(LONG), s.shape[:-2], 2, True)
                self.assert_near("out", found["out"], out, 1e-12)
                self.assert_near("col_sum", found["col_sum"], expected.sum(axis=-2), 1e-11)
                self.assert_near("entropy", found["row_entropy"], formulas.entropies(expected), 1e-11)
                some = self.compute("in.h5", "--scheme=transport", "--alpha=1.7", "--gamma=0.6", "--emit=weights",
                                    "--queries=0,-1", "--threads=3")
                np.testing.assert_array_equal(some["weights"], found["weights"][..., [0, -1], :])
        # At lambda = alpha z, to which the dual's maximiser tends for small alpha. There, biases are preferences.
        data = {name: random.normal(size=(5, 3)) for name in ("q", "k")} | {"cost": random.random((5, 5))}
        self.write("in.h5", **data, preference=random.random(5))
        near = self.compute("in.h5", "--scheme=transport", "--alpha=1e-6", "--gamma=0.5", "--emit=weights")["weights"]
        self.run_tool("lambda-solve", "in.h5", "--energy=dot", "--divergence=ot", "--alpha=1e-6", "--gamma=0.5",
                      "--emit=p", "--only", "-o", "dual.h5")
        self.assert_near("dual", self.read("dual.h5")["p"], near, 1e-10)
        # The bundle records the run, but its potentials do not rebuild the weights.
        self.run_tool("attn-compute", "in.h5", "--scheme=transport", "--gamma=0.5", "-o", "made.h5")
        attributes = self.read("made.h5").attributes
        self.assertEqual((attributes["attn_scheme"], attributes["attn_gamma"], attributes["attn_energy"]),
                         ("transport", 0.5, "dot"))
        self.refused("explain-away-stats", "made.h5", "--scheme=stored", status=3, says=["transport", "rebuild"])
        self.run_tool("attn-compute", "in.h5", "--scheme=transport", "--gamma=0.5", "--emit=weights", "--force",
                      "-o", "made.h5")
        stats = self.stats("made.h5", "--scheme=stored")
        self.assert_near("max", stats["stored"]["col_sum"]["max"],
                         self.read("made.h5")["weights"].sum(axis=-2).max(), 1e-12)

    def test_projections(self):
        random = np.random.default_rng(6)
        for number in range(6):
            leading, of_k, queries, keys = self.shape(random)
            batch, heads, groups = leading[:1] if number % 3 else (), leading[1], of_k[1]
            width, d, dv = (int(n) for n in random.integers(1, 12, 3))
            data = {"x": random.normal(size=(*batch, queries, width)),
                    "wq": random.normal(size=(heads, width, d)),
                    "wk": random.normal(size=(groups, width, d)),
                    "wv": random.normal(size=(groups, width, dv))}
            y = data["x"]
            if number % 2:
                y = data["y"] = random.normal(size=(*batch, keys, width))
                data |= {"bq": random.normal(size=(heads, d)), "bk": random.normal(size=(groups, d)),
                         "bv": random.normal(size=(groups, dv))}

            def made(source, name):
                long = source.astype(LONG)[..., None, :, :] @ data["w" + name].astype(LONG)
                return long + data.get("b" + name, np.zeros((1, 1)))[:, None, :]

            s = formulas.scores(made(data["x"], "q"), made(y, "k"))
            with self.subTest(number=number):
                # Computed operands carry errors of their own.
                self.in_every_way(random, ["--from=projection"], data, s, made(y, "v"))
        self.write("in.h5", **data)
        self.run_tool("attn-compute", "in.h5", "--from=projection", "--scheme=dnas", "-o", "made.h5")
        stats = self.stats("made.h5", "--scheme=dnas,stored")
        for figure in ("min", "max"):
            self.assert_near(figure, stats["dnas"]["col_sum"][figure],
                             stats["stored"]["col_sum"][figure], 1e-12)

    def test_heads_that_share_weights_but_not_biases(self):
        random = np.random.default_rng(16)
        data = {"x": random.normal(size=(2, 5, 4)), "wq": random.normal(size=(1, 4, 3)),
                "bq": random.normal(size=(3, 3)), "wk": random.normal(size=(3, 4, 3)),
                "wv": random.normal(size=(3, 4, 2))}

        def made(name, added=0):
            return data["x"].astype(LONG)[:, None] @ data["w" + name].astype(LONG) + added

        s = formulas.scores(made("q", data["bq"][:, None]), made("k"))
        self.in_every_way(random, ["--from=projection"], data, s, made("v"))

    def test_layout(self):
        random = np.random.default_rng(7)
        for _ in range(3):
            data = self.vectors(random)
            inside = {n: np.swapaxes(data[n], -2, -3).copy() for n in "qkv"}
            self.write("in.h5", **data)
            self.write("inside.h5", **inside)
            for scheme in ("unas", "dnas"):
                expected = self.compute("in.h5", "-q", f"--scheme={scheme}", "--emit=out,col_sum")
                found = self.compute("inside.h5", "-q", f"--scheme={scheme}", "--emit=out,col_sum",
                                     "--layout=blhd")
                np.testing.assert_array_equal(np.swapaxes(found["out"], -2, -3), expected["out"])
                np.testing.assert_array_equal(found["col_sum"], expected["col_sum"])
                self.assertEqual(found.labels["out"], ["", "query", "head", "channel"])
                self.assertEqual(found.attributes["attn_layout"], "blhd")
                # The order of the axes need not be given twice.
                self.run_tool("attn-compute", "inside.h5", "--layout=blhd", "--force", "-o", "o.h5")
                chained = self.compute("o.h5", "-q", f"--scheme={scheme}", "--emit=out,col_sum")
                self.assert_same_bits(chained, found, ["out", "col_sum"])

    def test_float32(self):
        random = np.random.default_rng(8)
        data = {n: a.astype(np.float32) for n, a in self.vectors(random).items()}
        table = random.normal(size=(32, data["q"].shape[1])).astype(np.float32)
        apart = positions(data["q"].shape[-2], data["k"].shape[-2], None)
        bias = np.moveaxis(table[t5_bucket(apart, True)], -1, 0)
        s = formulas.scores(data["q"], data["k"])
        s = LONG(3) * np.tanh(s / 3) + bias
        s = np.where(np.abs(apart) < 20, s, FORBIDDEN)
        for scheme in ("unas", "dnas", "sinkhorn"):
            self.near(["--relative-bias=t5", "--softcap=3", "--window=20"],
                      data | {"rel_bias": table}, s, scheme, data["v"], precision="f32")

    def test_everything_is_recorded(self):
        random = np.random.default_rng(9)
        data = self.vectors(random)
        table = random.normal(size=(32, data["q"].shape[1]))
        self.write("in.h5", **data, rel_bias=table, w=random.normal(size=(5, 5)))
        options = ["--energy=bilinear", "--relative-bias=t5", "--window=9", "--softcap=2",
                   "--scale=0.5"]
        self.run_tool("attn-compute", "in.h5", *options, "--scheme=dnas", "-o", "made.h5")
        self.assertEqual(self.stats("made.h5"), self.stats("in.h5", *options))
        stored = self.stats("made.h5", "--scheme=stored")["stored"]["col_sum"]
        self.assert_near("max", stored["max"], self.stats("made.h5")["dnas"]["col_sum"]["max"], 1e-12)
        # A later run without them removes their attributes.
        self.run_tool("attn-compute", "made.h5", "-o", "plain.h5")
        left = [n for n in self.read("plain.h5").attributes
                if n in ("attn_window", "attn_softcap", "attn_relative_bias", "attn_alpha")]
        self.assertEqual(left, [])

    def test_recorded_settings_can_be_undone(self):
        data = self.vectors(np.random.default_rng(12))
        self.write("in.h5", **data)
        self.run_tool("attn-compute", "in.h5", "--window=3", "--softcap=0.1", "-o", "made.h5")
        both = ["--window=none", "--softcap=none"]
        for given, same in ((both, []), (both[:1], ["--softcap=0.1"]), (both[1:], ["--window=3"])):
            self.assertEqual(self.stats("made.h5", *given), self.stats("in.h5", *same))
        self.write("with.h5", {"attn_window": 3}, **data)
        self.assert_same_bits(self.compute("with.h5", "-q", "--window=none"),
                              self.compute("in.h5", "-q"), ["out"])
        self.refused("attn-compute", "in.h5", "--window=no", status=2, says=["--window", "or none"])
        self.refused("attn-compute", "in.h5", "--alpha=none", status=2, says=["--alpha"])

    def test_attributes_that_come_with_tensors(self):
        random = np.random.default_rng(10)
        data = self.vectors(random)
        self.write("in.h5", {"attn_energy": "dot", "attn_scale": 0.3, "attn_window": 7}, **data)
        self.write("plain.h5", **data)
        options = ["--energy=dot", "--scale=0.3", "--window=7"]
        expected = self.compute("plain.h5", "-q", *options)
        found = self.compute("in.h5", "-q")
        self.assert_same_bits(found, expected, ["out", "row_potential"])
        for name in ("attn_energy", "attn_scale", "attn_window"):
            self.assertEqual(found.attributes[name], expected.attributes[name])
        # Attributes of an earlier run describe that run.
        self.run_tool("attn-compute", "in.h5", "-o", "made.h5")
        run = self.run_tool("attn-compute", "made.h5", "-o", "again.h5")
        self.assertIn("an earlier run used energy dot, scale 0.3, window 7;", run.err)
        again = self.read("again.h5")
        self.assert_same_bits(again, self.compute("plain.h5", "-q"), ["out", "row_potential"])
        self.write("in.h5", {"attn_energy": "chebyshev"}, **data)
        self.refused("attn-compute", "in.h5", status=3, says=["in.h5: attribute attn_energy is chebyshev"])

    def test_layout_without_effect(self):
        ones = np.ones
        self.write("scores.h5", scores=ones((2, 5, 6)), v=ones((2, 6, 3)))
        self.write("x.h5", x=ones((5, 6)), wq=ones((2, 6, 3)), wk=ones((2, 6, 3)))
        for file, options in (("scores.h5", ["--from=scores", "--emit=col_sum"]),
                              ("x.h5", ["--from=projection"])):
            for layout in ("blhd", "bhld"):
                self.refused("attn-compute", file, *options, f"--layout={layout}", status=2,
                             says=["--layout has no effect"])
            self.refused("explain-away-stats", file, options[0], "--layout=blhd", status=2,
                         says=["--layout has no effect"])
        self.compute("scores.h5", "-q", "--from=scores", "--layout=bhld")

    def test_refused(self):
        zeros = np.zeros
        good = {"q": zeros((2, 4, 6, 3)), "k": zeros((2, 2, 5, 3)), "v": zeros((2, 2, 5, 3))}
        rows = [
            ({}, ["--energy=bilinear"], 3, ["no dataset w"]),
            ({"w": zeros((3, 4))}, ["--energy=bilinear"], 3, ["in.h5:/w", "3 x 4", "3 x 3"]),
            ({"w": np.full((3, 3), np.nan)}, ["--energy=bilinear"], 3, ["in.h5:/w has nan at [0, 0]"]),
            ({"w1": zeros((7, 6))}, ["--energy=mlp"], 3, ["no dataset w2"]),
            ({"w1": zeros((7, 5)), "w2": zeros(7)}, ["--energy=mlp"], 3, ["in.h5:/w1", "A x 6"]),
            ({"w1": zeros((7, 6)), "w2": zeros(6)}, ["--energy=mlp"], 3, ["in.h5:/w2", "7"]),
            ({}, ["--relative-bias=t5"], 3, ["no dataset rel_bias"]),
            ({"rel_bias": zeros((32, 3))}, ["--relative-bias=t5"], 3, ["in.h5:/rel_bias", "4"]),
            ({"rel_bias": zeros((3, 4))}, ["--relative-bias=t5"], 3, ["in.h5:/rel_bias", "bucket"]),
            ({"key_length": np.array([3, 6])}, [], 3, ["in.h5:/key_length has 6 at [1]", "[0, 5]"]),
            ({"key_length": np.array([-1, 5])}, [], 3, ["in.h5:/key_length has -1"]),
            ({"key_length": np.array([3, 5, 5])}, [], 3, ["in.h5:/key_length", "(3)", "(2, 4)"]),
            ({"key_length": np.array([3.0, 5])}, [], 3, ["in.h5:/key_length", "float64"]),
            ({"preference": -np.ones(5)}, ["--scheme=fenchel"], 3, ["in.h5:/preference has -1 at [0]", ">= 0"]),
            ({"preference": np.full(5, np.nan)}, ["--scheme=fenchel"], 3, ["in.h5:/preference"]),
            ({"preference": np.array([1, 1, 1e-60, 0, 1])}, ["--scheme=fenchel", "--precision=f32"], 4,
             ["in.h5:/preference has 1e-60 at [2]", "float32"]),
            ({"bias": np.array([0, 0, -np.inf, -1e60, 1])}, ["--precision=f32"], 4,
             ["in.h5:/bias has -1e+60 at [3]", "float32"]),
            ({"preference": zeros(4)}, ["--scheme=fenchel"], 3, ["in.h5:/preference", "(4)"]),
            ({}, ["--scheme=transport"], 2, ["transport", "--gamma"]),
            ({}, ["--gamma=2"], 2, ["--gamma", "transport"]),
            ({}, ["--scheme=transport", "--gamma=0"], 2, ["--gamma"]),
            ({}, ["--scheme=transport", "--gamma=1"], 3, ["no dataset cost"]),
            ({"cost": zeros((5, 6))}, ["--scheme=transport", "--gamma=1"], 3, ["in.h5:/cost", "(5, 6)", "(5, 5)"]),
            ({"cost": zeros((3, 5, 5))}, ["--scheme=transport", "--gamma=1"], 3, ["in.h5:/cost"]),
            ({"cost": -np.eye(5)}, ["--scheme=transport", "--gamma=1"], 3, ["in.h5:/cost has -1 at [0, 0]", ">= 0"]),
            ({"cost": np.full((5, 5), np.nan)}, ["--scheme=transport", "--gamma=1"], 3, ["in.h5:/cost"]),
            ({"cost": np.full((5, 5), 1e60)}, ["--scheme=transport", "--gamma=1", "--precision=f32"], 4,
             ["in.h5:/cost", "float32"]),
            ({"cost": np.full((5, 5), 1e300)}, ["--scheme=transport", "--gamma=1e-20"], 4,
             ["in.h5:/cost", "over gamma"]),
            ({"cost": np.full((5, 5), np.inf)}, ["--scheme=transport", "--gamma=1"], 4,
             ["query 0", "source 0", "no allowed target", "in.h5:/cost"]),
            ({"cost": np.full((2, 1, 5, 5), -1e-9)}, ["--scheme=transport", "--gamma=1"], 3,
             ["in.h5:/cost has -1e-09 at [0, 0, 0, 0]", "numbers >= 0 or inf"]),
            ({"cost": zeros((5, 5)), "sink": np.zeros(4)}, ["--scheme=transport", "--gamma=1"], 2,
             ["in.h5:/sink", "transport"]),
            ({}, ["--from=projection"], 3, ["no dataset x"]),
            ({"x": zeros((2, 6, 8)), "wq": zeros((4, 7, 3)), "wk": zeros((2, 8, 3))},
             ["--from=projection"], 3, ["in.h5:/wq", "7", "in.h5:/x", "8"]),
            ({"x": zeros((2, 6, 8)), "wq": zeros((4, 8, 3)), "wk": zeros((3, 8, 3))},
             ["--from=projection"], 3, ["in.h5:/wk", "4 heads", "3"]),
            ({}, ["--window=0"], 2, ["--window", "0"]),
            ({}, ["--softcap=0"], 2, ["--softcap", "0"]),
            ({}, ["--scheme=fenchel", "--alpha=-1"], 2, ["--alpha"]),
            ({}, ["--scheme=dnas", "--alpha=2"], 2, ["--alpha", "fenchel"]),
            ({}, ["--layout=bldh"], 2, ["bldh", "blhd"]),
            ({}, ["--layout=blhd"], 3, ["in.h5:/k"]),
        ]
        for more, options, status, says in rows:
            with self.subTest(more=list(more), options=options):
                self.write("in.h5", **good | more)
                self.refused("attn-compute", "in.h5", *options, status=status, says=says)


if __name__ == "__main__":
    unittest.main()
