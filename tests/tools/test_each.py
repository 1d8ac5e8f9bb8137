"""Whole dumps: --each and --map, against one run per group."""

import io
import math
import re
import unittest

import h5py
import numpy as np

from arrays import safetensors
from attn import ToolTest
from dumps import EACH, MAP, MODEL, Dump


class Compute(Dump):

    def test_equals_one_run_per_group(self):
        for options in (["--scheme=dnas", "--emit=out,weights,col_sum,row_entropy"],
                        ["--scheme=hnas", "--hybrid=0.25"],
                        ["--scheme=sinkhorn", "--iterations=3", "--precision=f64"]):
            with self.subTest(options=options):
                expected = self.one_by_one(*options)
                only = self.compute("-q", "--only", *EACH, *MAP, *options, "dump.h5")
                self.assert_results(only, expected)
                self.assertEqual(sorted(only),
                                 sorted(f"{g}/{n}" for g in self.groups for n in expected[g]))
                everything = self.compute("-q", *EACH, *MAP, *options, "dump.h5")
                self.assert_results(everything, expected)
                before = self.read("dump.h5")
                self.assert_same_bits(everything, before)
                self.assertEqual(sorted(everything), sorted([*only, *before]))
                for bundle in (only, everything):
                    self.assertEqual(bundle.attributes["model"], "none")
                    self.assertEqual(bundle.attributes_of["text/b/layer2"]["number"], 1)
                    self.assertEqual(bundle.attributes["history"].count("attn-compute"), 1)
                    self.assertNotIn("attn_scheme", bundle.attributes)

    def test_stream_and_group_as_input(self):
        expected = self.compute("-q", *EACH, *MAP, "dump.h5")
        streamed = self.shell("cat dump.h5 | attn-compute -q --each 'text/*/layer*' "
                              "--map q=Q,k=K,v=V").bundle()
        self.assert_same_bits(streamed, expected)
        inside = self.compute("-q", "--only", "--each=layer1?", *MAP, "dump.h5:/text/a")
        self.assertEqual(sorted({name.split("/")[0] for name in inside}), ["layer10"])
        self.assert_same_bits({"out": inside["layer10/out"]},
                              {"out": expected["text/a/layer10/out"]})

    def test_map_without_each(self):
        found = self.compute("-q", *MAP, "--causal", "dump.h5:/text/a/layer2")
        self.assertEqual(sorted(found), ["K", "Q", "V", "col_potential", "note", "out",
                                         "row_potential"])
        with h5py.File(self.folder / "dump.h5") as file:
            names = {new: file[f"text/a/layer2/{old}"][()] for new, old in zip("qkv", "QKV")}
        self.write("named.h5", **names)
        self.assert_same_bits({"out": found["out"]},
                              self.compute("-q", "--causal", "--emit=out", "--only", "named.h5"))
        deeper = self.compute("-q", "--only", "--map=q=a/layer2/Q,k=a/layer2/K",
                              "dump.h5:/text")
        whole = self.compute("-q", "--only", *EACH, *MAP, "dump.h5")
        self.assert_same_bits({"col_potential": deeper["col_potential"]},
                              {"col_potential": whole["text/a/layer2/col_potential"]})

    def test_named_inputs_apply_to_every_group(self):
        mask = np.tri(1, 5, 2, dtype=np.uint8)
        with h5py.File(self.folder / "dump.h5", "a") as file:
            file["text/b/layer2/mask"] = np.ones((1, 5), np.uint8)  # -i takes precedence
        self.write("mask.h5", mask=mask)
        each = ["--each=text/b/*", *MAP, "-imask=mask.h5:/mask"]
        found = self.compute("-q", *each, "--scheme=dnas", "dump.h5")
        for group in self.groups[3:]:
            expected = self.compute("-q", "--only", *MAP, "-imask=mask.h5:/mask", "--scheme=dnas",
                                    f"dump.h5:/{group}")
            self.assert_same_bits({name: found[f"{group}/{name}"] for name in expected}, expected)
        # So that the next tool finds it; it is stored once.
        with h5py.File(io.BytesIO(self.run_tool("attn-compute", "-q", *each, "dump.h5").out)) as f:
            masks = [f[f"{group}/mask"] for group in self.groups[3:]]
            np.testing.assert_array_equal(masks[1][()], mask)
            self.assertTrue(masks[0] == masks[1] == masks[2])
            self.assertNotIn("mask", f)
            self.assertNotIn("mask", f["text/a/layer0"])
        only = self.compute("-q", "--only", *each, "--emit=out", "dump.h5")
        self.assertEqual(sorted(only), [f"{group}/out" for group in sorted(self.groups[3:])])

    def test_results_of_an_earlier_run_are_replaced(self):
        self.run_tool("attn-compute", *EACH, *MAP, "--emit=out,col_sum", "dump.h5", "-o", "once.h5")
        again = ["-q", *EACH, *MAP, "--scheme=dnas", "--emit=out"]
        twice = self.compute(*again, "once.h5")
        self.assertEqual(sorted(twice), sorted(self.compute(*again, "dump.h5")))
        self.assertEqual(twice.attributes_of["text/a/layer0"]["attn_scheme"], "dnas")
        self.assertEqual(twice.attributes["history"].count("attn-compute"), 2)
        self.run_tool("attn-compute", *again, "once.h5", "-o", "once.h5", "--force")
        self.assert_same_bits(self.read("once.h5"), twice)

    def test_json(self):
        done = self.run_tool("attn-compute", *EACH, *MAP, "--scheme=sinkhorn", "--tolerance=1e-3",
                             "--iterations=2", "dump.h5", "--json", "-o", "out.h5", status=1).json()
        self.assertEqual(done["status"], "not_converged")
        self.assertEqual(done["result"]["status"], "not_converged")
        groups = done["result"]["groups"]
        self.assertEqual([group["group"] for group in groups], self.groups)
        self.assertEqual([group["problems"] for group in groups], [2, 2, 2, 3, 3, 3])
        # One query: its plan is correct at once.
        self.assertEqual([group["status"] for group in groups],
                         3 * ["not_converged"] + 3 * ["converged"])
        self.assertEqual(len(done["inputs"]), 18)
        self.assertEqual(done["outputs"][-1]["address"], "out.h5:/text/b/layer10/col_potential")
        self.assertEqual(self.read("out.h5").attributes_of["text/a/layer2"]["attn_status"],
                         "not_converged")

    def test_dry_run(self):
        cost = self.run_tool("attn-compute", *EACH, *MAP, "--dry-run", "--json", "dump.h5").json()
        self.assertEqual([group["shape"] for group in cost["result"]["groups"]],
                         3 * [[2, 7, 7]] + 3 * [[3, 1, 5]])

    def test_warnings_are_said_once(self):
        done = self.run_tool("attn-compute", "--each=text/a/*", *MAP, "--scheme=dnas", "--causal",
                             "dump.h5", "-o", "out.h5")
        self.assertEqual(done.err.count("warning"), 1)
        self.assertIn("dnas, 6 heads in 3 groups\n", done.err)

    def test_what_the_root_has_alone(self):
        array = np.random.default_rng(1).normal(size=(1, 4, 2))
        groups = {f"layer{n}/{name}": array for n in range(2) for name in "qk"}
        self.write("root.h5", {"attn_causal": "top-left", "softcap": 5.0, "note": "x", "scale": 0.5}, mask=np.tri(4, dtype=bool),
                   tokens=np.arange(4), other=array, **groups)
        said = ["root.h5:/mask, root.h5:/tokens do not apply to the groups: use -i mask=root.h5:/mask -i tokens=root.h5:/tokens\n",
                "root.h5: attribute attn_causal does not apply to the groups: set it at each group, or give the option\n",
                "root.h5: attribute softcap does not apply to the groups: give the option\n"]
        for options in ([], ["--each=layer*"], ["--each=layer*", "--dry-run"]):
            err = self.run_tool("explain-away-stats", "--scheme=unas", *options, "root.h5").err
            self.assertEqual([err.count(line) for line in said], [1, 1, 1])
            self.assertEqual(err.count("warning"), 3)
        options = ["-imask=root.h5:/mask", "-itokens=root.h5:/tokens", "--causal=top-left", "--softcap=5"]
        self.assertNotIn("warning", self.run_tool("explain-away-stats", "--scheme=unas", *options, "root.h5").err)
        with h5py.File(self.folder / "root.h5", "a") as file:
            for group in ("layer0", "layer1"):
                file[group]["mask"] = file[group]["tokens"] = np.ones(4, np.uint8)
                file[group].attrs["attn_causal"] = "none"
            del file.attrs["softcap"]
        self.assertNotIn("warning", self.run_tool("explain-away-stats", "--scheme=unas", "root.h5").err)
        # What belongs to vectors of its own says nothing about groups that are chosen.
        with h5py.File(self.folder / "root.h5", "a") as file:
            file["q"] = file["k"] = array
            del file["layer1/mask"]
        self.assertNotIn("warning", self.run_tool("explain-away-stats", "--scheme=unas", "--each=layer*", "root.h5").err)

    def test_what_the_root_has_in_shards(self):
        array = np.random.default_rng(1).normal(size=(1, 4, 2))
        self.write("root.h5", mask=np.tri(4, dtype=bool), **{f"layer{n}/{name}": array for n in range(2) for name in "qkv"})
        said = "root.h5:/mask does not apply to the groups"
        for n in (1, 2):
            self.assertIn(said, self.run_tool("attn-compute", f"--shard={n}/2", "root.h5", "-o", "whole.h5").err)
        self.assertEqual(self.run_tool("tensor-join", *sorted(p.name for p in self.folder.glob("whole.*")), "-o", "whole.h5").err.count(said), 1)

    def test_groups_with_half_of_the_vectors(self):
        array = np.random.default_rng(1).normal(size=(1, 4, 2))
        groups = {f"layer{n}/{name}": array for n in range(4) for name in "qk"}
        del groups["layer1/k"]
        self.write("half.h5", **groups)
        self.assertIn("warning: half.h5: layer1 has q but no k: left out\n", self.run_tool("explain-away-stats", "half.h5").err)
        del groups["layer3/q"]
        self.write("more.h5", **groups)
        self.assertIn("layer1 has q but no k, and so on in 1 more group: left out\n",
                      self.run_tool("explain-away-stats", "more.h5").err)

    def test_same_bytes(self):
        epoch = {"SOURCE_DATE_EPOCH": "0"}
        runs = {self.run_tool("attn-compute", "-q", *EACH, *MAP, "dump.h5", *more,
                              environment=epoch).out
                for more in ([], ["--threads=1"], ["--threads=2", "--only"], ["--only"])}
        self.assertEqual(len(runs), 4)  # the command lines in the history
        runs = {self.run_tool("attn-compute", "-q", *EACH, *MAP, "dump.h5", environment=epoch).out
                for _ in range(3)}
        self.assertEqual(len(runs), 1)


