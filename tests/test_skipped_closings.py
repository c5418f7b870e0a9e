"""`buffer_when` and `window_when` under ``skip`` and ``dead_letter``: a closing that cannot be made, or cannot begin.

The function that makes it is given nothing, so it goes by what the query has noted outside of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from lanes import crossed, every_of
from skipping import VALUES, played

import reliable_rx as rx
from reliable_rx.errors import QueryRefused

N: Any = rx.source("n")
NOTED = "EVENT_OF_TEST_SKIPPED_CLOSINGS"
Function = Callable[..., Any]


def note(n: int) -> None:
    os.environ[NOTED] = str(n)


def at_any_of(bad: set[int], how: str) -> Function:
    """Return a function to a sequence that closes with the next event, but for the events that are *bad*."""
    noted = {str(n) for n in bad}

    def closing(*_: Any) -> Any:
        if os.environ[NOTED] not in noted:
            return rx.source("n").take(1)
        if how == "raises":
            raise ValueError("no closing")
        return None if how == "returns None" else rx.from_iterable(iter([1]))

    return closing


KINDS: dict[str, Callable[[Any, Function], Any]] = {
    "buffer_when": lambda s, f: s.buffer_when(f),
    "window_when": lambda s, f: s.window_when(f).flat_map(lambda w: w.to_list()),
}
MADE: dict[str, Callable[[Function], Function]] = {
    "the function": lambda f: f,
    "defer": lambda f: lambda: rx.defer(f),
    "using": lambda f: lambda: rx.using(lambda: None, f),
}
CASES = [(kind, made) for kind in KINDS for made in MADE if (kind, made) != ("window_when", "the function")]
"""The function of `window_when` is called once, for all windows."""


def expected(bad: set[int]) -> list[list[int]]:
    """Return the lists if each event closes one; a bad one leaves the next without a closing, and the next is out."""
    lists: list[list[int]] = [[]]
    closable = True
    for n in VALUES:
        if not closable and n in bad:
            continue
        lists[-1].append(n)
        if closable:
            lists.append([])
        closable = not closable or n not in bad
    return lists


@pytest.fixture(autouse=True)
def _what_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NOTED, "")


def begun(query: Any, *, restarts: bool, policy: str = "skip") -> tuple[str, list[Any], int]:
    """Play *query* from a moment at which nothing is noted."""
    os.environ[NOTED] = ""
    return played(query, restarts=restarts, policy=policy)


@pytest.mark.parametrize(
    "case, bad, how, policy",
    every_of(
        23,
        product(
            CASES,
            [{0}, {4}, {9}, {4, 5, 6}, {3, 8}],
            ["raises", "returns None", "unreadable"],
            ["skip", "dead_letter"],
        ),
    ),
    ids=str,
)
def test_a_list_without_a_closing_waits_for_one(case: tuple[str, str], bad: set[int], how: str, policy: str) -> None:
    """With the next element it is tried again, which is left out if that fails too; the lists go on closing."""
    kind, made = case
    query = KINDS[kind](N.do_action(note), MADE[made](at_any_of(bad, how)))
    found = begun(query, restarts=False, policy=policy)
    assert found == ("completed", [*map(repr, expected(bad))], len(bad))
    assert begun(query, restarts=True, policy=policy) == found


@pytest.mark.parametrize("how, made, kind", crossed(["raises", "returns None", "unreadable"], MADE, KINDS))
def test_the_first_one(kind: str, made: str, how: str) -> None:
    """At its creation no event is at work, and the query fails; where an event begins it, its sequence is given up."""
    closing = MADE[made](at_any_of({0}, how))
    note(0)
    try:
        assert played(KINDS[kind](N, closing), restarts=False)[0] == "failed"
    except QueryRefused:
        assert kind == "window_when"
    query = N.do_action(note).take(3).flat_map(lambda n: KINDS[kind](rx.source("n"), closing))
    for restarts in (False, True):
        status, values, skipped = begun(query, restarts=restarts)
        assert (status, skipped) == ("completed", 1)
        assert values.count(repr(VALUES[-1:])) == 2


def test_what_never_begins_is_no_endless_loop() -> None:
    """A closing that fails whenever it begins leaves out each element, as often on a deep stack as on a flat one."""
    bad = set(VALUES[1:])

    def deep(left: int) -> Any:
        return deep(left - 1) if left else begun(query, restarts=False)

    for kind in KINDS.values():
        query = kind(N.do_action(note), lambda: rx.defer(at_any_of(bad, "raises")))
        assert deep(0) == deep(200) == ("completed", [*map(repr, expected(bad))], len(bad))


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_whose_first_closing_cannot_begin_has_not_begun(kind: str) -> None:
    """Each event of its key is left out, once, and nothing answers for the group."""

    def closing(_: Any) -> Any:
        if os.environ[NOTED] in ("1", "5", "9"):
            raise ValueError("no closing")
        return rx.never()

    for made in ("defer", "using"):  # a function is called once, for all groups
        query = (
            N.do_action(note)
            .group_by(lambda n: n % 4)
            .flat_map(lambda g, f=MADE[made](closing): KINDS[kind](g, f).map(sum))
        )
        for restarts in (False, True):
            assert begun(query, restarts=restarts) == ("completed", ["12", "8", "10"], 3), made
