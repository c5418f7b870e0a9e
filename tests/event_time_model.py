"""A slow and plain account of event time: one event at a time, every definition written out, nothing shared with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from hosting.engine.turns import Events, Tick, Turn
from reliable_rx.testing.marbles import COMPLETED, NEXT, Timed

INFINITE = float("inf")
IDLE_S = 2.5
STEP_S = 1.0
Letter = tuple[str, Any]
"""``("a", 3.0)`` an event of partition a stamped 3; ``("a", None)`` its end; ``("", 5.0)`` silence of five seconds."""


@dataclass
class Model:
    """What an event-time query over two partitions of one source is handed, and when."""

    lateness_s: float
    late: str
    now: float = 0.0
    time: float = -INFINITE
    high: dict[str, float] = field(default_factory=lambda: {"a": -INFINITE, "b": -INFINITE})
    seen: dict[str, float] = field(default_factory=lambda: {"a": 0.0, "b": 0.0})
    ended: set[str] = field(default_factory=set)
    waiting: list[tuple[float, str, int, Any]] = field(default_factory=list)
    handed: list[tuple[float, Any]] = field(default_factory=list)
    behind: list[Any] = field(default_factory=list)

    def play(self, word: tuple[Letter, ...]) -> None:
        for number, (partition, what) in enumerate(word):
            self.silent_until(what if partition == "" else STEP_S)
            if partition and what is None:
                self.ended.add(partition)
            elif partition:
                self.arrive(partition, what, number)
            self.move()

    def silent_until(self, seconds: float) -> None:
        """Let partitions become idle one after the other on the way."""
        upto = self.now + seconds
        for due in sorted(seen + IDLE_S for seen in self.seen.values()):
            if self.now < due <= upto:
                self.now = due
                self.move()
        self.now = upto

    def arrive(self, partition: str, stamp: float, number: int) -> None:
        event = (stamp, number)
        if stamp >= self.time:
            self.waiting.append((stamp, partition, number, event))
        else:
            self.behind.append(event)
            if self.late == "keep":
                self.handed.append((self.time, event))
        self.seen[partition] = self.now
        self.high[partition] = max(self.high[partition], stamp)

    def move(self) -> None:
        live = [each for each in "ab" if each not in self.ended]
        awake = [each for each in live if self.now < self.seen[each] + IDLE_S]
        if not live:
            upto = INFINITE
        elif awake:
            upto = min(self.high[each] for each in awake) - self.lateness_s
        else:
            upto = max(self.high.values()) - self.lateness_s
        if upto > self.time:
            self.time = upto
            due = sorted(each for each in self.waiting if each[0] < upto)
            self.waiting = [each for each in self.waiting if each[0] >= upto]
            self.handed += [(stamp, event) for stamp, _, _, event in due]

    def stream(self) -> list[Timed]:
        """What was handed over, as a stream in virtual time that begins with it."""
        if not self.handed:
            return [Timed(0.0, COMPLETED)]
        begin = self.handed[0][0]
        end = max(*self.high.values(), *(stamp for stamp, _ in self.handed))
        return [*(Timed(stamp - begin, NEXT, event) for stamp, event in self.handed), Timed(end - begin, COMPLETED)]


def turns(word: tuple[Letter, ...]) -> Iterator[Turn]:
    """The same as turns, with the ticks that an evaluator would take when a timer of the engine is due."""
    now, positions = 0.0, {"a": 0, "b": 0}
    for number, (partition, what) in enumerate(word):
        now += what if partition == "" else STEP_S
        if partition == "":
            yield Tick(now)
        else:
            values = [] if what is None else [(what, number)]
            yield Events("s", partition, positions[partition], values, now, ended=what is None)
            positions[partition] += len(values)


def words(length: int, stamps: tuple[float, ...]) -> Iterator[tuple[Letter, ...]]:
    """All words of up to *length* letters that end a partition at most once, with the missing ends added."""
    letters: list[Letter] = [(each, stamp) for each in "ab" for stamp in stamps]
    letters += [("a", None), ("", 3.0)]
    for count in range(1, length + 1):
        for word in product(letters, repeat=count):
            last = word.index(("a", None)) if ("a", None) in word else count
            if not any(partition == "a" for partition, _ in word[last + 1 :]):
                yield (*word, *([] if last < count else [("a", None)]), ("b", None))
