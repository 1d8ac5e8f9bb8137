"""Shards that somebody changed: tensor-join refuses them in one line, or joins them, and never crashes."""

import copy
import json
import unittest

import h5py
import numpy as np

from attn import sample
from shards import ShardTest

POINTS = "--counts 3,3 --centres 1;-1 --seeds 4 --steps 2"
RUNS = [
    ("explain-away-stats", "in.h5"),
    ("explain-away-stats", "in.h5 --each=layers/*"),
    ("lambda-solve", "in.h5 --average heads"),
    ("lambda-solve", "in.h5 --each=layers/*"),
    ("sinkhorn-iter bulk", "scores.h5 --emit plan,error"),
    ("mode-collapse-sim simulate", POINTS),
    ("mode-collapse-sim em", POINTS + " --start 1;-1"),
    ("attn-compute", "in.h5 --emit out,grad_k"),
]
DEEP = "[" * 100000 + "]" * 100000


def others(value):
    """Values in the place of one of JSON."""
    found = [None, True, -1, 2.5, 10**18, 1e300, "", "0:1000000000000000000", [], {}, [1, 2, 3], {"a": 1}, ["x"]]
    if isinstance(value, list) and value:
        found += [value + value[:1], value[:-1]]
    return found


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield from places(one, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def changed_texts(text):
    """Texts in which one value of the JSON `text` is another one, or missing."""
    whole = json.loads(text)
    for path in places(whole):
        for other in others(at(whole, path)):
            changed = copy.deepcopy(whole)
            if path:
                at(changed, path[:-1])[path[-1]] = other
            yield json.dumps(changed if path else other)
        if path:
            changed = copy.deepcopy(whole)
            del at(changed, path[:-1])[path[-1]]
            yield json.dumps(changed)
    yield from ("", "{", "NaN", "1e999", DEEP)


def changes_of(file):
    """Functions that change the marks in such a file, each with its name."""
    found = []

    def add(name, change):
        found.append((name, change))

    def visit(path, item):
        if not isinstance(item, h5py.Dataset):
            return
        place = f"attn_shard/{path}"
        add(f"without {path}", lambda file: file.__delitem__(place))

        def replace(value):
            def change(file):
                del file[place]
                file[place] = value
            return change

        for value in ([], 3.0, [7.0], [[1.0, 2.0]], ["a", "a"], ["x", "y", "z"], [np.nan] * 3,
                      np.zeros(item.shape, "i4") if item.shape else [1]):
            add(f"{path} = {value!r}"[:60], replace(value))
        if h5py.check_string_dtype(item.dtype) and item.shape == (1,):
            text = item.asstr()[0]
            if text.startswith("{"):
                for other in changed_texts(text):
                    add(f"{path} = {other[:3000]}", replace([other]))

    file["attn_shard"].visititems(visit)
    for group in ("attn_shard", *("attn_shard/" + name for name in ("report", "report/0"))):
        for name in file[group].attrs if group in file else ():
            add(f"without attribute {name}", lambda file, group=group, name=name: file[group].attrs.__delitem__(name))
            for value in ("x", "{}", -3, 0, 2.5, 1e18, np.nan, [1, 2]):
                add(f"attribute {name} = {value}",
                    lambda file, group=group, name=name, value=value: file[group].attrs.__setitem__(name, value))
            text = file[group].attrs[name]
            for other in changed_texts(text) if isinstance(text, str) and text.startswith("{") else ():
                add(f"attribute {name} = {other[:300]}",
                    lambda file, group=group, name=name, other=other[:30000]:
                        file[group].attrs.__setitem__(name, other))
    for name in [name for name in file if name != "attn_shard"]:
        add(f"without {name}", lambda file, name=name: file.__delitem__(name))

    def shorten(name):
        def change(file):
            values = file[name][()]
            del file[name]
            file[name] = values[:-1]
        return change

    for name in [name for name in file if isinstance(file[name], h5py.Dataset) and file[name].shape]:
        add(f"shorter {name}", shorten(name))
        add(f"text {name}", lambda file, name=name: (file.__delitem__(name), file.__setitem__(name, ["x"])))
        add(f"nan {name}", lambda file, name=name: file[name].__setitem__((), 0 * file[name][()] - 1))
    return found


class Damage(ShardTest):

    def test_refused_or_joined(self):
        draw = np.random.default_rng(2)
        groups = {f"layers__{n}__{name}": draw.normal(size=(2, 4 + n, 3)) for n in range(3) for name in "qkv"}
        self.write("in.h5", **{name: draw.normal(size=(2, 2, 6, 3)) for name in ("q", "k", "v", "grad_out")}, **groups,
                   tokens=np.array([f"w{n}" for n in range(6)], dtype="S"))
        self.write("scores.h5", scores=draw.normal(size=(5, 3, 4)))
        for tool, options in RUNS:
            files = self.shards(tool, *options.split(), "-q", count=2)
            self.run_tool("tensor-join", *files, "-q", "-o", "joined.h5")
            content = (self.folder / files[1]).read_bytes()
            with h5py.File(self.folder / files[1]) as file:
                changes = changes_of(file)
            self.assertGreater(len(changes), 300)
            refused, tried = 0, sample(changes, 12)
            for name, change in tried:
                with self.subTest(tool=tool, options=options, change=name):
                    (self.folder / files[1]).write_bytes(content)
                    with h5py.File(self.folder / files[1], "r+") as file:
                        change(file)
                    done = self.run_tool("tensor-join", *files, "-q", "-o", "joined.h5", "--force", status=None)
                    self.assertIn(done.status, (0, 1, 3), done.err)
                    if done.status == 3:
                        refused += 1
                        self.assertRegex(done.err, r"\Atensor-join: error: (.*\.h5|the shards ).*\n(tensor-join: hint: .+\n)?\Z")
            self.assertGreater(refused, len(tried) // 4)
            for file in files:
                (self.folder / file).unlink()
            (self.folder / "joined.h5").unlink()

    def test_twice(self):
        """A group, a problem or a result twice in one shard, and groups of other runs."""
        draw = np.random.default_rng(2)
        groups = {f"layers__{n}__{name}": draw.normal(size=(2, 4 + n, 3)) for n in range(3) for name in "qkv"}
        self.write("in.h5", **{name: draw.normal(size=(2, 2, 6, 3)) for name in "qkv"}, **groups)

        def check(files, change, *says):
            content = [(self.folder / file).read_bytes() for file in files]
            for path in files:
                with h5py.File(self.folder / path, "r+") as file:
                    change(file["attn_shard"])
            self.refused("tensor-join", *files, status=3, says=says, output="joined.h5")
            for path, before in zip(files, content):
                (self.folder / path).write_bytes(before)

        def put(name, values):
            def change(group):
                del group[name]
                group[name] = values
            return change

        files = self.shards("attn-compute", "in.h5", "--each=layers/*", "-q", count=2)
        check(files, put("groups", ["layers/0", "layers/1", "layers/1"]), "groups is damaged", "twice")
        check(files, put("own", ["layers/0", "layers/0"]), "own is damaged", "twice")
        check(files, put("own", ["layers/9"]), "own is damaged", "layers/9 is no group of the run")
        check(files, put("groups", ["attn_shard"]), "groups is damaged", "attn_shard is no group of results")
        for file in files:
            (self.folder / file).unlink()
        files = self.shards("attn-compute", "in.h5", "-q", count=2)

        def notes(change):
            def of(group):
                json_of = json.loads(group["divided"].asstr()[0])
                change(json_of)
                put("divided", [json.dumps(json_of)])(group)
            return of

        check(files, notes(lambda of: of["pieces"].append(of["pieces"][0])), 'name is "out", expected another name')
        check(files, notes(lambda of: of["pieces"][0].update(blocks="0:99")), "expected ranges of at most 4 numbers below 4")
        check(files, notes(lambda of: of.update(own=[1])), "own is [1], expected a text")
        check(files, lambda group: group.attrs.__setitem__("problems", -1), "attribute is -1, expected a whole number")


if __name__ == "__main__":
    unittest.main()
