"""Error of Sinkhorn's iterations, for several epsilons.

    for e in 0.1 0.01; do sinkhorn-iter --epsilon $e cost.h5 -o e$e.h5; done
    attn-plot sinkhorn-error e0.1.h5 e0.01.h5 -o error

Reads the dataset error (..., T) of sinkhorn-iter and draws a line for each bundle, with the worst of
its problems at each iteration. The line's label is --label, else the bundle's epsilon.
"""

from bundle import Bundle
from command import fail
from libraries import np
from plotting import legend_of, look, new_figure, save
from words import file_labels, plain, short

MANY = True


def options(parser):
    parser.add_argument("--label", action="append", default=[], metavar="TEXT",
                        help="label of the next bundle; give one for each")
    parser.add_argument("--linear", action="store_true",
                        help="linear axis of iterations, on which geometric rates are straight lines")


def errors_of(bundle):
    """The largest error over the problems that are still iterated, by iteration."""
    errors = bundle.whole("error", 1, "sinkhorn-iter makes it")
    errors = errors.reshape(-1, errors.shape[-1])
    inner = np.isnan(errors[:, :-1]) & ~np.isnan(errors[:, 1:])
    if np.isinf(errors).any() or (errors < 0).any() or np.isnan(errors[:, 0]).any() or inner.any():
        fail(3, f"{bundle.name}:/error: expected numbers of 0 and more, nan after the last")
    worst = np.fmax.reduce(errors)
    return worst[:np.count_nonzero(~np.isnan(worst))]


def draw(arguments):
    bundles = [Bundle(address) for address in arguments.inputs]
    if arguments.label and len(arguments.label) != len(bundles):
        fail(2, f"{len(arguments.label)} --label for {len(bundles)} bundles")
    names = file_labels([bundle.name for bundle in bundles], 40)
    figure, axes = new_figure(arguments, max(0.45 * arguments.width, 2.2))
    axis = axes[0, 0]
    for place, bundle in enumerate(bundles):
        errors = errors_of(bundle)
        epsilon = bundle.attribute("attn_epsilon")
        label = (plain(arguments.label[place], 60) if arguments.label else
                 names[place] if epsilon is None else f"ε = {short(epsilon)}")
        label += f", {len(errors)} iteration{'s' if len(errors) > 1 else ''}"
        status = bundle.attribute("attn_status")
        if status not in (None, "converged"):
            label += f" ({plain(status)})"
        positive = np.count_nonzero(np.logical_and.accumulate(errors > 0))
        if positive < len(errors):  # cannot be shown on a logarithmic axis
            label += f", 0 from iteration {positive + 1} on" if not errors[positive:].any() else ""
        colour, dashes = look(place)
        axis.plot(np.arange(1, len(errors) + 1), np.where(errors > 0, errors, np.nan), color=colour,
                  linestyle=dashes, label=label)
        if errors[-1] > 0:
            axis.plot(len(errors), errors[-1], color=colour, marker="o", markersize=3)
    axis.set(xscale="linear" if arguments.linear else "log", yscale="log", xlabel="iteration",
             ylabel="L1 error of the marginals (units of the plan)")
    axis.grid(color="#dddddd", linewidth=0.5)
    save(figure, arguments, bundles, legend_of(axis, 3))
