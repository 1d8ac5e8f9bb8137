"""The pages of the project: their examples run, and what they cite exists.

Every block that is marked ```sh is run by `bash -euo pipefail`, each in a folder of its own that holds
nothing but passage.h5 and trained.h5, with the tools on the PATH and ATTNKIT naming the project's root; and then a
second time in the same folder. Short runs do so with every third block. They draw the figures of one block only: of
others, attn-plot reads the command line. Blocks that are not to be run bear another language, such as ```text.
"""

import importlib.util
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
import unittest

from attn import BIN, LONG, SOURCE, TIMEOUT, ToolTest, sample

README = SOURCE / "README.md"
PAGES = sorted([*SOURCE.glob("*.md"), *SOURCE.glob(".github/*.md"),
                *(page for folder in ("data", "lib", "scripts", "tests", "tools")
                  for page in (SOURCE / folder).rglob("*.md"))])
TOOLS = {path.name for path in BIN.iterdir()}
# Languages of blocks that are shown and not run.
SHOWN = {"text", "toml", "python", "cpp", "cmake", "mermaid", "yaml"}
WITHOUT_PICTURES = importlib.util.find_spec("matplotlib") is None


def name_of(page):
    return str(page.relative_to(SOURCE))


def blocks(text):
    """(line number, language, contents) of all fenced blocks."""
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start()) + 2, match[1], match[2]) for match in found]


def scripts_of(text):
    """(line number, script) of the blocks that run."""
    return [(line, block) for line, language, block in blocks(text) if language == "sh"]


def prose_of(text):
    """The text without fenced blocks, its lines where they were."""
    return re.sub(r"^```\w*\n.*?^```$", lambda match: "\n" * match[0].count("\n"), text,
                  flags=re.MULTILINE | re.DOTALL)


def anchors(text):
    """What `#...` may name on a page: its headings as GitHub abbreviates them."""
    headings = re.findall(r"^#+ (.*)$", prose_of(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(text):
    """(file, anchor) of each link that stays in the repository."""
    found = re.findall(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]*))?\)", prose_of(text))
    return [(file, anchor) for file, anchor in found if file or anchor]


def citations(text):
    """Files that the prose names without a link: pages, and `lib/...` or the like in backticks."""
    prose = re.sub(r"\]\([^)]*\)|https?://\S+", "", prose_of(text))
    folders = r"`((?:lib|tools|tests|data|scripts|\.ci|\.github)/[^`\s]*)`"
    return set(re.findall(folders, prose) + re.findall(r"[\w./-]*\w\.md\b", prose))


def is_there(citation, page):
    """Whether a cited file exists: from the root, or beside the page; pages go by their name too."""
    if re.search(r"NAME|FILE|[*<>{}…]", citation):
        return True  # a pattern
    if any(other.name == citation for other in PAGES):
        return True
    return any((folder / citation).exists() for folder in (SOURCE, page.parent))


def pipelines(scripts):
    """The commands in which at least two tools are joined by a pipe."""
    commands = re.sub(r"\\\n|(?<=\|)\n", " ", "\n".join(scripts)).splitlines()
    starts = [[(part.split() or [""])[0] for part in command.split("|")] for command in commands]
    return [c for c, names in zip(commands, starts) if sum(n in TOOLS for n in names) >= 2]


