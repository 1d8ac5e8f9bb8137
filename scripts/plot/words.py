"""Numbers, names and texts as they are shown in figures."""

import re
from pathlib import Path

from libraries import mpl, np


def short(number, digits=6):
    """A number as people write it: 100 and 1e-8, not 1e+02 and 1e-08."""
    if number == 0 or 1e-4 <= abs(number) < 1e5:
        return np.format_float_positional(number, digits, fractional=False, trim="-")
    return re.sub(r"e([+-])0*", lambda sign: "e-" if sign[1] == "-" else "e", f"{number:.{digits}g}")


def _glyphs():
    """The characters that the fonts of figures have; the fonts are those of plain text and of
    monospaced text, which differ."""
    if not hasattr(_glyphs, "known"):
        manager = mpl.font_manager
        fonts = [manager.get_font(manager.findfont(manager.FontProperties(family=[family])))
                 for family in ("sans-serif", "monospace")]
        _glyphs.known = set.intersection(*(set(font.get_charmap()) for font in fonts))
    return _glyphs.known


_ESCAPES = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}


def _escaped(character):
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable() and (character.isascii() or ord(character) in _glyphs()):
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def plain(text, most=None):
    """Text from a file for matplotlib: no formulas, line breaks and characters that no font has are
    escaped as Python writes them, and it is not too long."""
    text = "".join(map(_escaped, str(text)))
    if most is not None and len(text) > most:
        text = text[:most - 1] + "…"
    return text.replace("$", r"\$")


def plain_ends(text, most):
    """Like plain, and shortened in its middle: names of groups differ at their ends."""
    text = str(text)
    if len(text) > most:
        text = text[:(most - 1) // 2] + "…" + text[len(text) - most // 2:]
    return plain(text)


def cut_apart(names, most):
    """Names as plain texts of at most `most` characters, and more where different names would else
    become the same text."""
    for size in range(most, max(map(len, names), default=0)):
        for cut in (plain, plain_ends):  # names of files and groups often differ at their ends
            texts = [cut(name, size) for name in names]
            if len(set(texts)) == len(set(names)):
                return texts
    return [plain(name) for name in names]


def token(text, most=14):
    """A token as a label: spaces at its ends can be seen."""
    text = str(text)
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" ")) if inner else len(text)
    after = len(text) - before - len(inner)
    return plain("␣" * before + inner + "␣" * after, most)


def natural(word):
    """Key for sorting: layer2 before layer10."""
    return [(1, int(part), "") if part.isdigit() else (0, 0, part)
            for part in re.split(r"(\d+)", word) if part]


def without_common(names):
    """Names without the folders that all of them begin with: layer0 for text/a/layer0."""
    common = 0
    for place, letters in enumerate(zip(*names)):
        if len(set(letters)) > 1:
            break
        common = place + 1 if letters[0] in "/." else common
    return [name[common:] for name in names] if len(names) > 1 else list(names)


def file_names(names):
    """The shortest ends of the names of files that tell them apart, for labels."""
    tails = [name.split("/") for name in names]
    for size in range(1, max(map(len, tails), default=0) + 1):
        ends = ["/".join(tail[-size:]) for tail in tails]
        if len(set(ends)) == len(set(names)):
            return ends
    return list(names)


def file_labels(names, most):
    """The shortest ends of the names of files that tell them apart, as plain texts; see cut_apart."""
    return cut_apart(file_names(names), most)


def head_name(index):
    """How the head at `index` of the leading axes is called: head 3, or batch 0, head 3."""
    if not index:
        return ""
    batch = ",".join(map(str, index[:-1]))
    return f"batch {batch}, head {index[-1]}" if batch else f"head {index[-1]}"


def without_folders(text):
    """A word of a command without the folders of an absolute path: --output=/a/b.h5:/group becomes
    --output=b.h5:/group."""
    return re.sub(r"^([\w-]+=)?(/[^:]*)", lambda match: (match[1] or "") + Path(match[2]).name, text)
