"""Times Sinkhorn and the Fenchel dual, by this library and by others: parts of tests/bench/run.

As there: a process each, on the same inputs and threads, answers compared first, then in turn,
medians. Ratios are their time over ours.
"""

import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from contenders import Missing, in_turn, solvers

# Points per side; the two numbers of iterations whose times are subtracted, so that work done once
# (the kernel, the plan that POT returns) is not counted.
ITERATIONS = {512: (100, 2100), 1024: (50, 550), 2048: (20, 170), 4096: (10, 110), 8192: (5, 65)}
# For sinkhorn_log, which is compared with the library's figure.
LOG_ITERATIONS = {512: (2, 22), 1024: (2, 12), 2048: (2, 7), 4096: (2, 5)}
TO_TOLERANCE = [512, 1024, 2048]
# Points; reg and rho of unbalanced transport, reg of the divergence.
PENALISED, UNBALANCED, DIVERGENCE = 4096, [(0.1, 1), (0.05, 1), (0.05, 10)], [0.5]
BATCH = (16, 1024, 1)
# Problems and their size, 20 iterations each; whether with gradients of a number by the scores.
BULK = [((400000, 4, 1), False), ((20000, 16, 1), False), ((1000, 64, 1), False), ((400000, 4, 1), True)]
DUALS = [(128, 128, 64), (16, 512, 768)]  # queries, templates, their length
# Largest difference of potentials (of lambda), relative to the largest. The solvers stop at
# different points: an L1 error of 1e-9, a gradient of 1e-8; SciPy's is about 1e-7.
CLOSE = {"f64": 1e-9, "f32": 1e-4, "bulk": 1e-5, "tolerance": 1e-6, "penalised": 1e-4, "dual": 1e-7, "dual-scipy": 1e-5}


class Contest:
    """Contenders on one problem: `add` them, ours first, then call `times`."""

    def __init__(self, start, shape, answer, dtype=np.float64):
        self.start, self.shape, self.answer, self.dtype = start, shape, answer, dtype
        self.holder = tempfile.TemporaryDirectory()
        self.folder = Path(self.holder.name)
        self.workers, self.chosen, self.differences, self.ours = {}, {}, {}, None

    def write(self, name, values):
        np.ascontiguousarray(values).tofile(self.folder / name)

    def add(self, name, program, scheme, direction, close):
        worker = self.start[program]()
        self.chosen[name] = worker.set(scheme, direction, self.shape, self.folder)
        found = np.fromfile(self.folder / self.answer, self.dtype)
        self.ours = found if self.ours is None else self.ours
        difference = float(np.abs(found - self.ours).max() / np.abs(self.ours).max())
        if not difference <= close:
            sys.exit(f"run: {scheme} {direction} {self.shape}: the answers of {name} differ by {difference}")
        self.differences[name] = difference
        self.workers[name] = worker

    def times(self, runs):
        seconds = in_turn(self.workers, runs)
        self.close()
        return seconds

    def close(self):
        for worker in self.workers.values():
            worker.close()
        self.holder.cleanup()


def points(contest, length):
    random = np.random.default_rng(1)
    for name in "xy":
        contest.write(name, random.standard_normal((length, 2)))


def per_iteration(start, programs, scheme, kind, length, plan, runs):
    """Seconds per iteration of each program, from the medians of both numbers of iterations."""
    fewer, more = plan
    contests, workers = [], {}
    for count in (fewer, more):
        contest = Contest(start, (1, length, 1), "potentials")
        contests.append(contest)
        points(contest, length)
        for program in programs:
            its = scheme if program == "POT" else "sinkhorn"
            contest.add(program, program, its, f"{kind},reg=0.05,iterations={count}", CLOSE[kind])
            workers[program, count] = contest.workers[program]
    seconds = in_turn(workers, runs)
    for contest in contests:
        contest.close()
    medians = {key: statistics.median(found) for key, found in seconds.items()}
    return [(medians[program, more] - medians[program, fewer]) / (more - fewer) for program in programs]


def skipped(why):
    print(f"skipped: {why}\n")


