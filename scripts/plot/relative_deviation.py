"""How far attention is from inference (FD Fig. 4).

    lambda-solve --causal layer3.h5 | attn-plot relative-deviation -o deviation
    lambda-solve --each '/*' --from projection --emit relative_deviation,lambda --only dump.h5 -o d.h5
    attn-plot relative-deviation --average heads d.h5 -o deviation

Reads relative_deviation (..., Q) = |lambda - alpha z| / |lambda| of lambda-solve. If a bundle has
it in groups, draws a column for each last part of their names (layer0, layer1, ...), with all texts,
batches and heads pooled; else a column for each head, with all batches pooled; of several bundles, a
column for each. --average heads takes the mean over the heads of a query first. If the dataset lambda
is present, queries with a lambda of 0, which have no template or no evidence, are left out, as is
padding (query_length, query_start).
"""

import warnings

from allowed import own_part
from bundle import Bundle
from command import fail
from group_names import group_labels, numbered
from libraries import np
from plotting import BLUE, RED, legend_of, new_figure, save
from ticks import name_ticks
from words import cut_apart, file_names, natural, plain, short

MANY = True
NAME = "relative_deviation"
MOST_LETTERS = 24  # characters of the label of a column
LABEL = "relative deviation ‖λ*\u00a0−\u00a0αz‖\u00a0/\u00a0‖λ*‖"


def options(parser):
    parser.add_argument("--average", choices=("heads",),
                        help="heads: the mean over heads of each query, instead of single heads")


def has_heads(bundle, path):
    """Whether the last axis but one is that of heads: by its label, else if there is one."""
    labels = bundle.labels(path)
    return len(labels) > 1 and labels[-2] in ("head", "")


def deviations_of(bundle, path, average):
    """Deviations (..., Q) of a bundle's dataset, nan for a lambda of 0 and for padding."""
    values = bundle.whole(path, 1)
    if not np.isfinite(values).all():
        fail(3, f"{bundle.name}:/{path}: expected finite numbers")
    solution = path.removesuffix(NAME) + "lambda"
    if bundle.axes(solution) == values.ndim + 1:
        values = np.where((bundle.whole(solution, 2) == 0).all(axis=-1), np.nan, values)
    holder = bundle.below(path.rpartition("/")[0])
    if "query_length" in holder or "query_start" in holder:
        values = values.astype(float)
        for index in np.ndindex(values.shape[:-1]):
            own = own_part(holder, index, "query", values.shape[-1])
            values[index][:own.start] = values[index][own.stop:] = np.nan
    if average and has_heads(bundle, path):
        with warnings.catch_warnings():  # of queries without any number
            warnings.simplefilter("ignore", RuntimeWarning)
            values = np.nanmean(values, axis=-2)
    return values


def columns_of(bundles, average):
    """The kind of columns, and {name: deviations}."""
    groups, alone = {}, []
    for bundle in bundles:
        found = [name for name in bundle.names() if name.split("/")[-1] == NAME]
        if not found:
            fail(3, f"{bundle.name}: no dataset {NAME}", "lambda-solve makes it")
        for path in found:
            values, parts = deviations_of(bundle, path, average), path.split("/")[:-1]
            if parts:
                groups.setdefault(parts[-1], []).append(values.ravel())
            else:
                alone.append((bundle, values))
    if not groups and len(alone) == 1 and not average and has_heads(alone[0][0], NAME):
        values = np.moveaxis(alone[0][1], -2, 0)
        return "head", {str(head): part.ravel() for head, part in enumerate(values)}
    layers = bool(groups)
    for (bundle, values), name in zip(alone, file_names([bundle.name for bundle, _ in alone])):
        groups.setdefault(name if len(alone) > 1 or groups else "all queries", []).append(
            values.ravel())
    names = sorted(groups, key=natural)
    what, labels = (group_labels(names, MOST_LETTERS) if layers else
                    numbered(names) or ("", cut_apart(names, MOST_LETTERS)))
    return what, {new: np.concatenate(groups[old]) for new, old in zip(labels, names)}


def annotate(axis, place, values, room):
    """Prints the figures of a column above it, as far as there is room. `room`: points."""
    mean, largest = short(values.mean(), 3), short(values.max(), 3)
    if room >= 62:
        text = f"mean {mean}\nlargest {largest}"
    elif room >= 28:
        text = f"mean\n{mean}"
    else:
        return
    axis.annotate(text, (place, 1), xycoords=("data", "axes fraction"), xytext=(0, 2), fontsize=7,
                  textcoords="offset points", ha="center", va="bottom")


def draw(arguments):
    bundles = [Bundle(address) for address in arguments.inputs]
    what, columns = columns_of(bundles, arguments.average)
    left_out = sum(np.count_nonzero(np.isnan(values)) for values in columns.values())
    columns = {name: values[~np.isnan(values)] for name, values in columns.items()}
    if not all(values.size for values in columns.values()):
        fail(3, f"{bundles[0].name}:/{NAME}: some column has no query with a template")
    figure, axes = new_figure(arguments, max(0.42 * arguments.width, 2.1))
    axis = axes[0, 0]
    places = np.arange(len(columns))
    least, low, middle, high, most = (
        np.array([np.quantile(values, share) for values in columns.values()])
        for share in (0.05, 0.25, 0.5, 0.75, 0.95))
    axis.vlines(places, least, most, color=BLUE, linewidth=1, label="5% to 95% of the queries")
    axis.bar(places, high - low, 0.4, low, facecolor="white", edgecolor=BLUE,
             label="25%, median, 75%")
    axis.hlines(middle, places - 0.2, places + 0.2, color=BLUE, linewidth=1.6)
    axis.plot(places, [values.mean() for values in columns.values()], marker="x", color=RED,
              markersize=5, linestyle="none", label="mean")
    room = 72 * (arguments.width - 0.6) / len(columns)
    for place, values in zip(places, columns.values()):
        annotate(axis, place, values, room)
    pooled = np.concatenate(list(columns.values()))
    axis.axhline(pooled.mean(), color=RED, linewidth=0.8, linestyle=":", zorder=0,
                 label=f"mean of all {len(pooled)}, {short(pooled.mean(), 3)}" +
                 (f" (without {left_out})" if left_out else ""))
    axis.set(xlabel=plain(what), ylabel=LABEL +
             (", mean over heads" if arguments.average else ""), xlim=(-0.6, len(columns) - 0.4))
    axis.set_ylim(bottom=0)
    name_ticks(axis.xaxis, places, list(columns))
    save(figure, arguments, bundles, legend_of(axis, 4))