def claims_of_data():
    """The claims of data/claims, each with the tags of its file."""
    files = [tomllib.loads(file.read_text()) for file in (SOURCE / "data/claims").glob("*.toml")]
    return [claim | {"tags": file.get("tags", []) + claim.get("tags", [])}
            for file in files for claim in file["claim"]]


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Examples(ToolTest):

    def setUp(self):
        super().setUp()
        (self.put_python_first() / "attn-plot").symlink_to(SOURCE / "scripts/attn-plot")
        self.environment |= {"ATTNKIT": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
        self.without_drawing = self.environment if LONG else self.with_undrawn_figures()

    def with_undrawn_figures(self):
        """An environment whose attn-plot only reads its command line and its input: each figure takes a second, and tests
        of figures write over those before them, too."""
        programs = self.folder.parent / "without-drawing"
        programs.mkdir()
        (programs / "attn-plot").write_text(textwrap.dedent(f"""\
            #!{sys.executable}
            import sys
            sys.dont_write_bytecode = True
            sys.path.insert(0, "{SOURCE}/scripts/plot")
            import kinds
            arguments = kinds.parser_of(sys.argv[1]).parse_args(sys.argv[2:])
            given = arguments.inputs if isinstance(arguments.inputs, list) else [arguments.inputs]
            for name in given:
                (sys.stdin.buffer if name == "-" else open(name.partition(":")[0], "rb")).read()
            """))
        (programs / "attn-plot").chmod(0o755)
        # Makefiles take PYTHON for figures only.
        return self.environment | {"PATH": f"{programs}:{self.environment['PATH']}", "PYTHON": "true"}

    def run_block(self, page, line, script, twice, drawn=True):
        where = f"{name_of(page)}:{line}"
        folder = self.folder / where.replace("/", "_").replace(":", "-")  # make dislikes colons
        folder.mkdir()
        for name in ("passage.h5", "trained.h5"):
            shutil.copy(SOURCE / "data" / name, folder)
        first = self.environment if drawn else self.without_drawing
        for turn, environment in (("first", first), ("second", self.without_drawing))[:1 + twice]:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder,
                                  env=environment, capture_output=True, timeout=TIMEOUT,
                                  stdin=subprocess.DEVNULL, check=False)
            self.assertEqual(done.returncode, 0,
                             f"{where}, {turn} run:\n{script}\n{done.stderr.decode()}")

    def test_every_block_runs_twice(self):
        before = contents(SOURCE / "data")
        found = [(page, *block) for page in PAGES for block in scripts_of(page.read_text())
                 if not (WITHOUT_PICTURES and "attn-plot" in block[1])]
        again = sample(found, len(found) // 3)
        drawn = sample([block for block in found if "attn-plot" in block[2]], 1)
        for block in found:
            with self.subTest(page=name_of(block[0]), line=block[1]):
                self.run_block(*block, twice=block in again, drawn=block in drawn)
        self.assertEqual(contents(SOURCE / "data"), before, "an example writes into data/")

    def test_code_is_that_of_an_example(self):
        examples = "".join(path.read_text() for path in (SOURCE / "tests/examples").glob("*.cpp"))
        shown = [block for page in PAGES for _, language, block in blocks(page.read_text()) if language == "cpp"]
        self.assertTrue(shown)
        for block in shown:
            self.assertIn(textwrap.indent(block, "  "), examples)

    def test_reports_are_as_shown(self):
        for page, example, count in ((README, "trained.h5:/layer2", 5), (SOURCE / "tools/guide/report.md", "passage.h5", 13)):
            printed = self.run_tool("explain-away-stats", f"{SOURCE}/data/{example}").out.decode().splitlines()
            text = "".join(block for _, language, block in blocks(page.read_text())
                           if language == "text")
            shown = re.findall(r"^ {11}unas -.*|^head  .*|^\d  .*|^all  .*\d$|^[ud]nas: (?!share).*|^ -?\d.*#.*",
                               text, re.MULTILINE)
            shown = [line for line in shown if "layer" not in line]
            with self.subTest(page=name_of(page)):
                self.assertGreaterEqual(len(shown), count)
                self.assertEqual([line for line in shown if line not in printed], [])

    def test_claims(self):
        page = (SOURCE / "data/claims/README.md").read_text()
        claims = next(block for _, language, block in blocks(page) if language == "toml")
        (self.folder / "paper.toml").write_text(claims)
        shutil.copy(SOURCE / "data/passage.h5", self.folder)
        done = self.run_tool("claim-check", "paper.toml", "--falsify", "--require-perturb")
        self.assertIn(b"10 computed claims: 10 can fail", done.out)

    def test_counts_of_claims(self):
        page = (SOURCE / "data/claims/README.md").read_text()
        claims = claims_of_data()
        readings = sum("reading" in claim["tags"] for claim in claims)
        refuted = sum(claim.get("expect") == "refuted" for claim in claims) - readings
        kinds = [claim.get("kind", "tool") for claim in claims]
        tool, statistics, printed = (kinds.count(kind) for kind in ("tool", "statistics", "printed"))
        page = page.replace("\n", " ")
        for text in (f"{len(claims)} claims of the literature", f" {refuted} of them are printed",
                     f" {readings} are readings", f" {tool} run a tool", f" {statistics} are statistics",
                     f" {printed} compare", f"all {tool + statistics} computed ones", f"all {printed} that compare"):
            self.assertIn(text, page)
        self.assertIn(f"| {len(claims)} claims |", (SOURCE / "data/README.md").read_text())
        self.assertIn(f"{len(claims)} claims of the literature, with errata", (SOURCE / "CHANGELOG.md").read_text())

    def test_kinds_of_claims(self):
        """Claims of the kind tool run one, others none. Their perturbation changes the tool's side: what follows the last
        call of a tool stays."""
        computing = "|".join(name for name in TOOLS if name != "tensor-gen")
        run = re.compile(rf"(?<![\w/.-])(?:{computing})(?![\w-])")
        for claim in claims_of_data():
            with self.subTest(claim=claim["id"]):
                command = claim["command"]
                scripts = "".join((SOURCE / "data/claims" / (one or two + ".py")).read_text() for one, two in re.findall(
                    r"\$CLAIMS/(\w+\.py)|from (evidence|path_step|relu_paths) import", command))
                kind = claim.get("kind", "tool")
                self.assertEqual(bool(run.search(command + scripts)), kind == "tool")
                # A script in Python names the tool in quotes, and may call it from anywhere.
                calls = [call.end() for call in run.finditer(command) if command[call.start() - 1] != '"']
                if kind == "tool" and calls:
                    rest = command[re.compile(r"(?<!\\)\n|$").search(command, calls[-1]).start():]
                    perturbed = command.replace(*claim["perturb"])
                    self.assertNotEqual(perturbed, command)
                    self.assertTrue(perturbed.endswith(rest), claim["perturb"])

    def test_refuted_claims_are_listed(self):
        """As what a document says, with the number of its erratum; or apart from it, as a reading."""
        refuted = [claim for claim in claims_of_data() if claim.get("expect") == "refuted"]
        page, mathematics = ((SOURCE / name).read_text().split("\n### Readings\n")
                             for name in ("data/claims/README.md", "lib/MATHEMATICS.md"))
        for are_readings, rows, numbers in zip((False, True), page, mathematics):
            with self.subTest(readings=are_readings):
                rows = re.findall(r"^\| (E\d+|) ?\|.*\| `([^`]*)` \| `([^`]*)` \|$", rows, re.MULTILINE)
                self.assertEqual({claim: right for _, claim, right in rows},
                                 {claim["id"]: claim["right"] for claim in refuted
                                  if ("reading" in claim["tags"]) == are_readings})
                # A reading may have no number.
                numbers = re.findall(r"^\| (E\d+) \|", numbers, re.MULTILINE) + [""] * are_readings
                self.assertLessEqual({number for number, _, _ in rows}, set(numbers))


class Pages(unittest.TestCase):

    def on_every_page(self, check):
        for page in PAGES:
            with self.subTest(page=name_of(page)):
                check(page, page.read_text())

    def test_pages_are_found(self):
        self.assertLess({"README.md", "CHANGELOG.md", "lib/README.md", ".github/CONTRIBUTING.md",
                         "tools/guide/report.md"}, {name_of(page) for page in PAGES})

    def test_languages(self):
        def check(_, text):
            self.assertEqual(len(re.findall("^ *```", text, re.MULTILINE)), 2 * len(blocks(text)),
                             "a block is not closed, or is indented")
            self.assertLessEqual({language for _, language, _ in blocks(text)}, SHOWN | {"sh"})
        self.on_every_page(check)

    def test_links(self):
        def check(page, text):
            for file, anchor in links(text):
                target = (page.parent / file).resolve() if file else page
                self.assertTrue(target.exists(), f"links to {file}")
                self.assertTrue(target.is_relative_to(SOURCE), f"{file} is outside")
                if anchor:
                    self.assertIn(anchor, anchors(target.read_text()), f"{file}#{anchor}")
        self.on_every_page(check)

    def test_citations(self):
        def check(page, text):
            wrong = sorted(name for name in citations(text) if not is_there(name, page))
            self.assertEqual(wrong, [], "are cited, and not in the repository")
        self.on_every_page(check)

    def test_every_page_is_linked(self):
        reached, waiting = set(), [README]
        while waiting:
            page = waiting.pop()
            if page in reached or page.suffix != ".md":
                continue
            reached.add(page)
            waiting += [(page.parent / file).resolve() for file, _ in links(page.read_text()) if file]
        changes = SOURCE / "CHANGELOG.md"
        self.assertEqual([name_of(page) for page in PAGES if page not in reached | {changes}], [])


class Library(unittest.TestCase):

    def test_every_room_is_described(self):
        rooms = {path.name for path in (SOURCE / "lib").iterdir() if any(path.glob("**/*.hpp"))}
        described = re.findall(r"^\| `(\w+)` \|", (SOURCE / "lib/README.md").read_text(), re.MULTILINE)
        self.assertLessEqual(rooms, set(described))


class Readme(unittest.TestCase):

    def setUp(self):
        self.text = README.read_text()

    def test_is_short(self):
        lines = self.text.splitlines()
        self.assertLessEqual(len(lines), 160)
        self.assertEqual([line for line in lines if len(line) > 110], [])

    def test_there_are_pipelines(self):
        self.assertGreaterEqual(len(pipelines([s for _, s in scripts_of(self.text)])), 5)

    def test_names_every_tool(self):
        # Mechanisms are one row, which links to the page that names them.
        self.assertIn("| [mechanisms](tools/guide/mechanisms.md) |", self.text)
        text = self.text + (SOURCE / "tools/guide/mechanisms.md").read_text()
        for tool in TOOLS:
            self.assertIn(f"`{tool}`", text)


class Itself(unittest.TestCase):
    """The functions above, on a made-up page."""

    TEXT = ("# A `b`: c\n```sh\nattn-compute x |\n  head\n```\n"
            "```text\n# no [a](b.md)\n```\n```sh\ntensor-gen | cat\n```\n"
            "[x](y.md#z) [x](#a-b-c) [x](https://a.b/c.md) `lib/none.hpp` and NONE.md\n")

    def test_blocks(self):
        self.assertEqual(scripts_of(self.TEXT), [(3, "attn-compute x |\n  head\n"),
                                                 (10, "tensor-gen | cat\n")])

    def test_links(self):
        self.assertEqual(links(self.TEXT), [("y.md", "z"), ("", "a-b-c")])
        self.assertEqual(anchors(self.TEXT), {"a-b-c"})

    def test_citations(self):
        self.assertEqual(citations(self.TEXT), {"lib/none.hpp", "NONE.md"})
        self.assertFalse(is_there("NONE.md", README))
        self.assertTrue(is_there("MATHEMATICS.md", SOURCE / "lib/README.md"))

    @unittest.skipUnless({"attn-compute", "tensor-gen"} <= TOOLS, "no such tools")
    def test_pipelines(self):
        scripts = ["tensor-gen a | attn-compute b\n", "tensor-gen \\\n  a | \\\n  attn-compute\n",
                   "tensor-gen a |\n  attn-compute b\n", "tensor-gen | cat\n",
                   "echo attn-compute | cat\n"]
        self.assertEqual(len(pipelines(scripts)), 3)


if __name__ == "__main__":
    unittest.main()
