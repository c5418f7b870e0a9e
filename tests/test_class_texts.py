"""Values of classes as people write them: a class that nobody has edited is read as pickle reads it, or better."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import pytest
from class_texts import MODULE, TEXTS, made_anew, shown

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format.codec import decode, digest, encode
from checkpoint.format.salvage import salvage
from hosting import ListSource, QueryEvaluator
from reliable_rx.functions import replaced_classes


def read_by_pickle(name: str, data: bytes) -> Any:
    with made_anew(name):
        return shown(pickle.loads(data))


@pytest.mark.parametrize("name", TEXTS)
def test_a_class_that_nobody_has_edited(name: str) -> None:
    """Behind a restart its values are those of before, for the quick reader and for the lenient one."""
    with made_anew(name) as value:
        known, data, before = digest([value]), encode([value, value]), shown(value)
        try:
            usual = pickle.dumps(value, 5)
        except Exception:
            usual = b""
    with made_anew(name) as value:
        first, second = decode(data)
        assert type(first) is type(value) and first is second
        again, lenient = shown(first), salvage(data, code=True)
        assert not lenient.unreadable and shown(lenient.value[0]) == again
        assert digest([value]) == known
        if again == before:
            return
    assert again == read_by_pickle(name, usual)


@pytest.mark.parametrize("name", TEXTS)
def test_it_is_taken_up_by_a_query(name: str) -> None:
    """As the state of a query, in what it has emitted and in what it waits to emit: nothing is lost by a restart."""
    store, values = MemoryStore(), [1, 2, 3]

    def life() -> list[Any]:
        with made_anew(name) as value, QueryEvaluator(store, background=False) as evaluator:
            sys.modules[MODULE].__dict__["made"] = value
            evaluator.source("n", ListSource(values, follow=True))
            evaluator.create("held", rx.source("n").map(made).scan(both, None).pairwise())
            while evaluator.step():
                pass
            found = [
                shown(one) for part in evaluator.stream("held").read(0, 100) for pair in part.values for one in pair
            ]
        replaced_classes._PLACES.pop(MODULE, None)
        return found

    before = life()
    values += [4, 5]
    again = life()
    with made_anew(name) as value:
        stored = encode(value)
    with made_anew(name):
        as_read = shown(decode(stored))
    assert again[: len(before)] in (before, [as_read] * len(before)) and len(again) == 2 * len(before)
    assert all(each in (before[0], as_read) for each in again)


def made(n: int) -> Any:
    return sys.modules[MODULE].__dict__["made"]


def both(last: Any, value: Any) -> Any:
    return value if last is None else last