def print_sinkhorn(conditions):
    start = solvers(conditions)
    figures = []

    def tell(kind, what, ours, theirs, **more):
        figures.append({"kind": kind, "what": what, "attnkit": ours, "theirs": theirs, "ratio": theirs / ours, **more})
        print(f"{what:54}{1e3 * ours:>12.3f}{1e3 * theirs:>12.3f}{theirs / ours:>9.2f}", flush=True)

    def compare(label, what, scheme, answer, direction):
        contest = Contest(start, (1, PENALISED, 1), answer)
        points(contest, PENALISED)
        for program in ("attnkit", "POT"):
            contest.add(program, program, scheme, direction, CLOSE["penalised"])
        medians = {name: statistics.median(t) for name, t in contest.times(conditions.runs).items()}
        tell("penalised", what, medians["attnkit"], medians["POT"], label=label, variant=contest.chosen)

    print("sinkhorn: ms, ours and theirs, and theirs over ours; squared distances of Gaussian points in the")
    print("plane over their maximum")
    try:
        library = {}
        for kind in ("f64", "f32"):
            for length, plan in ITERATIONS.items():
                ours, theirs = per_iteration(start, ["attnkit", "POT"], "sinkhorn", kind, length, plan,
                                             conditions.runs)
                library[kind, length] = ours
                tell("iteration", f"an iteration, {kind}, {length}: POT sinkhorn", ours, theirs,
                     numbers=kind, length=length)
        for length, plan in LOG_ITERATIONS.items():
            (theirs,) = per_iteration(start, ["POT"], "sinkhorn-log", "f64", length, plan,
                                       conditions.runs)
            tell("log", f"an iteration, f64, {length}: POT sinkhorn_log", library["f64", length], theirs)
        for length in TO_TOLERANCE:
            contest = Contest(start, (1, length, 1), "potentials")
            points(contest, length)
            direction = "f64,reg=0.005,tolerance=1e-9"
            contest.add("attnkit", "attnkit", "sinkhorn", direction, 0)
            contest.add("POT", "POT", "sinkhorn", direction, CLOSE["tolerance"])
            medians = {name: statistics.median(t) for name, t in contest.times(conditions.runs).items()}
            tell("tolerance", f"to an L1 error of 1e-9 at 0.005, {length}: POT", medians["attnkit"],
                 medians["POT"], variant=contest.chosen)
        for reg, rho in UNBALANCED:
            compare(f"ε {reg}, ρ {rho}", f"unbalanced to 1e-6 at {reg} and {rho}, {PENALISED}: POT", "sinkhorn",
                    "potentials", f"f64,reg={reg},rho={rho},tolerance=1e-6")
        for reg in DIVERGENCE:
            compare(f"divergence, ε {reg} undivided", f"divergence to 1e-9 at {reg}, {PENALISED}: POT",
                    "divergence", "value", f"f64,reg={reg},tolerance=1e-9")
    except Missing as why:
        skipped(why)
    try:
        heads, length, _ = BATCH
        contest = Contest(start, BATCH, "potentials")
        contest.write("scores", np.random.default_rng(2).standard_normal((heads, length, length), np.float32))
        contest.add("attnkit", "attnkit", "sinkhorn-batch", "f32,iterations=10", 0)
        for name, scheme in (("as written", "sinkhorn-batch-plain"), ("at its best", "sinkhorn-batch")):
            contest.add(name, "PyTorch", scheme, "f32,iterations=10", CLOSE["f32"])
        medians = {name: statistics.median(t) for name, t in contest.times(conditions.runs).items()}
        for name in ("as written", "at its best"):
            tell("batch", f"10 iterations, f32, {heads} x {length}^2: PyTorch {name}", medians["attnkit"],
                 medians[name], variant=contest.chosen)
    except Missing as why:
        skipped(why)
    print()
    return figures


def print_bulk(conditions):
    start = solvers(conditions)
    figures = []
    print("bulk: millions of small problems a second, float32, 20 iterations, and PyTorch's time over ours")
    for shape, gradients in BULK:
        count, size, _ = shape
        contest = Contest(start, shape, "gradient" if gradients else "plan", np.float32)
        for seed, name in ((4, "scores"), (5, "grad_plan")):
            contest.write(name, np.random.default_rng(seed).standard_normal((count, size, size), np.float32))
        direction = f"f32,iterations=20,gradient={int(gradients)}"
        contest.add("attnkit", "attnkit", "bulk", direction, 0)
        try:
            contest.add("PyTorch", "PyTorch", "bulk", direction, CLOSE["bulk"])
        except Missing as why:
            skipped(why)
        medians = {name: statistics.median(t) for name, t in contest.times(conditions.runs).items()}
        ours = medians["attnkit"]
        figures.append({"shape": shape, "gradients": gradients, "seconds": medians, "variant": contest.chosen,
                        "ratio": {name: t / ours for name, t in medians.items()}})
        ratio = f"{medians['PyTorch'] / ours:>9.1f} ({contest.chosen['PyTorch']})" if "PyTorch" in medians else ""
        what = " with gradients" if gradients else ""
        print(f"{count} of {size} x {size}{what}:{count / ours / 1e6:>9.3f}{ratio}", flush=True)
    print()
    return figures


def print_dual(conditions):
    """Templates and evidence as in attention: N(0, 1/d) and N(0, 1), so that logits have variance
    1."""
    start = solvers(conditions)
    figures = []
    print("dual: ms to a gradient norm of 1e-8, float64, and theirs over ours")
    for shape in DUALS:
        queries, count, depth = shape
        contest = Contest(start, shape, "lambda")
        random = np.random.default_rng(3)
        contest.write("templates", random.standard_normal((count, depth)) * depth**-0.5)
        contest.write("evidence", random.standard_normal((queries, depth)))
        contest.add("attnkit", "attnkit", "dual", "f64,tolerance=1e-8", 0)
        try:
            contest.add("Newton-CG", "NumPy", "dual-newton", "f64", CLOSE["dual"])
            contest.add("Nesterov", "NumPy", "dual-nesterov", "f64", CLOSE["dual"])
            contest.add("SciPy", "NumPy", "dual-scipy", "f64", CLOSE["dual-scipy"])
        except Missing as why:
            skipped(why)
        medians = {name: statistics.median(t) for name, t in contest.times(conditions.runs).items()}
        ours = medians["attnkit"]
        figures.append({"shape": shape, "seconds": medians, "variant": contest.chosen,
                        "max_relative_difference": contest.differences,
                        "ratio": {name: t / ours for name, t in medians.items()}})
        cells = "".join(f"{name:>12}{1e3 * t:>8.2f} ({t / ours:.2f})" for name, t in medians.items()
                        if name != "attnkit")
        print(f"{queries} queries, {count} templates of {depth}:{1e3 * ours:>8.2f}{cells}", flush=True)
    print()
    return figures
