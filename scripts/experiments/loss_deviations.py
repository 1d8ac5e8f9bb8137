"""How far the training losses of two runs are from each other."""


def losses(log):
    return {line["step"]: line["loss"] for line in log.lines}


def largest_deviation(plain, changed):
    """(steps, the largest |difference| of the losses of a step)."""
    steps = sorted(losses(plain).keys() & losses(changed).keys())
    return steps[-1], max(abs(losses(plain)[step] - losses(changed)[step]) for step in steps)
