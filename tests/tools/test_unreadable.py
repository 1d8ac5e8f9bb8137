"""Unreadable datasets are never taken for missing: every dataset name of every tool, made
unreadable in every way; also listings, copies and comparisons of such files."""

import itertools
import shutil
import unittest

import h5py
import numpy as np

from attn import LONG, ToolTest, sample
from damage import KINDS, damaged_header, dangling_link, missing_file, wrong_kind
from mechanisms import PROBLEMS as MECHANISMS


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


HEADS, LENGTH, WIDTH = 2, 5, 4
VECTORS = {name: normal(HEADS, LENGTH, WIDTH) for name in ("q", "k", "v")}
TERMS = {
    "mask": np.ones((LENGTH, LENGTH), bool),
    "bias": normal(LENGTH, LENGTH),
    "key_length": np.array([LENGTH, LENGTH - 1]),
}
PROJECTIONS = {
    "x": normal(LENGTH, 8), "y": normal(LENGTH, 8),
    **{name: normal(HEADS, 8, WIDTH) for name in ("wq", "wk", "wv")},
    **{name: normal(HEADS, WIDTH) for name in ("bq", "bk", "bv")},
}
TRANSFORMS = {
    "q_norm": normal(WIDTH), "k_layer_norm": normal(WIDTH), "k_layer_norm_bias": normal(WIDTH), "norm_epsilon": np.array([1e-6]),
    "rotary": normal(2),
}
SCORES = {"scores": normal(HEADS, LENGTH, LENGTH)}
COST = {"cost": abs(normal(LENGTH, LENGTH)), "a": np.full(LENGTH, 0.2), "b": np.full(LENGTH, 0.2)}
PATHS = {"wq": normal(6, 3), "wk": normal(6, 3)}
SKELETON = {"skeleton_q": np.array([0, 1, 2], np.int32), "skeleton_k": np.array([0, 1, 2], np.int32)}
STATE = {"adam_m": normal(12, 3), "adam_v": abs(normal(12, 3)), "adam_step": np.int64(3)}
GRADIENTS = {"grad_wq": normal(6, 3), "grad_wk": normal(6, 3)}
JOIN = {"wo": normal(HEADS * WIDTH, 6), "bo": normal(6), "grad_joined": normal(LENGTH, 6)}
WORDS = {"weights": abs(normal(2, 3, 5)), "reverse_weights": abs(normal(2, 5, 3))}
RELATIVE = {"rel_bias": normal(32, HEADS)}

# One of the gradients that each mechanism reads.
UPSTREAM = {
    "structured-attention": {"grad_out": normal(1, 3, 5)},
    "decomposable-attention": {"grad_scores": normal(1, 2)},
    "alignment-attention": {"grad_weights": normal(1, 6, 7)},
    "attention-over-attention": {"grad_s": normal(1, 8)},
    "hard-attention": {"grad_log_p": normal(1)},
    "coattention": {"grad_encoding": normal(1, 6, 6)},
    "intra-attention": {"grad_h": normal(1, 6, 3)},
    "multi-view": {"grad_out": normal(1, 6, 5)},
}

