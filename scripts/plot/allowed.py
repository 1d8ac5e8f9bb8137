"""Which pairs of a query and a key may attend, as a bundle records it, and the part of a padded
batch that belongs to a sequence."""

from command import fail
from libraries import np


def _value(bundle, name, index):
    """The integer that a dataset such as key_length (B) holds for one head, or None."""
    if name not in bundle:
        return None
    values = bundle.whole(name, 0)
    if values.dtype.kind not in "iu" or values.ndim > len(index) and values.size > 1:
        fail(3, f"{bundle.name}:/{name}: expected integers of shape (B)")
    if values.size == 1:
        return int(values.reshape(()))
    place = tuple(0 if n == 1 else i for i, n in zip(index, values.shape))
    if any(not -n <= i < n for i, n in zip(place, values.shape)):
        fail(3, f"{bundle.name}:/{name}: is of shape {values.shape}, expected one for each sequence")
    return int(values[place])


def own_part(bundle, index, side, count):
    """The slice of `count` queries or keys (`side`) that is not padding, from SIDE_start and
    SIDE_length, for the head at `index` of the leading axes."""
    start = _value(bundle, f"{side}_start", index) or 0
    length = _value(bundle, f"{side}_length", index)
    length = count - start if length is None else length
    if start < 0 or length < 0 or start + length > count:
        fail(3, f"{bundle.name}: {side}_start {start} and {side}_length {length} exceed {count}")
    return slice(start, start + length)


def _window(bundle):
    """Reaches to the left and right; infinite where the window is open."""
    text = str(bundle.attribute("attn_window") or "none")
    left, colon, right = text.partition(":")
    try:
        if text == "none":
            return np.inf, np.inf
        if not colon:
            return int(text) - 1, int(text) - 1
        return int(left) if left else np.inf, int(right) if right else np.inf
    except ValueError:
        return fail(3, f"{bundle.name}: attribute attn_window is {text}, expected W or LEFT:RIGHT")


def _broadcast(bundle, name, index, shape):
    """The last two axes of a dataset that broadcasts to the weights, at one head."""
    dataset = bundle.root[name]
    leading = dataset.shape[:-2]
    tail = index[len(index) - len(leading):] if leading else ()
    try:
        part = dataset[tuple(0 if n == 1 else i for i, n in zip(tail, leading))]
        return np.broadcast_to(part, shape)
    except (ValueError, IndexError):
        return fail(3, f"{bundle.name}:/{name}: is of shape {dataset.shape}, which does not broadcast "
                       f"to weights of {shape}")


def allowed(bundle, index, shape, own):
    """True where a query may attend to a key, of `shape` (Lq, Lk): from mask, bias, scores, the
    causal attributes and the window; positions count from the beginning of the sequence, `own`
    (slices of queries and keys)."""
    result = np.zeros(shape, dtype=bool)
    result[own] = True
    for name, forbids in (("mask", lambda part: part == 0), ("bias", np.isneginf),
                          ("scores", np.isneginf)):
        if name in bundle and bundle.axes(name) >= 1:
            result &= ~forbids(_broadcast(bundle, name, index, shape))
    causal = str(bundle.attribute("attn_causal") or "none")
    queries, keys = (part.stop - part.start for part in own)
    recorded = bundle.attribute("attn_query_offset")
    offset = int(recorded) if recorded is not None else _value(bundle, "query_offset", index)
    if offset is None:
        offset = keys - queries if causal == "bottom-right" else 0
    left, right = _window(bundle)
    if causal not in ("none", "0", "False"):
        right = min(right, 0)
    ahead = (np.arange(shape[1]) - own[1].start)[None, :] - (
        np.arange(shape[0]) - own[0].start + offset)[:, None]
    return result & (-left <= ahead) & (ahead <= right)
