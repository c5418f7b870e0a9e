"""What the documents show is right for type checkers too: a reader's editor marks nothing of what was copied.

One run of each checker over all of it. A document is a module, with each block on the lines where the document has it,
and each file that it shows is another, so that an error is told by document and line.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lanes import left_to_commits
from test_docs import DOCUMENTS, ROOT, blocks

CONFIGURATION = f"""
[mypy]
mypy_path = {ROOT}
strict = true
allow_redefinition = true
disable_error_code = no-redef
follow_imports = silent

[mypy-pandas.*,matplotlib.*,pyspark.*,pyarrow.*,fsspec.*]
ignore_missing_imports = true
"""
"""A block is a cell of a notebook: it may define again what one before it did."""
ERROR = re.compile(r"^(?P<file>\S+?\.py):(?P<line>\d+)(:\d+)?: error: (?P<words>.*)$", re.M)


def modules() -> Iterator[tuple[Path, str, str]]:
    """Yield each module that a document shows: the document, the name of the module and its text."""
    for document in DOCUMENTS:
        name = re.sub(r"\W", "_", document.relative_to(ROOT).with_suffix("").as_posix())
        files = {block.file.removesuffix(".py") for block in blocks(document) if block.file and ".py" in block.file}
        shown: dict[str, list[str]] = {}
        for block in blocks(document):
            if block.language == "python":
                module = f"{name}__{block.file.removesuffix('.py')}" if block.file else name
                lines = shown.setdefault(module, [])
                begin = block.line + (block.file is not None)  # the block's text begins behind its fence
                lines += [""] * (begin - len(lines)) + [within(line, name, files) for line in block.text.splitlines()]
        for module, lines in shown.items():
            yield document, module, "\n".join(lines) + "\n"


def within(line: str, document: str, files: set[str]) -> str:
    """Return a line that imports a file of the *document* as one that imports the module made of it."""
    for each in files:
        line = re.sub(rf"^(\s*)from {each} import", rf"\1from {document}__{each} import", line)
        line = re.sub(rf"^(\s*)import {each}$", rf"\1import {document}__{each} as {each}", line)
    return line


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return the folder with all that is shown, and the document of each module."""
    folder, documents = tmp_path_factory.mktemp("shown"), {}
    for document, module, text in modules():
        (folder / f"{module}.py").write_text(text)
        documents[module] = document.relative_to(ROOT).as_posix()
    return folder, documents


@left_to_commits
def test_mypy_passes_what_documents_show(shown: tuple[Path, dict[str, str]]) -> None:
    """mypy, strict, finds nothing in the Python of README and docs."""
    pytest.importorskip("mypy")
    folder, documents = shown
    (folder / "mypy.ini").write_text(CONFIGURATION)
    cache = ROOT / ".mypy_cache" / "documents"
    check = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(cache), "."]
    done = subprocess.run(check, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
    errors = [
        f"{documents[Path(each['file']).stem]}:{each['line']}: {each['words']}" for each in ERROR.finditer(done.stdout)
    ]
    assert not errors and not done.returncode, "\n".join(errors) or done.stdout + done.stderr
    assert f"in {len(documents)} source files" in done.stdout


@left_to_commits
def test_pyright_passes_what_documents_show(shown: tuple[Path, dict[str, str]]) -> None:
    """So does pyright."""
    pytest.importorskip("pyright")
    folder, documents = shown
    options = {"extraPaths": [str(ROOT)], "pythonVersion": "3.11", "reportMissingImports": "none"}  # mypy reports them
    (folder / "pyrightconfig.json").write_text(json.dumps(options))
    check = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(check, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(documents)
    errors = [
        f"{documents[Path(each['file']).stem]}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in report["generalDiagnostics"]
        if each["severity"] == "error"
    ]
    assert not errors, "\n".join(errors)
