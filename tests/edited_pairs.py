"""What can be edited: every operator with a state and a number or duration, and every one over several inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import reliable_rx as rx

Build = Callable[..., Any]


def lists(windows: Any) -> Any:
    return windows.flat_map(lambda window: window.to_list())


def keyed(windows: Any) -> Any:
    return windows.flat_map(lambda window: window.to_list().map(lambda values: (window.key, values)))


def first(others: Any) -> Any:
    return others[0] if others else rx.never()


def waits(source: Any) -> Any:
    return source.map(lambda x: rx.timer(2.5).map(lambda _: x))


PARAMETERS: dict[str, tuple[Any, ...]] = {
    "buffers": (lambda s, n: s.buffer_with_count(*n), ((4,), (2,)), ((7,), (3,))),
    "buffers that overlap": (
        lambda s, n: s.buffer_with_count(*n), ((4, 1), (2, 1)), ((4, 1), (2, 2)), ((3, 5), (3, 3)), ((6, 2), (2, 4)),
    ),
    "windows": (lambda s, n: lists(s.window_with_count(*n)), ((4,), (2,)), ((7,), (3,))),
    "windows that overlap": (
        lambda s, n: lists(s.window_with_count(*n)), ((4, 1), (2, 1)), ((4, 1), (2, 2)), ((3, 5), (3, 3)),
        ((6, 2), (2, 4)),
    ),
    "tumbling_window": (lambda s, n: keyed(s.tumbling_window(n)), (60.0, 10.0), (7.0, 3.0), (4.0, 6.0)),
    "sliding_window": (
        lambda s, n: keyed(s.sliding_window(*n)), ((60.0, 30.0), (10.0, 10.0)), ((6.0, 2.0), (4.0, 1.0)),
        ((2.0, 5.0), (4.0, 4.0)),
    ),
    "window_with_time": (lambda s, n: lists(s.window_with_time(*n)), ((9.0,), (2.0,)), ((9.0, 3.0), (4.0, 4.0))),
    "buffer_with_time": (lambda s, n: s.buffer_with_time(*n), ((9.0,), (2.0,)), ((9.0, 3.0), (4.0, 4.0))),
    "window_with_inactivity": (lambda s, n: lists(s.window_with_inactivity(n)), (9.0, 0.5)),
    "buffer_with_inactivity": (lambda s, n: s.buffer_with_inactivity(n), (9.0, 0.5)),
    "window_with_time_or_count": (
        lambda s, n: lists(s.window_with_time_or_count(*n)), ((9.0, 7), (9.0, 2)), ((30.0, 5), (2.5, 5)),
    ),
    "buffer_with_time_or_count": (
        lambda s, n: s.buffer_with_time_or_count(*n), ((9.0, 7), (9.0, 2)), ((30.0, 5), (2.5, 5)),
    ),
    "take": (lambda s, n: s.take(n), (10, 2), (7, 9)),
    "skip": (lambda s, n: s.skip(n), (10, 2), (7, 4)),
    "slice": (lambda s, n: s.slice(*n), ((0, 10), (0, 2)), ((7, 12), (2, 9))),
    "slice from the end": (lambda s, n: s.slice(n, None), (-5, -2)),
    "take_last": (lambda s, n: s.take_last(n), (5, 2)),
    "take_last_buffer": (lambda s, n: s.take_last_buffer(n), (5, 2)),
    "skip_last": (lambda s, n: s.skip_last(n), (4, 1)),
    "element_at": (lambda s, n: s.element_at_or_default(n, -1), (9, 6), (9, 1)),
    "element_at, which fails": (lambda s, n: s.element_at(n), (9, 6), (9, 1)),
    "take_while_indexed": (lambda s, n: s.take_while_indexed(lambda x, i: i < 9, inclusive=n), (True, False)),
    "default_if_empty": (lambda s, n: s.default_if_empty(n), (1, 2)),
    "last_or_default": (lambda s, n: s.last_or_default(default_value=n), (1, 2)),
    "repeat": (lambda s, n: s.take(2).repeat(n), (9, 2), (3, 5)),
    "retry": (lambda s, n: s.map(lambda x: x).retry(n), (9, 2)),
    "scan": (lambda s, n: s.scan(lambda total, x: total + x, n), (0, 100)),
    "reduce": (lambda s, n: s.reduce(lambda total, x: total + x, n), (0, 100)),
    "a total of another kind": (
        lambda s, n: s.scan((lambda t, x: [*t, x]) if isinstance(n, list) else (lambda t, x: t + x), n), (0, []),
    ),
    "distinct": (lambda s, n: s.map(lambda x: x % 7).distinct(comparer=n), (None, lambda a, b: a == b)),
    "distinct for a while": (lambda s, n: s.map(lambda x: x % 7).distinct(ttl_s=n), (9.0, 2.0), (None, 9.0)),
    "distinct of a few": (
        lambda s, n: s.map(lambda x: x % 7).distinct(ttl_s=99.0, keys_max=n, evict="oldest"), (6, 2),
    ),
    "group_by": (
        lambda s, n: s.group_by(lambda x: x % 5, groups_max=n, evict="oldest").flat_map(lambda g: g.count()), (5, 2),
    ),
    "group_by_until": (
        lambda s, n: s.group_by_until(lambda x: x % 5, None, lambda g: g.skip(3), groups_max=n, evict="oldest")
        .flat_map(lambda g: g.count()), (5, 2),
    ),
    "group_by for a while": (
        lambda s, n: s.group_by(lambda x: x % 3, ttl_s=n).flat_map(lambda g: g.count()), (9.0, 1.5), (2.0, 5.0),
        (None, 9.0), (None, 2.0),
    ),
    "debounce": (lambda s, n: s.debounce(n), (9.0, 0.5)),
    "throttle_first": (lambda s, n: s.throttle_first(n), (9.0, 2.0)),
    "sample": (lambda s, n: s.sample(n), (9.0, 2.0)),
    "delay": (lambda s, n: s.delay(n), (9.0, 2.0)),
    "timeout": (lambda s, n: s.timeout(n), (50.0, 20.0)),
    "take_with_time": (lambda s, n: s.take_with_time(n), (9.0, 2.0)),
    "skip_with_time": (lambda s, n: s.skip_with_time(n), (9.0, 2.0)),
    "take_until_with_time": (lambda s, n: s.take_until_with_time(n), (9.0, 2.0)),
    "skip_until_with_time": (lambda s, n: s.skip_until_with_time(n), (9.0, 2.0)),
    "take_last_with_time": (lambda s, n: s.take_last_with_time(n), (9.0, 2.0)),
    "skip_last_with_time": (lambda s, n: s.skip_last_with_time(n), (9.0, 2.0)),
    "join_within": (lambda s, n: s.join_within(s.map(lambda x: x), lambda x: x % 3, within_s=n), (9.0, 2.0)),
    "retry_with_backoff": (
        lambda s, n: s.map(lambda x: x).retry_with_backoff(n[0], first_s=n[1], max_s=9.0),
        ((9, 1.0), (2, 5.0)), ((None, 1.0), (1, 1.0)),
    ),
    "replay of a selector": (lambda s, n: s.replay(buffer_size=n, mapper=lambda r: r.map(lambda x: x)), (4, 1)),
    "merge of so many": (lambda s, n: waits(s).merge(max_concurrent=n), (1, 3), (4, 2)),
    "replay": (lambda s, n: s.replay(buffer_size=n).ref_count().map(lambda x: x), (4, 1)),
    "a part of each group": (lambda s, n: s.group_by(lambda x: x % 2).flat_map(lambda g: g.take(n)), (9, 1), (3, 4)),
    "lists of each group": (
        lambda s, n: s.group_by(lambda x: x % 2).flat_map(lambda g: g.buffer_with_count(n)), (4, 2),
    ),
    "a part of each sequence": (lambda s, n: s.flat_map(lambda x: rx.timer(0.5, 1.0).take(n + x % 2)), (4, 2)),
    "a list of each sequence": (
        lambda s, n: s.flat_map(lambda x: rx.timer(0.5, 1.0).take(6).buffer_with_count(n + x % 2)), (4, 2),
    ),
    "zip_with_iterable": (lambda s, n: s.zip_with_iterable([0] * n), (30, 7), (9, 2)),
}  # fmt: skip

ELSEWHERE = {
    "Idle": "it is what a selector of group_by makes, with a ttl_s",
    "MapAsync": "its parameters are of calls to come, which an engine alone does not make",
    "DelayWithMapper": "whether it waits follows from how many arguments it was given",
}
INPUTS: dict[str, Build] = {
    "merge": rx.merge,
    "concat": rx.concat,
    "zip": rx.zip,
    "combine_latest": rx.combine_latest,
    "with_latest_from": lambda s, *others: s.with_latest_from(*others),
    "zip_latest": lambda s, *others: s.zip_latest(*others),
    "fork_join": rx.fork_join,
    "amb": rx.amb,
    "catch": lambda s, *others: rx.catch(s, *others),
    "on_error_resume_next": lambda s, *others: rx.on_error_resume_next(s, *others),
    "merge with a state in each": lambda *all: rx.merge(*(each.scan(lambda t, x: t + x, 0) for each in all)),
    "zip with a state in each": lambda *all: rx.zip(*(each.buffer_with_count(2) for each in all)),
    "concat with an end in each": lambda *all: rx.concat(*(each.take(2) for each in all)),
    "merge with an end in each": lambda *all: rx.merge(*(each.take(2) for each in all)),
    "zip with groups in each": lambda *all: rx.zip(
        *(each.group_by(lambda x: x % 2).flat_map(lambda g: g.pairwise()) for each in all)
    ),
    "of a shared part": lambda *all: rx.merge(*(each.share().map(lambda x: x) for each in all)),
    "sequence_equal": lambda s, *others: s.sequence_equal(first(others)),
    "join_within": lambda s, *others: s.join_within(first(others), lambda x: 0, within_s=3.0),
    "take_until": lambda s, *others: s.take_until(rx.concat(*others, rx.never()) if others else rx.never()),
    "skip_until": lambda s, *others: s.skip_until(first(others)),
    "buffer": lambda s, *others: s.buffer(first(others)),
    "buffer_toggle": lambda s, *others: s.buffer_toggle(first(others), lambda _: rx.timer(1.5)),
    "window": lambda s, *others: lists(s.window(first(others))),
    "sample": lambda s, *others: s.sample(first(others)),
    "in each sequence": lambda *all: all[0].take(1).flat_map(lambda x: rx.merge(*all)),
}
NOT_BY_ANOTHER_PYTHON = ("skip_until", "buffer_toggle", "sample", "buffer", "window", "take_until")
"""What goes on reading in the place of an input: of one that had ended it is told by a turn."""
TUPLES = ("zip", "combine_latest", "with_latest_from", "zip_latest", "fork_join")
"""What emits a tuple of as many elements as it has inputs."""
