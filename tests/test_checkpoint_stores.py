"""Both stores pass the public conformance suite, and the suite condemns stores that break a promise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from checkpoint import MemoryStore, SqliteReader, SqliteStore, Store, StoreReader
from reliable_rx.testing.stores import STORE_CHECKS, check_store

OpenStore = Callable[[], Store]


def _memory(tmp_path: Path) -> OpenStore:
    first = MemoryStore()
    return first.reopen


def _sqlite(tmp_path: Path) -> OpenStore:
    return lambda: SqliteStore(tmp_path / "store")


@pytest.fixture(params=[_memory, _sqlite], ids=["memory", "sqlite"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    opener: OpenStore = request.param(tmp_path)
    return opener


@pytest.mark.parametrize("name", STORE_CHECKS)
def test_each_check_on_a_new_store(open_store: OpenStore, name: str) -> None:
    """Every store passes every check on its own."""
    STORE_CHECKS[name](open_store)


def test_all_checks_on_one_store(open_store: OpenStore) -> None:
    """The checks also pass one after the other on one store."""
    check_store(open_store)


def test_the_types_are_stores() -> None:
    """Both stores and the reader have the declared interface (held by mypy as well)."""
    stores: list[type[Store]] = [MemoryStore, SqliteStore]
    readers: list[type[StoreReader]] = [SqliteReader, *stores]
    assert all(hasattr(reader, "recover") for reader in readers)
