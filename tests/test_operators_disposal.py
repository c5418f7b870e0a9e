"""Who is subscribed to what, and until when: as in RxPY, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import pytest
import reactivex
from every_case import CASES, Case, lanes
from lanes import Lane
from reactivex import operators as plain_ops
from reactivex.scheduler import VirtualTimeScheduler

import reliable_rx as rx
from reliable_rx import operators as ops
from reliable_rx.runtime.instance import Instance
from reliable_rx.testing import Timed, hot_sources, small_streams


def watched(build: Any, ops_: Any, rx_: Any, streams: list[list[Timed]], dispose_at_s: float) -> list[Any]:
    """Play *streams*, dispose in the middle, and note after every instant how often each source is subscribed to."""
    clock = VirtualTimeScheduler(0.0)
    sources = hot_sources(clock, streams)
    record: list[Any] = []
    subscription = build(ops_, rx_, *sources).subscribe(
        lambda value: record.append(("N", value)),
        lambda error: record.append(("E", str(error))),
        lambda: record.append("C"),
        scheduler=clock,
    )
    for instant in range(1, 12):
        clock.advance_to(instant - 0.25)
        record.append(tuple(len(source.observers) for source in sources))
        if dispose_at_s == instant:
            subscription.dispose()
            record.append("disposed")
    return record


def length_max(case: Case) -> int:
    """Say how many events the streams of *case* have at most."""
    return 2 if case.sources == 1 and not Lane.fast_alone else 1


def letters(case: Case) -> Sequence[Any]:
    return case.alphabet[: 1 if Lane.fast_alone else 2]


@pytest.mark.parametrize(
    "name", lanes((name for name, case in CASES.items() if case.reference is None), fast=1, every=4, longer=True)
)
def test_subscribes_when_rxpy_does(name: str) -> None:
    """At every instant, and after disposal at any instant, each source has as many subscribers as under RxPY."""
    case = CASES[name]
    for streams in small_streams(letters(case), length_max(case), sources=case.sources):
        for dispose_at_s in (2, 99) if Lane.fast_alone else (1, 2, 99):
            expected = watched(case.build, plain_ops, reactivex, streams, dispose_at_s)
            assert watched(case.build, ops, rx, streams, dispose_at_s) == expected, (streams, dispose_at_s)


@pytest.mark.parametrize("name", lanes(CASES, fast=1, every=4, longer=True))
def test_leaves_nothing_behind(name: str) -> None:
    """When a query has ended or was disposed of, it holds no timer, no row and no subscription any more."""
    case = CASES[name]
    for streams in small_streams(letters(case), length_max(case), sources=case.sources):
        for dispose_at_s in (0.5, 1.5):
            clock = VirtualTimeScheduler(0.0)
            sources = hot_sources(clock, streams)
            ended: list[Any] = []
            with captured_instances() as instances:
                query = case.build(ops, rx, *sources)
                subscription = query.subscribe(
                    on_error=ended.append, on_completed=lambda: ended.append(1), scheduler=clock
                )
                clock.advance_to(dispose_at_s)
                if not ended:
                    subscription.dispose()
                assert [leftovers(each) for each in instances] == [None] * len(instances), (streams, dispose_at_s)
            clock.advance_to(20.0)
            assert live_timers(clock) == [], (streams, dispose_at_s)
            assert [source.observers for source in sources] == [[] for _ in sources]


@contextmanager
def captured_instances() -> Iterator[list[Instance]]:
    """Collect the instances that are started inside, by this thread: RxPY's timers of other tests have their own."""
    instances: list[Instance] = []
    start, here = Instance.start, get_ident()

    def noting(self: Instance) -> None:
        if get_ident() == here:
            instances.append(self)
        start(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Instance, "start", noting)
        yield instances


def leftovers(instance: Instance) -> Any:
    """Return what an instance that is over still holds, None if nothing."""
    held = [kept for kept in (instance.timers, instance.children, instance.subjects) if kept and any(kept.values())]
    return (instance.active, held) if instance.active or held else None


def live_timers(clock: VirtualTimeScheduler) -> list[Any]:
    return [item for item, _ in clock._queue.items if not item.is_cancelled()]
