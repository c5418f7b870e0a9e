"""Two offset stores of a group, looked at in all states within some steps of the way from one to the other and back.

Random histories (`test_offsets_machine`) have more members, partitions and disks, and find what is near. Here nothing
is left to chance: what needs a claim, a step back and the step again was in one random history of ten thousand.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from lanes import at_each_commit, left_to_commits
from offsets_world import Broken, State, Step, World, canonical, steps_from, take

from checkpoint.offsets import dual, migration, table

ON, BACK = ("move", False), ("move", True)
DUAL, NEW, OLD = ([("restart", member, setting) for member in ("a", "b")] for setting in ("dual", "new", "old"))
WAY: list[Step] = [*DUAL, ON, ON, *NEW, BACK, *DUAL, BACK, *OLD]
AT_NEW = len([*DUAL, ON, ON, *NEW])
COMMITTED: list[Step] = [("grant", "a"), ("commit",)]
Way = tuple[tuple[Step, int | None], ...]
"""Steps, each with the number of writes after which it was cut off."""


class Found(NamedTuple):
    """How many states there are; what broke, if anything did, and the shortest way to where it breaks."""

    states: int
    broken: str = ""
    way: Way = ()


def explore(depth: int) -> Found:
    """Look at all states within *depth* steps of a point of the way; an event was committed there, on it, or none."""
    seen: set[Any] = set()
    level: list[tuple[Way, State]] = []
    way: Way = ()

    def visit(way: Way, state: State) -> None:
        if (same := canonical(state)) not in seen:
            seen.add(same)
            level.append((way, state))
            World(state).check()

    try:
        for way, state in beginnings():
            visit(way, state)
        for _ in range(depth):
            before, level = level, []
            for way, state in before:
                for step, cut, after in steps_from(state):
                    visit((*way, (step, cut)), after)
    except Broken as broken:
        return Found(len(seen), str(broken), (level or [(way, None)])[-1][0])
    return Found(len(seen))


def beginnings() -> Iterator[tuple[Way, State]]:
    for length in range(len(WAY) + 1):
        for before in {length, min(length, AT_NEW)}:
            for more in ([], COMMITTED):
                way, state = [*WAY[:before], *more, *WAY[before:length]], State()
                for step in way:
                    world = take(state, step)
                    assert world is not None, f"{step} is not possible after {way}"
                    state = world.state
                yield tuple((step, None) for step in way), state


def test_every_state_near_the_way_keeps_its_promises() -> None:
    """Whoever claims, commits, resets, deletes, restarts, moves, compacts or dies at a write, two steps off the way."""
    found = explore(2)
    assert (found.broken, found.way) == ("", ())
    assert found.states == 1_554, "the steps have changed, or what they lead to; is that meant?"


@left_to_commits
def test_every_state_further_from_the_way_keeps_its_promises() -> None:
    """The same, four steps from it."""
    found = explore(4)
    assert (found.broken, found.way) == ("", ())
    assert found.states > 20_000


@pytest.mark.slow
def test_every_state_far_from_the_way_keeps_its_promises() -> None:
    """The same, five steps from it."""
    found = explore(5)
    assert (found.broken, found.way) == ("", ())
    assert found.states > 60_000


class Plant(NamedTuple):
    """What is exchanged in the text of a function, and after how many steps that is found."""

    owner: Any
    function: str
    right: str
    wrong: str
    depth: int


PLANTED = {
    "a claim is taken for a former owner's": Plant(table, "adopt", "seen.owner, draft.now", '"", draft.now', 3),
    "an owner and another's epoch": Plant(table, "adopt", "newest.epoch, newest.owner", "newest.epoch, there.owner", 2),
    "stale entries are kept": Plant(table, "adopt", "before.keys() - vector.keys() if exactly else ()", "()", 2),
    "any lease will do": Plant(table, "_fenced", "holder is None or tuple(holder) != tuple(lease)", "not holder", 2),
    "nothing is copied": Plant(migration, "_finish", "source.paired().fetch(group)", "{}", 3),
    "a step counts as done": Plant(migration.Migration, "phase", ' | "moved") | ("moved", "paired")', ")", 2),
    "members are not asked": Plant(migration.Migration, "_check_members", "in (lacking, None)", "is None", 2),
    "the smaller is read": Plant(dual.DualOffsets, "fetch", "position < committed", "position > committed", 2),
    "both too early": Plant(dual.DualOffsets, "_attempt", "self._new.charge(group) is not None", "True", 2),
}  # fmt: skip


@pytest.mark.parametrize("name", [name if name == "both too early" else at_each_commit(name) for name in PLANTED])
def test_each_of_these_faults_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that is left out, something kept wrongly, a question that is not asked: within so many steps."""
    owner, function, right, wrong, depth = PLANTED[name]
    text = textwrap.dedent(inspect.getsource(getattr(owner, function)))
    assert text.count(right) == 1
    code = compile(text.replace(right, wrong), name, "exec", flags=annotations.compiler_flag)
    made: dict[str, Any] = {}
    exec(code, vars(sys.modules[owner.__module__]) if isinstance(owner, type) else vars(owner), made)
    monkeypatch.setattr(owner, function, made[function])
    assert explore(depth).broken
