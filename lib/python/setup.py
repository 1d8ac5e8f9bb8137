"""Builds the module attnkit._core with the project's CMake; all else is in pyproject.toml."""

import importlib.util
import os
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
        target = pathlib.Path(self.get_ext_fullpath(extension.name))
        # scripts/make-wheel names a finished build, whose module may be for another Python.
        built = pathlib.Path(os.environ.get("ATTN_BUILD", BASE)) / "python/attnkit" / target.name
        if not built.exists():
            folder = BASE / f"cmake-{sys.version_info[0]}.{sys.version_info[1]}"
            configure = ["cmake", "--preset", "release", "-B", folder, "-DATTN_PYTHON_PACKAGE=ON",
                         "-DBUILD_TESTING=OFF", f"-DATTN_PYTHON={sys.executable}"]
            if importlib.util.find_spec("pybind11"):  # of this Python; else the system's
                import pybind11
                configure += [f"-Dpybind11_DIR={pybind11.get_cmake_dir()}"]
            subprocess.run(configure, cwd=ROOT, check=True)
            subprocess.run(["cmake", "--build", folder, "--target", "attn-python"], cwd=ROOT, check=True)
            built = folder / "python/attnkit" / target.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(built, target)


BASE.mkdir(parents=True, exist_ok=True)
setup(
    version=version(),
    ext_modules=[Extension("attnkit._core", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
    options={"build": {"build_base": str(BASE / "build")}, "egg_info": {"egg_base": str(BASE)}},
)
