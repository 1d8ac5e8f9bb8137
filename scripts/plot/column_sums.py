"""Histogram of column sums, by scheme (EA Fig. 1).

    explain-away-stats data/passage.h5 -o stats.h5 && attn-plot column-sums stats.h5 -o sums
    attn-compute --scheme dnas --emit col_sum q.h5 | attn-plot column-sums -o sums

Reads the datasets SCHEME_col_sum (..., Lk) of explain-away-stats, or col_sum of attn-compute, from
one or several bundles, including their groups, and draws a line for each bundle and scheme; keys of
all heads are pooled. Padding (key_length, key_start) is left out, and so are keys without an allowed
query: by queries_of_key, or those whose column sum under dnas is 0. With queries_of_key, keys that fewer
than a tenth of the head's queries may attend to are left out too, as at the end of a causal sequence.
"""

from collections import namedtuple

from allowed import own_part
from bundle import Bundle
from command import between, fail, integers
from libraries import mpl, np
from plotting import legend_of, look, looks_of, new_figure, ordered, save
from words import file_labels, head_name, plain, short

# sums: {scheme: column sums of all keys}; lengths: the numbers of keys per head; masked: the number of
# masked keys, and few: that of keys with few queries; sink: the largest logit of a sink, or -inf.
Read = namedtuple("Read", "sums lengths masked few sink")

MANY = True
ENDING = "_col_sum"
MOST_LINEAR = 20  # keys per bin


def options(parser):
    parser.add_argument("--epsilon", type=between(1e-300, 1e300), default=1e-8, metavar="E",
                        help="keys with smaller sums are explained away (default %(default)g)")
    parser.add_argument("--head", type=integers, metavar="H[,H]",
                        help="draw only this head, by its leading axes")
    parser.add_argument("--natural", action="store_true",
                        help="natural logarithms on the axis, not decimal ones")
    parser.add_argument("--bins", type=between(1, 10000, int), default=50, metavar="N",
                        help="default %(default)s")


def datasets_of(bundle):
    """The names of its column sums, or of what is missing."""
    return [name for name in bundle.names()
            if name.split("/")[-1] == ENDING[1:] or name.endswith(ENDING)] or [ENDING[1:]]


def schemes_of(bundle, head):
    """(group, scheme, column sums (..., Lk), true where a key is padding) of a bundle."""
    for name in datasets_of(bundle):
        made_by = "attn-compute --emit col_sum, or explain-away-stats -o, makes it"
        place = () if head is None else bundle.position(name, 1, head, made_by)
        values = (bundle.whole(name, 1, made_by) if head is None else
                  bundle.part(name, 1, head, made_by))
        if not (np.isfinite(values).all() and (values >= 0).all()):
            fail(3, f"{bundle.name}:/{name}: expected finite numbers of 0 and more")
        group, _, last = name.rpartition("/")
        scheme = (last.removesuffix(ENDING) if last.endswith(ENDING) else
                  bundle.attribute("attn_scheme", group) or last)
        padding = np.ones(values.shape, dtype=bool)
        for index in np.ndindex(values.shape[:-1]):
            padding[index][own_part(bundle.below(group), place + index, "key",
                                    values.shape[-1])] = False
        yield group, scheme, values, padding


def queries_of_keys(bundle, group, schemes, head):
    """How many queries may attend to a key, (..., Lk), or whether some may; None if nothing tells."""
    name = f"{group}/queries_of_key".lstrip("/")
    if name in bundle:
        return bundle.whole(name, 1) if head is None else bundle.part(name, 1, head)
    return (schemes["dnas"][0] > 0).astype(int) if "dnas" in schemes else None


def largest_sink(bundle, group):
    sink = f"{group}/sink".lstrip("/")
    return bundle.whole(sink, 0).max() if sink in bundle else -np.inf


