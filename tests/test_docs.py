"""What the documents show is what happens: code blocks run, commands are typed into a shell, links lead somewhere.

The rules for whoever writes a document. A block of ``python`` runs, in order with the others of its document, in an
empty directory; a block of ``text`` right behind it is what it prints. A block of ``console`` is typed into bash, and
what stands under a command is its output (slow lane). ``...`` stands for any text. ``<!-- file: name -->`` before a
block writes it to that file instead. ``no-run`` behind the language is for what cannot be run here; there are few. What
runs passes type checkers too (`test_docs_types.py`); a mistake that is shown has a ``# type: ignore[code]`` behind it.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import inspect
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import reactivex
import reactivex.operators
from lanes import left_to_commits
from psycopg.conninfo import conninfo_to_dict

import spark_bridge
from reliable_rx import creation, operators
from spark_bridge.session import worker_python

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = {"tutorial", "how-to", "reference", "explanation"}
NOT_RUN_MAX = 6
ON_A_SERVER = '"postgresql://"'
"""An address that is all in the environment: what is shown with it runs on a server of the tests."""
BLOCK = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
OUTPUT = doctest.OutputChecker()


@dataclass(frozen=True)
class Block:
    """One fenced block, with the line it begins on and what stands between it and the one before."""

    file: str | None
    language: str
    text: str
    line: int
    gap: str

    @property
    def runs(self) -> bool:
        return "no-run" not in self.language


def blocks(document: Path) -> list[Block]:
    text = document.read_text()
    found, end = [], 0
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(match["file"], match["language"].strip(), match["text"], line, text[end : match.start()]))
        end = match.end()
    return found


def having(language: str) -> list[Any]:
    documents = [each for each in DOCUMENTS if any(b.language.startswith(language) for b in blocks(each))]
    marked = {each: [pytest.mark.spark] if language == "console" and with_spark(each) else [] for each in documents}
    return [pytest.param(each, id=each.relative_to(ROOT).as_posix(), marks=marked[each]) for each in documents]


def with_spark(document: Path) -> bool:
    """Whether a file that *document* shows starts a session of Spark's."""
    return any(block.file is not None and "from pyspark" in block.text for block in blocks(document))


def check_output(expected: str, actual: str, where: str) -> None:
    flags = doctest.ELLIPSIS
    assert OUTPUT.check_output(expected, actual, flags), f"{where} says\n{expected}\nand what happens is\n{actual}"