class Refused(Dump):

    def test_usage(self):
        for option, says in (("--map=q", "'q'"), ("--map=q=Q,,", "''"), ("--map==Q", "'=Q'"),
                             ("--map=q=", "'q='"), ("--map=q=/Q", "'q=/Q'"),
                             ("--map=q=Q,q=K", "q twice"), ("--each=/", "'/' names no groups"),
                             ("--each=//", "'//' names no groups")):
            self.refused("attn-compute", option, "dump.h5", status=2, says=[says])
        self.refused("attn-compute", "--map=k=K", "-ik=dump.h5:/text/a/layer0/K", "dump.h5",
                     status=2, says=["both --map and -i define k,"])
        self.refused("attn-compute", "--each=text/*", "-iq=dump.h5:/text/a/layer0/Q", status=2,
                     says=["there is no INPUT"])

    def test_missing_groups_and_datasets(self):
        self.refused("attn-compute", "--each=/text/*/block*", "dump.h5", status=3,
                     says=["dump.h5: no group like /text/*/block* (there are: text, text/a, "
                           "text/a/layer0, text/a/layer2, text/a/layer10, text/b,"])
        self.refused("attn-compute", *EACH, "dump.h5", status=3,
                     says=["dump.h5:/text/a/layer0: no dataset q (there are: K, Q, V, note)"])
        self.refused("attn-compute", *EACH, *MAP[:1], "q=Q,k=K,mask=M", "dump.h5", status=3,
                     says=["dump.h5:/text/a/layer0: no dataset M (there are: K, Q, V, note)"])
        np.savez(self.folder / "arrays.npz", q=np.zeros((2, 2)))
        self.refused("attn-compute", "--each=*", "arrays.npz", status=3,
                     says=["arrays.npz: no group like * (there are none)"])
        self.refused("attn-compute", "--each", "dump.h5", status=2, says=["--each is dump.h5, a file"],
                     hint="--each '*' dump.h5")

    def test_names_of_other_programs(self):
        array = np.random.default_rng(1).normal(size=(3, 2)).astype(np.float32)
        for names in ("QKV", ("query", "key", "value"), ("q_proj", "k_proj", "v_proj"),
                      ("arr_0", "arr_1", "arr_2"), [f"blocks.0.attn.hook_{letter}" for letter in "qkv"],
                      [f"layer/{letter}_proj" for letter in "qkv"]):
            np.savez(self.folder / "other.npz", **dict.fromkeys(names, array))
            last = [re.split("[./]", name)[-1] for name in names]
            map_ = "--map=" + ",".join(map("=".join, zip("qkv", last)))
            for tool in ("attn-compute", "explain-away-stats"):
                self.refused(tool, "other.npz", status=3, says=["other.npz: no dataset q"],
                             hint=map_.replace("=", " ", 1))
                self.assertNotIn("warning", self.run_tool(tool, map_, "other.npz").err)
        # The same for other names than a map has.
        np.savez(self.folder / "other.npz", **dict.fromkeys(("query", "key", "value"), array))
        self.refused("attn-compute", "--map=q=Q,k=K,v=V", "other.npz", status=3, says=["other.npz: no dataset K"],
                     hint="--map q=query,k=key,v=value")
        # Gradients and weights are something else.
        np.savez(self.folder / "other.npz", **dict.fromkeys(("grad_q", "grad_k", "W_q", "W_k"), array))
        done = self.run_tool("attn-compute", "other.npz", status=3)
        self.assertNotIn("--map", done.err)
        np.savez(self.folder / "other.npz", attn=np.full((3, 3), 1 / 3))
        self.refused("explain-away-stats", "other.npz", output=None, status=3,
                     says=["other.npz: no dataset weights, nor q and k"], hint="--map weights=attn")
        self.run_tool("explain-away-stats", "other.npz", "--map", "weights=attn")
        # The same for a map the wrong way round, and for names in groups.
        np.savez(self.folder / "other.npz", **dict.fromkeys("QKV", array))
        self.refused("attn-compute", "--map=Q=q,K=k,V=v", "other.npz", status=3,
                     hint="--map q=Q,k=K,v=V")
        self.write("groups.h5", **{"a/Q": array, "a/K": array})
        self.refused("attn-compute", "groups.h5", status=3, hint="--map q=Q,k=K")
        self.refused("attn-compute", "-i", "q=other.npz:q", "-i", "k=other.npz:K", status=3,
                     says=["other.npz: no dataset q"], hint="did you mean Q?")
        # A link that leads nowhere hides neither.
        with h5py.File(self.folder / "groups.h5", "a") as file:
            file["lost"] = h5py.SoftLink("/nowhere")
        self.refused("attn-compute", "groups.h5", status=3, says=["groups.h5: no dataset q"])
        self.run_tool("explain-away-stats", "--map=q=Q,k=K", "groups.h5")
        with h5py.File(self.folder / "groups.h5", "a") as file:
            del file["lost"]
        # A file of groups alone needs no note.
        self.assertEqual(self.run_tool("explain-away-stats", "--map=q=Q,k=K", "groups.h5").err, "")

    def test_flat_files(self):
        """Dots and slashes in the names of .npz and .safetensors separate groups, as in HDF5, for every tool."""
        tensors = {f"blocks.{n}.attn.hook_{name}": np.random.default_rng(ord(name) + n).normal(size=(2, 5, 3))
                   for n in (0, 2, 10) for name in "qkv"} | {"ln_final.w": np.zeros(3)}
        np.savez(self.folder / "dots.npz", **tensors)
        np.savez(self.folder / "slashes.npz", **{name.replace(".", "/"): a for name, a in tensors.items()})
        (self.folder / "dots.safetensors").write_bytes(safetensors(tensors))
        for file in ("dots.npz", "dots.safetensors"):
            self.run_tool("tensor-convert", file, "-o", "groups.h5", "--force")
            self.assert_same_bits(self.read("groups.h5"), {name.replace(".", "/"): a for name, a in tensors.items()})
        mapped = ["--map", "q=hook_q,k=hook_k,v=hook_v"]
        groups = [f"blocks/{n}/attn" for n in (0, 2, 10)]
        expected = self.compute("--only", *mapped, "groups.h5")
        self.assertEqual(sorted({name.rpartition("/")[0] for name in expected}), sorted(groups))
        for file in ("dots.npz", "slashes.npz", "dots.safetensors", "groups.h5"):
            for each in (["--each", "blocks.*.attn"], ["--each", "/blocks/*/attn"], ["--each", "/blocks.*/*"], []):
                with self.subTest(file=file, each=each):
                    self.assert_same_bits(self.compute("--only", *each, *mapped, file), expected)
            for group in (":blocks.2.attn", ":/blocks/2/attn", ":blocks.2/attn"):
                found = self.compute("--only", *mapped, file + group)
                self.assert_same_bits(found, {name: expected["blocks/2/attn/" + name] for name in found})
            whole = "--map=" + ",".join(f"{x}=blocks.2.attn.hook_{x}" for x in "qkv")
            found = self.compute("--only", whole, file)
            self.assert_same_bits(found, {name: expected["blocks/2/attn/" + name] for name in found})
            found = self.compute("--only", *(f"-i{x}={file}:blocks.2.attn.hook_{x}" for x in "qkv"))
            self.assert_same_bits(found, {name: expected["blocks/2/attn/" + name] for name in found})
            rows = self.run_tool("explain-away-stats", "--each=blocks.*.attn", *mapped[:1], "q=hook_q,k=hook_k",
                                 "--scheme=unas", "--tsv", file).out.decode().splitlines()
            self.assertEqual([row.split("\t")[1] for row in rows[1:]], [group for group in groups for _ in "01"])
            self.refused("attn-compute", "--each=layers.*", *mapped, file, status=3,
                         says=[f"{file}: no group like layers.* (there are: blocks, blocks/0, blocks/0/attn, blocks/2"])
            # A missing layer is answered with the layers that there are.
            self.refused("explain-away-stats", f"{file}:blocks.7.attn", status=3,
                         says=[f"{file}:/blocks: no group 7 (there are: 0, 10, 2)"])
            self.refused("attn-compute", file, status=3, says=["no dataset q"], hint="--map q=hook_q,k=hook_k,v=hook_v")
            self.run_tool("attn-compute", *mapped, file, "-o", "all.npz", "--force")
            with np.load(self.folder / "all.npz") as found:
                self.assert_same_bits(found, expected | {name.replace(".", "/"): a for name, a in tensors.items()})
            self.run_tool("tensor-compare", "groups.h5", file)

        for part in ("1/2", "2/2"):
            self.run_tool("attn-compute", *mapped, "dots.npz", "--shard", part, "-o", "part.h5", "--force")
        self.run_tool("tensor-join", "part.0001-of-0002.h5", "part.0002-of-0002.h5", "--with", "dots.npz", "-o", "joined.h5")
        self.assert_same_bits(self.read("joined.h5"), self.compute(*mapped, "dots.npz"))

    def test_caches_of_other_programs(self):
        """nnsight's names are those of modules, so that an array may be called as a group is."""
        random = np.random.default_rng(3)
        modules = {f"model.model.layers.{n}.self_attn{part}": random.normal(size=(1, 5, 4, 3)) for n in range(2)
                   for part in ("", ".q_proj", ".k_proj", ".v_proj")} | {f"model.model.layers.{n}": np.zeros(2) for n in range(2)}
        np.savez(self.folder / "cache.npz", **modules)
        self.run_tool("tensor-convert", "cache.npz", "-o", "cache.h5")
        for file in ("cache.npz", "cache.h5"):
            options = ["--map", "q=q_proj,k=k_proj,v=v_proj", "--layout=blhd", "--only", "--emit=out"]
            found = self.compute(file, "--each=model.model.layers.*.self_attn", *options)
            for n in range(2):
                q, k, v = (modules[f"model.model.layers.{n}.self_attn.{x}_proj"].swapaxes(1, 2) for x in "qkv")
                weights = np.exp(q @ k.swapaxes(2, 3) / np.sqrt(3))
                out = (weights / weights.sum(-1, keepdims=True)) @ v
                self.assert_near("out", found[f"model/model/layers/{n}/self_attn/out"], out.swapaxes(1, 2), 1e-12)
                self.run_tool("tensor-convert", f"x={file}:model.model.layers.{n}", "-o", "x.npy", "--force")
                self.assertEqual(np.load(self.folder / "x.npy").tolist(), [0, 0])
        self.run_tool("tensor-compare", "cache.npz", "cache.h5")
        self.compute("cache.npz:model.model.layers.0.self_attn", *options)

    def test_names_that_are_no_paths(self):
        """They are read as they are: a dot separates groups only where HDF5 could have these."""
        names = ["q", "q.weight", "a..b", ".x", "y.", "..", "u.v", "u/v", "wört.ß", "n" * 3000 + ".m"]
        arrays = {name: np.full(2, n + 1.0) for n, name in enumerate(names)}
        np.savez(self.folder / "odd.npz", **arrays)
        self.run_tool("tensor-convert", "odd.npz", "-o", "odd.h5")
        paths = {name: name for name in names} | {name: name.replace(".", "/") for name in names[-2:]}
        self.assert_same_bits(self.read("odd.h5"), {paths[name]: a for name, a in arrays.items()})
        self.run_tool("tensor-convert", "odd.npz", "-o", "again.npz")
        with np.load(self.folder / "again.npz") as again:
            self.assertEqual(sorted(again.files), sorted(names))
        for name in (".", "a//b", "/a", "a/", "a/./b", "q/weight"):
            np.savez(self.folder / "no.npz", **{name: np.ones(2), "q": np.zeros(2)})
            self.assertEqual({one["path"] for one in self.run_tool("tensor-info", "--json", "no.npz").json()["result"]["datasets"]},
                             {name, "q"})
            self.refused("tensor-convert", "no.npz", status=3, says=[f"no.npz:{name} cannot be copied"])
            if name.endswith("/"):  # an address may end so, too
                continue
            self.run_tool("tensor-convert", f"x=no.npz:/{name}", "-o", "x.npy", "--force")
            self.assertEqual(np.load(self.folder / "x.npy").tolist(), [1, 1])
        np.savez(self.folder / "two.npz", **{"a.b": np.zeros(2), "c": np.zeros(2)})
        self.run_tool("tensor-convert", "two.npz", "a.b=odd.npz:q", "-o", "two.h5")  # takes the place of the other
        self.assert_same_bits(self.read("two.h5"), {"a.b": arrays["q"], "c": np.zeros(2)})
        self.assertNotIn("a/b", self.read("two.h5"))
        self.refused("tensor-convert", "x=two.npz:" + "b." * 5000, status=3, says=["two.npz", "no "])
        # A group of a flat file is but a part of names: it does not hide that a dataset is missing.
        np.savez(self.folder / "part.npz", q=np.ones((3, 2)), k=np.ones((3, 2)), **{"mask.old": np.zeros(3)})
        self.run_tool("attn-compute", "part.npz", "-o", "part.h5")

    def test_last_group_is_bad(self):
        with h5py.File(self.folder / "dump.h5", "a") as file:
            file["text/b/layer10/Q"][2, 0, 1] = np.nan
        self.refused("attn-compute", *EACH, *MAP, "dump.h5", status=3,
                     says=["dump.h5:/text/b/layer10/Q has nan at [2, 0, 1]"])
        with h5py.File(self.folder / "dump.h5", "a") as file:
            del file["text/b/layer10/Q"]
        for tool in ("attn-compute", "explain-away-stats"):
            self.refused(tool, *EACH, *MAP, "dump.h5", status=3,
                         says=["dump.h5:/text/b/layer10: no dataset Q (there are: K, V, note)"])

    def test_one_thing_on_standard_output(self):
        done = self.run_tool("explain-away-stats", "--tsv", "--json", "dump.h5:/text/a/layer0",
                             status=2)
        self.assertIn("--tsv and --json", done.json()["error"]["message"])
        self.refused("explain-away-stats", "--tsv", "dump.h5:/text/a/layer0", output="-", status=2,
                     says=["--tsv and the bundle"])


