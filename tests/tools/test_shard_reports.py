"""What tensor-join makes of shards besides a copy: reports on all of them, and virtual datasets."""

import os
import shutil
import unittest

import h5py
import numpy as np

from attn import LONG
from shards import GROUPS, ShardTest


class Reports(ShardTest):
    """Reports of all shards are those of an undivided run, and so are their tables and their JSON."""

    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(8)
        sizes = {"q": (3, 4, 20, 8), "k": (3, 2, 30, 8), "v": (3, 2, 30, 5)}
        data = {name: draw.normal(size=size) for name, size in sizes.items()}
        # Keys of large norm under a causal mask: some are explained away, and some have few queries.
        data["k"][:, :, ::3] *= 9
        data["key_length"] = np.array([30, 7, 19])
        data["tokens"] = np.array([f"word{n}" for n in range(30)], dtype="S")
        self.write("in.h5", {"model": "m"}, **data)

    def check(self, tool, options, source, counts, status=0):
        arguments = [*options.split(), source]
        whole = self.run_tool(tool, *arguments, "--only", "--json=whole.json", "-o", "only.h5", "--force",
                              status=status)
        expected = self.read_json("whole.json")
        self.assertGreater(whole.out.count(b"\n"), 5)
        for count in counts:
            with self.subTest(tool=tool, options=options, source=source, count=count):
                before = set(os.listdir(self.folder))
                for number in range(1, count + 1):
                    self.run_tool(tool, *arguments, "-q", "--shard", f"{number}/{count}", "-o", "out.h5", status=None)
                files = sorted(set(os.listdir(self.folder)) - before)
                verbose = ["-v"] if "-v" in arguments else []
                done = self.run_tool("tensor-join", *files[::-1], *verbose, "--json=joined.json", "-o", "joined.h5", "--force",
                                     status=status)
                self.assertEqual(done.out, whole.out)
                found = self.read_json("joined.json")
                self.assertEqual(found["status"], expected["status"])
                report = found["result"]["report"]
                self.assertEqual(report["tool"], tool)
                self.assertEqual(report["result"], expected["result"])
                for name, value in report["params"].items():
                    self.assertEqual(value, expected["params"][name], name)
                self.assert_same("only.h5", "joined.h5")
                for file in files:
                    (self.folder / file).unlink()

    def test_explain_away_stats(self):
        counts = (1, 2, 3, 7, 64) if LONG else (3,)
        self.check("explain-away-stats", "", "in.h5", (1, 2, 3, 7, 64) if LONG else (1, 5))
        self.check("explain-away-stats", "--scheme unas,hnas --hybrid 0.2 --epsilon 0.1,0.5 --bins 7 --top 3", "in.h5",
                   counts)
        self.check("explain-away-stats", "", "dump.h5", counts)
        self.check("explain-away-stats", "-v --scheme dnas,unas --min-queries 3", "dump.h5", counts)

    def test_lambda_solve(self):
        counts = (1, 2, 3, 7, 64) if LONG else (3,)
        self.check("lambda-solve", "", "in.h5", counts)
        self.check("lambda-solve", "--average heads --emit h,relative_deviation", "in.h5", counts)
        self.check("lambda-solve", "--max-iterations 2", "in.h5", counts, status=1)
        self.check("lambda-solve", "--average heads", "dump.h5", counts)

    def test_tables(self):
        """--tsv, --csv, --sort and -o FILE.csv are those of the tool."""
        for tool, source in (("explain-away-stats", "in.h5"), ("explain-away-stats", "dump.h5"),
                             ("lambda-solve", "in.h5"), ("lambda-solve", "dump.h5")):
            files = self.shards(tool, source, "-q", count=3)
            sort = ["--sort", "-min_c" if tool == "explain-away-stats" else "deviation_q25", "--top", 4]
            # --top has another meaning for explain-away-stats, too.
            for options in (["--tsv"], ["--csv"], sort, [*sort, "--csv"]):
                with self.subTest(tool=tool, source=source, options=options):
                    if options == sort and tool == "explain-away-stats":
                        continue
                    whole = self.run_tool(tool, source, *options, "-o", "whole.h5", "--force")
                    done = self.run_tool("tensor-join", *files, *options, "-o", "joined.h5", "--force")
                    self.assertEqual(done.out, whole.out)
                    self.assertGreater(done.out.count(b"\n"), 4)
            self.run_tool(tool, source, "-q", "-o", "whole.csv", "--force")
            done = self.run_tool("tensor-join", *files, "-o", "joined.csv", "--force")
            self.assertIn("-> joined.csv", done.err)
            self.assertEqual((self.folder / "joined.csv").read_bytes(), (self.folder / "whole.csv").read_bytes())
            for file in files:
                (self.folder / file).unlink()

    def test_tables_refused(self):
        files = self.shards("lambda-solve", "in.h5", "-q", count=2)
        for options, says in ((["--with", "in.h5"], "--with has no effect on a table"),
                              (["--virtual"], "--virtual has no effect on a table"),
                              (["-i", "q=in.h5:/q"], "--input has no effect on a table")):
            self.refused("tensor-join", *files, *options, status=2, says=[says], output="t.csv")
        self.refused("tensor-join", *files, "--tsv", status=2, says=["--tsv and the bundle"], hint="-o FILE", output=None)
        self.refused("tensor-join", *files, "--top", 3, status=2, says=["--top has no effect without --sort"])
        files = self.shards("attn-compute", "in.h5", "-q", count=2, output="a.h5")
        self.refused("tensor-join", *files, status=2, says=["-o t.csv is for the table", "attn-compute"], output="t.csv")
        for more in ([], ["--dry-run"]):
            self.refused("tensor-join", *files, "--tsv", *more, status=2, says=["--tsv is for the table", "attn-compute"])
        # A shard of some heads has no rows of its own; one of groups has those of its groups.
        for tool in ("lambda-solve", "explain-away-stats"):
            for options in (["--tsv"], ["--csv"], ["--sort", "head"]):
                for more in ([], ["--dry-run"]):
                    self.refused(tool, "in.h5", "--shard", "1/2", *options, *more, status=2,
                                 says=[options[0], "--shard computes some"], hint="tensor-join")
        whole = self.run_tool("lambda-solve", "dump.h5", "--tsv", "-o", "whole.h5").out.splitlines()
        parts = [self.run_tool("lambda-solve", "dump.h5", "--tsv", "--shard", f"{n}/2", "-o", "p.h5").out.splitlines()
                 for n in (1, 2)]
        self.assertEqual(parts[0] + parts[1][1:], whole)

    def test_mode_collapse_sim(self):
        counts = (1, 2, 3, 7, 64) if LONG else (3,)
        drawn = "--counts 12,5 --centres 2,0;-2,0 --variance 0.3 --seeds 7 --steps 3"
        self.check_sets("simulate", f"{drawn} --scheme unas,dnas --merged 1.5", counts)
        self.check_sets("simulate", f"{drawn} --scheme unas,sinkhorn --iterations 2 --tolerance 1e-3", counts, status=1)
        self.check_sets("simulate", drawn.replace("12,5 --centres 2,0;-2,0", "9 --centres 1,2"), counts)
        self.check_sets("em", f"{drawn} --start 1,0;-1,0 --priors dnas", counts)
        self.check_sets("em", f"{drawn} --start 1,0;-1,0;50,50 --priors estimated --estimate-variance "
                              "--model-variance 2 --min-variance 1.9", (64 if LONG else 9,))
        self.check_sets("em", f"{drawn} --start 1,0;-1,0;50,50 --estimate-variance=each "
                              "--model-variance 2,2,3 --min-variance 1.9", counts)
        draw = np.random.default_rng(6)
        self.write("x.h5", {"model": "m"}, x=draw.normal(size=(2, 3, 9, 2)), label=draw.integers(0, 2, size=9))
        self.check_sets("simulate", "x.h5 --only", counts)

    def check_sets(self, verb, options, counts, status=0):
        arguments = [verb, *options.split()]
        whole = self.run_tool("mode-collapse-sim", *arguments, "--json=whole.json", "-o", "only.h5", "--force",
                              status=status)
        expected = self.read_json("whole.json")
        self.assertGreater(whole.out.count(b"\n"), 3)
        for count in counts:
            with self.subTest(options=options, count=count):
                for number in range(1, count + 1):
                    self.run_tool("mode-collapse-sim", *arguments, "-q", "--shard", f"{number}/{count}", "-o", "s.h5",
                                  status=None)
                files = [f"s.{number:04}-of-{count:04}.h5" for number in range(count, 0, -1)]
                done = self.run_tool("tensor-join", *files, "--json=joined.json", "-o", "joined.h5", "--force",
                                     status=status)
                self.assertEqual(done.out, whole.out)
                found = self.read_json("joined.json")
                self.assertEqual([found["status"], found["warnings"]], [expected["status"], expected["warnings"]])
                report = found["result"]["report"]
                self.assertEqual(report["result"], expected["result"])
                for name, value in report["params"].items():
                    self.assertEqual(value, expected["params"][name], name)
                summary = whole.err.splitlines()[-1].partition(" -> ")[0].partition(": ")[2]
                self.assertIn(summary + f", from {count} shard", done.err)
                self.assert_same("only.h5", "joined.h5")
                for file in files:
                    (self.folder / file).unlink()

    def test_not_converged(self):
        self.run_tool("attn-compute", "in.h5", "-q", "--scheme", "sinkhorn", "--iterations", 2, "--tolerance", "1e-9",
                      "-o", "stopped.h5", status=1)
        self.check("explain-away-stats", "--scheme sinkhorn,unas", "stopped.h5", (3,), status=1)

    def test_joined_results_had_not_converged(self):
        """tensor-join exits as the undivided run does, and says which shards stopped."""
        runs = [("attn-compute", "--scheme", "sinkhorn"), ("sinkhorn-iter",)]
        cases = [(run, source, more) for run in runs for source, more in (("in.h5", []), ("dump.h5", ["--each", "/text/*"]))]
        for (tool, *options), source, more in cases:
            arguments = [tool, source, *options, *more, "-q", "--iterations", 3, "--force"]
            for tolerance, status in ((1e-9, 1), (1 if tool == "attn-compute" else 1e6, 0)):
                with self.subTest(tool=tool, source=source, tolerance=tolerance):
                    own = [*arguments, "--tolerance", tolerance]
                    self.run_tool(*own, "-o", "whole.h5", status=status)
                    for number in (1, 2):
                        self.run_tool(*own, "--shard", f"{number}/2", "-o", "part.h5", status=None)
                    files = [f"part.000{number}-of-0002.h5" for number in (1, 2)]
                    done = self.run_tool("tensor-join", *files, "-o", "joined.h5", "--force", "--json=joined.json",
                                         status=status)
                    self.assertEqual(self.read_json("joined.json")["status"], "not_converged" if status else "ok")
                    self.assertEqual(", not converged in part." in done.err, status == 1)
                    self.assertIn("attn_status", h5py.File(self.folder / "joined.h5")[
                        "/" if source == "in.h5" else GROUPS[0]].attrs)

    def test_status_of_an_earlier_run(self):
        """Other tools copy attn_status, which says nothing of their own results."""
        self.run_tool("attn-compute", "dump.h5", "-q", "--scheme", "sinkhorn", "--iterations", 2, "--tolerance", "1e-9",
                      "-o", "stopped.h5", status=1)
        for arguments in (("stopped.h5", "--each", "/text/*"), ("stopped.h5:/text/layer1",)):
            with self.subTest(arguments=arguments):
                files = self.shards("structured-attention", *arguments, "-q", count=2)
                self.run_tool("tensor-join", *files, "-o", "joined.h5", "--force")
                for file in files:
                    (self.folder / file).unlink()

    def test_damaged_notes(self):
        files = self.shards("lambda-solve", "in.h5", "-q", count=2)

        def check(change):
            shutil.copy(self.folder / files[1], self.folder / "changed.h5")
            with h5py.File(self.folder / "changed.h5", "a") as file:
                change(file["attn_shard"])
            self.refused("tensor-join", files[0], "changed.h5", status=3, says=["changed.h5"], output="joined.h5")

        check(lambda group: group.__delitem__("report"))
        check(lambda group: group.__delitem__("report/0/figures"))
        check(lambda group: group["report/0/figures"].__setitem__(0, "{}"))
        check(lambda group: group["report/0/figures"].__setitem__(0, "{"))
        check(lambda group: group.__delitem__("warnings"))
        check(lambda group: group["warnings"].__setitem__(0, "[]"))

    def test_notes_without_sinks(self):
        """As they were written before --sinks."""
        files = self.shards("explain-away-stats", "in.h5", "-q", count=2)
        whole = self.run_tool("tensor-join", *files, "-o", "joined.h5").out
        for name in files:
            with h5py.File(self.folder / name, "a") as file:
                figures = file["attn_shard/report/0/figures"]
                text = figures.asstr()[0]
                self.assertIn(',"sinks":null', text)
                figures[0] = text.replace(',"sinks":null', "")
        self.assertEqual(self.run_tool("tensor-join", *files, "-o", "joined.h5", "--force").out, whole)

    def test_damaged_notes_of_sets(self):
        files = self.shards("mode-collapse-sim simulate", "--counts", "3,3", "--centres", "1;-1", "--seeds", 4, count=2)

        def check(change):
            shutil.copy(self.folder / files[1], self.folder / "changed.h5")
            with h5py.File(self.folder / "changed.h5", "a") as file:
                change(file["attn_shard/report/0"])
            self.refused("tensor-join", files[0], "changed.h5", status=3, says=["changed.h5"], output="joined.h5")

        def change_figures(group, old, new):
            figures = group["figures"].asstr()[0]
            self.assertIn(old, figures)
            group["figures"][0] = figures.replace(old, new)

        def shorten(group):
            change_figures(group, '"steps":4', '"steps":0')
            for name in [name for name in group if name.startswith(("unas_", "dnas_"))]:
                first = group[name][...].reshape(2, 5)[:, 0]
                del group[name]
                group[name] = first

        check(lambda group: group.__delitem__("unas_modes"))
        check(shorten)
        check(lambda group: change_figures(group, '"steps":4', '"steps":3'))
        check(lambda group: change_figures(group, '"status":', '"status":7'))
        check(lambda group: change_figures(group, '"verb":', '"word":'))


