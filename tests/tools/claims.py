"""Shared by the tests of claim-check."""

import json

from attn import ToolTest

HOLDS = """
[[claim]]
id = "{id}"
source = "A paper, (1)"
statement = "A number is what it is."
command = '''{command}'''
value = "{value}"
relation = "="
expected = {expected}
{more}
"""


PRINT = "/usr/bin/python3 -c 'print({})' > r.json"
NUMPY = "/usr/bin/python3 -c 'import numpy as np; np.save(\"x.npy\", {})'"


def claim(name, command="true", value="status", expected=0, more=""):
    return HOLDS.format(id=name, command=command, value=value, expected=expected, more=more)


class ClaimTest(ToolTest):

    def claims(self, *texts, name="claims.toml", top=""):
        (self.folder / name).write_text(top + "".join(texts))

    def check(self, *arguments, status=0, **more):
        done = self.run_tool("claim-check", "claims.toml", *arguments, "--json=r.json", status=status, **more)
        self.text = done.out.decode()
        report = json.loads((self.folder / "r.json").read_text())
        return {c["id"]: c for c in report["result"]["list"]}

    def bounded(self, name, relation, expected, more="", command="echo '{\"x\": 1}' > r.json"):
        return claim(name, command, "r.json:/x", expected, more).replace('"="', f'"{relation}"')