@unittest.skipUnless(MODEL.exists(), f"{MODEL} is not there")
class Decoder(ToolTest):
    """All texts, layers and heads of a trained decoder in one command."""

    def test_outputs_and_column_sums(self):
        found = self.compute("-q", "--only", *EACH, *MAP, "--causal", "--emit", "out,col_sum",
                             MODEL)
        with h5py.File(MODEL) as file:
            groups = [f"text/{text}/layer{n}" for text in file["text"]
                      for n in range(file.attrs["n_layers"])]
            self.assertEqual(len(found), 2 * len(groups))
            for group in groups:
                for name, source in (("out", "O"), ("col_sum", "colsum")):
                    expected = file[group][source][()]
                    # The stored values are accurate to 3e-6, relative to the largest entry.
                    self.assert_near(name, found[f"{group}/{name}"], expected,
                                     1e-5 * np.abs(expected).max())

    def test_statistics(self):
        result = self.stats(*EACH, *MAP, "--causal", "--scheme=unas", MODEL)
        with h5py.File(MODEL) as file:
            self.assertEqual(len(result["groups"]), 20)
            for group in result["groups"]:
                sums = file[group["group"]]["colsum"][()]
                limit = 1e-5 * sums.max()
                for head, expected in zip(group["unas"]["heads"], sums, strict=True):
                    for name, value in (("min", expected.min()), ("max", expected.max()),
                                        ("median", np.median(expected))):
                        self.assertLessEqual(abs(head["col_sum"][name] - value), limit)
                    self.assertTrue(math.isclose(head["col_sum"]["mean"], 1, rel_tol=1e-6))


if __name__ == "__main__":
    unittest.main()
