"""The conformance suite for sinks: what everyone who writes one has to keep, as a function to call in a test.

`check_sink` raises `AssertionError` with the claim that is broken and the numbers. Our own sinks pass it in `tests/`,
and yours are held to the same. It draws values that hardly anything can write: a sink says so, of that one value, and
goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from reliable_rx.errors import InternalError, ReliableRxError, ValueRefused
from reliable_rx.interrupts import let_through
from reliable_rx.reliable import Claiming, DeadLetter, Inspectable, Origin, Sink, Skipping
from reliable_rx.testing.hostile import VALUES
from reliable_rx.testing.origins import HERE, OTHERS, claimed, refuses

Notification = tuple[int, Any]


def nasty_values() -> list[Any]:
    """Return values that are legal in Python and that hardly any sink can write, and some that it must not change."""
    own = [
        "\udc00 \ud83d\ude00", -(1 << 64), {(1, 2): 3}, {1: "a", "1": "b"}, {"\ud800": 1}, {}, [10**5000, "\ud800"],
        {"id": 1, "ID": 2}, {"a\0b": 1}, lambda: None, math.inf,
    ]  # fmt: skip
    return [*own, *(each.make() for each in VALUES)]


def check_sink(
    make: Callable[[], Sink],
    read_back: Callable[[], Iterable[Notification]],
    *,
    values: Sequence[Any] = ("a", 1, None, 2.5, ["b"], {"c": 1}),
    nasty: Sequence[Any] | None = None,
    tear: Callable[[], None] | None = None,
) -> None:
    """Check that an exactly-once sink takes a stream over many restarts without losing or doubling anything.

    Each call of *make* stands for a new process over the same place. *read_back* returns the (id, value) pairs,
    without the end, that the place holds; *values* must be as *read_back* returns them. The sink is dropped without
    flush again and again, at every id, and *tear*, if given, does to the place what a crash might.

    The *nasty* values (None: `nasty_values`) it may write or refuse: with `ValueRefused`, before anything of the call
    is written, and it goes on behind them, if it can leave ids out (`Skipping`), or with others in their place. Behind
    the end, where a query that is run again goes on, it writes under the next id, or refuses that by an error of ours
    and leaves the place as it is. An `Inspectable` sink tells before `open` what that returns. With a ``target`` as
    well, it refuses another stream where it has ids, and leaves the place as it is; a `Claiming` one any other origin.

    *Raises* `AssertionError` naming the broken promise.
    """
    for at in range(len(values)):
        _check_restart(make, at, values, tear)
        durable = [n for n, _ in read_back()]
        _claim(durable == list(range(len(durable))), f"ids are consecutive after a restart at {at}, not {durable}")
        _claim(len(durable) >= at + 1, f"what was flushed up to id {at} is there, not only {durable}")
    expected = list(enumerate(values))
    _check_others(make, len(expected))
    skipped: set[int] = set()
    for value in nasty_values() if nasty is None else nasty:
        _check_nasty(make, value, values[0], expected, skipped)
    _check_end(make, len(expected) + len(skipped))
    _check_behind_end(make, values[0], expected, skipped)
    _check_content(list(read_back()), expected, skipped)


class _Any:
    """In place of a nasty value that was taken: it is read back as it may."""


def _check_nasty(
    make: Callable[[], Sink], value: Any, good: Any, expected: list[Notification], skipped: set[int]
) -> None:
    """Write *value* between good ones; where it is refused, go on without it."""
    with closing(make()) as sink:
        n = _open_known(sink)
        after = len(expected) + len(skipped)
        _claim(n == after, f"the sink goes on at {after} after {_named(value)} was given, not at {n}")
        if _takes(sink, n, [good, value, good], value):
            expected += [(n, good), (n + 1, _Any), (n + 2, good)]
        else:
            sink.write(n, [good])
            _claim(not _takes(sink, n + 1, [value], value), f"{_named(value)} is refused again when it comes alone")
            expected.append((n, good))
            n = _leave_out(sink, n + 1, value, skipped)
            sink.write(n, [good])
            expected.append((n, good))
        try:
            sink.flush()
        except BaseException as error:
            let_through(error)
            raise AssertionError(f"check_sink: what `write` has taken can be flushed, also {_named(value)}") from error


def _leave_out(sink: Sink, n: int, value: Any, skipped: set[int]) -> int:
    """Step over ids *n* and *n* + 1, twice, if the sink can do that; return the next id."""
    if not isinstance(sink, Skipping):
        return n
    for until in (n + 1, n + 2):
        letter = DeadLetter(HERE.stream, "", n, value, "why", "trace") if until == n + 1 else None
        for _ in range(2):
            sink.skip(until - 1, until, "why", letter)
    skipped |= {n, n + 1}
    return n + 2


def _takes(sink: Sink, n: int, values: Sequence[Any], value: Any) -> bool:
    try:
        sink.write(n, values)
    except ValueRefused as error:
        n_said = error.fields.get("n")
        _claim(n_said == n + len(values) // 2, f"`ValueRefused` names the id {n + len(values) // 2}, not {n_said}")
        return False
    except BaseException as error:
        let_through(error)
        kind = "another of our errors" if isinstance(error, ReliableRxError) else "a raw one"
        message = f"check_sink: {_named(value)} is refused with `ValueRefused`, not with {kind}, {type(error).__name__}"
        raise AssertionError(message) from error
    return True


def _named(value: Any) -> str:
    try:
        return repr(value)[:80]
    except BaseException as raised:
        let_through(raised)
        return f"a {type(value).__name__}"


def _check_content(found: Sequence[Notification], expected: list[Notification], skipped: set[int]) -> None:
    ids = [n for n, _ in found]
    end = len(expected) + len(skipped)
    _claim(ids == [n for n, _ in expected], f"the place holds the ids below {end} but for {sorted(skipped)}, not {ids}")
    for (n, value), (_, wanted) in zip(found, expected, strict=True):
        _claim(wanted is _Any or value == wanted, f"the place holds {wanted!r} under id {n}, not {value!r}")


def _check_restart(make: Callable[[], Sink], at: int, values: Sequence[Any], tear: Callable[[], None] | None) -> None:
    """Bring the sink to *at*, flushed, then leave a write behind it without flush, and open the place once more."""
    with closing(make()) as sink:
        wanted = _open_known(sink)
        _claim(at <= wanted <= len(values), f"a sink flushed up to id {at - 1} wants {at} or more, not {wanted}")
        again = max(0, wanted - 2)  # ids below the position are had already, and skipped
        sink.write(again, values[again : at + 1])
        sink.flush()
        sink.flush()
        sink.write(max(at + 1, wanted), values[max(at + 1, wanted) : at + 3])
    if tear is not None:
        tear()
    with closing(make()) as sink:
        wanted = _open_known(sink)
        _claim(wanted > at, f"a sink flushed up to id {at} wants {at + 1} or more, not {wanted}")


def _check_others(make: Callable[[], Sink], next_id: int) -> None:
    """Open the place of *next_id* ids for other streams, stores and partitions."""
    sink = make()
    if isinstance(sink, Claiming):
        for other in OTHERS:
            for ask in ("stored_position", "open") if isinstance(sink, Inspectable) else ("open",):
                _refuses_other(claimed(make(), other), ask, other)
    elif isinstance(getattr(sink, "target", None), str) and isinstance(sink, Inspectable):
        for ask in ("stored_position", "open"):
            _refuses_other(make(), ask, OTHERS[0])
    with closing(make()) as again:
        wanted = _open_known(again)
    _claim(wanted == next_id, f"a place that was refused to another stream wants {next_id} as before, not {wanted}")


def _refuses_other(sink: Sink, ask: str, other: Origin) -> None:
    with closing(sink):
        claim = f"check_sink: a place with the ids of one stream is refused to {other}"
        refuses(partial(getattr(sink, ask), other.stream), other, claim)


def _check_end(make: Callable[[], Sink], end: int) -> None:
    with closing(make()) as sink:
        wanted = _open_known(sink)
        _claim(wanted == end, f"a sink with {end} values wants the end, id {end}, not {wanted}")
        _refuses_gap(sink, end)
        sink.end(end, None)
        sink.flush()
    for _ in range(2):
        with closing(make()) as sink:
            wanted = _open_known(sink)
            _claim(wanted == end + 1, f"the end has an id too: {end + 1} is wanted behind it, not {wanted}")
            sink.end(end, None)
            sink.flush()


def _check_behind_end(make: Callable[[], Sink], value: Any, expected: list[Notification], skipped: set[int]) -> None:
    """Go on behind the end, and end again, as the sink of a query does that is run again."""
    end = len(expected) + len(skipped)
    with closing(make()) as sink:
        n = _open_known(sink)
        try:
            sink.write(n, [value])
            goes_on = True
        except BaseException as error:
            let_through(error)
            is_named = isinstance(error, ReliableRxError) and not isinstance(error, InternalError)
            _claim(is_named, f"behind the end a sink writes on, or says why it does not: {error!r}")
            goes_on = False
        if goes_on:
            sink.flush()
    if goes_on:
        with closing(make()) as sink:
            wanted = _open_known(sink)
            _claim(wanted == end + 2, f"a sink with a value behind the end {end} wants {end + 2}, not {wanted}")
            sink.end(end + 2, ValueError("again"))
            sink.flush()
        expected.append((end + 1, value))
        skipped |= {end, end + 2}
    with closing(make()) as sink:
        wanted, behind = _open_known(sink), end + 3 if goes_on else end + 1
        _claim(wanted == behind, f"behind the last end {behind} is wanted, not {wanted}")


def _refuses_gap(sink: Sink, wanted: int) -> None:
    try:
        sink.write(wanted + 1, ["too far"])
    except Exception:
        return
    raise AssertionError(f"check_sink: a sink that wants id {wanted} refuses id {wanted + 1}")


def _open_known(sink: Sink) -> int:
    try:
        claimed(sink, HERE)
        told = sink.stored_position(HERE.stream) if isinstance(sink, Inspectable) else None
        wanted = sink.open(HERE.stream)
    except Exception as error:
        raise AssertionError(f"check_sink: a sink opens the place that it has written: {error!r}") from error
    if wanted is None:
        raise AssertionError("check_sink: an exactly-once sink knows its position: open() returns an id, not None")
    told = told if isinstance(sink, Inspectable) else wanted
    _claim(told == wanted, f"`stored_position` tells what `open` returns behind it, {wanted}, not {told}")
    return wanted


def _claim(holds: bool, claim: str) -> None:
    if not holds:
        raise AssertionError(f"broken promise: {claim}")
