"""Values of classes as people write them: a class that nobody has edited is read as pickle reads it, or better."""

from __future__ import annotations

import base64
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from class_texts import MODULE, TEXTS, made_anew, shown

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format.codec import decode, digest, encode
from checkpoint.format.salvage import salvage
from hosting import ListSource, QueryEvaluator
from reliable_rx.functions import replaced_classes

ROOT = Path(__file__).parent.parent


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


LOCAL: dict[str, str] = {
    "plain": "class Item:\n    def __init__(self, k): self.k = k",
    "a property": "class Item:\n    def __init__(self, k): self._k = k\n    @property\n    def k(self): return self._k",
    "slots": "class Item:\n    __slots__ = ('k',)\n    def __init__(self, k): self.k = k",
    "a dataclass": "@dataclass\nclass Item:\n    k: int",
    "frozen": "@dataclass(frozen=True)\nclass Item:\n    k: int",
    "slots dataclass": "@dataclass(slots=True)\nclass Item:\n    k: int",
    "frozen slots": "@dataclass(frozen=True, slots=True)\nclass Item:\n    k: int",
    "on a dict": "class Item(dict):\n    def __init__(self, k=0): self.k = k",
}
READ = """
import sys, base64
from checkpoint.format.codec import decode
first, second = decode(base64.b64decode(sys.stdin.read()))
print(first.k, second.k, first.ZERO.k, second.ZERO.k, type(first.ZERO) is type(second))
"""


@pytest.mark.parametrize("name", LOCAL)
def test_a_class_that_goes_by_its_code_may_hold_objects_of_its_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are filled while it is made: nothing is asked of it then, nor is any answer kept."""
    monkeypatch.setitem(sys.modules, MODULE, ModuleType(MODULE))  # where it has no name
    space: dict[str, Any] = {"__name__": MODULE, "dataclass": dataclass}
    exec(LOCAL[name], space)
    kind = space["Item"]
    kind.ZERO = kind(0)
    data = base64.b64encode(encode([kind(5), kind(6)]))
    ran = subprocess.run([sys.executable, "-c", READ], input=data, capture_output=True, check=False, cwd=ROOT)
    assert ran.stdout.split() == [b"5", b"6", b"0", b"0", b"True"], ran.stderr.decode()


def made(n: int) -> Any:
    return sys.modules[MODULE].__dict__["made"]


def both(last: Any, value: Any) -> Any:
    return value if last is None else last
