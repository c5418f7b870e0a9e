"""What is shared and opens windows or groups, and is subscribed again as its last reader leaves: hosted as by RxPY."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lanes import crossed

from hosting.engine.failing import strike
from reliable_rx.testing import RUNNERS, parse_marbles, run_plain
from reliable_rx.testing.hosted import HostedRun
from reliable_rx.testing.oracle import compare

Piece = Callable[[Any, Any, Any], Any]
"""Given operators, creation functions and a sequence, it returns one."""

BEGINS: dict[str, Piece] = {
    "hot": lambda ops, rx, n: n,
    "interval": lambda ops, rx, n: rx.interval(1.0).pipe(ops.take(3)),
    "delay": lambda ops, rx, n: n.pipe(ops.delay(0.5)),
    "values": lambda ops, rx, n: rx.of(1, 2, 3, 4, 5),
    "flat_map of timers": lambda ops, rx, n: n.pipe(ops.flat_map(lambda x: rx.interval(0.75).pipe(ops.take(3)))),
}
OPENS: dict[str, Piece] = {
    "several": lambda ops, rx, n: n.pipe(ops.map(lambda x: rx.of(x, x + 10, x + 30))),
    "window_with_count": lambda ops, rx, n: n.pipe(ops.window_with_count(2)),
    "window_when": lambda ops, rx, n: n.pipe(ops.window_when(lambda: rx.timer(1.6))),
    "window_with_time": lambda ops, rx, n: n.pipe(ops.window_with_time(1.6)),
    "group_by": lambda ops, rx, n: n.pipe(ops.group_by(lambda x: x % 2)),
}
READS: dict[str, Piece] = {
    "values": lambda ops, rx, n: n.pipe(ops.merge_all()),
    "counts": lambda ops, rx, n: n.pipe(ops.flat_map(lambda each: each.pipe(ops.count()))),
}
SHARES: dict[str, Piece] = {
    "share": lambda ops, rx, n: n.pipe(ops.share()),
    "replay": lambda ops, rx, n: n.pipe(ops.replay(1), ops.ref_count()),
    "shared twice": lambda ops, rx, n: n.pipe(ops.share(), ops.map(lambda x: x + 20), ops.share()),
}
AGAIN: dict[str, Piece] = {
    "concat": lambda ops, rx, s: s.pipe(ops.take(1), ops.concat(s.pipe(ops.map(lambda x: x + 10)))),
    "concat behind two": lambda ops, rx, s: s.pipe(ops.take(2), ops.concat(s.pipe(ops.count()))),
    "repeat": lambda ops, rx, s: s.pipe(ops.take(1), ops.repeat(2)),
    "switch": lambda ops, rx, s: s.pipe(ops.take(1), ops.switch_map(lambda x: s)),
    "defer": lambda ops, rx, s: s.pipe(ops.take(1), ops.concat(rx.defer(lambda _: s))),
    "concat_map": lambda ops, rx, s: s.pipe(ops.take(2), ops.concat_map(lambda x: s.pipe(ops.take(2)))),
    "concat_map behind one": lambda ops, rx, s: s.pipe(ops.take(1), ops.concat_map(lambda x: s.pipe(ops.take(3)))),
    "flat_map": lambda ops, rx, s: s.pipe(ops.take(2), ops.flat_map(lambda x: s.pipe(ops.take(2)))),
    "one at a time": lambda ops, rx, s: s.pipe(
        ops.take(3), ops.map(lambda x: s.pipe(ops.take(1))), ops.merge(max_concurrent=1)
    ),
    "retry": lambda ops, rx, s: s.pipe(ops.map(lambda x: x // (x - 2)), ops.retry(2)),
    "within": lambda ops, rx, s: s.pipe(
        ops.take(1), ops.flat_map(lambda x: rx.just(x).pipe(ops.concat(s.pipe(ops.take(2)))))
    ),
}


@pytest.mark.parametrize("begins, opens, reads, shares, again", crossed(BEGINS, OPENS, READS, SHARES, AGAIN))
def test_it_begins_again_as_by_rxpy(begins: str, opens: str, reads: str, shares: str, again: str) -> None:
    """However it is run, all comes that plain `reactivex` lets come, when it does, and the end of it too."""

    def build(ops: Any, rx: Any, n: Any) -> Any:
        for piece in (BEGINS[begins], OPENS[opens], READS[reads], SHARES[shares], AGAIN[again]):
            n = piece(ops, rx, n)
        return n

    streams = [parse_marbles("-1-2-3---|")]
    expected = run_plain(build, streams, 40.0)
    for name, run in RUNNERS.items():
        compare(name, streams, expected, run(build, streams, 40.0))


def test_a_query_that_ends_within_the_moment_ends_as_ever() -> None:
    """What ends a query from outside, in the place of a timer, begins nothing again: it is done at once."""
    runs: list[HostedRun] = []

    def build(ops: Any, rx: Any, n: Any) -> Any:
        def struck(x: int) -> int:
            (standing,) = runs[0].engine.standing.values()
            strike(runs[0].engine, standing, OSError("no room"))
            return x

        windows = rx.interval(1.0).pipe(ops.window_with_count(2), ops.merge_all(), ops.map(struck), ops.share())
        return windows.pipe(ops.take(1), ops.concat(windows))

    runs.append(HostedRun(build, [parse_marbles("---|")], 5.0, crash=False))
    values = runs[0].play()
    assert [(each.time_s, each.kind) for each in values] == [(1.0, "N"), (1.0, "E")]


GREETS: dict[str, Piece] = {
    "values": lambda ops, rx, n: n.pipe(ops.publish_value(3), ops.ref_count()).pipe(
        ops.merge(n.pipe(ops.publish_value(4), ops.ref_count()))
    ),
    "within": lambda ops, rx, n: n.pipe(
        ops.publish_value(3, lambda each: each.pipe(ops.map(lambda x: x + 1), ops.merge(each)))
    ),
    "beginnings": lambda ops, rx, n: n.pipe(ops.start_with(3), ops.merge(n.pipe(ops.start_with(4)))),
    "three": lambda ops, rx, n: rx.merge(*(n.pipe(ops.publish_value(each), ops.ref_count()) for each in (3, 4, 5))),
}


@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize("source", ["interval", "greeting"])
def test_what_takes_the_place_of_a_late_one_may_read_the_same(shares: str, source: str) -> None:
    """The second reader comes before the first one goes: what is shared goes on, and does not begin anew."""

    def build(ops: Any, rx: Any, n: Any) -> Any:
        ticks = rx.interval(1.0).pipe(ops.take(4))
        shared = SHARES[shares](ops, rx, ticks if source == "interval" else rx.of(7).pipe(ops.concat(ticks)))
        return shared.pipe(ops.timeout(0.7, shared))

    streams = [parse_marbles("-1-2|")]
    expected = run_plain(build, streams, 9.0)
    for name, run in RUNNERS.items():
        compare(name, streams, expected, run(build, streams, 9.0))


@pytest.mark.parametrize("greets", GREETS)
def test_what_one_of_merged_sequences_greets_with_is_queued_before_the_next_is_read(greets: str) -> None:
    """Each subscription is one of RxPY's: who reads a replay of them gets what was queued when it is over."""

    def build(ops: Any, rx: Any, n: Any) -> Any:
        shared = GREETS[greets](ops, rx, n).pipe(ops.replay(2), ops.ref_count())
        return shared.pipe(ops.flat_map(lambda x: shared.pipe(ops.take(2), ops.map(lambda y: (x, y)))))

    streams = [parse_marbles("-1-2|")]
    expected = run_plain(build, streams, 9.0)
    for name, run in RUNNERS.items():
        compare(name, streams, expected, run(build, streams, 9.0))


def test_a_late_one_that_begins_anew_within_its_end_keeps_its_source() -> None:
    """What is read in its place greets at once, and by that the timeout is subscribed to again."""

    def build(ops: Any, rx: Any, n: Any) -> Any:
        greets = n.pipe(ops.publish_value(5), ops.ref_count())
        late = greets.pipe(ops.timeout(1.6, greets), ops.share())
        return late.pipe(ops.take(3), ops.concat_map(lambda x: late.pipe(ops.take(2))))

    streams = [parse_marbles("-1-2-3---4--|")]
    expected = run_plain(build, streams, 20.0)
    for name, run in RUNNERS.items():
        compare(name, streams, expected, run(build, streams, 20.0))
