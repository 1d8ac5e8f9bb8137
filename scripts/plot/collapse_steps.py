"""Clusters of points, step by step (DN Fig. 5, 6; EA Fig. 6, 8, 9).

    mode-collapse-sim simulate --counts 500,50 --centres "1.8,0.7;-1,-1" --variance 0.1 -o un.h5
    mode-collapse-sim simulate --counts 225,225 --centres "1.8,0.7;-1,-1" --variance 0.1 -o eq.h5
    attn-plot collapse-steps un.h5 eq.h5 -o collapse

Reads SCHEME/trajectory (..., T+1, N, d) and label (N) or (..., N) that mode-collapse-sim simulate
writes. Draws a row of panels for each bundle and scheme, and a column for each step, with the first
two coordinates of the points in their own units. Crosses are the clusters' means; the number in a
panel is the distance of the nearest two.
"""

from bundle import Bundle
from command import fail, integers
from libraries import np
from plotting import COLOURS, framed, new_figure, ordered, save
from words import plain

MANY = True

# Style of the n-th cluster: 30 distinct ones. Blue and orange, which come first, differ in
# lightness.
COLOURS = [COLOURS[place] for place in (0, 4, 2, 1, 3, 5)]
MARKERS = "o^sDv"
CENTRE = {"s": 50, "color": "black", "marker": "+", "linewidths": 0.7}
LEAST_PANEL = 0.75  # inches


def options(parser):
    parser.add_argument("--steps", type=integers, metavar="LIST",
                        help="steps to draw; default: the first six, or some of them where there "
                             "is no room")
    parser.add_argument("--set", type=integers, metavar="I[,I]",
                        help="set to draw, if there are several; default: the first")


def rows_of(bundle, index):
    """(name, trajectory (T+1, N, d), label (N)) of each scheme."""
    found = [name.split("/")[0] for name in bundle.names() if name.endswith("/trajectory")]
    if not found:
        fail(3, f"{bundle.name}: no dataset SCHEME/trajectory", "mode-collapse-sim simulate makes it")
    for scheme in ordered(found):
        points = bundle.part(f"{scheme}/trajectory", 3, index)
        label = bundle.part("label", 1, index if bundle.axes("label") > 1 else None)
        if points.shape[2] < 2 or label.shape != points.shape[1:2]:
            fail(3, f"{bundle.name}:/{scheme}/trajectory: is of shape {points.shape}, expected steps, "
                    f"{len(label)} points as in label, and 2 coordinates or more")
        if not np.isfinite(points).all():
            fail(3, f"{bundle.name}:/{scheme}/trajectory: expected finite numbers")
        counts = [np.count_nonzero(label == one) for one in np.unique(label)]
        points_of = (":".join(map(str, counts)) if len(counts) < 4 else
                     f"{len(label)} in {len(counts)}")
        yield f"{plain(scheme, 12)}\n{points_of} points\nx₂", points, label


def draw_panel(axis, points, label, frame):
    """One panel."""
    clusters = np.unique(label)
    centres = np.array([points[label == one].mean(axis=0) for one in clusters])
    for place, one in enumerate(clusters):
        members = points[label == one]
        axis.scatter(*members[:, :2].T, s=5, color=COLOURS[place % len(COLOURS)],
                     marker=MARKERS[place % len(MARKERS)], linewidths=0, alpha=0.6, rasterized=True,
                     zorder=2 - len(members) / len(points))
    axis.scatter(*centres[:, :2].T, **CENTRE, zorder=3)
    if len(clusters) > 1:
        apart = np.linalg.norm(centres[:, None] - centres, axis=-1)[np.triu_indices(len(clusters), 1)]
        axis.text(0.96, 0.04, f"{apart.min():#.3g}", transform=axis.transAxes, ha="right", fontsize=7)
    axis.set(xlim=frame[0], ylim=frame[1], aspect="equal")
    axis.label_outer()
    framed(axis)


def frame_of(points):
    """One frame for all panels, so that movements are visible, neither side much shorter than the
    other."""
    low, high = points.min(axis=0), points.max(axis=0)
    size = high - low
    size = np.maximum(size, max(size.max() / 3, 1e-6 * abs(points).max(), 1e-300)) * 1.1
    middle = low / 2 + high / 2
    return np.stack([middle - size / 2, middle + size / 2], axis=1)


def draw(arguments):
    bundles = [Bundle(address) for address in arguments.inputs]
    rows = [row for bundle in bundles for row in rows_of(bundle, arguments.set)]
    fewest = min(len(points) for _, points, _ in rows)
    room = arguments.width - 0.9
    # As many of the first six as are at least LEAST_PANEL wide, from the start to the last.
    count = max(2, min(fewest, 6, int(room / LEAST_PANEL)))
    steps = arguments.steps or tuple(dict.fromkeys(
        np.linspace(0, min(fewest, 6) - 1, count).round().astype(int).tolist()))
    if not all(0 <= step < fewest for step in steps):
        fail(2, f"--steps are from 0 to {fewest - 1}")
    frame = frame_of(np.concatenate([points[list(steps), :, :2].reshape(-1, 2)
                                     for _, points, _ in rows]).astype(float))
    height = room / len(steps) * np.divide(*np.ptp(frame, axis=1)[::-1])
    figure, axes = new_figure(arguments, len(rows) * (height + 0.04) + 0.6, len(rows), len(steps))
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0, hspace=0)
    for line, (text, points, label) in zip(axes, rows):
        line[0].set_ylabel(text, fontsize=7 if height > 0.7 else 6)
        for axis, step in zip(line, steps):
            draw_panel(axis, points[step], label, frame)
    for top, bottom, step in zip(axes[0], axes[-1], steps):
        top.set_title(f"step {step}" if step else "start")
        bottom.set_xlabel("x₁")
    several = any(len(np.unique(label)) > 1 for *_, label in rows)
    crosses = axes[0, 0].scatter([], [], **CENTRE, label="mean of a cluster" + (
        "; the number is the distance of the nearest two" if several else ""))
    save(figure, arguments, bundles, ([crosses], 1))
