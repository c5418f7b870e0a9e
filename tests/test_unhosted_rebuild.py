"""`rebuild_state` really puts states through bytes, and stops when told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from reactivex.subject import Subject

from reliable_rx import operators as ops
from reliable_rx.operators.contract.operator import Linear
from reliable_rx.testing import check_operator, rebuild_state


@dataclass(frozen=True, eq=False)
class Remembering(Linear, name="remembering"):
    """Collects the identities of its own state."""

    seen: list[Any]

    @dataclass(slots=True)
    class State:
        items: list[Any]

    def initial(self) -> State:
        return self.State([])

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        state.items.append(value)
        self.seen.append((state, list(state.items)))
        out.append(value)


def play(seen: list[Any]) -> None:
    source: Subject[int] = Subject()
    source.pipe(Remembering(seen)).subscribe()
    for number in range(3):
        source.on_next(number)


def test_states_are_rebuilt() -> None:
    """Each event meets a new state object with the old contents."""
    seen: list[Any] = []
    with rebuild_state(True):
        play(seen)
    assert len({id(state) for state, _ in seen}) == 3
    assert [items for _, items in seen] == [[0], [0, 1], [0, 1, 2]]


def test_the_context_restores() -> None:
    """After the context nothing is rebuilt any more, and a plain call lasts until it is undone."""
    with rebuild_state(True):
        pass
    seen: list[Any] = []
    play(seen)
    assert len({id(state) for state, _ in seen}) == 1
    rebuild_state(True)
    try:
        seen.clear()
        play(seen)
    finally:
        rebuild_state(False)
    assert len({id(state) for state, _ in seen}) == 3


@dataclass(frozen=True, eq=False)
class Forgetful(Linear, name="forgetful"):
    """A planted bug: what it keeps is not in its declared state's fields."""

    @dataclass
    class State:
        count: int = 0

    def on_next(self, state: Any, value: Any, out: list[Any]) -> None:
        state.hidden = getattr(state, "hidden", 0) + 1
        out.append(state.hidden)


def test_a_forgotten_field_is_found() -> None:
    """The oracle finds an operator that keeps something outside its declared fields."""
    with pytest.raises(AssertionError, match="rebuilt from bytes disagrees"):
        check_operator(
            lambda ops_, rx, s: s.pipe(Forgetful()),
            reference=lambda ops_, rx, s: s.pipe(ops_.map_indexed(lambda _, i: i + 1)),
            length_max=2,
        )


def test_unpicklable_state_is_an_error() -> None:
    """A state that cannot be saved is found at the first event."""
    source: Subject[int] = Subject()
    with rebuild_state(True):
        source.pipe(ops.scan(lambda _, x: (n for n in (x,)))).subscribe()
        source.on_next(1)
        with pytest.raises(TypeError, match="generator"):
            source.on_next(2)


def test_values_of_local_classes_are_rebuilt() -> None:
    """A state may hold a value of a class inside a function, as in a store: the value goes through bytes."""

    class Local:
        def __init__(self, at: int) -> None:
            self.at = at

    made, source, pairs = [Local(1), Local(2)], Subject[Local](), list[Any]()
    with rebuild_state(True):
        source.pipe(ops.pairwise()).subscribe(pairs.append)
    for each in made:
        source.on_next(each)
    ((first, second),) = pairs
    assert (type(first), first.at, second.at) == (Local, 1, 2)
    assert first is not made[0]
