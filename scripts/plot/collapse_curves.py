"""Distance of two groups of points after one step (DN Fig. 2, EA Fig. 7).

    mode-collapse-sim curve --r 1:1e6:121 --a 0.5,1,2 | attn-plot collapse-curves -o curves

Reads the datasets r (r), a (a), unas_distance and dnas_distance (a, r) that mode-collapse-sim curve
writes. Draws a panel for each a; the groups are 2a apart before the step.
"""

from bundle import Bundle
from command import fail
from libraries import np
from plotting import legend_of, looks_of, new_figure, save
from words import short

MANY = False
SCHEMES = ("unas", "dnas")


def options(_parser):
    """None of its own."""


def read(bundle):
    """r, a, and by scheme the distances (a, r)."""
    made_by = "mode-collapse-sim curve makes it"
    r, a = (bundle.array(name, 1, made_by) for name in ("r", "a"))
    distances = {scheme: bundle.array(f"{scheme}_distance", 2, made_by) for scheme in SCHEMES}
    for scheme, distance in distances.items():
        if distance.shape != (len(a), len(r)):
            fail(3, f"{bundle.name}:/{scheme}_distance: is of shape {distance.shape}, expected "
                    f"{(len(a), len(r))}")
        if not np.isfinite(distance).all():
            fail(3, f"{bundle.name}:/{scheme}_distance: expected finite numbers")
    return r, a, distances


def draw_panel(axis, r, a, curves):
    for scheme, (colour, dashes) in looks_of(SCHEMES).items():
        axis.plot(r, curves[scheme], color=colour, linestyle=dashes, label=scheme)
    peak = np.argmax(curves["dnas"] - curves["unas"])
    low, high = curves["unas"][peak], curves["dnas"][peak]
    axis.annotate("", (r[peak], low), (r[peak], high),
                  arrowprops={"arrowstyle": "<->", "linewidth": 0.7, "shrinkA": 0, "shrinkB": 0})
    where = (f"at r ≈ {short(r[peak], 2)}" if 0 < peak < len(r) - 1 else
             "at the end")
    axis.set(xscale="log", title=f"a = {short(a)}, {short(2 * a)} apart before\n"
             f"largest gap {short(high - low, 3)} {where}")
    axis.set_ylim(bottom=0)


def draw(arguments):
    bundle = Bundle(arguments.inputs)
    r, a, distances = read(bundle)
    columns = min(len(a), 3 if arguments.width >= 5 else 1)
    rows = -(-len(a) // columns)
    panel = 0.36 * arguments.width if columns > 1 else 0.5 * arguments.width + 0.2
    figure, axes = new_figure(arguments, panel * rows, rows, columns, sharex=True)
    for axis in axes.flat[len(a):]:
        axis.axis("off")
    for index, axis in zip(range(len(a)), axes.flat):
        draw_panel(axis, r, a[index], {scheme: values[index] for scheme, values in distances.items()})
        if index + columns >= len(a):  # there is no panel below
            axis.set_xlabel("r, points at a for each at −a")
            axis.tick_params(labelbottom=True)
        if index % columns == 0:
            axis.set_ylabel("distance of the two groups after a step")
    save(figure, arguments, [bundle], legend_of(axes[0, 0], 2))
