"""Tables of statistics: the TSV, CSV and JSON of a tool, and the column sums of a bundle, as rows.

A row is a dictionary of texts and numbers: where it belongs (file, group, batch, head, scheme, scale,
hybrid) and its statistics.
"""

import csv
import io
import json
import os
import sys

from allowed import own_part
from bundle import Bundle
from command import fail
from libraries import np
from words import natural

# What says where a row belongs; other columns hold statistics.
PLACES = ("file", "group", "batch", "head", "scheme", "scale", "hybrid")
SUMS, ENTROPIES = "col_sum", "row_entropy"
MADE_BY = "explain-away-stats --tsv, --csv or --json makes it"


def _number(text):
    """A number, or the text; None if there is nothing."""
    if text in (None, "", "null"):
        return None
    try:
        return float(text)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(text, text)


def _from_text(text, name):
    """Rows of TSV or CSV with a header line."""
    first = text.split("\n", 1)[0]
    if not first.strip():
        fail(3, f"{name}: is empty", MADE_BY)
    lines = list(csv.reader(io.StringIO(text, newline=""), delimiter="\t" if "\t" in first else ","))
    header = lines[0]
    if "head" not in header and "scheme" not in header:
        fail(3, f"{name}: is no table of statistics: its first line has no column head or scheme",
             MADE_BY)
    rows = []
    for place, line in enumerate(lines[1:], 2):
        if len(line) != len(header):
            fail(3, f"{name}: line {place} has {len(line)} values, expected {len(header)}")
        rows.append({column: value if column in PLACES else _number(value)
                     for column, value in zip(header, line)})
    return rows


# --- JSON: the nested report becomes the columns of the table.


def _statistics(report):
    """{column: number} of one head's report."""
    found = {f"{name}_c": report["col_sum"].get(name) for name in ("min", "median", "mean", "max")}
    for part in report.get("explained_away", []):
        found[f"share_below_{part['epsilon']:g}"] = part["share"]
        if "enough" in part:
            found[f"enough_share_below_{part['epsilon']:g}"] = part["enough"]["share"]
    if "enough" in report:
        found["enough_min_c"] = report["enough"].get("min")
    found["entropy"] = (report.get("row_entropy") or {}).get("mean")
    for part in report.get("top_shares", []):
        found[f"top_{part['keys']}_share"] = part["share"]
    found["max_c_per_query"] = (report.get("most_per_query") or {}).get("value")
    found |= {name: value for name, value in report.items()
              if not isinstance(value, (dict, list, str, bool)) and name != "index"}
    return {name: None if value is None else float(value) for name, value in found.items()}


def _from_result(result, place):
    if "sweep" in result:
        for cell in result["sweep"]:
            more = {name: cell.get(name) for name in ("scale", "hybrid")}
            yield from _from_result(cell["result"], place | more)
    elif "groups" in result:
        for group in result["groups"]:
            where = {name: group[name] for name in ("file", "group") if name in group}
            yield from _from_result({name: value for name, value in group.items()
                                     if name not in where}, place | where)
    else:
        for scheme, report in result.items():
            if not isinstance(report, dict) or "heads" not in report:
                continue
            for head in report["heads"]:
                index = head.get("index") or []
                yield place | {"scheme": scheme, "head": str(index[-1]) if index else "",
                               "batch": ",".join(map(str, index[:-1]))} | _statistics(head)


def _from_json(text, name):
    try:
        report = json.loads(text)
        rows = list(_from_result(report["result"], {}))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        fail(3, f"{name}: is no JSON report of explain-away-stats: {error!r}", MADE_BY)
    return [{key: value if value is None or key not in PLACES else str(value)
             for key, value in row.items()} for row in rows]


# --- Bundles: column sums and entropies by head.


def _of_head(sums, entropies, epsilon):
    found = {"keys": float(sums.size)}
    if sums.size:
        found |= {"min_c": sums.min(), "median_c": np.median(sums), "mean_c": sums.mean(),
                  "max_c": sums.max(), f"share_below_{epsilon:g}": np.mean(sums < epsilon)}
    if entropies is not None and entropies.size:
        found["entropy"] = entropies.mean()
    return found


def _from_bundle(bundle, epsilon):
    """Rows from the datasets SCHEME_col_sum or col_sum, and the entropies beside them."""
    for path in sorted(bundle.names(), key=natural):
        group, _, last = path.rpartition("/")
        if last != SUMS and not last.endswith("_" + SUMS):
            continue
        holder = bundle.below(group)
        scheme = last.removesuffix(SUMS).rstrip("_") or holder.attribute("attn_scheme") or ""
        sums = holder.whole(last, 1)
        other = last.removesuffix(SUMS) + ENTROPIES
        entropies = holder.whole(other, 1) if other in holder else None
        nobody = holder.whole("dnas_" + SUMS, 1) == 0 if "dnas_" + SUMS in holder else None
        for index in np.ndindex(sums.shape[:-1]):
            part = own_part(holder, index, "key", sums.shape[-1])
            values = sums[index][part]
            if nobody is not None and nobody.shape == sums.shape:
                values = values[~nobody[index][part]]
            rows = None
            if entropies is not None:
                rows = entropies[index]
                rows = rows[own_part(holder, index, "query", len(rows))]
            yield {"group": group, "batch": ",".join(map(str, index[:-1])),
                   "head": str(index[-1]) if index else "", "scheme": scheme,
                   **_of_head(values, rows, epsilon)}


def _without_unused(rows):
    """Rows of which only hnas, which uses it, and stored weights name a share u."""
    for row in rows:
        if row.get("hybrid") and row.get("scheme") not in ("hnas", "stored"):
            row["hybrid"] = ""
    return rows


def read(address, epsilon=1e-8):
    """(name, rows, bundle or None) of one input: a table, a JSON report or a bundle."""
    name = "standard input" if address == "-" else address
    if address == "-":
        if sys.stdin.isatty():
            fail(2, "the input would be read from the terminal", "give a file, or use a pipe")
        content = sys.stdin.buffer.read()
        if not content:
            fail(3, "standard input: is empty", "the command before it failed")
    elif os.path.isfile(address):
        try:
            with open(address, "rb") as file:
                content = file.read(8)
                content = content if content.startswith(b"\x89HDF") else content + file.read()
        except OSError as error:
            fail(3, f"{name}: {error.strerror}")
    else:
        content = b"\x89HDF"  # FILE:/group, or an error that Bundle describes
    if content.startswith(b"\x89HDF"):
        bundle = Bundle(address, content if address == "-" else None)
        rows = list(_from_bundle(bundle, epsilon))
        if not rows:
            fail(3, f"{name}: no dataset {SUMS} or SCHEME_{SUMS}",
                 f"explain-away-stats --tsv {'' if address == '-' else address} | attn-plot ...")
        return name, rows, bundle
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        fail(3, f"{name}: is neither a table nor a bundle", MADE_BY)
    rows = _from_json(text, name) if text.lstrip().startswith("{") else _from_text(text, name)
    if not rows:
        fail(3, f"{name}: has no rows", MADE_BY)
    return name, _without_unused(rows), None
