"""The version of attnkit: in a file where it is installed, in a header in the source tree."""

import re
from pathlib import Path


def read():
    here = Path(__file__).resolve().parent
    written = here.parent / "version"
    if written.is_file():
        return written.read_text(encoding="utf-8").strip()
    header = (here.parent.parent / "lib/attnkit/version.hpp").read_text(encoding="utf-8")
    return re.search(r'ATTNKIT_VERSION "(.+)"', header)[1]
