"""tensor-gen scenes: what the bundle says of its scenes is what its views and answers are."""

import math
import unittest

import numpy as np

from attn import ToolTest

SIGMAS = 6  # standard errors of an estimator: one false alarm in 5e8
KINDS, COLOURS, SIZES = 10, 8, 4
CLUTTER, PADDING = -1, -2


class Scenes(ToolTest):

    def scenes(self, *arguments):
        return self.run_tool("tensor-gen", "scenes", "-q", *arguments).bundle()

    def test_shapes(self):
        bundle = self.scenes("--scenes=3")
        shapes = {name: values.shape for name, values in bundle.items()}
        self.assertEqual(shapes, {
            "views": (3, 3, 20, 64), "box_counts": (3, 3), "box_objects": (3, 3, 20),
            "question_kinds": (3,), "arguments": (3,), "answers": (3,),
            "object_attributes": (3, 12, 3), "object_places": (3, 12, 2), "maps": (3, 64, 24)})
        self.assertEqual(bundle["views"].dtype, np.float32)
        for name, want in (("kinds", KINDS), ("colours", COLOURS), ("objects", 12)):
            self.assertEqual(bundle.attributes[name], want)
        small = self.scenes("--scenes=2", "--objects=1", "--boxes=1", "--features=5", "--dtype=f64")
        self.assertEqual(small["views"].shape, (2, 3, 1, 5))
        self.assertEqual(small["views"].dtype, np.float64)
        self.assertEqual(self.scenes("--scenes=0")["views"].shape, (0, 3, 20, 64))

    def test_a_scene_depends_only_on_seed_and_number(self):
        whole = self.scenes("--scenes=700", "--seed=3")
        for arguments in (["--threads=1"], ["--threads=5"], ["--memory=300K"]):
            with self.subTest(arguments=arguments):
                self.assert_same_bits(self.scenes("--scenes=700", "--seed=3", *arguments), whole)
        for scenes in (1, 50):
            part = self.scenes(f"--scenes={scenes}", "--seed=3")
            for name, values in part.items():
                np.testing.assert_array_equal(values, whole[name][:len(values)])
        other = self.scenes("--scenes=700", "--seed=4")
        np.testing.assert_array_equal(other["maps"], whole["maps"])
        self.assertFalse((other["object_places"] == whole["object_places"]).any())
        mapped = self.scenes("--scenes=700", "--seed=3", "--map-seed=1")
        self.assertFalse((mapped["maps"] == whole["maps"]).any())
        for name in set(whole) - {"maps", "views"}:
            np.testing.assert_array_equal(mapped[name], whole[name])

    def test_answers(self):
        bundle = self.scenes("--scenes=4000")
        kinds, colours = bundle["object_attributes"][..., 0], bundle["object_attributes"][..., 1]
        asked, about, answers = bundle["question_kinds"], bundle["arguments"], bundle["answers"]
        self.assertLess(abs(asked.mean() - 0.5), SIGMAS * 0.5 / math.sqrt(len(asked)))
        for n, (question, argument) in enumerate(zip(asked, about)):
            if question == 1:
                self.assertEqual(answers[n], (colours[n] == argument).sum())
                continue
            of_kind = colours[n][kinds[n] == argument]
            self.assertEqual(len(of_kind), 1)
            self.assertEqual(answers[n], of_kind[0])
        self.is_uniform(about[asked == 0], KINDS)
        self.is_uniform(about[asked == 1], COLOURS)
        self.is_uniform(colours, COLOURS)
        self.is_uniform(bundle["object_attributes"][..., 2], SIZES)
        self.is_uniform(kinds[asked == 1], KINDS)
        places = bundle["object_places"]
        self.assertTrue((np.abs(places) <= 1).all())
        self.assertLess(abs(places.mean()), SIGMAS * math.sqrt(1 / 3 / places.size))

    def is_uniform(self, values, count):
        share = np.bincount(values.ravel(), minlength=count) / values.size
        self.assertEqual(len(share), count)
        deviation = math.sqrt((1 / count) * (1 - 1 / count) / values.size)
        self.assertLess(np.abs(share - 1 / count).max(), SIGMAS * deviation)

    def codes(self, bundle):
        attributes = bundle["object_attributes"]
        return np.concatenate([np.eye(KINDS)[attributes[..., 0]],
                               np.eye(COLOURS)[attributes[..., 1]],
                               np.eye(SIZES)[attributes[..., 2]],
                               bundle["object_places"].astype(float)], axis=-1)

    def test_boxes(self):
        scenes, objects, boxes, features = 2000, 12, 20, 64
        bundle = self.scenes(f"--scenes={scenes}", "--dtype=f64", "--seed=9")
        views, shown = bundle["views"], bundle["box_objects"]
        own = np.arange(boxes) < bundle["box_counts"][..., None]
        np.testing.assert_array_equal(shown != PADDING, own)
        self.assertTrue((views[~own] == 0).all())
        # An object is in a view at most once, and missing from it with probability 0.2.
        found = np.stack([(shown == n).sum(axis=-1) for n in range(objects)], axis=-1)
        self.assertEqual(found.max(), 1)
        self.assertLess(abs(found.mean() - 0.8), SIGMAS * 0.4 / math.sqrt(found.size))
        # Clutter is uniform on 0 ... the boxes that are left.
        left = boxes - found.sum(axis=-1)
        share = (shown == CLUTTER).sum(axis=-1) / left
        spread = np.sqrt(((left + 1)**2 - 1) / 12) / left
        self.assertLess(abs(share.mean() - 0.5),
                        SIGMAS * math.sqrt((spread**2).sum()) / share.size)
        # Boxes of objects stand anywhere among those that are there.
        position = np.where(shown >= 0, (np.arange(boxes) + 0.5) / bundle["box_counts"][..., None],
                            np.nan)
        self.assertLess(abs(np.nanmean(position) - 0.5),
                        SIGMAS * math.sqrt(1 / 12 / (shown >= 0).sum()))
        # What a box has beyond the map of its object is noise of deviation 0.3.
        codes = self.codes(bundle)
        for detector in range(3):
            scene, box = np.nonzero(shown[:, detector] >= 0)
            code = codes[scene, shown[scene, detector, box]]
            noise = views[scene, detector, box] - code @ bundle["maps"][detector].T
            self.assertLess(abs(noise.mean()), SIGMAS * 0.3 / math.sqrt(noise.size))
            self.assertLess(abs((noise**2).mean() / 0.09 - 1), SIGMAS * math.sqrt(2 / noise.size))
        # A_m keeps squares in the mean.
        maps = bundle["maps"]
        self.assertLess(abs((maps**2).mean() * features - 1), SIGMAS * math.sqrt(2 / maps.size))

    def test_clutter_has_the_mean_square_of_a_code(self):
        bundle = self.scenes("--scenes=2000", "--missing=1", "--noise=0", "--clutter=full",
                             "--dtype=f64")
        self.assertTrue((bundle["box_objects"] == CLUTTER).all())
        maps = bundle["maps"][0]
        code = bundle["views"][:, 0] @ np.linalg.pinv(maps).T
        want = (3 + 2 / 3) / 24
        self.assertLess(abs((code**2).mean() / want - 1), SIGMAS * math.sqrt(2 / code.size))
        self.assertLess(abs(code.mean()), SIGMAS * math.sqrt(want / code.size))

    def test_nothing_missing(self):
        bundle = self.scenes("--scenes=20", "--missing=0", "--boxes=12", "--noise=0",
                             "--dtype=f64")
        self.assertTrue((bundle["box_counts"] == 12).all())
        codes = self.codes(bundle)
        for detector in range(3):
            want = np.take_along_axis(codes @ bundle["maps"][detector].T,
                                      bundle["box_objects"][:, detector][..., None], axis=1)
            # Sums of 24 products of numbers of at most 1.
            np.testing.assert_allclose(bundle["views"][:, detector], want, rtol=0, atol=1e-14)

    def test_refusals(self):
        for arguments, status, says in (
                (["x=3"], 2, "takes no x=3"), (["--objects=21"], 2, "more than --boxes"),
                (["--missing=1.5"], 2, "--missing"), (["--noise=-1"], 2, "--noise"),
                (["--mean=1"], 2, "--mean"), (["--features=60000", "--memory=10M"], 6, "a scene")):
            with self.subTest(arguments=arguments):
                self.refused("tensor-gen", "scenes", *arguments, status=status,
                             says=[says])
        self.refused("tensor-gen", "normal", "x=3", "--boxes=4", status=2,
                     says=["--boxes"])

    def test_dry_run(self):
        said = self.run_tool("tensor-gen", "scenes", "--scenes=10", "--dry-run").out.decode()
        self.assertIn("views  10 x 3 x 20 x 64  float32", said)
        self.assertIn("maps  3 x 64 x 24  float32", said)


if __name__ == "__main__":
    unittest.main()
