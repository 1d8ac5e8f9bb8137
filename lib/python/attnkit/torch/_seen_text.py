"""What `observe` has seen in words."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Dict, List, Sequence

if TYPE_CHECKING:
    from ._seen import Row, Seen, Table

_NAMES = 5  # of tokens in a line, or of lines about keys


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _rows(table: Table, scheme: str) -> List[Row]:
    rows = [dict(zip(table, values)) for values in zip(*table.values())]
    return [row for row in rows if row["scheme"] == scheme]


def _head(row: Row, axes: Sequence[str] = ("head",)) -> str:
    """Where a head is, of all sequences or with its batch."""
    parts = [row["layer"]] + ([f"call {row['call']}"] if row["call"] > 1 else [])
    return ", ".join(parts + [f"{axis} {row[axis]}" for axis in axes if row[axis] is not None])


def _key(row: Row) -> str:
    """The token of a key, or its number."""
    return f"key {row['key']}" if row["token"] is None else repr(row["token"])


def _keys(rows: List[Row]) -> str:
    """The number and the tokens of the ignored keys of a head, the most frequent first."""
    counts = collections.Counter(map(_key, rows))
    names = [name if count == 1 else f"{name} ×{count}" for name, count in counts.most_common(_NAMES)]
    sequences = len({row["batch"] for row in rows})
    within = f" in {sequences} sequences" if sequences > 1 else ""
    more = ", …" if len(counts) > _NAMES else ""
    return f"{_counted(len(rows), 'key')}{within}: {', '.join(names)}{more}"


def _of_scheme(seen: Seen, scheme: str, heads: List[Row]) -> List[str]:
    by_head: Dict[str, List[Row]] = {}
    for row in _rows(seen.ignored(), scheme):
        by_head.setdefault(_head(row), []).append(row)
    keys = sum(row["enough_keys"] for row in heads)
    ignored = sum(map(len, by_head.values()))
    found = f"{scheme} ignores {ignored or 'none'} of {keys} keys (c < {seen.epsilon:g})"
    if not by_head:
        least = sorted(_rows(seen.least(1), scheme), key=lambda row: float(row["col_sum_per_query"]))[:_NAMES]
        return [f"{found}. The least attention:"] + [
            f"  {_head(row, ('batch', 'head'))}: {_key(row)}, c = {row['col_sum']:.3g} of "
            f"{_counted(row['queries'], 'row')}" for row in least]
    lines = [f"{found}, in {len(by_head)} of {_counted(len(set(map(_head, heads))), 'head')}:"]
    worst = sorted(by_head.items(), key=lambda item: len(item[1]), reverse=True)[: seen.top]
    lines += [f"  {head}: {_keys(rows)}" for head, rows in worst]
    if len(by_head) > len(worst):
        lines.append(f"  and {_counted(len(by_head) - len(worst), 'more head')}")
    return lines


def summary_of(seen: Seen) -> str:
    """Which tokens are ignored, by scheme, layer and head."""
    table = seen.table()
    lines = [f"{_counted(len(seen), 'call')} of {_counted(len(seen.layers), 'layer')}. "
             "c is the attention that a key receives, summed over its rows, the queries."]
    for scheme in dict.fromkeys(table.get("scheme", ())):
        lines += _of_scheme(seen, scheme, _rows(table, scheme))
    return "\n".join(lines)