def read(bundle, head):
    sums, lengths, masked, few, groups = {}, set(), 0, 0, {}
    for group, scheme, values, padding in schemes_of(bundle, head):
        groups.setdefault(group, {})[scheme] = values, padding
        lengths |= set((~padding).sum(axis=-1).flat)
    for group, schemes in groups.items():
        counts = queries_of_keys(bundle, group, schemes, head)
        for scheme, (values, padding) in schemes.items():
            kept = seen = ~padding
            if counts is not None and counts.shape == values.shape:
                seen = kept & (counts > 0)
                kept = seen & (counts >= counts.max(axis=-1, keepdims=True, initial=0) // 10)
            sums.setdefault(scheme, []).append(values[kept])
        # The same for all schemes.
        masked += np.count_nonzero(~padding & ~seen)
        few += np.count_nonzero(seen & ~kept)
    return Read({scheme: np.concatenate(sums[scheme]) for scheme in ordered(sums)}, lengths, masked, few,
                max(largest_sink(bundle, group) for group in groups))


def bound_of(read_in):
    """(the proven bound of dnas, its name), or None if it is not one number for all keys."""
    lengths = set().union(*(one.lengths for one in read_in))
    sums = [one.sums["dnas"] for one in read_in if "dnas" in one.sums]
    if len(lengths) != 1 or max(lengths) == 0 or not sums:
        return None
    sink = max(one.sink for one in read_in)
    bound = 1 / (max(lengths) + np.exp(sink))
    # A sink may be unknown here.
    if min((values.min() for values in sums if values.size), default=1) < 0.999 * bound:
        return None
    return bound, "1/Lk" if np.isneginf(sink) else "1/(Lk + e^sink)"


def name_of(scheme, values, epsilon):
    """What the legend says of a line."""
    text = f"{scheme}: "
    if values.size:
        text += (f"least {short(values.min(), 2)}, "
                 f"{short(100 * np.mean(values < epsilon), 2)}% below {short(epsilon)}")
    if (values == 0).any():
        text += f" ({(values == 0).sum()} get none: not drawn)"
    return text


def mark(axis, marks, ends, logarithm):
    """Dotted lines with their names above the panel. Names that would touch stand on either side, or
    above each other where there is no room for that."""
    marks = sorted((logarithm(value), text) for value, text in marks
                   if ends[0] <= logarithm(value) <= ends[1])
    points = 72 * (axis.figure.get_figwidth() - 0.6)  # width of the panel
    shares = [(place - ends[0]) / (ends[1] - ends[0]) for place, _ in marks]
    near = len(marks) == 2 and (shares[1] - shares[0]) * points < 2 * sum(len(t) for _, t in marks)
    beside = near and all(3.8 * len(text) < room * points for (_, text), room in
                          zip(marks, (shares[0], 1 - shares[1])))
    for number, ((place, text), share) in enumerate(zip(marks, shares)):
        axis.axvline(place, color="black", linewidth=0.8, linestyle=":", zorder=0)
        side = "left" if share < 0.15 else "right" if share > 0.85 else "center"
        apart = 0
        if beside:
            side, apart = ("right", -2) if number == 0 else ("left", 2)
        axis.annotate(text, (place, 1), xycoords=("data", "axes fraction"),
                      xytext=(apart, 11 if near and not beside and number else 2),
                      textcoords="offset points", ha=side, fontsize=7)


def scale_counts(axis, largest):
    """Logarithmic above 1, if the numbers span more than a decade or so; else the axis would have no
    number but 1."""
    if largest > MOST_LINEAR:
        axis.set_yscale("symlog", linthresh=1)
        axis.set_ylim(bottom=0)
    else:
        axis.yaxis.set_major_locator(mpl.ticker.MaxNLocator(4, integer=True))
        axis.set_ylim(0, max(1.05 * largest, 2))
    axis.yaxis.set_major_formatter("{x:g}")


def draw(arguments):
    bundles = [Bundle(address) for address in arguments.inputs]
    names = file_labels([bundle.name for bundle in bundles], 30)
    read_in = [read(bundle, arguments.head) for bundle in bundles]
    heads = ["" if arguments.head is None else
             head_name(bundle.position(datasets_of(bundle)[0], 1, arguments.head))
             for bundle in bundles]
    lines = {}  # (place of the bundle, scheme): sums
    for place, one in enumerate(read_in):
        lines |= {(place, scheme): values for scheme, values in one.sums.items()}
    left_out = [f"{sum(getattr(one, name) for one in read_in)} {words}" for name, words in
                (("masked", "masked"), ("few", "with few queries")) if any(getattr(one, name) for one in read_in)]
    schemes = ordered(dict.fromkeys(scheme for _, scheme in lines))
    if len(bundles) == 1:
        looks = {(0, scheme): style for scheme, style in looks_of(schemes).items()}
    else:  # a colour for each bundle, dashes for each scheme
        looks = {(place, scheme): (look(place)[0], look(schemes.index(scheme))[1])
                 for place, scheme in lines}

    logarithm = np.log if arguments.natural else np.log10
    drawn = {line: logarithm(values[values > 0]) for line, values in lines.items()}
    logs = np.concatenate([*drawn.values(), [0]])  # 1 is the mean for a square problem
    margin = 0.02 * np.ptp(logs) + 0.1
    # c = 1 is in the middle of a bin, so that sums that are 1 up to rounding share it.
    width = (np.ptp(logs) + 2 * margin) / max(arguments.bins - 1, 0.5)
    first = np.floor((logs.min() - margin) / width + 0.5) - 0.5
    edges = width * (first + np.arange(arguments.bins + 1))
    figure, axes = new_figure(arguments, max(0.4 * arguments.width, 1.9))
    axis, largest = axes[0, 0], 0
    for (place, scheme), values in lines.items():
        colour, dashes = looks[place, scheme]
        text = ", ".join(filter(None, [names[place] if len(bundles) > 1 else "", plain(scheme, 30),
                                       heads[place]]))
        counts, _ = np.histogram(drawn[place, scheme], edges)
        largest = max(largest, counts.max())
        axis.stairs(counts, edges, color=colour, linestyle=dashes, linewidth=1.3,
                    label=name_of(text, values, arguments.epsilon))
        if len(lines) <= 2:
            axis.stairs(counts, edges, color=colour, fill=True, alpha=0.18)
    scale_counts(axis, largest)
    axis.margins(x=0.01)
    marks = [(arguments.epsilon, f"ε = {short(arguments.epsilon)}")]
    if bound := bound_of(read_in):
        marks.append((bound[0], f"{bound[1]}, the bound of dnas" if arguments.width >= 5 else
                      f"bound {bound[1]}"))
    mark(axis, marks, edges[[0, -1]], logarithm)
    axis.set_xlabel(f"{'ln' if arguments.natural else 'log₁₀'} of the column sum c (attention that a key gets from all queries)")
    axis.set_ylabel("keys per bin (number" + (f", without {' and '.join(left_out)})" if left_out else ")"))
    save(figure, arguments, bundles, legend_of(axis, 2))
