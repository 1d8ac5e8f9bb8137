"""What the documents say of u and of column sums, and in how many runs it holds.

Each quantity is taken at the end of a run: the least u of all layers and heads; Spearman's rank correlation of
the layer and its mean u; the share of keys that are explained away, as the mean of all layers; the least column
sum; and the mean u of each attention.
"""

import statistics

# Relation and number of the claims that an experiment may judge.
CLAIMS = {"least u": (">", 0.5), "correlation of layer and u": ("<", 0.0), "explained away": (">", 0.0)}


def ranks(values):
    """Ranks from 1 on; equal values share the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) + 1) / 2 for value in values]


def spearman(one, other):
    """Spearman's rank correlation, or None if all of one side are equal."""
    try:
        return statistics.correlation(ranks(one), ranks(other))
    except statistics.StatisticsError:
        return None


def numbers(value):
    return value if isinstance(value, list) else [value]


def quantities(log, prefix):
    """{quantity: value} at the end of a run, of the groups that begin with a prefix."""
    groups = [group for group in log.last("attention") or [] if group["group"].startswith(prefix)]
    shares = [numbers(group["u"]) for group in groups if "u" in group]
    away = [statistics.fmean(numbers(group["explained_away"])) for group in groups if "explained_away" in group]
    sums = [value for group in groups if "least_column_sum" in group for value in numbers(group["least_column_sum"])]
    found = {}
    if shares:
        found["least u"] = min(map(min, shares))
        if len(shares) > 1:
            found["correlation of layer and u"] = spearman(range(len(shares)), list(map(statistics.fmean, shares)))
    if away:
        found["explained away"] = statistics.fmean(away)
    if sums:
        found["least column sum"] = min(sums)
    return found | {f"u of {group['group']}": statistics.fmean(numbers(group["u"])) for group in groups if "u" in group}


def claim_of(quantity, kind, claims):
    """What the documents say: of explained-away keys, only under softmax."""
    told = quantity in claims and (quantity != "explained away" or "unas" in kind)
    return CLAIMS[quantity] if told else (None, None)


def attention_rows(kinds, prefix, claims):
    """A row for each kind of runs and quantity: its values, the claim, and in how many runs the claim holds."""
    for kind, logs in kinds.items():
        found = [quantities(log, prefix) for log in logs]
        for quantity in dict.fromkeys(name for one in found for name in one):
            values = [one[quantity] for one in found if one.get(quantity) is not None]
            if not values:
                continue
            relation, number = claim_of(quantity, kind, claims)
            holds = [value > number if relation == ">" else value < number for value in values] if relation else []
            yield {"kind": kind, "quantity": quantity, "runs": len(found), "values": values, "holds": sum(holds),
                   "claim": f"{relation} {number:g}" if relation else None}
