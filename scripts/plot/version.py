"""The version of attnkit: in a file where it is installed, in CMakeLists.txt in the source tree."""

import re
from pathlib import Path


def read():
    here = Path(__file__).resolve().parent
    written = here.parent / "version"
    if written.is_file():
        return written.read_text(encoding="utf-8").strip()
    project = (here.parent.parent / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(attnkit VERSION (\S+)", project)[1]