@pytest.mark.leaves  # what a reader's process ends with
@pytest.mark.parametrize("document", having("python"))
def test_python_in_documents_runs(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The Python blocks of a document run one after the other, and print what stands behind them."""
    if ON_A_SERVER in document.read_text():
        given = conninfo_to_dict(request.getfixturevalue("postgres").new_database())
        for name in ("host", "port", "user", "dbname"):
            monkeypatch.setenv({"dbname": "PGDATABASE"}.get(name, f"PG{name.upper()}"), str(given[name]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    module = ModuleType("document_at_work")  # dataclasses look themselves up in their module
    monkeypatch.setitem(sys.modules, module.__name__, module)
    printed: str | None = None
    try:
        for block in blocks(document):
            where = f"{document.relative_to(ROOT)}:{block.line}"
            if block.file is not None:
                Path(block.file).write_text(block.text)
            elif block.language == "python":
                printed = run(block, where, vars(module))
            elif block.language == "text" and not block.gap.strip() and printed is not None:
                check_output(block.text, printed, where)
    finally:
        for name in set(sys.modules) - before:
            if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


def run(block: Block, where: str, namespace: dict[str, Any]) -> str:
    code = compile("\n" * block.line + block.text, where, "exec")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, namespace)
    return output.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("document", having("console"))
def test_commands_in_documents_do_what_they_show(document: Path, tmp_path: Path) -> None:
    """The commands of a document, typed into a shell in an empty directory, print what stands under them."""
    paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(paths), "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    if with_spark(document):
        pytest.importorskip("pyspark")
        environment["PYSPARK_PYTHON"] = worker_python()  # as `start_session` does it: in a third of the time
    for block in blocks(document):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text)
        elif block.language == "console":
            for command, expected in commands(block.text):
                done = subprocess.run(
                    ["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=250
                )
                where = f"{document.relative_to(ROOT)}:{block.line}: $ {command}\n{done.stderr}"
                check_output(expected, done.stdout, where)


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command (with the lines it goes on over) and what stands under it."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, output = [], part.splitlines(keepends=True)
        while output:
            command.append(output.pop(0))
            if not command[-1].rstrip().endswith("\\"):
                break
        yield "".join(command).strip(), "".join(output)


def test_few_blocks_are_not_run() -> None:
    """What is shown without being run is the exception."""
    shown = [
        f"{document.relative_to(ROOT)}:{block.line}"
        for document in DOCUMENTS
        for block in blocks(document)
        if block.language.startswith(("python", "console")) and not block.runs
    ]
    assert len(shown) <= NOT_RUN_MAX, shown


def test_every_block_says_what_it_is() -> None:
    """Every fenced block names its language, so that none escapes by being anonymous."""
    known = {"python", "console", "text", "csv", "json", "sql", "sh", "bash"}
    for document in DOCUMENTS:
        for block in blocks(document):
            assert block.language.split(" ")[0] in known, f"{document.relative_to(ROOT)}:{block.line}"
        assert document.read_text().count("\n```") % 2 == 0, f"{document.name}: a block is not closed"


@pytest.mark.parametrize("document", [pytest.param(each, id=each.name) for each in DOCUMENTS])
def test_links_lead_somewhere(document: Path) -> None:
    """Relative links resolve, to the heading if they name one."""
    text = BLOCK.sub("", document.read_text())
    for link in LINK.findall(text):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), f"{document.relative_to(ROOT)} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{document.relative_to(ROOT)} links to {link}"


def anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_document_can_be_found() -> None:
    """From the README every document can be reached by links."""
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        document = waiting.pop()
        if document in reached or document.suffix != ".md":
            continue
        reached.add(document)
        paths = [link.partition("#")[0] for link in LINK.findall(document.read_text()) if "://" not in link]
        waiting += [(document.parent / path).resolve() for path in paths if path]
    assert set(DOCUMENTS) <= reached
    assert {path.name for path in (ROOT / "docs").iterdir() if path.is_dir()} >= FOLDERS


@cache
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@left_to_commits
def test_the_generated_reference_is_current() -> None:
    """docs/reference is what the docstrings say now; `make docs` writes it anew."""
    for name, text in generator().pages().items():
        assert (ROOT / "docs" / "reference" / name).read_text() == text, f"{name} is old: run make docs"


NOT_DRAWN = {
    "map_async": "virtual time cannot play what a service answers",
    "to_future": "what it returns is no sequence",
    "hot": "it plays whether anybody listens or not, so it needs the clock that its example names",
    "start": "it runs on a thread of its own",
    "to_async": "it runs on a thread of its own",
}
"""What has an example but no diagram."""


def documented() -> Iterator[tuple[str, str]]:
    for package in (operators, creation):
        for name in package.__all__:
            yield name, inspect.cleandoc(getattr(package, name).__doc__ or "")


def test_every_operator_says_what_it_saves() -> None:
    """Every operator and creation function begins with one sentence, and ends with what is saved and what it raises."""
    last = re.compile(r"\n\*State\*: (?!.*\n\n(?!\*Raises\*))(?!.* \*Raises\*)", re.S)
    assert not [name for name, text in documented() if not last.search(text)]
    beginnings = {name: text.partition("\n\n")[0] for name, text in documented()}
    assert not [name for name, words in beginnings.items() if ". " in words or not words.endswith(".")]


def test_every_operator_is_drawn() -> None:
    """Every operator and creation function has an example that runs, and a diagram; exceptions have reasons."""
    assert not [name for name, text in documented() if ">>> " not in text]
    assert {name for name, text in documented() if ">>> diagram(" not in text} == set(NOT_DRAWN)


@left_to_commits
def test_every_operator_has_its_place_in_the_reference() -> None:
    """The families of the reference page have every public name once, and the table a line for each."""
    made = generator()
    for begins, package in ((False, operators), (True, creation)):
        placed = [name for family in made.FAMILIES if family.begins == begins for name in family.names]
        assert sorted(placed) == sorted(package.__all__)
    lines = [line for line in made.operators_page().splitlines() if line.startswith("| [")]
    assert len(lines) == len(operators.__all__) + len(creation.__all__)
    assert all(line.count(" | ") == made.operator_table.HEAD.split("\n")[0].count(" | ") for line in lines)


def test_every_name_of_the_bridge_has_its_place_in_the_reference() -> None:
    """The page on Spark has every public name of `spark_bridge`, once."""
    headings = re.findall(r"^### (\w+)$", generator().spark_page(), re.M)
    assert not [name for name in spark_bridge.__all__ if headings.count(name) != 1]


@left_to_commits
def test_the_readme_counts_right() -> None:
    """The README says how many operators there are, how many are not RxPY's, and how many cannot be hosted."""
    text = (ROOT / "README.md").read_text()
    ours, theirs = set(operators.__all__), set(reactivex.operators.__all__)
    assert f"The {len(theirs)} operators and {len(creation.__all__)} creation functions of RxPY" in text
    assert f"and {NUMBERS[len(ours - theirs)]} operators that RxPY has not" in text
    assert f"All but {generator().operators_page().count('| leaves the host |')}, which leave the query" in text


NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@left_to_commits
def test_the_table_of_operators_knows_the_facts() -> None:
    """What is read off the code is right where it is known from elsewhere."""
    page = generator().operators_page()
    for line in (
        "| [scan](#scan) | one input | `value` | – | – | yes |",
        "| [to_list](#to_list) | one input | `items` | `items`: `list_items_max` | – | yes |",
        "| [debounce](#debounce) | time | `value` | – | timers | yes |",
        "| [zip](#zip) | several inputs | `queues`, `live` | what waits: `queue_items_max` | – | yes |",
        "| [window_with_count](#window_with_count) | inner sequences | `next_key`, `index`, `begun`, `newest` | rows: ",
        "| [to_marbles](#to_marbles) | leaves the host | – | – | – | no: read the query's stream",
        "| [rx.interval](#rxinterval) | time | *timer*: `count`, `due` | – | timers | yes |",
    ):
        assert line in page


def test_every_option_of_the_evaluator_is_explained() -> None:
    """The table of options names every option of `QueryEvaluator` with its default, and no others."""
    from hosting import QueryEvaluator

    text = (ROOT / "docs" / "reference" / "evaluator.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", text, re.M))
    parameters = list(inspect.signature(QueryEvaluator.__init__).parameters.values())[2:]
    assert list(rows) == [each.name for each in parameters]
    for each in parameters:
        if not callable(each.default):
            assert eval(rows[each.name]) == each.default, each.name


def test_tests_named_in_the_promises_exist() -> None:
    """Every test that docs/safety.md names as holding a promise exists."""
    named = set(re.findall(r"`(test_\w+\.py)(?:::(test_\w+))?`", (ROOT / "docs" / "safety.md").read_text()))
    assert named
    texts = {path.name: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    missing = [each for each in sorted(named) if f"def {each[1]}" not in texts.get(each[0], "")]
    assert not missing


def test_nothing_speaks_of_the_workshop() -> None:
    """No document or module names a path of a machine it was written on."""
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    words = [f"/{folder}/" for folder in ("work", "root", "home")]
    for name in tracked.stdout.split():
        path = ROOT / name
        if path.suffix in (".md", ".py", ".toml") and path.is_file():
            text = path.read_text()
            assert not [word for word in words if word in text], name
