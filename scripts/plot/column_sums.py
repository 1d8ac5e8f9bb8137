"""Histogram of column sums, by scheme (EA Fig. 1).

    explain-away-stats data/passage.h5 -o stats.h5 && attn-plot column-sums stats.h5 -o sums
    attn-compute --scheme dnas --emit col_sum q.h5 | attn-plot column-sums -o sums

Reads the datasets SCHEME_col_sum (..., Lk) of explain-away-stats, or col_sum of attn-compute, from
one or several bundles, including their groups, and draws a line for each bundle and scheme; keys of
all heads are pooled. Padding (key_length, key_start) is left out. A key whose column sum under dnas
is 0 has no allowed query, and is left out for all schemes of that bundle.
"""

from allowed import own_part
from bundle import Bundle
from command import between, fail, integers
from libraries import np
from plotting import legend_of, look, looks_of, new_figure, ordered, save
from words import file_names, plain, short

MANY = True
ENDING = "_col_sum"


def options(parser):
    parser.add_argument("--epsilon", type=between(1e-300, 1e300), default=1e-8, metavar="E",
                        help="keys with smaller sums are explained away (default %(default)g)")
    parser.add_argument("--head", type=integers, metavar="H[,H]",
                        help="draw only this head, by its leading axes")
    parser.add_argument("--bins", type=between(1, 10000, int), default=50, metavar="N",
                        help="default %(default)s")


def schemes_of(bundle, head):
    """(group, scheme, column sums (..., Lk), true where a key is padding) of a bundle."""
    found = [name for name in bundle.names()
             if name.split("/")[-1] == ENDING[1:] or name.endswith(ENDING)]
    for name in found or [ENDING[1:]]:
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


def read(bundle, head):
    """{scheme: column sums of all keys}, the numbers of keys per head, the number of masked keys."""
    sums, lengths, masked, groups = {}, set(), 0, {}
    for group, scheme, values, padding in schemes_of(bundle, head):
        groups.setdefault(group, {})[scheme] = values, padding
        lengths |= set((~padding).sum(axis=-1).flat)
    for schemes in groups.values():
        nobody = schemes["dnas"][0] == 0 if "dnas" in schemes else None
        if nobody is not None:
            masked += np.count_nonzero(nobody & ~schemes["dnas"][1])
        for scheme, (values, padding) in schemes.items():
            kept = ~padding
            if nobody is not None and nobody.shape == values.shape:
                kept &= ~nobody
            sums.setdefault(scheme, []).append(values[kept])
    return {scheme: np.concatenate(sums[scheme]) for scheme in ordered(sums)}, lengths, masked


def name_of(scheme, values, epsilon):
    """What the legend says of a line."""
    text = f"{scheme}: "
    if values.size:
        text += (f"least {short(values.min(), 2)}, "
                 f"{short(100 * np.mean(values < epsilon), 2)}% below {short(epsilon)}")
    if (values == 0).any():
        text += f" ({(values == 0).sum()} get none: not drawn)"
    return text


def mark(axis, marks, ends):
    """Dotted lines with their names above the panel. Names that would touch stand on either side, or
    above each other where there is no room for that."""
    marks = sorted((np.log10(value), text) for value, text in marks
                   if ends[0] <= np.log10(value) <= ends[1])
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


def draw(arguments):
    bundles = [Bundle(address) for address in arguments.inputs]
    names = file_names([bundle.name for bundle in bundles])
    read_in = [read(bundle, arguments.head) for bundle in bundles]
    lines = {}  # (place of the bundle, scheme): sums
    for place, (sums, _, _) in enumerate(read_in):
        lines |= {(place, scheme): values for scheme, values in sums.items()}
    masked = sum(count for *_, count in read_in)
    lengths = set().union(*(some for _, some, _ in read_in))
    schemes = ordered(dict.fromkeys(scheme for _, scheme in lines))
    if len(bundles) == 1:
        looks = {(0, scheme): style for scheme, style in looks_of(schemes).items()}
    else:  # a colour for each bundle, dashes for each scheme
        looks = {(place, scheme): (look(place)[0], look(schemes.index(scheme))[1])
                 for place, scheme in lines}

    drawn = {line: np.log10(values[values > 0]) for line, values in lines.items()}
    logs = np.concatenate([*drawn.values(), [0]])  # 1 is the mean for a square problem
    margin = 0.02 * np.ptp(logs) + 0.1
    edges = np.linspace(logs.min() - margin, logs.max() + margin, arguments.bins + 1)
    figure, axes = new_figure(arguments, max(0.4 * arguments.width, 1.9))
    axis = axes[0, 0]
    for (place, scheme), values in lines.items():
        colour, dashes = looks[place, scheme]
        text = plain(scheme, 30) if len(bundles) == 1 else f"{plain(names[place], 30)}, {plain(scheme, 30)}"
        counts, _ = np.histogram(drawn[place, scheme], edges)
        axis.stairs(counts, edges, color=colour, linestyle=dashes, linewidth=1.3,
                    label=name_of(text, values, arguments.epsilon))
        if len(lines) <= 2:
            axis.stairs(counts, edges, color=colour, fill=True, alpha=0.18)
    axis.set_yscale("symlog", linthresh=1)
    axis.yaxis.set_major_formatter("{x:g}")
    axis.set_ylim(bottom=0)
    axis.margins(x=0.01)
    marks = [(arguments.epsilon, f"ε = {short(arguments.epsilon)}")]
    if len(lengths) == 1 and max(lengths) > 0 and "dnas" in schemes:
        marks.append((1 / max(lengths), "1/Lk, the bound of dnas" if arguments.width >= 5 else
                      "bound 1/Lk"))
    mark(axis, marks, edges[[0, -1]])
    axis.set_xlabel("log₁₀ of the column sum c (attention that a key gets from all queries)")
    axis.set_ylabel("keys per bin (number" + (f", without {masked} masked)" if masked else ")"))
    save(figure, arguments, bundles, legend_of(axis, 2))
