"""The files that a figure is written to, by the option -o."""

import os
from pathlib import Path

from bundle import file_of
from command import fail

FORMATS = (".png", ".pdf", ".svg")
USUAL = FORMATS[:2]  # what a name without such an ending gets
# Endings by which people ask for a format that is not written.
_OTHERS = (".apng", ".avif", ".bmp", ".emf", ".eps", ".gif", ".heic", ".ico", ".jfif", ".jp2", ".jpe",
           ".jpeg", ".jpg", ".jxl", ".pgf", ".pgm", ".ppm", ".ps", ".raw", ".rgba", ".svgz", ".tga",
           ".tif", ".tiff", ".webp", ".wmf")


def _same(one, other):
    """Whether two names are one file. "-" is standard input."""
    try:
        return os.path.samefile(0 if one == "-" else file_of(one), other)
    except (OSError, ValueError):
        return False


def targets_of(output, inputs):
    """The paths for -o OUTPUT, none of which is an input."""
    name = Path(output)
    if output in ("", "-") or output.endswith("/") or not name.name:
        fail(2, f"-o {output or '(nothing)'}: expected the name of a file")
    ending = name.suffix.lower()
    if ending in _OTHERS:
        fail(2, f"-o {output}: a figure is written as {', '.join(FORMATS[:-1])} or {FORMATS[-1]}",
             f"-o {name.with_suffix('.png')}, or -o {name.with_suffix('')} for both "
             f"{' and '.join(USUAL)}")
    found = [name] if ending in FORMATS else [name.with_name(name.name + end) for end in USUAL]
    for target in found:
        for one in inputs:
            if _same(one, target):
                fail(2, f"-o {output}: {target} is an input, which would be overwritten",
                     "give another name to -o")
    return found
