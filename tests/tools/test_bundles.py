"""The inputs and outputs of attn-compute besides numbers: names, attributes, history, copied
datasets, addresses and slices, reproducible bytes."""

import unittest

import h5py
import numpy as np

from attn import ToolTest, write

RESULTS = ["col_potential", "col_sum", "out", "row_entropy", "row_potential", "weights"]


def vectors(seed=0, heads=2, queries=7, keys=5, kind=np.float32):
    random = np.random.default_rng(seed)
    lengths = {"q": queries, "k": keys, "v": keys}
    return {n: random.normal(size=(heads, length, 4)).astype(kind) for n, length in lengths.items()}


class Results(ToolTest):

    def setUp(self):
        super().setUp()
        self.write("in.h5", hybrid=0.5, **vectors())

    def results(self, *options):
        return self.compute("-q", "--only", "in.h5", *options)

    def test_emit(self):
        everything = self.results("--emit", ",".join(RESULTS))
        self.assertEqual(sorted(everything), RESULTS)
        for name in RESULTS:
            with self.subTest(emit=name):
                alone = self.results("--emit", name)
                self.assertEqual(list(alone), [name])
                self.assert_same_bits(alone, everything, [name])
        self.assertEqual(sorted(self.results()), ["col_potential", "out", "row_potential"])
        three = ["col_potential", "out", "row_potential", "unas_row_potential"]
        self.assertEqual(sorted(self.results("--scheme=hnas", "--hybrid=0.5")), three)
        # Without u the potentials would not rebuild the mixture.
        self.assertEqual(sorted(self.results("--scheme=hnas")), sorted([*three, "hybrid"]))
        self.assertEqual(list(self.results("--scheme=hnas", "--emit=out")), ["out"])

    def test_without_values(self):
        data = vectors()
        del data["v"]
        self.write("in.h5", **data)
        self.assertEqual(sorted(self.results()), ["col_potential", "row_potential"])
        refused = self.run_tool("attn-compute", "in.h5", "--emit=out", status=3)
        self.assertIn("no dataset v (there are: k, q)", refused.err)

    def test_labels(self):
        bundle = self.results("--emit", ",".join(RESULTS))
        self.assertEqual(bundle.labels, {
            "out": ["head", "query", "channel"],
            "weights": ["head", "query", "key"],
            "row_potential": ["head", "query"],
            "row_entropy": ["head", "query"],
            "col_potential": ["head", "key"],
            "col_sum": ["head", "key"],
        })

    def test_attributes(self):
        usual = {"attn_scheme": "unas", "attn_energy": "scaled-dot", "attn_scale": 1.0,
                 "attn_causal": "none", "attn_precision": "f32", "attn_source": "qk",
                 "attn_status": "done"}
        for options, changed in (
            ([], {}),
            (["--energy=gaussian", "--scale=0.3"], {"attn_energy": "gaussian", "attn_scale": 0.3}),
            (["--causal=bottom-right"], {"attn_causal": "bottom-right"}),
            (["--scheme=hnas", "--hybrid=0.25"], {"attn_scheme": "hnas", "attn_hybrid": 0.25}),
            (["--scheme=hnas"], {"attn_scheme": "hnas"}),  # one u per head is stored as a dataset
            (["--scheme=sinkhorn", "--iterations=3", "--precision=f64"],
             {"attn_scheme": "sinkhorn", "attn_iterations": 3, "attn_precision": "f64"}),
        ):
            with self.subTest(options=options):
                attributes = self.results(*options).attributes
                attributes.pop("history")
                self.assertEqual(attributes, usual | changed)
        converged = self.results("--scheme=sinkhorn", "--tolerance=1e-3").attributes
        self.assertEqual(converged["attn_status"], "converged")
        self.assertEqual(converged["attn_tolerance"], 1e-3)
        self.assertGreater(converged["attn_iterations"], 1)

    def test_history(self):
        epoch = {"SOURCE_DATE_EPOCH": "86400"}
        self.run_tool("attn-compute", "in.h5", "-o", "a b.h5", environment=epoch)
        stream = (self.folder / "a b.h5").read_bytes()
        last = self.compute("--scheme", "dnas", stdin=stream, environment=epoch)
        newest, first = last.attributes["history"].split("\n")
        time = "1970-01-02T00:00:00Z"
        self.assertRegex(newest, rf"^{time}: attn-compute --scheme dnas \(.*0\.1\.0\)$")
        # A name with a space is quoted, so that the command line can be run again.
        self.assertRegex(first, rf"^{time}: attn-compute in.h5 -o 'a b.h5' \(.*\)$")
        now = self.results().attributes["history"]
        self.assertRegex(now, r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ: attn-compute ")

    def test_earlier_results_are_removed(self):
        self.run_tool("attn-compute", "in.h5", "-o", "a.h5", "--scheme=hnas", "--hybrid=0.5",
                      "--emit", ",".join(RESULTS))
        fresh, again = self.compute("in.h5", "-q"), self.compute("a.h5", "-q")
        self.assert_same_bits(again, fresh)
        self.assertEqual(sorted(again), sorted(fresh))
        self.assertEqual(set(again.attributes), set(fresh.attributes))

    def test_the_same_bytes_again(self):
        epoch = {"SOURCE_DATE_EPOCH": "1700000000"}
        self.write("big.h5", **vectors(heads=3, queries=300, keys=1100))
        for options in (["--emit=weights,out,col_sum"], ["--scheme=dnas", "--emit=weights"],
                        ["--scheme=sinkhorn"], ["--scheme=hnas", "--hybrid=0.5", "--only"]):
            with self.subTest(options=options):
                runs = {self.run_tool("attn-compute", "big.h5", *options,
                                      environment=epoch | {"ATTN_NUM_THREADS": threads}).out
                        for threads in ("1", "2", "2")}
                self.assertEqual(len(runs), 1)


class CarriedAlong(ToolTest):

    def setUp(self):
        super().setUp()
        with h5py.File(self.folder / "in.h5", "w") as file:
            for name, values in vectors().items():
                file[name] = values
            file["q"].attrs["layer"] = 3
            file["q"].dims[0].label = "head"
            file["tokens"] = ["the", "of", "η", "", "key"]
            file["record"] = np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")])
            file["complex"] = np.array([1 + 2j])
            file["empty"] = np.zeros((0, 3))
            file["null"] = h5py.Empty("f4")
            file["group/inner/x"] = np.arange(6, dtype=">i2").reshape(2, 3)
            file["group/inner"].attrs["note"] = "nested"
            file["packed"] = np.zeros(1)  # replaced by a filtered one
            del file["packed"]
            file.create_dataset("packed", data=np.arange(5000), chunks=(1000,), compression="gzip")
            file["link"] = h5py.SoftLink("/record")
            file.attrs["model"] = "λ-model"
            file.attrs["numbers"] = [1, 2, 3]

    def unchanged(self, bundle, names):
        original = self.read("in.h5")
        for name in names:
            if isinstance(original[name], h5py.Empty):
                self.assertIsInstance(bundle[name], h5py.Empty)
                continue
            self.assertEqual(bundle[name].dtype, original[name].dtype, name)
            np.testing.assert_array_equal(bundle[name], original[name], name)

    def test_everything_unknown(self):
        self.run_tool("attn-compute", "in.h5", "-o", "out.h5")
        bundle, original = self.read("out.h5"), self.read("in.h5")
        self.unchanged(bundle, original)
        self.assertEqual(set(bundle), set(original) | {"out", "row_potential", "col_potential"})
        self.assertEqual(bundle.attributes["model"], "λ-model")
        self.assertEqual(list(bundle.attributes["numbers"]), [1, 2, 3])
        self.assertEqual(bundle.attributes_of["q"]["layer"], 3)
        self.assertEqual(bundle.attributes_of["group/inner"]["note"], "nested")
        self.assertEqual(bundle.labels["q"], ["head", "", ""])
        with h5py.File(self.folder / "out.h5") as file:
            self.assertEqual(file.get("link", getlink=True).path, "/record")
            self.assertEqual(file["packed"].compression, "gzip")

    def test_only(self):
        bundle = self.compute("in.h5", "-q", "--only")
        self.assertEqual(sorted(bundle), ["col_potential", "out", "row_potential"])
        self.assertEqual(bundle.groups, [])
        self.assertEqual(bundle.attributes["model"], "λ-model")
        self.assertEqual(bundle.attributes["attn_scheme"], "unas")

    def test_a_group_as_input(self):
        with h5py.File(self.folder / "in.h5", "r+") as file:
            for name, values in vectors(seed=1).items():
                file["layer/" + name] = values
            file["layer"].attrs["own"] = 1
        self.write("alone.h5", **vectors(seed=1))
        for address in ("in.h5:/layer", "in.h5:layer", "in.h5:/layer/"):
            with self.subTest(address=address):
                bundle = self.compute(address, "-q")
                self.assertEqual(set(bundle),
                                 {"q", "k", "v", "out", "row_potential", "col_potential"})
                self.assertEqual(bundle.attributes["own"], 1)
                self.assert_same_bits(bundle, self.compute("alone.h5", "-q"))

    def test_through_many_tools(self):
        script = "attn-compute -q in.h5 | attn-compute -q --scheme=dnas | attn-compute -q > out.h5"
        self.shell(script)
        self.unchanged(self.read("out.h5"), self.read("in.h5"))
        self.assert_same_bits(self.read("out.h5"), self.compute("in.h5", "-q"),
                              ["out", "row_potential", "col_potential"])


class Addresses(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(3)
        self.stack = random.normal(size=(3, 4, 20, 6)).astype(np.float32)
        self.write("dump.h5", model__Q=self.stack, model__K=self.stack + 1, q=self.stack[0, 0])
        self.write("in.h5", **vectors(heads=4, queries=20, keys=20))

    def test_named_inputs_take_precedence(self):
        bundle = self.compute("-q", "in.h5", "-i", "q=dump.h5:/model/Q[1,:,:,:4]", "--only")
        alone = vectors(heads=4, queries=20, keys=20) | {"q": self.stack[1, :, :, :4]}
        self.write("alone.h5", **alone)
        self.assert_same_bits(bundle, self.compute("-q", "alone.h5", "--only"))
        whole = self.compute("-q", "in.h5", "-i", "q=dump.h5:/model/Q[1,:,:,:4]")
        np.testing.assert_array_equal(whole["q"], alone["q"])

    def test_slices_follow_numpy(self):
        selections = {
            "": np.s_[:], "[0]": np.s_[0], "[-1, 1]": np.s_[-1, 1], "[1:]": np.s_[1:],
            "[:, ::2]": np.s_[:, ::2], "[..., 1:5:3]": np.s_[..., 1:5:3],
            "[2, ..., -4:]": np.s_[2, ..., -4:], "[…, 3:4]": np.s_[..., 3:4],
            "[:2, -3:-1, 5:100:7, :]": np.s_[:2, -3:-1, 5:100:7, :], "[0,0,]": np.s_[0, 0],
        }
        for text, selection in selections.items():
            with self.subTest(selection=text):
                bundle = self.compute("-q", f"-iq=dump.h5:/model/Q{text}",
                                      f"-ik=dump.h5:/model/K{text}")
                self.assert_same_bits(bundle, {"q": self.stack[selection],
                                               "k": (self.stack + 1)[selection]})

    def test_a_group_stands_for_the_dataset_of_that_name(self):
        bundle = self.compute("-q", "-i", "q=dump.h5", "-i", "k=dump.h5:/model/K[0,0]")
        np.testing.assert_array_equal(bundle["q"], self.stack[0, 0])

    def test_awkward_names(self):
        for name in ("a b.h5", "a:b.h5", "a:/b.h5", "[0].h5", "-x.h5", "ünï.h5", "x.h5:"):
            with self.subTest(name=name):
                path = self.folder / name
                path.parent.mkdir(exist_ok=True)
                write(path, g__Q=vectors()["q"], **vectors())
                given = f"./{name}" if name.startswith("-") else name
                expected = self.compute("-q", str(path))
                self.assert_same_bits(self.compute("-q", given), expected)
                named = self.compute("-q", given, "-i", f"q={given}:/g/Q[:]")
                self.assert_same_bits(named, expected)

    def test_one_input_may_be_the_stream(self):
        stream = (self.folder / "in.h5").read_bytes()
        expected = self.compute("-q", "in.h5")
        self.assert_same_bits(self.compute("-q", stdin=stream), expected)
        self.assert_same_bits(self.compute("-q", "-", stdin=stream), expected)
        self.assert_same_bits(self.compute("-q", "in.h5", "-i", "q=-:/q", stdin=stream), expected)
        with open(self.folder / "in.h5", "rb") as file:
            self.assert_same_bits(self.compute("-q", stdin=file), expected)


if __name__ == "__main__":
    unittest.main()