class Virtual(ShardTest):
    """Joined by reference: datasets whose elements stay in the shards."""

    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(9)
        sizes = {"q": (3, 4, 20, 8), "k": (3, 2, 30, 8), "v": (3, 2, 30, 5), "grad_out": (3, 4, 20, 5)}
        data = {name: draw.normal(size=size) for name, size in sizes.items()}
        self.write("in.h5", {"model": "m"}, **data)
        self.write("inside.h5", {"attn_layout": "blhd"}, **{name: data[name].swapaxes(1, 2) for name in "qkv"})

    def joined(self, tool, source, *options, count=3, output="joined.h5"):
        self.run_tool(tool, source, *options, "-q", "--only", "-o", "only.h5", "--force")
        (self.folder / "parts %b").mkdir(exist_ok=True)
        for number in range(1, count + 1):
            self.run_tool(tool, source, *options, "-q", "--shard", f"{number}/{count}", "--force",
                          "-o", "parts %b/%I of %N.h5")
        files = [f"parts %b/{number} of {count}.h5" for number in range(count, 0, -1)]
        self.run_tool("tensor-join", *files, "-q", "--virtual", "-o", output, "--force")
        return files[::-1]

    def test_same_bits_as_a_copy(self):
        cases = [("attn-compute", "in.h5", "--emit", "out,weights,row_potential,grad_k"),
                 ("attn-compute", "inside.h5", "--scheme", "dnas"), ("attn-compute", "dump.h5"),
                 ("sinkhorn-iter", "in.h5", "--tolerance", "1e-6", "--emit", "error,plan"),
                 ("explain-away-stats", "dump.h5")]
        for tool, source, *options in cases:
            for count in (1, 2, 3, 7, 64) if LONG else (5,):
                with self.subTest(tool=tool, source=source, count=count):
                    self.joined(tool, source, *options, count=count)
                    self.assert_same("only.h5", "joined.h5")
                    only, joined = self.read("only.h5"), self.read("joined.h5")
                    self.assertEqual(only.labels, joined.labels)
                    for name in only:  # as h5py reads them
                        np.testing.assert_array_equal(joined[name], only[name], err_msg=name)

    def test_holds_no_elements(self):
        self.joined("attn-compute", "in.h5", "--emit", "out")
        with h5py.File(self.folder / "joined.h5") as file:
            self.assertTrue(file["out"].is_virtual)
            self.assertEqual(len(file["out"].virtual_sources()), 3)  # the heads of a sequence each
            self.assertEqual({part.file_name for part in file["out"].virtual_sources()},
                             {f"parts %%b/{n} of 3.h5" for n in (1, 2, 3)})

    def test_groups_with_names_like_that_of_the_marks(self):
        names = ("attn_shards", "zz")
        draw = np.random.default_rng(5)
        self.write("groups.h5", **{f"{group}__{name}": draw.normal(size=(2, 5, 4)) for group in names for name in "qkv"})
        self.joined("attn-compute", "groups.h5", "--each", "*", count=2)
        with h5py.File(self.folder / "joined.h5") as file:
            for group in names:
                self.assertTrue(file[group]["out"].is_virtual, group)
        self.assert_same("only.h5", "joined.h5")

    def test_moves_with_its_shards(self):
        self.joined("attn-compute", "in.h5")
        moved = self.folder / "moved"
        moved.mkdir()
        for name in ("joined.h5", "parts %b"):
            shutil.move(self.folder / name, moved / name)
        self.assert_same("only.h5", "moved/joined.h5")
        # A copy that holds the elements.
        self.run_tool("tensor-convert", "moved/joined.h5", "-o", "copy.h5", "-q")
        shutil.rmtree(moved)
        self.assert_same("only.h5", "copy.h5")

    def test_a_hole_is_never_zeros(self):
        files = self.joined("attn-compute", "in.h5", "--emit", "out")
        shutil.move(self.folder / files[1], self.folder / "gone.h5")
        self.refused("tensor-compare", "joined.h5", "joined.h5", status=3, says=["joined.h5:/out", "2 of 3.h5"],
                     output=None)
        with h5py.File(self.folder / "joined.h5") as file, h5py.File(self.folder / "only.h5") as whole:
            found, expected = file["out"][()], whole["out"][()]
        missing = np.isnan(found)
        self.assertEqual(missing.sum(), found.size // 3)
        np.testing.assert_array_equal(found[~missing], expected[~missing])

    def test_refused(self):
        files = self.joined("attn-compute", "in.h5", "--emit", "out")
        for output in ("joined.npz", "-"):
            self.refused("tensor-join", *files, "--virtual", status=2, says=["--virtual", output], hint="-o FILE.h5",
                         output=output)
        for n in (1, 2):
            self.run_tool("attn-compute", "in.h5", "-q", "--shard", f"{n}/2", "-o", "part%I-%N.npz")
        self.refused("tensor-join", "part1-2.npz", "part2-2.npz", "--virtual", status=2,
                     says=["--virtual refers to HDF5 files, but part1-2.npz is none"], output="j.h5")
        self.run_tool("tensor-join", "part1-2.npz", "part2-2.npz", "-q", "-o", "j.h5")
        self.refused("tensor-join", files[0], files[2], "--virtual", status=3, says=["shard 2 of 3 is missing"],
                     output="j2.h5")

    def test_never_replaces_a_shard(self):
        """A file that replaced a shard would refer to itself."""
        files = self.shards("attn-compute", "in.h5", "-q", count=2)
        (self.folder / "folder").mkdir()
        os.symlink(self.folder / files[0], self.folder / "folder/link.h5")
        os.link(self.folder / files[1], self.folder / "second.h5")
        before = [(self.folder / file).read_bytes() for file in files]
        for output, shard in ((files[0], 0), (f"folder/../{files[0]}", 0), (self.folder / files[1], 1),
                              ("folder/link.h5", 0), ("second.h5", 1)):
            for more in ([], ["--dry-run"]):
                with self.subTest(output=output, more=more):
                    self.refused("tensor-join", *files, "--virtual", "--force", *more, status=2,
                                 says=[files[shard], f"--output {output} is the same file"], output=output)
        self.assertEqual([(self.folder / file).read_bytes() for file in files], before)

    def test_no_folder_for_the_output(self):
        files = self.shards("attn-compute", "in.h5", "-q", count=1)
        self.refused("tensor-join", *files, "--virtual", status=5, says=["none/joined.h5"], output="none/joined.h5")

    def test_output_is_a_link(self):
        """Names are relative to the folder of the file that a link leads to."""
        files = self.shards("attn-compute", "in.h5", "-q", count=2)
        self.run_tool("attn-compute", "in.h5", "-q", "--only", "-o", "only.h5")
        (self.folder / "folder").mkdir()
        (self.folder / "folder/joined.h5").touch()
        os.symlink("folder/joined.h5", self.folder / "link.h5")
        self.run_tool("tensor-join", *files, "--virtual", "--force", "-o", "link.h5")
        self.run_tool("tensor-compare", "--allow-external", "folder/joined.h5", "only.h5")

    def test_shards_outside_the_folder(self):
        files = self.shards("attn-compute", "in.h5", "-q", count=2)
        (self.folder / "folder").mkdir()
        done = self.run_tool("tensor-join", *files, "--virtual", "-o", "folder/joined.h5")
        self.assertRegex(done.err, r"tensor-join: note: folder/joined\.h5 .* outside its folder.* --allow-external\n")
        self.refused("tensor-compare", "folder/joined.h5", "folder/joined.h5", status=3, says=["lies outside"],
                     output=None)
        self.run_tool("tensor-info", "--allow-external", "folder/joined.h5")
        (self.folder / "above").mkdir()
        for file in files:
            shutil.move(self.folder / file, self.folder / "above" / file)
        done = self.run_tool("tensor-join", *(f"above/{file}" for file in files), "--virtual", "-o", "joined.h5")
        self.assertNotIn("note", done.err)
        self.run_tool("tensor-info", "joined.h5")


if __name__ == "__main__":
    unittest.main()
