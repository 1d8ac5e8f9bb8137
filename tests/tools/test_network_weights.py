"""basis-paths --network relu: weights made of path values, rescaled nodes and steps, against NumPy in plain loops."""

import itertools
import unittest

import numpy as np

from attn import LONG, sample
from networks import (RELU, SIZES, basis, cyclic, gradients_of, hidden, largest, loss, matrices, network, nodes,
                      structure, value)
from paths import PathsTest


class Weights(PathsTest):

    def test_values_and_back(self):
        random = np.random.default_rng(12)
        for dtype, unit in ((np.float32, 2.0 ** -24), (np.float64, 2.0 ** -53)):
            for sizes in SIZES:
                stored = {name: w.astype(dtype) for name, w in network(random, sizes, 2).items()}
                self.write("in.h5", **stored)
                values = self.paths("values", RELU, "--skeleton=largest", "in.h5", "--only").out
                again = self.paths("reconstruct", RELU, stdin=values).bundle()
                self.assertIn("basis_value", again)
                for name, w in stored.items():
                    self.assertEqual(again[name].dtype, dtype)
                    self.assert_near(name, again[name], w, 2 * len(sizes) * unit * np.abs(w))

    def test_other_weights_into_nodes_give_a_rescaling(self):
        random = np.random.default_rng(13)
        for sizes in SIZES:
            stored = network(random, sizes)
            self.write("in.h5", **stored)
            self.paths("values", RELU, "--skeleton=largest", "in.h5", "-o", "v.h5", "--force")
            kept = self.read("v.h5")["skeleton_weight"]
            x = random.normal(size=(9, sizes[0]))
            want = nodes(matrices(stored), x)
            for sign in (1, -1):
                self.write("k.h5", k=sign * kept * random.uniform(0.25, 4, kept.shape))
                self.paths("reconstruct", RELU, "v.h5", "-i", "skeleton_weight=k.h5:/k", "-o", "r.h5",
                           "--force")
                made = matrices(self.read("r.h5"))
                found = nodes(made, x)
                if sign > 0:
                    self.assert_near("output", found[-1], want[-1], 1e-12)
                elif len(sizes) == 3 and sizes[1] > 1:
                    # The values of all paths are the same, but other nodes are active.
                    self.assertGreater(np.abs(found[-1] - want[-1]).max(), 1e-3)
                for path in itertools.product(*map(range, sizes)):
                    right = value(matrices(stored), path)
                    self.assertLess(abs(value(made, path) - right), 1e-13 * abs(right))

    def test_reconstruct_refuses(self):
        self.write("in.h5", **network(np.random.default_rng(14), (3, 4, 2), 2))
        values = self.paths("values", RELU, "in.h5", "--only").bundle()
        cases = {
            "v.h5:/basis_value has shape (2, 15), expected (..., 16): weights less hidden nodes": (
                3, {"basis_value": values["basis_value"][:, :15]}),
            "v.h5:/layer_sizes has shape (1, 3), expected one size for each layer": (
                3, {"layer_sizes": values["layer_sizes"][None]}),
            "v.h5:/layer_sizes has a layer of -1 nodes": (3, {"layer_sizes": np.array([3, -1, 2])}),
            "v.h5:/layer_sizes has more weights": (3, {"layer_sizes": np.array([2 ** 62, 2, 2])}),
            "v.h5:/skeleton_weight has shape (4), expected (2, 4)": (
                3, {"skeleton_weight": values["skeleton_weight"][0]}),
            "v.h5:/skeleton_weight has 0 at [1, 2], the skeleton's weight into node 2 of layer 1": (
                4, {"skeleton_weight": np.where(np.arange(8).reshape(2, 4) == 6, 0, 1.0)}),
            # Node 1 of layer 1 has its weight from node 1: path 4 * 1 + 1.
            "v.h5:/basis_value has 0 at [0, 5], the skeleton's path through node 1 of layer 1": (
                4, {"basis_value": np.where(np.arange(32).reshape(2, 16) == 5, 0, 1.0)}),
        }
        for says, (status, change) in cases.items():
            self.write("v.h5", **values | change)
            self.refused("basis-paths", "reconstruct", RELU, "v.h5", status=status, says=[says])
        self.write("v.h5", **{name: values[name] for name in values if name != "layer_sizes"})
        self.refused("basis-paths", "reconstruct", RELU, "v.h5", status=3, says=["layer_sizes"])
        self.refused("basis-paths", "reconstruct", RELU, "--paths=all", "v.h5", status=2,
                     says=["--paths is not for --network relu"])

    def test_rescale(self):
        random = np.random.default_rng(15)
        for sizes in SIZES:
            stored = network(random, sizes, 2)
            gradients = {f"grad_{name}": random.normal(size=w.shape) for name, w in stored.items()}
            scale = 2.0 ** random.integers(-6, 6, (2, sum(sizes[1:-1])))
            self.write("in.h5", **stored, **gradients, scale=scale)
            self.paths("values", RELU, "in.h5", "-o", "v.h5", "--force")
            found = self.paths("rescale", RELU, "v.h5").bundle()
            self.assertIn("basis_value", found)  # no scale changes it
            self.assertNotIn("skeleton_weight", found)
            for n in range(2):
                factor = [np.ones(sizes[0]), *np.split(scale[n], np.cumsum(sizes[1:-1]))[:len(sizes) - 2],
                          np.ones(sizes[-1])]
                for l, w in enumerate(matrices(stored, n)):
                    by = factor[l + 1] / factor[l][:, None]
                    np.testing.assert_array_equal(found[f"w{l + 1}"][n], w * by)
                    np.testing.assert_array_equal(found[f"grad_w{l + 1}"][n],
                                                  gradients[f"grad_w{l + 1}"][n] / by)
        for bad in (0, -1):
            self.write("in.h5", **network(random, (3, 2, 2)), scale=np.array([1.0, bad]))
            self.refused("basis-paths", "rescale", RELU, "in.h5", status=3,
                         says=[f"in.h5:/scale has {bad} at [1], expected factors above 0"])
        self.write("in.h5", w1=np.full((1, 1), 1e-30, np.float32), w2=np.ones((1, 1), np.float32),
                   scale=np.array([1e-10], np.float32))
        self.refused("basis-paths", "rescale", RELU, "in.h5", status=4, says=["w1 would be below float32"])