# Tool, options, and the datasets that it then reads. All of these are made unreadable in turn; the
# remaining names are other datasets that it needs.
READ = [
    ("attn-compute", "", VECTORS | TERMS),
    ("attn-compute", "--scheme hnas", VECTORS | {"hybrid": np.array([0.3, 0.6])}),
    ("attn-compute", "--scheme fenchel", VECTORS | {"preference": abs(normal(LENGTH, LENGTH))}),
    ("attn-compute", "--energy bilinear", VECTORS | {"w": normal(WIDTH, WIDTH)}),
    ("attn-compute", "--energy mlp",
     VECTORS | {"w1": normal(3, 2 * WIDTH), "w2": normal(3), "b1": normal(3)}),
    ("attn-compute", "--relative-bias t5", VECTORS | RELATIVE),
    ("attn-compute", "--emit grad_q", VECTORS | {"grad_out": normal(HEADS, LENGTH, WIDTH)}),
    ("attn-compute", "--join --emit grad_q", VECTORS | JOIN),
    ("attn-compute", "--from projection", PROJECTIONS | TRANSFORMS),
    ("attn-compute", "--from scores", SCORES | {"v": VECTORS["v"]} | TERMS),
    ("explain-away-stats", "",
     {"q": VECTORS["q"], "k": VECTORS["k"], **TERMS, "tokens": np.array(list("abcde"), object)}),
    ("explain-away-stats", "--scheme hnas", {
        "q": VECTORS["q"], "k": VECTORS["k"], "hybrid": np.array([0.3, 0.6])}),
    ("explain-away-stats", "--scheme stored", {"weights": np.full((HEADS, 5, 5), 0.2)}),
    ("explain-away-stats", "--from scores", SCORES),
    ("attn-view", "", {"q": VECTORS["q"], "k": VECTORS["k"], **TERMS, "sink": normal(HEADS), "tokens": np.array(list("abcde"), object),
                       "relative_deviation": abs(normal(HEADS, LENGTH))}),
    ("lambda-solve", "", VECTORS | TERMS | {"preference": np.ones((LENGTH, LENGTH))}),
    ("lambda-solve", "--from templates", {"t": normal(LENGTH, WIDTH), "z": normal(3, WIDTH)}),
    ("lambda-solve", "--from projection", {name: PROJECTIONS[name] for name in ("x", "wq", "wk")}),
    ("lambda-solve", "--relative-bias t5", VECTORS | RELATIVE),
    ("lambda-solve", "--divergence ot --gamma 1",
     VECTORS | {"cost": 1.0 - np.eye(LENGTH)}),
    ("sinkhorn-iter", "--epsilon 0.5", COST),
    ("sinkhorn-iter", "--from scores --iterations 3", SCORES | {"a": np.ones(5), "b": np.ones(5)}),
    ("sinkhorn-iter", "--from scores --start stored", SCORES | {"col_potential": np.ones(5)}),
    ("sinkhorn-iter bulk", "--iterations 3", SCORES | {"a": np.ones(5), "b": np.ones(5)}),
    ("sinkhorn-iter", "--iterations 3", {"q": VECTORS["q"], "k": VECTORS["k"]} | TERMS),
    ("mode-collapse-sim simulate", "", {"x": normal(6, 2), "label": np.array([0, 0, 0, 1, 1, 1])}),
    ("mode-collapse-sim em", "--start 1,1;-1,-1", {"x": normal(6, 2)}),
    ("basis-paths identify", "--skeleton largest", PATHS),
    ("basis-paths start", "", PATHS | SKELETON),
    ("basis-paths values", "", PATHS | SKELETON),
    ("basis-paths reconstruct", "",
     {"basis_value": abs(normal(11, 3)) + 1, "wk_skeleton": np.ones(3)} | SKELETON),
    ("basis-paths step", "--optimizer si-adam --rate 1e-3", PATHS | GRADIENTS | SKELETON),
    ("basis-paths step", "--optimizer adam --rate 1e-3", PATHS | GRADIENTS | STATE),
    ("basis-paths rescale", "",
     PATHS | GRADIENTS | {"scale": np.array([2.0, 4, 0.5]), "bq": normal(3), "bk": normal(3)}),
    *(((problem.tool, " ".join(problem.options) + " --emit grad_" + next(iter(problem.sequences)),
        problem.datasets({name: np.array([2]) for name in problem.lengths}) | UPSTREAM[problem.tool]))
      for problem in MECHANISMS if "shallow" not in problem.options),
    ("basis-paths check", "", PATHS | {"path": np.array([[0, 0, 0], [1, 1, 1]])}),
    ("alignment-attention measure", "", WORDS | {"source_length": np.array([4, 5]),
                                                 "target_length": np.array([3, 2])}),
    ("alignment-attention measure", "", WORDS | {"key_length": np.array([4, 5]),
                                                 "query_length": np.array([3, 2])}),
]
# Tools without --only, since they write no bundle here.
REPORTS = ("explain-away-stats", "basis-paths check", "alignment-attention measure", "attn-view")
ATTRIBUTES = {"--scheme stored": {"attn_scheme": "unas"}}


