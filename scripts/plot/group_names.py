"""Short labels of groups, such as the layers of a model: what tells them apart, and nothing else.

Where all names differ only in numbers, these are the labels, and the axis says what they number. Else
names are split at dots, slashes and numbers, and each family of names that differ only in numbers is
told from the others by the words where they part, as in a tree: encoder.block.3.layer.0.SelfAttention
becomes "encoder 3", and decoder.block.3.layer.1.EncDecAttention "decoder 3 EncDec".
"""

import re

from words import cut_apart, plain

# "@2" is the second call of a layer, as dump-attention names it.
_TOKEN = re.compile(r"@\d+|\d+|[^\d/.@]+|@")
_PIECE = re.compile(r"[_\s-]*(?:[A-Z]+[^A-Z_\s-]*|[^A-Z_\s-]+)|[_\s-]+")  # self, _attn; Self, Attention
_NUMBER = ""  # stands for a number in the pattern of a family
_LETTERS = (None, 8, 7, 6, 5, 4, 3, 2)  # that abbreviated words keep


def numbered(names):
    """(kind, numbers): ("layer", 0 1 2) for layer0 layer1 layer2, ("block.N.self", 0 1) for
    block.0.self block.1.self; None if names differ in more than numbers."""
    parts = [re.split(r"(\d+)", name) for name in names]
    if len(names) < 2 or len({tuple(part[::2]) for part in parts}) > 1:
        return None
    differ = [place for place, words in enumerate(zip(*parts)) if len(set(words)) > 1]
    if not differ:
        return None
    before = "".join(parts[0][:differ[0]])
    after = "".join("N" if place in differ else part for place, part in
                    enumerate(parts[0]) if place >= differ[0])
    # Without the folders that say nothing about the numbers.
    kind = before[before.rstrip("/").rfind("/") + 1:]
    kind = kind.rstrip("_-. ") or kind if after == "N" else kind + after
    return kind, [" ".join(part[place] for place in differ) for part in parts]


def _tokens(name):
    """The words and numbers of a name."""
    words = (word.strip("_- ") for word in _TOKEN.findall(name))
    return [word for word in words if word]


def _pattern(tokens):
    return tuple(_NUMBER if token.isdecimal() else token for token in tokens)


def _bare(words):
    """Words without the pieces that all begin or end with: self and cross for self_attn and
    cross_attn."""
    parts = [_PIECE.findall(word) for word in words]
    for end in (-1, 0):
        while len(parts) > 1 and min(map(len, parts)) > 1 and len({part[end] for part in parts}) == 1:
            for part in parts:
                part.pop(end)
    return ["".join(part).strip("_- ") for part in parts]


def _branches(patterns, place=0):
    """{pattern: {place: word}}: the words where patterns part that have begun alike."""
    if len(patterns) == 1:
        return {patterns[0]: {}}
    after = {}
    for pattern in patterns:
        after.setdefault(pattern[place] if place < len(pattern) else None, []).append(pattern)
    words = [word for word in after if word]
    shown = dict(zip(words, _bare(words))) if len(after) > 1 else {}
    found = {}
    for word, some in after.items():
        for pattern, more in _branches(some, place + 1).items():
            found[pattern] = ({place: shown[word]} if word in shown else {}) | more
    return found


def _first_number(tokens):
    return next((token for token in tokens if token.isdecimal()), None)


def _parts(names):
    """What a label consists of: for each name its words and numbers that tell it apart."""
    split = [_tokens(name) for name in names]
    families = {}
    for tokens in split:
        families.setdefault(_pattern(tokens), []).append(tokens)
    words = _branches(list(families))
    # The first number is the layer. It is shown even if a family has only one.
    layers = len({_first_number(tokens) for tokens in split}) > 1
    found = []
    for tokens in split:
        pattern = _pattern(tokens)
        shown = dict(words[pattern])
        for place in (place for place, word in enumerate(pattern) if word == _NUMBER):
            first = layers and _NUMBER not in pattern[:place]
            if first or len({other[place] for other in families[pattern]}) > 1:
                shown[place] = tokens[place]
        found.append([shown[place] for place in sorted(shown)] or tokens[-1:])
    return found


def _parts_of_one(name):
    """What the label of a single name consists of: its first and last word, and the layer."""
    tokens = _tokens(name)
    layer = [place for place, token in enumerate(tokens) if token.isdecimal()][:1]
    return [tokens[place] for place in sorted({0, *layer, len(tokens) - 1})] if tokens else []


def _abbreviated(part, letters):
    """A word of at most this many letters and a dot; numbers stay whole."""
    keep = letters is None or len(part) <= letters + 1 or any(map(str.isdecimal, part))
    return part if keep else part[:letters] + "."


def group_labels(names, most):
    """(kind, labels) of different names: kind is what numbers count, or "". Labels are plain text, all
    different, and of at most `most` characters as far as that allows."""
    found = numbered(names)
    if found:
        return found
    if max(map(len, names)) <= most and len(names) == 1:
        return "", [plain(name) for name in names]
    parts = _parts(names) if len(names) > 1 else [_parts_of_one(name) for name in names]
    labels = None
    for letters in _LETTERS:
        short = [" ".join(_abbreviated(part, letters) for part in some) for some in parts]
        if len(set(short)) == len(names):
            labels = short
            if max(map(len, labels)) <= most:
                break
    return "", [plain(label) for label in labels] if labels else cut_apart(names, most)
