"""An edit that changes nothing, in queries with inner sequences and windows: what comes is what comes without it.

A map that returns what it gets is put before an operator, behind it or into its inner sequences. What these hold, what
is still under way in them (timers, calls, sequences in sequences), and what has ended around them goes on: nothing is
lost, nothing comes twice, and nothing is made up by what an edit begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
from edited_world import WAYS, Step, alone, play, replayed
from lanes import every_of

import reliable_rx as rx

Body = Callable[[Any], Any]
Part = Callable[[Any, Body], Any]
"""What is made of a sequence, with a function for the sequences inside."""


def same(value: Any) -> Any:
    return value


def mapped(sequence: Any) -> Any:
    return sequence.map(same)


def later(value: Any, after_s: float = 2.5) -> Any:
    return rx.timer(after_s).map(lambda _: value)


def few(value: Any) -> Any:
    return rx.timer(0.5, 1.0).take(4).map(lambda n: 10 * value + n)


async def asked(value: Any) -> Any:
    return ("answer", value)


def until_a_window(shared: Any, f: Body) -> Any:
    return shared.take_until(shared.window_with_count(7).flat_map(lambda w: f(w).to_list()))


WINDOWS: dict[str, Body] = {
    "window_with_count": lambda s: s.window_with_count(2),
    "windows that overlap": lambda s: s.window_with_count(3, 1),
    "window_with_time": lambda s: s.window_with_time(3.5),
    "windows by time that overlap": lambda s: s.window_with_time(4.5, 2.0),
    "window_with_time_or_count": lambda s: s.window_with_time_or_count(2.5, 2),
    "window": lambda s: s.window(rx.timer(1.5, 2.0)),
    "window_when": lambda s: s.window_when(lambda: rx.timer(2.5)),
    "window_toggle": lambda s: s.window_toggle(rx.timer(0.5, 2.0), lambda _: rx.timer(3.0)),
    "tumbling_window": lambda s: s.tumbling_window(3.0),
    "sliding_window": lambda s: s.sliding_window(4.0, 2.0),
    "window_with_inactivity": lambda s: s.window_with_inactivity(1.5),
    "group_by": lambda s: s.group_by(lambda x: x % 3),
    "group_by_until": lambda s: s.group_by_until(lambda x: x % 3, None, lambda g: g.skip(1)),
}
READS: dict[str, Part] = {
    "lists": lambda w, f: w.flat_map(lambda each: f(each).to_list()),
    "counts": lambda w, f: w.flat_map(lambda each: f(each).count()),
    "one after the other": lambda w, f: w.concat_map(lambda each: f(each).to_list()),
    "the newest": lambda w, f: w.switch_map(lambda each: f(each).scan(lambda t, x: t + x, 0)),
    "merged": lambda w, f: w.map(lambda each: f(each).to_list()).merge_all(),
}
PARTS: dict[str, Part] = {
    "flat_map": lambda s, f: s.flat_map(lambda x: f(later(x))),
    "concat_map": lambda s, f: s.concat_map(lambda x: f(later(x))),
    "switch_map": lambda s, f: s.switch_map(lambda x: f(later(x, 0.5))),
    "merge_all": lambda s, f: s.map(lambda x: f(later(x))).merge_all(),
    "so many at a time": lambda s, f: s.map(lambda x: f(later(x))).merge(max_concurrent=2),
    "exclusive": lambda s, f: s.map(lambda x: f(later(x))).exclusive(),
    "expand": lambda s, f: s.expand(lambda x: f(later(x + 100)) if x < 200 else rx.empty()),
    "map_async": lambda s, f: f(s.map_async(asked)),
    "map_async, listed": lambda s, f: f(s.map_async(asked)).to_list(),
    "flat_map, listed": lambda s, f: s.flat_map(lambda x: f(later(x))).to_list(),
    "several each": lambda s, f: s.flat_map(lambda x: f(few(x))),
    "lists of several": lambda s, f: s.flat_map(lambda x: f(few(x)).to_list()),
    "delay": lambda s, f: f(s.delay(2.5)),
    "delay of a list": lambda s, f: f(s.to_list()).delay(2.5),
    "debounce": lambda s, f: f(s.debounce(0.5)),
    "delay_with_mapper": lambda s, f: s.delay_with_mapper(lambda x: f(rx.timer(2.5))),
    "throttle_with_mapper": lambda s, f: s.throttle_with_mapper(lambda x: f(rx.timer(0.5))),
    "buffer_with_count": lambda s, f: f(s).buffer_with_count(2),
    "buffer_with_time": lambda s, f: f(s).buffer_with_time(3.5),
    "buffer": lambda s, f: s.buffer(f(rx.timer(1.5, 2.0))),
    "buffer_when": lambda s, f: s.buffer_when(lambda: f(rx.timer(2.5))),
    "buffer_toggle": lambda s, f: s.buffer_toggle(rx.timer(0.5, 2.0), lambda _: f(rx.timer(3.0))),
    "a list and a timer": lambda s, f: f(s.to_list()).merge(later("late")),
    "the latest": lambda s, f: rx.combine_latest(f(s), rx.timer(0.5, 2.0)),
    "zip": lambda s, f: rx.zip(f(s), rx.timer(0.5, 2.0)),
    "fork_join": lambda s, f: rx.fork_join(f(s), later("late")),
    "concat": lambda s, f: rx.concat(f(s), later("late")),
    "start_with": lambda s, f: f(s.start_with(-1)),
    "a start of what comes behind": lambda s, f: f(rx.concat(rx.of(-1, -2), s)),
    "default_if_empty": lambda s, f: f(s.filter(lambda x: x < 0)).default_if_empty(-1),
    "take_until": lambda s, f: f(s).take_until(rx.timer(3.5)),
    "skip_until": lambda s, f: s.skip_until(f(rx.timer(1.5))),
    "sample": lambda s, f: f(s).sample(1.5),
    "repeat": lambda s, f: f(s.take(1)).repeat(3),
    "catch": lambda s, f: s.map(lambda x: 6 // (x % 3)).catch(lambda e, _: f(later("caught"))),
    "retry": lambda s, f: f(s.map(lambda x: 6 // (x % 3))).retry(9),
    "totals": lambda s, f: f(s).scan(lambda t, x: t + x, 0),
    "the last two": lambda s, f: f(s).take_last(2),
    "sums": lambda s, f: f(s).sum(),
    "do_finally": lambda s, f: f(s).pairwise(),
    "publish": lambda s, f: s.publish(lambda p: f(p).merge(p.flat_map(later))),
    "publish a value": lambda s, f: s.publish_value(-1, lambda p: p.merge(f(p).scan(lambda t, x: t + x, 0))),
    "replay": lambda s, f: s.replay(mapper=lambda p: f(p).merge(p.skip(1)), buffer_size=2),
    "until a window closes": lambda s, f: until_a_window(s.publish_value(0).ref_count(), f),
    "windows of what has ended": lambda s, f: (
        s.group_by(lambda x: x % 2)
        .flat_map(lambda g: f(g).window_with_count(3).take(1))
        .flat_map(lambda w: w.to_list())
    ),
    "windows handed on by what has ended": lambda s, f: (
        s.group_by(lambda x: x % 2)
        .flat_map(lambda g: f(g.window_with_count(3).take(1)))
        .flat_map(lambda w: w.to_list())
    ),
    "windows of what was left": lambda s, f: (
        s.filter(lambda x: x % 3 == 1)
        .switch_map(lambda _: f(s).window_with_count(4))
        .flat_map(lambda w: f(w).to_list())
    ),
    "shared groups of what was left": lambda s, f: (
        s.filter(lambda x: x % 3 == 1)
        .switch_map(lambda _: f(s).group_by(lambda x: x % 2).share().take(1))
        .flat_map(lambda g: g.to_list())
    ),
    "publish of windows": lambda s, f: s.publish(lambda p: p.window_with_count(2).flat_map(lambda w: f(w).to_list())),
    **{
        f"{name}, {how}": lambda s, f, window=window, read=read: read(window(s), f)
        for number, (name, window) in enumerate(WINDOWS.items())
        for at, (how, read) in enumerate(READS.items())
        if (number + at) % 2 == 0
    },
}
AROUND: dict[str, Part] = {
    "at the top": lambda s, f: f(s),
    "in a group": lambda s, f: s.group_by(lambda x: x % 2).flat_map(f),
    "in a window": lambda s, f: s.window_with_count(3).flat_map(f),
    "in a window by time": lambda s, f: s.window_with_time(3.5).flat_map(f),
    "in a part of a group": lambda s, f: s.group_by(lambda x: x % 2).flat_map(lambda g: f(g.take(2))),
    "in a window of a group": lambda s, f: s.group_by(lambda x: x % 2).flat_map(
        lambda g: g.window_with_count(2).flat_map(f)
    ),
    "in each sequence": lambda s, f: s.flat_map(lambda x: f(few(x))),
    "in the newest": lambda s, f: s.switch_map(lambda x: f(few(x))),
    "in one after the other": lambda s, f: s.concat_map(lambda x: f(few(x))),
    "in what is published": lambda s, f: s.publish(f),
    "in what has ended": lambda s, f: s.take(4).publish(f),
}
"""Where the edited part stands."""
EDITS: dict[str, Callable[[Part], Body]] = {
    "before it": lambda part: lambda s: part(mapped(s), same),
    "in it": lambda part: lambda s: part(s, mapped),
    "behind it": lambda part: lambda s: mapped(part(s, same)),
}
GONE: dict[str, tuple[Callable[[Part], Body], Callable[[Part], Body]]] = {
    "without one before it": (
        lambda part: lambda s: mapped(part(mapped(s), same)), lambda part: lambda s: mapped(part(s, same))
    ),
    "with one moved behind it": (lambda part: lambda s: part(mapped(s), same), EDITS["behind it"]),
    "with one moved before it": (EDITS["behind it"], lambda part: lambda s: part(mapped(s), same)),
}  # fmt: skip
"""Edits by which an operator gets the path of another one of its kind, which had ended or runs."""
EVENTS, QUIET_S = 12, 20.0
Case = tuple[str, str, str, int, bool]


def cases() -> Iterator[Case]:
    """Yield each part in each place with each edit, some way into its events, at work or behind some quiet time."""
    number = 0
    for part in PARTS:
        for around in AROUND:
            for edit in (*EDITS, *GONE):
                number += 1
                yield part, around, edit, 3 + number % 5, number % 4 == 0


def steps(first: int, last: int) -> list[Step]:
    return [("a", number) for number in range(first, last + 1)]


@pytest.mark.parametrize(("part", "around", "edit", "at", "is_quiet"), every_of(29, cases()))
def test_an_edit_that_changes_nothing(part: str, around: str, edit: str, at: int, is_quiet: bool) -> None:
    """Whatever is at work in an inner sequence goes on, and no element is made up, in all ways of going over."""
    was, now = GONE[edit] if edit in GONE else (lambda part: lambda s: part(s, same), EDITS[edit])
    before, after = (AROUND[around](rx.source("a"), each(PARTS[part])) for each in (was, now))
    prefix: list[Step] = [*steps(1, at), *([("", QUIET_S)] if is_quiet else [])]
    rest: list[Step] = [*steps(at + 1, EVENTS), ("a", None)]
    if alone(before, prefix).status != "running":
        return  # it begins afresh
    unedited = play(before, before, WAYS[0], prefix, rest)
    for way in WAYS:
        is_killed = way == "behind a kill"
        found = replayed(before, after, prefix, rest) if is_killed else play(before, after, way, prefix, rest)
        heard = (found.before, found.after, found.status)
        assert (way, *heard) == (way, unedited.before, unedited.after, unedited.status), str(found.report)


NEW: dict[str, tuple[Body, Callable[[list[Any]], list[Any]]]] = {
    "totals": (lambda s: s.scan(lambda t, x: [*t, x], []), lambda found: [found[: n + 1] for n in range(len(found))]),
    "a delay": (lambda s: s.delay(0.25), lambda found: found),
    "each as a sequence": (lambda s: s.flat_map(lambda x: later(x, 0.25)), lambda found: found),
    "all in windows": (lambda s: s.window_with_count(9999).flat_map(lambda w: w.to_list()), lambda found: [found]),
}


@pytest.mark.parametrize(("part", "around", "new"), every_of(17, product(PARTS, AROUND, NEW)))
def test_a_new_operator_behind_what_goes_on_hears_what_comes(part: str, around: str, new: str) -> None:
    """Nothing that an edit begins anew is heard by what stands behind it, and nothing else is missing there."""
    before, (behind, expected) = AROUND[around](rx.source("a"), lambda s: PARTS[part](s, same)), NEW[new]
    prefix, rest = steps(1, 5), [*steps(6, EVENTS), ("", QUIET_S), ("a", None)]
    if alone(before, prefix).status != "running":
        return
    unedited = play(before, before, WAYS[0], prefix, rest)
    found, wanted = play(before, behind(before), WAYS[0], prefix, rest), expected(unedited.after)
    if found.status == "running":  # it goes on for ever
        wanted = wanted[: len(found.after)]
    assert found.after == wanted


@pytest.mark.parametrize("around", ["in what is published", "in a window by time"])
def test_a_greeting_that_was_heard_is_not_heard_again(around: str) -> None:
    """An inner sequence that opens at once, and is greeted with a value, says nothing to a `delay` behind it anew."""
    read = AROUND[around](rx.source("a"), lambda s: s.publish_value(0).ref_count())
    prefix, rest = steps(1, 2), [*steps(3, 5), ("", QUIET_S), ("a", None)]
    unedited = play(read, read, WAYS[0], prefix, rest)
    found = play(read, read.delay(0.25), WAYS[0], prefix, rest)
    assert (found.after[0], found.after) == (3, unedited.after[: len(found.after)])
