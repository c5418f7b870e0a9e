"""The conformance suite for sinks that refuse former writers: an old writer and a new one, at every step of both.

What it cannot do is stop a writer *within* a call; that takes a process, a probe in the sink and SIGSTOP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from typing import Any, Protocol

from reliable_rx.errors import LeaseLost
from reliable_rx.reliable import Claiming, Fencing, Origin, Sink
from reliable_rx.testing.origins import HERE, OTHERS, claimed, refuses

Notification = tuple[int, Any]
VALUES = 6
OLD, NEW, NEWEST = 3, 7, 9


class FencingSink(Sink, Fencing, Protocol):
    """What is checked."""


def check_fencing(make: Callable[[str], FencingSink], read_back: Callable[[str], Iterable[Notification]]) -> int:
    """Check that an exactly-once sink which can be fenced takes nothing from a former writer; return the cases tried.

    ``make(place)`` returns a new sink, as in a new process, over the place of that name, which is empty at first;
    ``read_back(place)`` the (id, value) pairs that it holds. Values are short texts. In each place an old writer goes
    to one of its steps and is left there, open; a new one fences, opens and writes; at one of *its* steps the old one
    goes on. The place must hold what the old one wrote up to where the new one began, and from there on what the new
    one wrote: each id once. An old writer that comes later still is refused too.

    *Raises* `AssertionError` naming the broken promise and the steps.
    """
    cases = 0
    for stopped_at in range(len(_Writer.STEPS) + 1):
        for resumed_at in range(len(_Writer.STEPS) + 1):
            place = f"stopped {stopped_at} resumed {resumed_at}"
            _check_case(lambda place=place: make(place), stopped_at, resumed_at, place)  # type: ignore[misc]
            _check_content(list(read_back(place)), place)
            cases += 1
    return cases


class _Writer:
    """A writer, one step after the other."""

    STEPS = ("fence", "open", "write", "flush", "write", "flush")

    def __init__(self, sink: FencingSink, epoch: int) -> None:
        self.sink, self.epoch = sink, epoch
        self.begun = self.written = self.flushed = 0
        self.steps = iter(self.STEPS)
        self.lost = False

    def take(self, steps: int) -> None:
        for step in islice(self.steps, steps):
            self._take(step)

    def go_on(self, claim: str) -> None:
        """Take what steps are left, until told that another one is there; nothing else may happen."""
        try:
            for step in self.steps:
                self._take(step)
        except LeaseLost:
            self.lost = True
        except Exception as error:
            raise AssertionError(f"{claim}: the old writer is told with LeaseLost, not {error!r}") from error

    def _take(self, step: str) -> None:
        if step == "fence":
            claimed(self.sink, HERE).fence(self.epoch)
        elif step == "open":
            wanted = self.sink.open(HERE.stream)
            _claim(wanted is not None, "an exactly-once sink knows its position: open() returns an id, not None")
            self.begun = self.written = wanted or 0
        elif step == "write":
            self.write(2)
        else:
            self.sink.flush()
            self.flushed = self.written

    def write(self, count: int) -> None:
        self.sink.write(self.written, [f"{self.epoch} {n}" for n in range(self.written, self.written + count)])
        self.written += count


def _check_case(make: Callable[[], FencingSink], stopped_at: int, resumed_at: int, case: str) -> None:
    old, new = _Writer(make(), OLD), _Writer(make(), NEW)
    with closing(old.sink), closing(new.sink):
        _check_order(old, new, stopped_at, resumed_at, case)
    _check_afterwards(make, new.written + 1, case)


def _check_order(old: _Writer, new: _Writer, stopped_at: int, resumed_at: int, case: str) -> None:
    old.take(stopped_at)
    flushed = old.flushed
    new.take(resumed_at)
    old.go_on(case)
    if resumed_at == 0:
        _claim(not old.lost, f"{case}: a writer is not told before another one has fenced")
        flushed = old.flushed
    elif "flush" in _Writer.STEPS[stopped_at:]:
        _claim(old.lost, f"{case}: the old writer is told with LeaseLost, at the latest when it flushes")
    new.take(len(_Writer.STEPS))
    _claim(flushed <= new.begun <= old.written, f"{case}: the new one begins behind {flushed - 1}, not at {new.begun}")
    new.write(max(0, VALUES - new.written))
    new.sink.end(new.written, None)
    new.sink.flush()


def _check_afterwards(make: Callable[[], FencingSink], end: int, case: str) -> None:
    """The old one is refused, the new one may come again, and a newer one finds where it ended."""
    late = _Writer(make(), OLD)
    with closing(late.sink), suppress(LeaseLost):
        late.take(2)
        raise AssertionError(f"{case}: an old writer that comes later is refused when it fences or opens")
    if isinstance(late.sink, Claiming):
        for other in OTHERS:
            _check_other(make, other, case)
    for epoch in (NEW, NEWEST, NEWEST):
        again = _Writer(make(), epoch)
        with closing(again.sink):
            again.take(2)
        _claim(again.begun == end, f"{case}: epoch {epoch} finds the end, and wants id {end}, not {again.begun}")


def _check_other(make: Callable[[], FencingSink], other: Origin, case: str) -> None:
    """A later writer of another origin is refused before it fences anybody."""
    with closing(claimed(make(), other)) as sink:
        claim = f"{case}: a place with the ids of one origin is refused to {other}"
        refuses(partial(sink.fence, NEWEST + 1), other, claim)


def _check_content(found: Sequence[Notification], case: str) -> None:
    ids = [n for n, _ in found]
    _claim(ids == list(range(len(ids))), f"{case}: each id is there once, in order, not {ids}")
    _claim(len(ids) >= VALUES, f"{case}: {VALUES} values or more were written, not {len(ids)}")
    writers = [int(str(value).split()[0]) for _, value in found]
    _claim(writers == sorted(writers), f"{case}: behind the first value of the new writer all are its own, not {found}")
    _claim(all(str(value).split()[1] == str(n) for n, value in found), f"{case}: values stand under their ids")


def _claim(holds: bool, claim: str) -> None:
    if not holds:
        raise AssertionError(f"broken promise: {claim}")
