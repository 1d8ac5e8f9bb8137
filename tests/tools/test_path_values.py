"""basis-paths: bases, their values, weights and paths made of them, and ranks, against NumPy."""

import unittest

import numpy as np

from formulas import LONG
from paths import SIZES, PathsTest, largest, weights


def cyclic(rows, columns):
    return np.arange(columns) % rows


def basis_of(rows, q, k):
    """(2 rows − 1, columns, 3)"""
    columns = len(q)
    basis = np.zeros((2 * rows - 1, columns, 3), int)
    for c in range(columns):
        others = [j for j in range(rows) if j != k[c]]
        basis[:, c, 0] = [*range(rows), *[q[c]] * (rows - 1)]
        basis[:, c, 1] = [*[k[c]] * rows, *others]
        basis[:, c, 2] = c
    return basis


class Values(PathsTest):

    def test_identify(self):
        random = np.random.default_rng(1)
        for rows, columns in SIZES:
            wq, wk = weights(random, 2, 3, rows, columns), weights(random, 2, 3, rows, columns)
            self.write("in.h5", wq=wq, wk=wk, other=np.arange(3))
            for rule in ("cyclic", "largest"):
                found = self.paths("identify", f"--skeleton={rule}", "in.h5").bundle()
                self.assertEqual(found["basis_path"].dtype, np.int32)
                self.assertEqual(found["basis_path"].shape, (2, 3, 2 * rows - 1, columns, 3))
                self.assertIn("other", found)
                for head in np.ndindex(2, 3):
                    if rule == "cyclic":
                        q = k = cyclic(rows, columns)
                    else:
                        q, k = largest(wq[head]), largest(wk[head])
                    np.testing.assert_array_equal(found["skeleton_q"][head], q)
                    np.testing.assert_array_equal(found["skeleton_k"][head], k)
                    np.testing.assert_array_equal(found["basis_path"][head], basis_of(rows, q, k))
            self.assertEqual(self.result("identify", "in.h5"),
                             {"shape": [2, 3, rows, columns], "skeleton": "cyclic",
                              "basis_paths": columns * (2 * rows - 1)})

    def test_values_and_back(self):
        random = np.random.default_rng(2)
        for dtype, unit in ((np.float32, 2.0 ** -24), (np.float64, 2.0 ** -53)):
            for rows, columns in SIZES:
                wq = weights(random, 2, rows, columns).astype(dtype)
                wk = weights(random, 2, rows, columns).astype(dtype)
                self.write("in.h5", wq=wq, wk=wk)
                values = self.paths("values", "--skeleton=largest", "in.h5", "--only")
                found = values.bundle()
                self.assertEqual(set(found), {"skeleton_q", "skeleton_k", "basis_value",
                                              "wk_skeleton"})
                again = self.paths("reconstruct", stdin=values.out).bundle()
                every = self.paths("reconstruct", "--paths=all", "--only", stdin=values.out).bundle()
                for head in range(2):
                    basis = basis_of(rows, largest(wq[head]), largest(wk[head]))
                    i, j, c = np.moveaxis(basis, -1, 0)
                    np.testing.assert_array_equal(found["basis_value"][head],
                                                  wq[head][i, c] * wk[head][j, c])
                    full = wq[head].astype(LONG)[:, None] * wk[head].astype(LONG)[None]
                    self.assert_near("path_value", every["path_value"][head], full,
                                     6.1 * unit * np.abs(full))
                for name, w in (("wq", wq), ("wk", wk)):
                    self.assertEqual(again[name].dtype, dtype)
                    self.assert_near(name, again[name], w, 4.1 * unit * np.abs(w))

    def test_paths_asked_for(self):
        random = np.random.default_rng(3)
        wq, wk = weights(random, 2, 4, 3), weights(random, 2, 4, 3)
        self.write("in.h5", wq=wq, wk=wk)
        values = self.paths("values", "in.h5").out
        asked = np.array([[0, 1, 2], [3, 3, 0], [2, 0, 1]])
        i, j, c = asked.T
        expected = wq[:, i, c] * wk[:, j, c]
        found = self.paths("reconstruct", "--paths=0,1,2;3,3,0;2,0,1", stdin=values).bundle()
        self.assert_near("path_value", found["path_value"], expected, 1e-15 * np.abs(expected))
        np.testing.assert_array_equal(found["wq"], wq)
        for stored in (asked, np.broadcast_to(asked, (2, 3, 3)), asked.astype(np.uint8)):
            self.write("p.h5", asked=stored)
            same = self.paths("reconstruct", "-", "-i", "path=p.h5:/asked", stdin=values).bundle()
            self.assert_same_bits(same, found, ["path_value"])
        for text in ("0,1", "0,1,x", "4,0,0", "0,0,3", "-1,0,0", ""):
            self.refused("basis-paths", "reconstruct", f"--paths={text}", stdin=values, status=2,
                         says=["--paths"])
        self.write("p.h5", asked=asked + 1)
        self.refused("basis-paths", "reconstruct", "-", "-i", "path=p.h5:/asked", stdin=values,
                     status=3, says=["p.h5:/asked has 3 at [0, 2], expected an index in [0, 3)"])

    def test_a_stored_skeleton_is_kept(self):
        random = np.random.default_rng(4)
        wq, wk = weights(random, 4, 3), weights(random, 4, 3)
        q, k = np.array([3, 0, 1]), np.array([2, 2, 0])
        self.write("in.h5", wq=wq, wk=wk, skeleton_q=q, skeleton_k=k)
        found = self.paths("identify", "in.h5").bundle()
        np.testing.assert_array_equal(found["basis_path"], basis_of(4, q, k))
        self.assertEqual(self.result("values", "in.h5")["skeleton"], "stored")
        np.testing.assert_array_equal(self.read("result.h5")["wk_skeleton"], wk[k, range(3)])
        # Datasets that belong to another skeleton are not kept beside it.
        anew = self.paths("identify", "--skeleton=cyclic", "result.h5").bundle()
        self.assertNotIn("basis_value", anew)
        self.write("bad.h5", wq=wq, wk=wk, skeleton_q=q + 1, skeleton_k=k)
        self.refused("basis-paths", "values", "bad.h5", status=3,
                     says=["bad.h5:/skeleton_q has 4 at [0], expected a row in [0, 4)"])
        self.write("moments.h5", wq=wq, wk=wk, si_adam_m=np.zeros((7, 3)))
        self.refused("basis-paths", "values", "moments.h5", status=3, says=["si_adam_m"])

    def test_across_heads(self):
        random = np.random.default_rng(21)
        for rows, columns in SIZES:
            wq, wk = weights(random, 2, 3, rows, columns), weights(random, 2, 3, rows, columns)
            self.write("in.h5", wq=wq, wk=wk)
            found = self.paths("identify", "--skeleton=cyclic", "--across-heads", "in.h5").bundle()
            narrow = self.paths("values", "--skeleton=cyclic", "--across-heads", "in.h5",
                                "--memory=1M").bundle()
            for layer, head in np.ndindex(2, 3):
                row = np.array([(head * columns + c) % rows for c in range(columns)])
                for name in ("skeleton_q", "skeleton_k"):
                    np.testing.assert_array_equal(found[name][layer, head], row)
                    np.testing.assert_array_equal(narrow[name][layer, head], row)
                np.testing.assert_array_equal(found["basis_path"][layer, head],
                                              basis_of(rows, row, row))
        self.assertEqual(self.result("identify", "--skeleton=cyclic", "--across-heads",
                                     "in.h5")["skeleton"], "cyclic across heads")
        self.check("in.h5", "--skeleton=cyclic", "--across-heads")
        for more in ([], ["--skeleton=largest"]):
            self.refused("basis-paths", "identify", "in.h5", "--across-heads", *more, status=2,
                         says=["--across-heads requires --skeleton cyclic"])
        self.write("one.h5", wq=np.ones((3, 2)), wk=np.ones((3, 2)))
        self.refused("basis-paths", "identify", "one.h5", "--across-heads", "--skeleton=cyclic",
                     status=3, says=["one.h5:/wq has shape (3, 2)", "expects heads, (..., H, d1, d2)"])

    def test_start(self):
        random = np.random.default_rng(22)
        for dtype in (np.float32, np.float64):
            for rows, columns in SIZES:
                wq = weights(random, 3, rows, columns).astype(dtype)
                wk = weights(random, 3, rows, columns).astype(dtype)
                wq[0, 0, 0] = 0  # a start needs no weight other than 0
                self.write("in.h5", wq=wq, wk=wk, grad_wq=wq, grad_wk=wk, other=np.arange(3))
                for rule, more in (("cyclic", []), ("cyclic", ["--across-heads"]), ("largest", [])):
                    found = self.paths("start", f"--skeleton={rule}", *more, "in.h5").bundle()
                    right = [wq.copy(), wk.copy()]
                    for head in range(3):
                        first = head * columns if more else 0
                        for w, old in zip(right, (wq, wk)):
                            row = (largest(old[head]) if rule == "largest"
                                   else (first + np.arange(columns)) % rows)
                            w[head][row, range(columns)] = 1
                    for name, w in zip(("wq", "wk"), right):
                        np.testing.assert_array_equal(found[name], w)
                        self.assertEqual(found[name].dtype, dtype)
                    self.assertIn("other", found)
                    self.assertNotIn("grad_wq", found)
        # The skeleton is kept, and published steps are right from here.
        again = self.paths("start", "-", stdin=self.paths("start", "--skeleton=largest", "in.h5").out)
        self.assert_same_bits(again.bundle(), found, ["wq", "wk", "skeleton_q", "skeleton_k"])
        self.write("bad.h5", wq=np.array([[np.nan]]), wk=np.ones((1, 1)))
        self.refused("basis-paths", "start", "bad.h5", status=3, says=["bad.h5:/wq"])
        self.refused("basis-paths", "start", "in.h5", "--map=wq=grad_wq,wk=wk", status=2,
                     says=["which start would not update"])

    def test_exponents(self):
        random = np.random.default_rng(23)
        rows, columns = 4, 3
        wq, wk = weights(random, 2, rows, columns), weights(random, 2, rows, columns)
        self.write("in.h5", wq=wq, wk=wk)
        every = np.stack(np.meshgrid(range(rows), range(rows), range(columns), indexing="ij"),
                         -1).reshape(-1, 3)
        text = ";".join(",".join(map(str, path)) for path in every)
        found = self.paths("identify", "--skeleton=largest", f"--paths={text}", "in.h5").bundle()
        self.assertEqual(found["path_basis"].shape, (2, len(every), 3))
        for head in range(2):
            basis, part = found["path_basis"][head], found["path_exponent"][head]
            # Structure vectors: of wq's rows, then of wk's.
            weight = np.eye(2 * rows, dtype=int)
            vector = lambda path: weight[path[0]] + weight[rows + path[1]]
            for path, row, exponent in zip(every, basis, part):
                self.assertIn(exponent.tolist(), [[1, 0, 0], [1, 1, -1]])
                self.assertTrue(((row >= 0) == (exponent != 0)).all())
                made = sum(e * vector(found["basis_path"][head][r, path[2]])
                           for r, e in zip(row, exponent) if e)
                np.testing.assert_array_equal(made, vector(path))
        self.write("p.h5", asked=every)
        stored = self.paths("identify", "--skeleton=largest", "in.h5", "-i", "path=p.h5:/asked").bundle()
        self.assert_same_bits(stored, found, ["path_basis", "path_exponent"])
        few = self.paths("identify", "--skeleton=largest", "in.h5", "-i", "path=p.h5:/asked",
                         "--memory=2K").bundle()
        self.assert_same_bits(few, found, ["path_basis", "path_exponent"])
        self.refused("basis-paths", "identify", "in.h5", "--paths=all", status=2, says=["a list"])
        self.refused("basis-paths", "identify", "in.h5", "--paths=0,4,0", status=2, says=["0,4,0"])
        self.refused("basis-paths", "values", "in.h5", "--paths=0,0,0", status=2, says=["--paths"])

    def test_rescale(self):
        random = np.random.default_rng(5)
        data = {name: random.normal(size=(2, 5, 3)) for name in ("wq", "wk", "grad_wq", "grad_wk")}
        data |= {"bq": random.normal(size=(2, 3)), "bk": random.normal(size=(2, 3)),
                 "adam_m": random.normal(size=(2, 10, 3)), "adam_v": random.uniform(size=(2, 10, 3))}
        x = random.normal(size=(7, 5))
        for scale in (np.array([2, -0.5, 4.0]), random.uniform(0.5, 3, (2, 3))):
            self.write("in.h5", x=x, scale=scale, **data)
            found = self.paths("rescale", "in.h5").bundle()
            f = np.broadcast_to(scale, (2, 3))[:, None]
            for name, expected in (("wq", data["wq"] * f), ("wk", data["wk"] / f),
                                   ("bq", data["bq"] * f[:, 0]), ("bk", data["bk"] / f[:, 0]),
                                   ("grad_wq", data["grad_wq"] / f),
                                   ("grad_wk", data["grad_wk"] * f)):
                np.testing.assert_array_equal(found[name], expected)
            for name, power in (("adam_m", 1), ("adam_v", 2)):
                expected = np.concatenate([data[name][:, :5] / f ** power,
                                           data[name][:, 5:] * f ** power], 1)
                self.assert_near(name, found[name], expected, 4e-16 * np.abs(expected))
            self.write("scaled.h5", x=x, **{name: found[name] for name in ("wq", "wk", "bq", "bk")})
            plain, scaled = (self.compute("--from=projection", "--emit=weights", "-q", name)["weights"]
                             for name in ("in.h5", "scaled.h5"))
            self.assert_near("weights", scaled, plain, 1e-13)
        for bad, says in ((np.array([1, 0, 1.0]), "has 0 at [1]"),
                          (np.array([1, np.nan, 1]), "has nan at [1]"),
                          (np.ones(4), "has shape (4)")):
            self.write("bad.h5", scale=bad, **data)
            self.refused("basis-paths", "rescale", "bad.h5", status=3, says=[says])
        self.write("large.h5", scale=np.full(3, 1e-200), wq=data["wq"],
                   wk=data["wk"] * 1e150)
        self.refused("basis-paths", "rescale", "large.h5", status=4, says=["wk would be beyond float64"])

    def test_check(self):
        random = np.random.default_rng(9)
        for rows, columns in SIZES:
            self.write("in.h5", wq=weights(random, 2, rows, columns),
                       wk=weights(random, 2, rows, columns), x=np.zeros((3, rows)))
            rank = columns * (2 * rows - 1)
            vectors = []
            for i, j, c in np.ndindex(rows, rows, columns):
                vector = np.zeros((2, rows, columns))
                vector[0, i, c] = vector[1, j, c] = 1
                vectors.append(vector.ravel())
            self.assertEqual(np.linalg.matrix_rank(np.array(vectors)), rank)
            for rule in ("cyclic", "largest"):
                found = self.check("in.h5", f"--skeleton={rule}")
                self.assertEqual(found["rank"], rank)
                self.assertEqual(found["weights"], 2 * rows * columns)
                self.assertEqual(found["paths"], rows ** 2 * columns)
                self.assertEqual(found["path_instances"], 9 * rows ** 2 * columns)
                self.assertEqual(found["basis"], {"paths": 2 * rank, "rank": 2 * rank,
                                                  "independent": True, "complete": True})
                self.assertEqual([head["index"] for head in found["heads"]], [[0], [1]])
        text = self.run_tool("basis-paths", "check", "--shape=4096x4096").out.decode()
        self.assertIn("33550336 = 33550336", text)
        found = self.check("--shape=1024x8", "--length=1073741824")
        self.assertEqual((found["paths"], found["path_instances"]), (2 ** 23, None))
        self.assertIsNone(self.check("--shape=2x1")["path_instances"])

    def test_check_of_a_chosen_set(self):
        random = np.random.default_rng(10)
        wq = weights(random, 2, 4, 3)
        basis = np.array([basis_of(4, *(np.array([0, 3, 1]),) * 2)] * 2)
        self.write("in.h5", wq=wq, wk=wq, basis_path=basis)
        self.assertTrue(self.check("in.h5")["basis"]["complete"])
        basis[1, 6, 2] = basis[1, 5, 2]
        self.write("in.h5", wq=wq, wk=wq, basis_path=basis)
        found = self.check("in.h5", status=1)
        self.assertEqual(found["basis"], {"paths": 42, "rank": 41, "independent": False,
                                          "complete": False})
        self.assertTrue(found["heads"][0]["independent"])
        self.assertFalse(found["heads"][1]["independent"])
        basis[0, 0, 0, 1] = 4
        self.write("in.h5", wq=wq, wk=wq, basis_path=basis)
        self.refused("basis-paths", "check", "in.h5", status=3, output=None,
                     says=["in.h5:/basis_path has 4 at [0, 0, 0, 1], expected an index in [0, 4)"])

    def test_check_of_any_paths(self):
        random = np.random.default_rng(14)
        wq = weights(random, 2, 4, 3)
        basis = basis_of(4, *(np.array([0, 3, 1]),) * 2).reshape(-1, 3)
        every = np.array(list(np.ndindex(4, 4, 3)))
        # A cycle: the last path is the product of two divided by the third.
        cycle = np.array([[0, 0, 1], [0, 2, 1], [3, 0, 1], [3, 2, 1]])
        for asked, rank in ((basis, 21), (basis[::-1], 21), (basis[1:], 20), (cycle, 3),
                            (cycle[:3], 3), (np.concatenate([basis[1:], basis[1:2]]), 20),
                            (every, 21), (every[random.permutation(48)[:15]], None)):
            vectors = np.zeros((len(asked), 2, 4, 3), int)
            i, j, c = asked.T
            vectors[range(len(asked)), 0, i, c] = vectors[range(len(asked)), 1, j, c] = 1
            by_svd = np.linalg.matrix_rank(vectors.reshape(len(asked), -1))
            self.assertIn(rank, (None, by_svd))
            # The requested list, not the basis in the bundle.
            self.write("in.h5", wq=wq, wk=wq, path=asked, basis_path=basis.reshape(7, 3, 3))
            expected = {"paths": len(asked), "rank": by_svd,
                        "independent": bool(by_svd == len(asked)), "complete": bool(by_svd == 21)}
            holds = expected["independent"] and expected["complete"]
            for memory in ("1G", 16 * 12 + 48):
                found = self.check("in.h5", f"--memory={memory}", status=0 if holds else 1)
                self.assertEqual(found["judged"], "path")
                self.assertEqual(found["heads"], [{"index": [n], **expected} for n in range(2)])
                self.assertEqual(found["basis"]["rank"], 2 * by_svd)
        self.refused("basis-paths", "check", "in.h5", f"--memory={16 * 12 + 47}", status=6,
                     output=None, says=["the forest of 24 weights"])
        self.assertEqual(self.check("in.h5", "--skeleton=cyclic")["judged"], "skeleton")
        self.write("in.h5", wq=wq, wk=wq, path=np.array([cycle, cycle - [0, 0, 2]]))
        self.refused("basis-paths", "check", "in.h5", status=3, output=None,
                     says=["in.h5:/path has -1 at [1, 0, 2], expected an index in [0, 3)"])
        self.write("in.h5", wq=wq, wk=wq, path=every[:, :2])
        self.refused("basis-paths", "check", "in.h5", status=3, output=None,
                     says=["in.h5:/path has shape (48, 2), expected (..., n, 3)"])

    def test_groups(self):
        random = np.random.default_rng(12)
        wq, wk = weights(random, 2, 3, 4), weights(random, 2, 3, 4)
        self.write("in.h5", layer0__Q=wq, layer0__K=wk, layer1__Q=wk, layer1__K=wq)
        each = ["--each=layer*", "--map=wq=Q,wk=K"]
        found = self.paths("values", *each, "in.h5").bundle()
        for layer, q, k in (("layer0", wq, wk), ("layer1", wk, wq)):
            self.write("one.h5", wq=q, wk=k)
            one = self.paths("values", "one.h5", "--only").bundle()
            for name in one:
                np.testing.assert_array_equal(found[f"{layer}/{name}"], one[name])
        groups = self.check(*each, "in.h5")["groups"]
        self.assertEqual([group["group"] for group in groups], ["layer0", "layer1"])
        self.assertTrue(all(group["basis"]["complete"] for group in groups))


if __name__ == "__main__":
    unittest.main()
