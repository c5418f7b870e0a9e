"""Planted bugs around streams, clocks and those who hold, read or look: each is found by a generic check."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import test_looking
from partitioned.test_window import test_who_reads_while_all_is_forgotten_skips_nothing as skips_nothing
from planted_checks import Plants
from test_checkpointer_outputs import test_the_collector_is_on_again_after_a_full_checkpoint as collects
from test_disposed_streams import test_dispose_ends_the_stream_once_in_every_replay as ends
from test_holders import WAYS
from test_holders import test_nobody_who_is_gone_stops_the_turns_for_ever as goes_on
from test_host_clock import test_timers_keep_their_distances_whatever_the_clock_did as keeps_distances
from test_looking import test_statistics_answer_while_a_turn_hangs as answers
from test_retention import test_no_id_is_used_twice_whatever_was_packed as ids_go_on
from test_retention import test_what_is_gone_leaves_nothing_that_grows as bounded

from hosting.edges.egress import StreamReader
from hosting.edges.holders import StreamHolders
from hosting.edges.replay_buffer import Window, part
from hosting.edges.retention import RetiredStreams
from hosting.engine.disposed_ids import Retired
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Output
from hosting.evaluator.attempt import Attempt
from hosting.evaluator.host_clock import HostClock
from hosting.evaluator.looking import Looking
from hosting.subscriptions.subscription import Subscription
from reliable_rx.errors import ReliableRxError

pytestmark = [pytest.mark.usefixtures("unshrunk"), pytest.mark.leaves]  # what a check leaves that has failed


def all_ways() -> None:
    for way in WAYS:
        goes_on(way)


def nothing_grows() -> None:
    with pytest.MonkeyPatch.context() as patch:
        bounded("by nobody", patch)


def always_collects() -> None:
    with pytest.MonkeyPatch.context() as patch:
        for end in ("written", "closed", "failed"):
            collects(end, patch)


def ends_once() -> None:
    for crash_at in range(8):
        ends(crash_at, crash_at % 2 == 0)


CHECKS: dict[str, Callable[[], Any]] = {
    "holders": all_ways,
    "clock": keeps_distances,
    "growth": nothing_grows,
    "ids": ids_go_on,
    "ends": ends_once,
    "looks": answers,
    "reader": skips_nothing,
    "collector": always_collects,
}
DEAR = ("ids that are forgotten when they are packed",)
"""What is found only after many examples."""
planted = Plants(CHECKS, times=5, raises=(AssertionError, ReliableRxError))


# -- holders


@planted("holders")
def a_reader_that_is_closed_and_not_missed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamReader, "close", lambda self: None)


@planted("holders")
def a_subscription_that_is_disposed_of_and_holds_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Subscription, "dispose", Subscription.halt)


@planted("holders")
def a_stall_that_names_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamHolders, "_say", lambda self, left, now: None)


@planted("holders")
def a_sink_of_old_that_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamHolders, "_is_over", lambda self, absence, now: False)


# -- clocks


@planted("clock")
def a_clock_that_was_ahead_once_and_stops(patch: pytest.MonkeyPatch) -> None:
    def frozen(self: HostClock, floor: float = -math.inf) -> float:
        self.reached = max(self._clock(), floor, self.reached)
        return self.reached

    patch.setattr(HostClock, "read", frozen)


@planted("clock")
def a_clock_that_forgets_how_far_it_is_ahead(patch: pytest.MonkeyPatch) -> None:
    read = HostClock.read

    def forgets(self: HostClock, floor: float = -math.inf) -> float:
        self.ahead_s = 0.0
        return read(self, floor)

    patch.setattr(HostClock, "read", forgets)


# -- what is gone


@planted("growth")
def streams_of_queries_that_are_gone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RetiredStreams, "_expired", lambda self, engine: {})


@planted("growth")
def names_that_are_never_packed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Retired, "_pack", lambda self: None)


@planted("ids")
def ids_that_are_forgotten_when_they_are_packed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Retired, "_hashed", lambda self, name: 0)


@planted("ends")
def a_disposal_that_nobody_is_told_of(patch: pytest.MonkeyPatch) -> None:
    def silent(self: QueryEngine, standing: Any, *, anew: bool = False) -> None:
        standing.dispose()
        self.forget(standing)
        self.retired.put(standing.name, standing.emitted)

    patch.setattr(QueryEngine, "dispose", silent)


# -- who reads and who looks


@planted("reader")
def a_reader_that_counts_places_in_a_list_that_is_cut(patch: pytest.MonkeyPatch) -> None:
    def by_index(self: Any, start: int, count_max: int, *, end: int | None = None) -> Iterator[Output]:
        self.check(start)
        last: int = self.next_id if end is None else end
        index = max(0, sum(each.first <= start for each in self.segments) - 1)
        while start < last and count_max > 0 and index < len(self.segments):
            whole = self.segments[index]
            index += 1
            start = max(start, whole.first)
            segment = part(whole, start, min(last, start + count_max))
            if segment is not None:
                yield segment
                start, count_max = segment.next, count_max - len(segment.values)

    patch.setattr(Window, "read", by_index)


@planted("looks")
def a_look_that_waits_for_the_turn(patch: pytest.MonkeyPatch) -> None:
    def waits(self: Any, read: Callable[[Any], Any]) -> Any:
        with self.lock:
            return read(None)

    patch.setattr(Looking, "_look", waits)
    patch.setattr(test_looking, "HANGS_S", 0.2)


@planted("collector")
def a_checkpoint_that_never_lets_the_collector_go(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Attempt, "release", property(lambda self: None, lambda self, release: None))


@pytest.mark.parametrize("name", planted.names(dear=DEAR))
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The generic check named beside the bug fails under it."""
    planted.must_be_found(name, monkeypatch)