class Steps(PathsTest):

    def stepped(self, w, gradients, *more):
        self.write("step.h5", **{f"w{l + 1}": m for l, m in enumerate(w)},
                   **{f"grad_w{l + 1}": g for l, g in enumerate(gradients)})
        return self.paths("step", RELU, "step.h5", *more).bundle()

    def problem(self, random, sizes):
        """A network that is not dead, inputs and targets."""
        x, target = random.normal(size=(9, sizes[0])), random.normal(size=(9, sizes[-1]))
        while True:
            w = matrices(network(random, sizes))
            if all(np.abs(g).max() > 0 for g in gradients_of(w, x, target)):
                return w, x, target

    def values_and_gradients(self, sizes, w, x, target, rule="largest"):
        """Of the basis paths: the paths, their values v, and dL/dv by least squares in the structure vectors."""
        paths = basis(sizes, *(cyclic(sizes) if rule == "cyclic" else largest(sizes, w)))
        values = np.array([value(w, path) for path in paths], float)
        flow = np.concatenate([(a * b).ravel() for a, b in zip(w, gradients_of(w, x, target))])
        return paths, values, np.linalg.lstsq(structure(sizes, paths).T, flow, rcond=None)[0] / values

    def test_step_on_the_values(self):
        """Against v - rate dL/dv, with dL/dv by least squares in the structure vectors."""
        random = np.random.default_rng(31)
        for sizes in SIZES:
            for rule in ("cyclic", "largest"):
                w, x, target = self.problem(random, sizes)
                into, _ = cyclic(sizes) if rule == "cyclic" else largest(sizes, w)
                paths, before, of_values = self.values_and_gradients(sizes, w, x, target, rule)
                g = gradients_of(w, x, target)
                rate = 0.1 * np.min(np.abs(before)) / (1 + np.max(np.abs(of_values)))
                found = self.stepped(w, g, f"--skeleton={rule}", f"--rate={float(rate)!r}")
                self.assertEqual([name for name in found if name.startswith("grad")], [])
                after = np.array([value(matrices(found), path) for path in paths])
                want = before - rate * of_values
                self.assert_near("values", after, want, 1e-12 * (1 + np.abs(want)))
                # The weights into the hidden nodes in the skeleton stay.
                for l, b in hidden(sizes):
                    self.assertEqual(found[f"w{l}"][into[l, b], b], w[l - 1][into[l, b], b])

    def test_differences(self):
        """dL/dv by differences of the loss of networks that reconstruct makes of changed values."""
        random = np.random.default_rng(32)
        sizes = (2, 3, 3, 2)
        w, x, target = self.problem(random, sizes)
        rate, h = 1e-7, 1e-5
        found = self.stepped(w, gradients_of(w, x, target), "--skeleton=largest", f"--rate={rate}")
        self.write("in.h5", **{f"w{l + 1}": m for l, m in enumerate(w)},
                   skeleton_in=found["skeleton_in"], skeleton_out=found["skeleton_out"])
        start = self.paths("values", RELU, "in.h5", "--only").bundle()
        after = self.paths("values", RELU, stdin=self.paths(
            "step", RELU, "step.h5", "--skeleton=largest", f"--rate={rate}").out).bundle()
        gradient = (start["basis_value"] - after["basis_value"]) / rate
        count = len(gradient)
        changed = start["basis_value"] + h * np.concatenate([np.eye(count), -np.eye(count)])
        self.write("v.h5", layer_sizes=start["layer_sizes"], basis_value=changed,
                   skeleton_in=start["skeleton_in"], skeleton_out=start["skeleton_out"],
                   skeleton_weight=np.broadcast_to(start["skeleton_weight"],
                                                   (2 * count, *start["skeleton_weight"].shape)))
        made = self.paths("reconstruct", RELU, "v.h5").bundle()
        losses = np.array([loss(matrices(made, n), x, target) for n in range(2 * count)])
        differences = (losses[:count] - losses[count:]) / (2 * h)
        self.assertGreater(np.abs(differences).max(), 0.1)
        # The error of the step is 1e-16 over the rate, the error of differences h^2 and 1e-15 over h.
        self.assert_near("gradients", gradient, differences, 1e-6 * (1 + np.abs(differences)))

    def test_steps_from_rescaled_networks_follow_the_same_function(self):
        random = np.random.default_rng(33)
        sizes = (3, 5, 4, 2)
        w, x, target = self.problem(random, sizes)
        for powers in (True, False):
            factor = [2.0 ** random.integers(-4, 4, n) if powers else random.uniform(0.3, 3, n)
                      for n in sizes[1:-1]]
            scaled = [w[0] * factor[0], w[1] / factor[0][:, None] * factor[1], w[2] / factor[1][:, None]]
            runs, sgd = [w, scaled], [w, scaled]
            for _ in range(5):
                runs = [matrices(self.stepped(v, gradients_of(v, x, target), "--skeleton=largest",
                                              "--rate=0.0005")) for v in runs]
                sgd = [[m - 0.0005 * g for m, g in zip(v, gradients_of(v, x, target))] for v in sgd]
            want, found = [nodes(v, x)[-1] for v in runs]
            self.assertGreater(np.abs(want - nodes(w, x)[-1]).max(), 1e-3)
            self.assertGreater(np.abs(nodes(sgd[0], x)[-1] - nodes(sgd[1], x)[-1]).max(), 1e-3)
            self.assert_near("output", found, want, 1e-12 * (1 + np.abs(want)))

    def test_networks_are_independent(self):
        random = np.random.default_rng(34)
        sizes = (3, 4, 2)
        problems = [self.problem(random, sizes) for _ in range(3)]
        stacked = [np.stack(parts) for parts in zip(*[w for w, _, _ in problems])]
        gradients = [np.stack(parts) for parts in zip(*[gradients_of(*p) for p in problems])]
        more = ["--rate=1e-4", "--skeleton=largest"]
        found = self.stepped(stacked, gradients, *more)
        for threads in (1, 3):
            self.assert_same_bits(self.stepped(stacked, gradients, *more, f"--threads={threads}"), found)
        self.paths("step", RELU, "step.h5", *more, "-o", "s.h5", "--json=s.json")
        result = self.read_json("s.json")["result"]
        self.assertEqual(len(result["networks"]), 3)
        self.assertLessEqual(result["ratio"]["min"], result["networks"][1]["ratio"]["min"])
        self.assertLess(result["inconsistency"], 1e-13)
        for n, (w, x, target) in enumerate(problems):
            alone = self.stepped(w, gradients_of(w, x, target), *more)
            for name in ("w1", "w2", "skeleton_in", "skeleton_out"):
                np.testing.assert_array_equal(alone[name], found[name][n])
        # The skeleton is kept from step to step.
        again = self.stepped(matrices(found), gradients, "--rate=1e-9", "--skeleton=cyclic")
        self.assertFalse((again["skeleton_in"] == found["skeleton_in"]).all())
        self.write("kept.h5", **found, grad_w1=gradients[0], grad_w2=gradients[1])
        kept = self.paths("step", RELU, "kept.h5", "--rate=1e-9", "--skeleton=cyclic").bundle()
        self.assert_same_bits(kept, found, ["skeleton_in", "skeleton_out"])

    def test_results_of_old_weights_are_removed(self):
        random = np.random.default_rng(36)
        w, x, target = self.problem(random, (3, 4, 2))
        self.stepped(w, gradients_of(w, x, target), "--rate=1e-9")
        for verb, results in (("identify", {"basis_path"}), ("values", {"basis_value", "skeleton_weight"})):
            made = self.paths(verb, RELU, "step.h5").out
            found = self.paths("step", RELU, "--rate=1e-9", stdin=made).bundle()
            # The indices of the basis stay: the skeleton is the same.
            left = {"w1", "w2", "skeleton_in", "skeleton_out", "layer_sizes"} | (results & {"basis_path"})
            self.assertEqual(set(found), left)

    def test_adam_on_the_values(self):
        """Three steps; the state travels in the bundle."""
        random = np.random.default_rng(37)
        for sizes in SIZES:
            w, x, target = self.problem(random, sizes)
            paths, values, _ = self.values_and_gradients(sizes, w, x, target)
            into, out = largest(sizes, w)
            m, v = np.zeros(len(paths)), np.zeros(len(paths))
            bundle = {f"w{l}": matrix for l, matrix in enumerate(w, 1)}
            for step in (1, 2, 3):
                now = matrices(bundle)
                flow = np.concatenate([(a * b).ravel() for a, b in zip(now, gradients_of(now, x, target))])
                gradient = np.linalg.lstsq(structure(sizes, paths).T, flow, rcond=None)[0] / values
                m, v = 0.9 * m + 0.1 * gradient, 0.99 * v + 0.01 * gradient ** 2
                values = values - 0.001 * m / (1 - 0.9 ** step) / (np.sqrt(v / (1 - 0.99 ** step)) + 1e-4)
                self.write("step.h5", **bundle,
                           **{f"grad_w{l}": g for l, g in enumerate(gradients_of(now, x, target), 1)})
                bundle = self.paths("step", RELU, "step.h5", "--optimizer=si-adam", "--rate=0.001", "--beta2=0.99",
                                    "--epsilon=1e-4", *(["--skeleton=largest"] if step == 1 else [])).bundle()
                self.assertEqual(bundle["si_adam_step"], step)
                found = np.array([value(matrices(bundle), path) for path in paths], float)
                # The plain gradients are right to some 1e-14, beside an epsilon of 1e-4.
                self.assert_near("values", found, values, 1e-9 * (1 + np.abs(values)))
                self.assert_near("m", bundle["si_adam_m"], m, 1e-10 * (1 + np.abs(m)))
                self.assert_near("v", bundle["si_adam_v"], v, 1e-10 * (1 + v))
            for l, b in hidden(sizes):
                self.assertEqual(bundle["skeleton_in"][hidden(sizes).index((l, b))], into[l, b])
                self.assertEqual(bundle["skeleton_out"][hidden(sizes).index((l, b))], out[l, b])

    def test_plain_steps_on_the_weights(self):
        """sgd, and three steps of adam, whose state travels in the bundle, by weight."""
        random = np.random.default_rng(40)
        for sizes in SIZES:
            problems = [self.problem(random, sizes) for _ in range(2)]
            w = [np.stack(parts) for parts in zip(*[w for w, _, _ in problems])]

            def slopes(w):
                of_each = [gradients_of([one[n] for one in w], *problems[n][1:]) for n in range(2)]
                return [np.stack(parts) for parts in zip(*of_each)]
            g = slopes(w)
            found = self.stepped(w, g, "--optimizer=sgd", "--rate=0.01")
            self.assertEqual(set(found), {f"w{l + 1}" for l in range(len(w))})
            for l, (matrix, gradient) in enumerate(zip(w, g), 1):
                np.testing.assert_array_equal(found[f"w{l}"], matrix - 0.01 * gradient)
            bundle = {f"w{l}": matrix for l, matrix in enumerate(w, 1)}
            m = v = np.zeros((2, sum(matrix[0].size for matrix in w)))
            for step in (1, 2, 3):
                g = slopes(w)
                flat = np.concatenate([gradient.reshape(2, -1) for gradient in g], 1)
                m, v = 0.9 * m + 0.1 * flat, 0.99 * v + 0.01 * flat ** 2
                move = 0.01 * m / (1 - 0.9 ** step) / (np.sqrt(v / (1 - 0.99 ** step)) + 1e-4)
                moves = np.split(move, np.cumsum([matrix[0].size for matrix in w])[:-1], 1)
                w = [matrix - part.reshape(matrix.shape) for matrix, part in zip(w, moves)]
                self.write("step.h5", **bundle, **{f"grad_w{l}": gradient for l, gradient in enumerate(g, 1)})
                more = ["--optimizer=adam", "--rate=0.01", "--beta2=0.99", "--epsilon=1e-4"]
                bundle = self.paths("step", RELU, "step.h5", *more).bundle()
                self.assert_same_bits(self.paths("step", RELU, "step.h5", *more, "--threads=3").bundle(), bundle)
                self.assertEqual(bundle["adam_step"], step)
                self.assert_near("m", bundle["adam_m"], m, 1e-12 * (1 + np.abs(m)))
                self.assert_near("v", bundle["adam_v"], v, 1e-12 * (1 + v))
                for l, matrix in enumerate(w, 1):
                    self.assert_near("w", bundle[f"w{l}"], matrix, 1e-12 * (1 + np.abs(matrix)))
            # Rescaled networks have rescaled states: a further step of either is one of a network, rescaled.
            scale = 2.0 ** random.integers(-3, 3, (2, sum(sizes[1:-1])))
            self.write("scale.h5", **bundle, **{f"grad_w{l}": gradient for l, gradient in enumerate(g, 1)}, scale=scale)
            scaled = self.paths("rescale", RELU, "scale.h5").bundle()
            for name, power in (("adam_m", 1), ("adam_v", 2)):
                parts = np.split(bundle[name], np.cumsum([matrix[0].size for matrix in w])[:-1], 1)
                want = [part * (gradient / scaled_by).reshape(2, -1) ** power for part, gradient, scaled_by in
                        zip(parts, matrices(bundle), matrices(scaled))]
                self.assert_near(name, scaled[name], np.concatenate(want, 1), 1e-14 * np.abs(np.concatenate(want, 1)))

    def test_momentum_and_decay(self):
        """Steps of each rule in a plain loop; moments travel in the bundle."""
        random = np.random.default_rng(42)
        rate, decay, momentum = 0.002, 0.3, 0.8
        for sizes, rule in sample(itertools.product(SIZES, ("sgd", "adam", "si-sgd", "si-adam")), 8):
            w, x, target = self.problem(random, sizes)
            in_paths, adam = rule.startswith("si"), rule.endswith("adam")
            paths = basis(sizes, *largest(sizes, w))
            bundle = {f"w{l}": matrix for l, matrix in enumerate(w, 1)}
            options = [f"--optimizer={rule}", f"--rate={rate}", f"--weight-decay={decay}",
                       *(["--epsilon=1e-2"] if adam else [f"--momentum={momentum}"])]
            m = v = 0
            for step in range(1, 5 if LONG else 4):
                w = matrices(bundle)
                gradients = gradients_of(w, x, target)
                numbers = np.concatenate([matrix.ravel() for matrix in w])
                g = np.concatenate([gradient.ravel() for gradient in gradients])
                if in_paths:
                    flow = g * numbers
                    numbers = np.array([value(w, path) for path in paths], float)
                    g = np.linalg.lstsq(structure(sizes, paths).T, flow, rcond=None)[0] / numbers
                if adam:
                    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g ** 2
                    by = m / (1 - 0.9 ** step) / (np.sqrt(v / (1 - 0.999 ** step)) + 1e-2) + decay * numbers
                else:
                    m = momentum * m + g + decay * numbers
                    by = m
                numbers = numbers - rate * by
                self.write("step.h5", **bundle, **{f"grad_w{l}": gradient for l, gradient in enumerate(gradients, 1)})
                first = ["--skeleton=largest"] if in_paths and step == 1 else []
                bundle = self.paths("step", RELU, "step.h5", *options, *first).bundle()
                moved = matrices(bundle)
                found = ([value(moved, path) for path in paths] if in_paths else
                         np.concatenate([matrix.ravel() for matrix in moved]))
                self.assert_near(rule, np.array(found, float), numbers, 1e-9 * (1 + np.abs(numbers)))
                name = rule.replace("-", "_")
                self.assert_near("m", bundle[f"{name}_m"], m, 1e-9 * (1 + np.abs(m)))
                self.assertEqual(f"{name}_step" in bundle, adam)
                self.assertEqual(f"{name}_v" in bundle, adam)

    def test_momentum_of_rescaled_networks(self):
        """That of paths is the same, and that of weights changes as gradients do."""
        random = np.random.default_rng(43)
        w, x, target = self.problem(random, (3, 4, 5, 2))
        options = ["--rate=0.01", "--momentum=0.9", "--weight-decay=0.1"]
        state = self.stepped(w, gradients_of(w, x, target), "--optimizer=sgd", *options)
        scale = 2.0 ** random.integers(-3, 3, 9)
        self.write("scale.h5", **state, **{f"grad_w{l}": g for l, g in enumerate(gradients_of(w, x, target), 1)}, scale=scale)
        scaled = self.paths("rescale", RELU, "scale.h5").bundle()
        ratio = np.concatenate([(a / b).ravel() for a, b in zip(matrices(state), matrices(scaled))])
        np.testing.assert_array_equal(scaled["sgd_m"], state["sgd_m"] * ratio)
        self.assertGreater(len(set(ratio)), 1)
        plain, other = matrices(state), matrices(scaled)
        for step in range(3):
            first = ["--skeleton=cyclic"] if step == 0 else []
            found = []
            for one in (plain, other):
                more = {} if step == 0 else kept[len(found)]
                self.write("step.h5", **{f"w{l}": m for l, m in enumerate(one, 1)}, **more,
                           **{f"grad_w{l}": g for l, g in enumerate(gradients_of(one, x, target), 1)})
                found.append(self.paths("step", RELU, "step.h5", "--optimizer=si-sgd", *options, *first).bundle())
            kept = [{name: one[name] for name in ("si_sgd_m", "skeleton_in", "skeleton_out")} for one in found]
            plain, other = matrices(found[0]), matrices(found[1])
            np.testing.assert_array_equal(found[0]["si_sgd_m"], found[1]["si_sgd_m"])
            for a, b, before, after in zip(plain, other, matrices(state), matrices(scaled)):
                np.testing.assert_array_equal(a / b, before / after)
        self.write("bad.h5", **found[0])
        self.refused("basis-paths", "values", RELU, "--skeleton=largest", "bad.h5", status=3,
                     says=["has si_sgd_m, which belongs to a skeleton that would be replaced"])
        self.write("bad.h5", **found[0] | {"si_sgd_m": np.ones(3)},
                   **{f"grad_w{l}": g for l, g in enumerate(gradients_of(plain, x, target), 1)})
        self.refused("basis-paths", "step", RELU, "--optimizer=si-sgd", *options, "bad.h5", status=3,
                     says=["si_sgd_m has shape (3)"])

    def test_state_of_adam_that_does_not_fit(self):
        random = np.random.default_rng(41)
        w, x, target = self.problem(random, (3, 4, 2))
        gradients = {f"grad_w{l}": g for l, g in enumerate(gradients_of(w, x, target), 1)}
        state = self.stepped(w, list(gradients.values()), "--rate=1e-9", "--optimizer=adam")
        self.write("bad.h5", **state | gradients | {"adam_m": np.ones(16)})
        self.refused("basis-paths", "step", RELU, "--rate=1", "--optimizer=adam", "bad.h5", status=3,
                     says=["adam_m has shape (16), expected (20)"])
        self.write("bad.h5", **state | gradients | {"adam_v": -np.ones(20)})
        self.refused("basis-paths", "step", RELU, "--rate=1", "--optimizer=adam", "bad.h5", status=3, says=["adam_v has -1"])
        self.write("in.h5", **state, **gradients)
        dry = self.run_tool("basis-paths", "step", RELU, "--rate=1", "--optimizer=adam", "in.h5", "--dry-run", "--json").json()
        self.assertEqual(dry["result"]["result_bytes"], 3 * 20 * 8)

    def test_state_that_does_not_fit(self):
        random = np.random.default_rng(38)
        w, x, target = self.problem(random, (3, 4, 2))
        gradients = {f"grad_w{l}": g for l, g in enumerate(gradients_of(w, x, target), 1)}
        self.stepped(w, list(gradients.values()), "--rate=1e-9")
        state = self.paths("step", RELU, "step.h5", "--rate=1e-9", "--optimizer=si-adam").bundle()
        adam = ["step", RELU, "--rate=1e-9", "--optimizer=si-adam", "bad.h5"]
        cases = {
            "si_adam_m has shape (3), expected (16)": {"si_adam_m": np.ones(3)},
            "si_adam_v has -1": {"si_adam_v": np.where(np.arange(16) == 5, -1.0, 1.0)},
            "si_adam_step is 0, expected how many steps were made": {"si_adam_step": 0},
        }
        for says, change in cases.items():
            self.write("bad.h5", **state | gradients | change)
            self.refused("basis-paths", *adam, status=3, says=[says])
        self.write("bad.h5", **{name: state[name] for name in state if name != "si_adam_v"}, **gradients)
        self.refused("basis-paths", *adam, status=3, says=["si_adam_v"])
        self.write("bad.h5", **state)
        self.refused("basis-paths", "values", RELU, "--skeleton=largest", "bad.h5", status=3,
                     says=["has si_adam_m, which belongs to a skeleton that would be replaced"])
        self.write("bad.h5", **{name: state[name] for name in state if "skeleton" not in name}, **gradients)
        self.refused("basis-paths", *adam, status=3, says=["belongs to a skeleton that is missing"])

    def test_singular_nodes_are_skipped_or_clipped(self):
        random = np.random.default_rng(39)
        sizes, seen = (3, 4, 3, 2), 0
        for _ in range(3):
            w, x, target = self.problem(random, sizes)
            paths, before, gradient = self.values_and_gradients(sizes, w, x, target)
            rate = 30 / np.abs(gradient).max()
            free = before - rate * gradient
            into, out = largest(sizes, w)
            through = {(l, b): next(n for n, path in enumerate(paths)
                                    if path[l] == b and path[l - 1] == into[l, b] and path[l + 1] == out[l, b])
                       for l, b in hidden(sizes)}
            singular = [node for node, n in through.items() if free[n] / before[n] < 0.5]
            seen += len(singular)
            for choice in ("skip", "clip"):
                more = ["--skeleton=largest", f"--rate={float(rate)!r}", "--min-ratio=0.5", f"--on-singular={choice}"]
                self.stepped(w, gradients_of(w, x, target), *more)
                run = self.run_tool("basis-paths", "step", RELU, "step.h5", *more, "-o", "s.h5", "--force",
                                    "--json=s.json")
                want = free.copy()
                for node in singular:
                    want[through[node]] = before[through[node]] * (0.5 if choice == "clip" else 1)
                found = np.array([value(matrices(self.read("s.h5")), path) for path in paths], float)
                self.assert_near("values", found, want, 1e-11 * (1 + np.abs(want)))
                result = self.read_json("s.json")["result"]
                listed = result["networks"][0]["singular"]
                self.assertEqual([(node["layer"], node["node"]) for node in listed], singular)
                self.assertEqual(result["singular"], len(singular))
                fate = "clipped" if choice == "clip" else "left as before"
                if singular:
                    self.assertIn(f"(--min-ratio) or not finite: {len(singular)} {fate}\n", run.err)
                    self.assertIn(f"singular nodes: {len(singular)} {fate}", run.err)
        self.assertGreater(seen, 3)

    def test_step_refuses(self):
        random = np.random.default_rng(35)
        w, x, target = self.problem(random, (3, 4, 2))
        self.stepped(w, gradients_of(w, x, target), "--rate=1e-9")
        cases = [
            ([], 2, "step requires --rate ETA"),
            (["--rate=1", "--optimizer=si-sgd-printed"], 2, "--optimizer si-sgd-printed is not for --network relu"),
            (["--rate=1", "--optimizer=sgd", "--beta1=0.5"], 2, "--beta1 requires --optimizer adam or si-adam"),
            (["--rate=1", "--beta1=0.5"], 2, "--beta1 requires --optimizer adam or si-adam"),
            (["--rate=1", "--optimizer=adam", "--momentum=0.5"], 2, "--momentum requires --optimizer sgd or si-sgd"),
        ]
        for more, status, says in cases:
            self.refused("basis-paths", "step", RELU, *more, "step.h5", status=status, says=[says])
        # A step of that rate down or up carries a path of the skeleton through 0.
        self.write("up.h5", **{name: -m if name.startswith("grad") else m
                               for name, m in self.read("step.h5").items()})
        done = [self.run_tool("basis-paths", "step", RELU, "--rate=1e6", name, "-q", status=None)
                for name in ("step.h5", "up.h5")]
        self.assertIn(4, [run.status for run in done])
        said = next(run.err for run in done if run.status == 4)
        self.assertRegex(said, r"h5:/w1: node \d of layer 1 has ratio R = -.*; in \d of 4 hidden nodes R is below")
        self.assertIn("hint: a smaller --rate, --skeleton largest, or --on-singular skip or clip", said)
        self.refused("basis-paths", "step", RELU, "--rate=1", "step.h5", "--map=w1=w1,w2=v2", status=3,
                     says=["v2"])
        self.write("few.h5", w1=w[0], w2=w[1], grad_w1=w[0])
        self.refused("basis-paths", "step", RELU, "--rate=1", "few.h5", status=3, says=["grad_w2"])
        wrong = gradients_of(w, x, target)
        wrong[0][:, :] = 1
        self.write("wrong.h5", w1=w[0], w2=w[1], grad_w1=wrong[0], grad_w2=wrong[1])
        said = self.run_tool("basis-paths", "step", RELU, "--rate=1e-6", "--skeleton=largest", "wrong.h5",
                             "-o", "w.h5").err
        self.assertIn("the gradients are not those of a loss of the output", said)
        w[1][2, 0] = 0
        self.write("zero.h5", w1=w[0], w2=w[1], grad_w1=w[0], grad_w2=w[1])
        self.refused("basis-paths", "step", RELU, "--rate=1e-9", "zero.h5", status=4,
                     says=["zero.h5:/w2 has 0 at [2, 0], a weight of the skeleton"])


if __name__ == "__main__":
    unittest.main()
