"""Builds the module attnkit._core with the project's CMake; all else is in pyproject.toml."""

import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE = ROOT / "build" / "wheel"  # outside of the sources


def version():
    header = (ROOT / "lib/attnkit/version.hpp").read_text(encoding="utf-8")
    return re.search(r'define ATTNKIT_VERSION "([0-9.]+)"', header)[1]


class CMakeBuild(build_ext):
    """Compiles the module for the Python that runs this file."""

    def build_extension(self, extension):
        folder = BASE / f"cmake-{sys.version_info[0]}.{sys.version_info[1]}"
        configure = ["cmake", "--preset", "release", "-B", folder, "-DATTN_PYTHON_PACKAGE=ON",
                     "-DBUILD_TESTING=OFF", f"-DATTN_PYTHON={sys.executable}"]
        subprocess.run(configure, cwd=ROOT, check=True)
        subprocess.run(["cmake", "--build", folder, "--target", "attn-python"], cwd=ROOT, check=True)
        target = pathlib.Path(self.get_ext_fullpath(extension.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / "python/attnkit" / target.name, target)


BASE.mkdir(parents=True, exist_ok=True)
setup(
    version=version(),
    ext_modules=[Extension("attnkit._core", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
    options={"build": {"build_base": str(BASE / "build")}, "egg_info": {"egg_base": str(BASE)}},
)