class Names(ToolTest):

    @staticmethod
    def attempt(tool, options, path):
        name, *verb = tool.split()
        arguments = [*verb, *options.split(), path]
        if tool not in REPORTS:
            arguments.insert(len(verb), "--only")
        output = None if tool in REPORTS else "out.h5"
        return name, arguments, output

    def test_every_name_of_every_tool(self):
        every = list(KINDS.items())
        # In short runs half of the names, with one kind for a name, and another one for the next.
        kinds = itertools.cycle([every] if LONG else [[kind] for kind in every])
        for tool, options, datasets in READ:
            attributes = ATTRIBUTES.get(options)
            self.write("good.h5", attributes, **datasets)
            name, arguments, output = self.attempt(tool, options, "good.h5")
            written = [] if output is None else ["-o", "/dev/null"]
            # 1: basis-paths check finds that the paths are not a basis.
            self.assertIn(self.run_tool(name, *arguments, *written, status=None).status, (0, 1))
            for dataset in sample(datasets, (len(datasets) + 1) // 2):
                for damage, says in next(kinds):
                    with self.subTest(tool=tool, options=options, dataset=dataset,
                                      kind=damage.__name__):
                        shutil.copy(self.folder / "good.h5", self.folder / "bad.h5")
                        damage(self.folder / "bad.h5", dataset)
                        _, arguments, output = self.attempt(tool, options, "bad.h5")
                        self.refused(name, *arguments, status=3, output=output,
                                     says=[f"bad.h5:/{dataset} ", says])

    def test_groups_and_other_names(self):
        # The same is refused with --each, with --map and as an address.
        for damage, says in KINDS.items():
            with self.subTest(kind=damage.__name__):
                self.write("dump.h5", **{f"layer{n}__{name}": VECTORS[name]
                                         for n in range(2) for name in "qkv"},
                           layer0__mask=TERMS["mask"], layer1__mask=TERMS["mask"])
                damage(self.folder / "dump.h5", "layer1/mask")
                self.refused("attn-compute", "--only", "--each", "/layer*", "dump.h5", status=3,
                             says=["dump.h5:/layer1/mask ", says])
                self.refused("attn-compute", "--only", "--map", "bias=mask", "dump.h5:/layer1",
                             status=3, says=["dump.h5:/layer1/mask ", says])
                self.refused("attn-compute", "--only", "-i", "mask=dump.h5:/layer1/mask",
                             "dump.h5:/layer0", status=3,
                             says=["dump.h5:/layer1/mask", "" if damage is wrong_kind else says])

    def test_a_group_that_cannot_be_opened(self):
        for damage in (damaged_header, dangling_link, missing_file):
            with self.subTest(kind=damage.__name__):
                self.write("dump.h5", **{f"layer{n}__{name}": VECTORS[name]
                                         for n in range(2) for name in "qkv"})
                damage(self.folder / "dump.h5", "layer1")
                for arguments in (["--each", "/layer*", "dump.h5"], ["dump.h5:/layer1"],
                                  ["-i", "q=dump.h5:/layer1/q", "dump.h5:/layer0"]):
                    self.refused("attn-compute", "--only", *arguments, status=3,
                                 says=["dump.h5:/layer1", KINDS[damage]])

    def test_an_attribute_that_cannot_be_read(self):
        self.write("bad.h5", {"attn_scale": 2.0}, **VECTORS)
        content = (self.folder / "bad.h5").read_bytes()
        at = content.index(b"attn_scale\0")
        # The version of its datatype, which follows the name.
        broken = bytearray(content)
        broken[at + 16] = 0xFF
        (self.folder / "bad.h5").write_bytes(broken)
        self.refused("attn-compute", "--only", "bad.h5", status=3, says=["bad.h5"])


class Listings(ToolTest):

    def setUp(self):
        super().setUp()
        self.write("good.h5", **VECTORS, group__x=np.arange(3))

    def test_listings_name_what_does_not_open(self):
        for damage, says in KINDS.items():
            if damage is wrong_kind:
                continue
            with self.subTest(kind=damage.__name__):
                shutil.copy(self.folder / "good.h5", self.folder / "bad.h5")
                damage(self.folder / "bad.h5", "v")
                done = self.run_tool("tensor-info", "bad.h5", "--json=info.json", status=3)
                self.assertRegex(done.out.decode(), r"(?m)^v .* unreadable$")
                self.assertRegex(done.out.decode(), r"(?m)^group/x .* 0 \.\. 2$")
                self.assertRegex(done.err, rf"\Atensor-info: error: bad.h5:/v {says}.*\n\Z")
                report = self.read_json("info.json")
                self.assertEqual(report["status"], "error")
                found = {item["path"]: item for item in report["result"]["datasets"]}
                self.assertIn(says, found["v"]["unreadable"])
                self.assertNotIn("unreadable", found["q"])

    def test_copies_and_comparisons_refuse(self):
        for damage, says in KINDS.items():
            if damage is wrong_kind:
                continue
            for name in ("v", "group/x"):
                with self.subTest(kind=damage.__name__, name=name):
                    shutil.copy(self.folder / "good.h5", self.folder / "bad.h5")
                    damage(self.folder / "bad.h5", name)
                    expected = dict(status=3, says=[f"bad.h5:/{name} ", says])
                    self.refused("tensor-convert", "bad.h5", **expected)
                    self.refused("tensor-compare", "bad.h5", "good.h5", output=None, **expected)
                    self.refused("tensor-compare", "good.h5", "bad.h5", output=None, **expected)
                    self.refused("attn-compute", "--emit", "row_potential", "bad.h5", **expected)
                    if name == "v":
                        self.refused("tensor-convert", "bad.h5", output="out.npz", **expected)

    def test_only_leaves_out_other_datasets(self):
        dangling_link(self.folder / "good.h5", "other")
        self.refused("attn-compute", "good.h5", status=3, says=["/other"], hint="--only")
        self.run_tool("attn-compute", "--only", "good.h5", "-o", "out.h5")

    def test_values_that_cannot_be_read(self):
        with h5py.File(self.folder / "bad.h5", "w") as file:
            file["a"] = np.arange(4)
            chunked = file.create_dataset("z", data=np.arange(1000), chunks=(100,), compression=4)
            at = chunked.id.get_chunk_info(3).byte_offset
        with open(self.folder / "bad.h5", "r+b") as file:
            file.seek(at)
            file.write(b"\xff" * 20)
        done = self.run_tool("tensor-info", "bad.h5", status=3)
        self.assertRegex(done.out.decode(), r"(?m)^a .* 0 \.\. 3$")
        self.assertRegex(done.out.decode(), r"(?m)^z .* unreadable$")

    def test_chunks_that_claim_more_than_their_file(self):
        with h5py.File(self.folder / "bad.h5", "w") as file:
            chunked = file.create_dataset("q", data=np.arange(1000), chunks=(100,), compression=4)
            size = chunked.id.get_chunk_info(0).size
        content = bytearray((self.folder / "bad.h5").read_bytes())
        # The key of the first chunk: its size, the omitted filters, its offset.
        at = content.index(size.to_bytes(4, "little") + bytes(4) + bytes(16))
        content[at:at + 4] = (0x7FFFFFF0).to_bytes(4, "little")
        (self.folder / "bad.h5").write_bytes(content)
        self.refused("tensor-convert", "bad.h5", status=3,
                     says=["bad.h5:/q is damaged: its chunks take 21474"])

    def test_patterns_and_paths_have_bounds(self):
        with h5py.File(self.folder / "ring.h5", "w") as file:
            group = file.create_group("a")
            group["a"] = group
            group.update(VECTORS)
        self.run_tool("attn-compute", "--only", "--each", "/".join("a" * 100), "ring.h5", "-o", "o.h5")
        self.refused("attn-compute", "--only", "--each", "/".join("a" * 101), "ring.h5", status=2,
                     says=["101 levels, expected at most 100"])
        with h5py.File(self.folder / "deep.h5", "w") as file:
            group = file
            for _ in range(200):
                group = group.create_group("g" * 100)
        self.refused("tensor-convert", "deep.h5", status=3, says=["nested too deep", "16 KiB"])
        self.refused("tensor-info", "deep.h5", output=None, status=3, says=["nested too deep"])

    def test_deeply_nested_groups(self):
        with h5py.File(self.folder / "deep.h5", "w") as file:
            group = file
            for _ in range(3000):
                group = group.create_group("g")
            group["x"] = np.arange(3)
            for name, values in VECTORS.items():
                file[name] = values
        self.run_tool("attn-compute", "deep.h5", "-o", "out.h5")
        self.run_tool("tensor-compare", "--datasets", "/".join(["g"] * 3000 + ["x"]), "deep.h5",
                      "out.h5")
        self.assertIn("g/x", self.run_tool("tensor-info", "--brief", "out.h5").out.decode())


if __name__ == "__main__":
    unittest.main()
