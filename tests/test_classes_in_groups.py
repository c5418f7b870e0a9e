"""Classes that change while groups hold their objects: the stored functions open the groups again, with the new one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import ListSource, QueryEvaluator
from reliable_rx.errors import CheckpointRefused

NAME = "stock_of_groups"
FIRST = """
from dataclasses import dataclass
from typing import ClassVar
@dataclass(frozen=True)
class Stock:
    item: str
    qty: int
def book(stock, order):
    return Stock(stock.item, stock.qty + 1)
def stock_of(group):
    return group.scan(book, Stock(item=group.key, qty=0))
"""
CALLED_ALIKE = FIRST.replace("Stock(item=group.key, qty=0)", "Stock(group.key, 0)")
RENAMED = CALLED_ALIKE.replace(
    "    qty: int", "    quantity: int\n    __renamed_fields__: ClassVar = {'qty': 'quantity'}"
).replace("stock.qty", "stock.quantity")
AT_ONCE = RENAMED.replace("Stock(group.key, 0)", "Stock(item=group.key, quantity=0)")
Life = Callable[..., list[Any]]


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def live(text: str, events: int, **options: Any) -> list[Any]:
        (tmp_path / f"{NAME}.py").write_text(text)
        sys.modules.pop(NAME, None)
        importlib.invalidate_caches()
        stock: ModuleType = importlib.import_module(NAME)
        with (
            SqliteStore(tmp_path / "store") as store,
            QueryEvaluator(store, background=False, **options) as evaluator,
        ):
            evaluator.source("n", ListSource([*range(events)], follow=True))
            evaluator.create("q", rx.source("n").group_by(lambda n: n % 2).flat_map(stock.stock_of))
            while evaluator.step():
                pass
            parts = list(evaluator.stream("q").read(0, 100))
        return [getattr(each, "qty", getattr(each, "quantity", each)) for part in parts for each in part.values]

    return live


def test_a_class_that_the_stored_selector_cannot_make_any_more_is_refused(life: Life) -> None:
    """Nothing is lost: with the class of before it goes on, and the way that is named leads to the new one."""
    assert life(FIRST, 4) == [1, 1, 2, 2]
    with pytest.raises(
        CheckpointRefused, match=r"state of 'q' is of an earlier class: .*stock_of_groups\.Stock"
    ) as told:
        life(AT_ONCE, 6)
    assert "call it in a way that both versions take, stop, and change it then" in str(told.value)
    assert life(FIRST, 6)[-2:] == [3, 3]
    assert life(CALLED_ALIKE, 8)[-2:] == [4, 4]
    assert life(RENAMED, 10)[-2:] == [5, 5]
    assert life(AT_ONCE, 12)[-2:] == [6, 6]


def test_without_strictness_it_begins_afresh(life: Life) -> None:
    """And is said to: its groups begin with the next events of their keys."""
    assert life(FIRST, 4) == [1, 1, 2, 2]
    assert life(AT_ONCE, 6, strict=False)[-2:] == [1, 1]


def test_a_selector_that_fails_by_itself_ends_its_query(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no class has changed none is to blame: the start goes on, and the query has failed."""
    failing = FIRST.replace("def stock_of(group):", "import os\ndef stock_of(group):\n    len(os.environ.get('LIMIT'))")
    monkeypatch.setenv("LIMIT", "1")
    assert life(failing, 4) == [1, 1, 2, 2]
    monkeypatch.delenv("LIMIT")
    assert life(failing, 6) == [1, 1, 2, 2]
