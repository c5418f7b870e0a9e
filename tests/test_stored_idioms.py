"""A function that comes out of a store does what it did when it was put in, whatever idiom it is written in."""

from __future__ import annotations

import ast
import os
import pickle
import pickletools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lanes import left_to_commits
from stored_idioms import CODE, IDIOMS, plant
from test_interpreters import HERE, interpreters, links

from checkpoint import code
from checkpoint.codec import decode

__all__ = ["links"]
PROCESS = Path(__file__).parent / "stored_idioms.py"
MAKES_CODE = ("CodeType", "_make_function", "_make_skeleton_class", "_make_skeleton_enum", "marshal")


def process(*arguments: str, python: str = sys.executable, path: str = "") -> str:
    env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python, str(PROCESS), *arguments]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the modules, and the file with what was stored of them."""
    folder = tmp_path_factory.mktemp("idioms")
    plant(folder)
    process("write", str(folder), "stored")
    return folder


@pytest.fixture(scope="module")
def stored(planted: Path) -> dict[str, tuple[bytes, str]]:
    found: dict[str, tuple[bytes, str]] = pickle.loads((planted / "stored").read_bytes())
    return found


@pytest.fixture(scope="module", params=["imported", "not imported"])
def loaded(planted: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    found: dict[str, str] = ast.literal_eval(process("read", str(planted), "stored", request.param))
    return found


@pytest.mark.parametrize("idiom", IDIOMS)
def test_what_is_loaded_does_what_was_stored(
    stored: dict[str, tuple[bytes, str]], loaded: dict[str, str], idiom: str
) -> None:
    """In a process of its own, also before the module is imported, a loaded function gives what the stored one gave."""
    assert loaded[idiom] == stored[idiom][1]


def made_in(data: bytes) -> Iterator[str]:
    """Yield what the pickle *data* names that makes code, but not what lies wrapped in it."""
    for _, argument, _ in pickletools.genops(data):
        if isinstance(argument, str) and argument in MAKES_CODE:
            yield argument


@pytest.mark.parametrize("idiom", IDIOMS)
def test_code_is_never_loaded_by_another_interpreter(
    stored: dict[str, tuple[bytes, str]], idiom: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever holds byte code, in whatever wrapping, says whose it is, and is refused by others."""
    data = stored[idiom][0]
    assert list(made_in(data)) == []
    if idiom in CODE:
        here = code.makers()
        monkeypatch.setattr(code, "makers", lambda: here._replace(bytecode=1))
        with pytest.raises(code.OtherCode):
            decode(data)


@left_to_commits
@pytest.mark.parametrize("version", [version for version in interpreters() if version != HERE])
def test_other_interpreters_run_what_is_data_and_refuse_the_rest(
    planted: Path, stored: dict[str, tuple[bytes, str]], links: Path, version: str
) -> None:
    """Another interpreter gives what this one gives, or `OtherCode`: never another value, never a dead process."""
    said = process("read", str(planted), "stored", python=interpreters()[version], path=str(links))
    found: dict[str, Any] = ast.literal_eval(said)
    refused = {idiom for idiom in found if found[idiom].startswith("OtherCode")}
    assert set(CODE) <= refused
    assert [idiom for idiom in found.keys() - refused if found[idiom] != stored[idiom][1]] == []
