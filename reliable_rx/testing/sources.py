"""The conformance suite for sources: what everyone who writes one has to keep, as a function to call in a test.

`check_source` raises `AssertionError` with the claim that is broken and the numbers. Our own sources pass it in
`tests/`, and yours are held to the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from reliable_rx.class_of import is_a
from reliable_rx.errors import PositionUnavailable, ReliableRxError, SourceFailed
from reliable_rx.reliable import Batch, Bounded, Findable, Listed, Reader, Rejected, Source
from reliable_rx.testing import hostile

Notification = tuple[int, Any]
Events = list[Notification]
EMPTY_FETCHES_MAX = 100
FOUND_MAX = 20
HELD_MAX = 10
COMING_S = 30.0
COMING_POLL_S = 0.001


def check_source(
    make: Callable[[], Source],
    *,
    finite: bool = True,
    events_max: int = 10_000,
    positions_max: int = 50,
    holding: Callable[[Sequence[Any]], Source] | None = None,
) -> None:
    """Check that the sources which *make* returns keep the promises of `Source` and `Reader`.

    Each call of *make* stands for a new process over the same data. A source that is not *finite* is read up to
    *events_max* events of each partition. At most *positions_max* positions of a partition are opened again. A source
    that lists, bounds or finds (`Listed`, `Bounded`, `Findable`) is held to that too. Ids that hold nothing, or a
    record that cannot be read, must be the same each time. *holding* makes a source of one partition with the values
    that it is given: it is given each nasty one of `reliable_rx.testing.hostile` between two others, and has to give it
    as it is, to reject that record, or to refuse or fail by an error of this library.

    >>> from hosting.sources import ListSource
    >>> check_source(lambda: ListSource(["a", "b", "c"]), holding=ListSource)

    *Raises* `AssertionError` naming the broken promise.
    """
    names = list(make().partitions())
    _claim(len(set(names)) == len(names), f"partitions have different names, not {names}")
    _claim(list(make().partitions()) == names, "a new source names the same partitions in the same order")
    _check_listing(make, names)
    whole: dict[str, Events] = {}
    for name in names:
        whole[name] = _read_all(make(), name, 0, finite, events_max)
        for at in _sample(_end(whole[name]), positions_max):
            again = _read_all(make(), name, at, finite, events_max - at)
            expected = [each for each in whole[name] if each[0] >= at]
            _claim(again == expected, f"{name!r} opened at {at} gives what it gave from there the first time")
        _check_small_fetches(make(), name, whole[name])
        _check_acknowledge(make, name, whole[name])
        _check_bounds(make(), name, whole[name], finite=finite)
        _check_find(make(), name, whole[name], finite=finite)
        if finite:
            _check_beyond(make(), name, _end(whole[name]))
    _check_independence(make(), whole)
    if holding is not None:
        for each in hostile.VALUES:
            _check_holding(holding, each)


def _check_holding(holding: Callable[[Sequence[Any]], Source], nasty: hostile.Hostile) -> None:
    """Check what becomes of a *nasty* value between two others."""
    value = nasty.make()
    try:
        source = holding([1, value, 2])
        [name] = source.partitions()
        events = _read_all(source, name, 0, True, HELD_MAX)
    except ReliableRxError:
        return
    for at, expected in enumerate((1, value, 2)):
        found = [each for position, each in events if position == at]
        if not found and at:
            return  # it has failed there
        _claim(len(found) == 1, f"{nasty.name}: what stands before it is given, not {len(found)} events at {at}")
        if at != 1 or not is_a(found[0], Rejected):
            same = found[0] is expected or _shown(found[0]) == _shown(expected)
            _claim(same, f"{nasty.name}: the value at {at} is given as it is")


def _shown(value: Any) -> bytes:
    from checkpoint.format.plain import shown

    return shown(value)


def _read_all(source: Source, partition: str, at: int, finite: bool, events_max: int) -> Events:
    """Read from *at* on with fetches of several sizes; check the ids on the way."""
    events: Events = []
    position = at
    reader = source.open(partition, at)
    try:
        empty = 0
        for size in _sizes():
            batch = _fetch(reader, min(size, events_max - len(events)) if not finite else size)
            _check_batch(batch, partition, position, size)
            moved, position = batch.next > position, batch.next
            events += _events(batch)
            if batch.ended or batch.error is not None:
                _check_stays_ended(reader, batch)
                return events
            empty = 0 if moved else empty + 1
            _claim(
                empty < EMPTY_FETCHES_MAX or not finite,
                f"{partition!r} is finite and ends; it gives nothing at {batch.next}",
            )
            if not finite and (empty >= EMPTY_FETCHES_MAX or len(events) >= events_max):
                return events
            _claim(len(events) <= events_max, f"{partition!r} is finite and has at most {events_max} events")
    finally:
        reader.close()
    return events


def _events(batch: Batch) -> Events:
    """Return what *batch* has, by id: values, and records that cannot be read."""
    return [*((each.position, each) for each in batch.rejected), *enumerate(batch.values, batch.first)]


def _end(events: Events) -> int:
    return events[-1][0] + 1 if events else 0


def _within(events: Events, first: int, end: int) -> Events:
    return [each for each in events if first <= each[0] < end]


def _fetch(reader: Reader, count_max: int) -> Batch:
    """Fetch, and ask again for what is on its way."""
    deadline = time.monotonic() + COMING_S
    batch = reader.fetch(count_max)
    while batch.coming and not batch.values and not batch.skipped and count_max:
        _claim(time.monotonic() < deadline, f"what is said to be coming at {batch.next} comes within {COMING_S:g} s")
        time.sleep(COMING_POLL_S)
        batch = reader.fetch(count_max)
    return batch


def _sizes() -> Iterable[int]:
    while True:
        yield from (1, 3, 1000, 2, 7)


def _check_batch(batch: Batch, partition: str, expected: int, count_max: int) -> None:
    first = batch.first - batch.skipped
    _claim(first == expected, f"{partition!r} gives consecutive ids: {expected} next, not {first}")
    places = [each.position for each in batch.rejected]
    _claim(
        places == sorted({*places} & {*range(expected, batch.first)}),
        f"{partition!r}: what is rejected lies among the ids that are skipped, {expected} to {batch.first}: {places}",
    )
    _claim(len(batch.values) <= count_max, f"{partition!r} gives at most {count_max} events, not {len(batch.values)}")


def _check_stays_ended(reader: Reader, batch: Batch) -> None:
    again = _fetch(reader, 10)
    same = not again.values and (again.ended, again.error is None) == (batch.ended, batch.error is None)
    _claim(same and again.first == batch.next, f"behind the end nothing comes, and it stays the end; not {again}")


def _check_small_fetches(source: Source, partition: str, whole: Events) -> None:
    reader = source.open(partition, 0)
    try:
        batch = reader.fetch(0)
        _claim(not _events(batch) and batch.first == 0, f"{partition!r}: fetch(0) gives nothing and moves nothing")
        seen: Events = []
        for _ in range(min(20, len(whole))):
            seen += _events(_fetch(reader, 1))
        _claim(seen == whole[: len(seen)], f"{partition!r} read one by one gives the same events")
    finally:
        reader.close()


def _check_acknowledge(make: Callable[[], Source], partition: str, whole: Events) -> None:
    """Acknowledged or not, once or twice, in order or not: what is not acknowledged can be had again."""
    source = make()
    reader = source.open(partition, 0)
    had = _fetch(reader, min(10, len(whole)))
    middle = had.first + len(had.values) // 2
    for n in (middle - 1, middle - 1, max(0, middle - 2)):
        if n >= 0 and had.values:
            reader.acknowledge(min(n, had.next - 1))
    rest = _fetch(reader, 5)
    expected = _within(whole, had.next, rest.next)
    _claim(_events(rest) == expected, f"{partition!r}: acknowledging takes nothing from a reader")
    reader.close()
    for fresh in (source, make()):
        reader = fresh.open(partition, middle)
        again = _fetch(reader, 10)
        expected = _within(whole, middle, again.next)
        _claim(
            _events(again) == expected,
            f"{partition!r}: what was not acknowledged, from {middle} on, is still there",
        )
        reader.close()


def _check_listing(make: Callable[[], Source], names: Sequence[str]) -> None:
    source = make()
    if not isinstance(source, Listed):
        return
    listing = list(source.listing())
    _claim([each.name for each in listing] == names, f"what is listed are the partitions {names}, not {listing}")
    again: Any = make()
    _claim(list(again.listing()) == listing, f"a new source lists the same: {listing}")
    _claim(all(each.weight >= 1 for each in listing), f"weights are from 1 on: {listing}")
    try:
        TopologicalSorter({each.name: each.parents for each in listing}).prepare()
    except CycleError as ring:
        _claim(False, f"a partition does not wait for itself: {' after '.join(ring.args[1])}")


def _check_bounds(source: Source, partition: str, whole: Events, *, finite: bool) -> None:
    if not isinstance(source, Bounded):
        return
    first, end = source.bounds(partition)
    _claim(0 <= first <= end, f"{partition!r}: the first id is not behind the end: {first}, {end}")
    last = _end(whole)
    _claim(end == last if finite else end >= last, f"{partition!r} ends at {last}, not at {end}")
    source.open(partition, first).close()
    if finite:
        reader = source.open(partition, end)
        batch = reader.fetch(10)
        _claim(not _events(batch), f"{partition!r}: at the end, {end}, there is nothing, not {batch}")
        reader.close()


def _check_find(source: Source, partition: str, whole: Events, *, finite: bool) -> None:
    timestamp: Callable[[Any], float] | None = getattr(source, "timestamp", None)
    if not isinstance(source, Findable) or timestamp is None:
        return
    times = [(at, timestamp(value)) for at, value in whole if not isinstance(value, Rejected)]
    for moment in sorted({each for _, each in times})[:: max(1, len(times) // FOUND_MAX)]:
        for wanted in (moment, moment - 1e-6):
            expected = next(at for at, each in times if each >= wanted)
            found = source.find(partition, wanted)
            _claim(found == expected, f"{partition!r}: the first event from {wanted} on is {expected}, not {found}")
    if finite:
        late = source.find(partition, max((each for _, each in times), default=0.0) + 1.0)
        end = _end(whole)
        _claim(late == end, f"{partition!r}: behind the last event comes the end, {end}, not {late}")


def _check_beyond(source: Source, partition: str, end: int) -> None:
    try:
        reader = source.open(partition, end + 1)
    except PositionUnavailable:
        return
    try:
        batch = reader.fetch(10)
    except (PositionUnavailable, SourceFailed):
        return
    finally:
        reader.close()
    _claim(not batch.values, f"{partition!r} ends at {end}, and gives nothing from {end + 1} on, not {batch}")


def _check_independence(source: Source, whole: dict[str, Events]) -> None:
    """Readers of all partitions, read in turn, with one closed on the way, do not disturb each other."""
    readers = {name: source.open(name, 0) for name in whole}
    seen: dict[str, Events] = {name: [] for name in whole}
    for turn in range(12):
        for number, name in enumerate(list(readers)):
            seen[name] += _events(_fetch(readers[name], 1 + (turn + number) % 4))
        if turn == 5:
            readers.pop(next(iter(readers))).close()
    for name, reader in readers.items():
        reader.close()
        _claim(seen[name] == whole[name][: len(seen[name])], f"{name!r} gives the same events while others are read")


def _sample(end: int, count_max: int) -> list[int]:
    """Choose positions from 0 to *end*: both ends, and evenly between."""
    step = max(1, end // count_max)
    return sorted({*range(0, end + 1, step), end})


def _claim(holds: bool, claim: str) -> None:
    if not holds:
        raise AssertionError(f"broken promise: {claim}")
