"""Looks at every state that a protocol can come to, breadth first, so that what it finds is the shortest way there.

States in which the nodes have merely changed places are one state. States are numbers, and so are the steps between
them, which is what makes millions of steps fit.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

from protocol import TERMINATED, Protocol, State, mirrored

Claim = Callable[[Protocol, State, State], str | None]


@dataclass
class Explored:
    """How many states there are; what broke, if anything did, and the way there; how many can never finish."""

    states: int
    broken: str | None = None
    trace: list[str] = field(default_factory=list)
    stuck: int = 0


class Explorer:
    """Explores *protocol* and holds *claim* against every step: it says what is wrong with one, or nothing."""

    def __init__(self, protocol: Protocol, claim: Claim) -> None:
        self._protocol = protocol
        self._claim = claim
        self._states: list[State] = []
        self._number: dict[State, int] = {}
        self._came_from = array("l")
        self._by_step = array("l")
        self._edges_from, self._edges_to = array("l"), array("l")

    def explore(self) -> Explored:
        self._add(self._protocol.first(), -1, -1)
        number = 0
        while number < len(self._states):
            state = self._states[number]
            for which, step in enumerate(self._protocol.steps(state)):
                other = mirrored(step.after)
                after = min(step.after, other)
                known = self._number.get(after)
                if (known is None or step.after.committed != state.committed) and (
                    broken := self._claim(self._protocol, state, step.after)
                ):
                    return Explored(len(self._states), broken, self._trace(number, which))
                if known is None:
                    known = self._add(after, number, which)
                self._edges_from.append(number)
                self._edges_to.append(known)
            number += 1
        return Explored(len(self._states), stuck=self._stuck())

    def _add(self, state: State, came_from: int, by_step: int) -> int:
        number = self._number[state] = len(self._states)
        self._states.append(state)
        self._came_from.append(came_from)
        self._by_step.append(by_step)
        return number

    def _trace(self, number: int, last: int) -> list[str]:
        """Return the steps that lead to state *number* and then step *last* of it, with the nodes kept apart."""
        way = [(number, last)]
        while number > 0:
            way.append((self._came_from[number], self._by_step[number]))
            number = self._came_from[number]
        told, turned = [], False
        for at, which in reversed(way):
            step = list(self._protocol.steps(self._states[at]))[which]
            told.append(step.told(1 - step.node if turned else step.node))
            turned ^= mirrored(step.after) < step.after
        return told

    def _stuck(self) -> int:
        """Count the states from which no way leads to the end, though no partition has used up its epochs."""
        before: list[array[int]] = [array("l") for _ in self._states]
        for start, end in zip(self._edges_from, self._edges_to, strict=True):
            before[end].append(start)
        live = bytearray(len(self._states))
        reached = [n for n, state in enumerate(self._states) if all(lease[0] == TERMINATED for lease in state.leases)]
        for number in reached:
            live[number] = True
        while reached:
            for number in before[reached.pop()]:
                if not live[number]:
                    live[number] = True
                    reached.append(number)
        return sum(not live[number] and self._has_epochs(state) for number, state in enumerate(self._states))

    def _has_epochs(self, state: State) -> bool:
        most = self._protocol.bounds.epochs
        return all(status == TERMINATED or epoch < most for status, _, epoch in state.leases)
