"""Two builds have the same results: ATTN_BASE names the folder of the tools of another build, as `make same-results`
does. Some 400 commands run with both. Compared are the bits of datasets, attributes, tables, and `result` of reports;
not what a run costs, nor versions and dates."""

import hashlib
import json
import os
import re
import subprocess
import time
import unittest
from pathlib import Path

import h5py
import numpy as np

from attn import BIN, TIMEOUT, ToolTest
from same_results_cases import commands, write_inputs

BASE = os.environ.get("ATTN_BASE")
RANKS = "mpirun --oversubscribe -n"
# What says when, by which version and at what cost a result was made.
OTHER_ATTRIBUTES = re.compile(r"history|version|date|checkpoint")
COSTS = re.compile(r"bytes|seconds|_s$|tokens_per")


def digest(values):
    return hashlib.sha256(values).hexdigest()[:16]


def without_costs(report):
    if isinstance(report, dict):
        return {key: without_costs(value) for key, value in report.items() if not COSTS.search(key)}
    return [without_costs(value) for value in report] if isinstance(report, list) else report


def of_bundle(path):
    """Digests by dataset and attribute; of what a virtual dataset refers to, too."""
    found = {}

    def take(name, item):
        for key, value in item.attrs.items():
            if not OTHER_ATTRIBUTES.search(key):
                found[f"{name}@{key}"] = str(np.asarray(value).tolist())
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            values = item[()]
            bits = repr(values.tolist()).encode() if item.dtype.hasobject else np.ascontiguousarray(values).tobytes()
            found[name] = f"{item.dtype} {item.shape} {digest(bits)}"

    with h5py.File(path) as file:
        take("", file)
        file.visititems(take)
    return found


def of_file(path):
    if path.suffix == ".h5":
        return of_bundle(path)
    if path.suffix == ".json":
        return without_costs(json.loads(path.read_text()).get("result"))
    if path.suffix == ".jsonl":
        return [without_costs(json.loads(line)) for line in path.read_text().splitlines()]
    return digest(path.read_bytes())


@unittest.skipUnless(BASE, "ATTN_BASE does not name the tools of another build")
class SameResults(ToolTest):

    def setUp(self):
        super().setUp()
        write_inputs(self.folder)
        self.environment |= {"SOURCE_DATE_EPOCH": "0", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_pml": "ob1",
                             "OMPI_MCA_btl": "^openib,ofi", "OMPI_MCA_orte_tmpdir_base": str(self.folder.parent)}

    def bash(self, line, tools):
        environment = self.environment | {"PATH": f"{tools}:{os.environ['PATH']}"}
        return subprocess.Popen(["bash", "-e", "-o", "pipefail", "-c", line], cwd=self.folder, env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finished(self, line, tools):
        with self.bash(line, tools) as run:
            out, error = run.communicate(timeout=TIMEOUT)
        return run.returncode, out, error.decode(errors="replace")

    def stop_once(self, line, tools):
        """A signal once there is a checkpoint; a run that is done before has nothing to go on with."""
        file = self.folder / ("ck" if "ck" in line.split() else "out.h5")
        with self.bash("exec " + line, tools) as run:
            while run.poll() is None and not file.exists():
                time.sleep(0.002)
            run.terminate()
            run.communicate(timeout=TIMEOUT)
        if run.returncode == 0 and file.name == "ck":
            (self.folder / "out.h5").unlink()

    def results(self, command, tools):
        before = set(os.listdir(self.folder))
        kind, _, rest = command.partition(" ")
        if kind == "STOP":
            self.stop_once(rest, tools)
            command = rest
        elif kind == "RANKS":
            count, _, rest = rest.partition(" ")
            command = f"{RANKS} {count} {rest}"
        status, out, error = self.finished(command, tools)
        found = {"status": status, "stdout": digest(out)}
        for name in sorted(set(os.listdir(self.folder)) - before):
            if not name.startswith("part."):
                found[name] = of_file(self.folder / name)
        # A virtual result refers to its parts until here.
        for name in set(os.listdir(self.folder)) - before:
            (self.folder / name).unlink()
        self.assertLessEqual(status, 1, f"{command}: {error}")
        return found

    def test_same_results(self):
        all_commands = list(commands())
        self.assertGreater(len(all_commands), 280)
        for command in all_commands:
            with self.subTest(command=command):
                self.assertEqual(self.results(command, BIN), self.results(command, Path(BASE).resolve()))


if __name__ == "__main__":
    unittest.main()
