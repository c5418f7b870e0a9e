"""What type checkers make of queries: never run, checked by `test_operators_typing.py`.

Where an operator in a pipe has a lambda, mypy and pyright both know its argument: with RxPY's `pipe` mypy does not.
"""

from __future__ import annotations

from typing import Any, assert_type

from reactivex import Notification, Observable, Subject
from reactivex.observable.groupedobservable import GroupedObservable

import reliable_rx as rx
from reliable_rx import operators as ops
from reliable_rx.operators.timestamps import TimeInterval, Timestamp
from reliable_rx.query.query import Query

numbers = rx.of(1, 2, 3)
assert_type(numbers, Query[int])
assert_type(rx.range(3), Query[int])
assert_type(rx.from_iterable(["a"]), Query[str])
assert_type(rx.return_value(1.5), Query[float])
assert_type(rx.merge(numbers, rx.range(3)), Query[int])
assert_type(rx.zip(numbers, rx.of("a")), Query[tuple[int, str]])
assert_type(rx.combine_latest(numbers, rx.of("a"), rx.of(b"b")), Query[tuple[int, str, bytes]])
assert_type(rx.source("orders"), Query[Any])

assert_type(numbers.pipe(ops.map(str)), Query[str])
assert_type(numbers.pipe(ops.map(str), ops.filter(str.isdigit), ops.map(len)), Query[int])
assert_type(numbers.pipe(ops.filter(bool), ops.take(2), ops.pairwise()), Query[tuple[int, int]])
assert_type(numbers.pipe(ops.buffer_with_count(2)), Query[list[int]])
assert_type(numbers.pipe(ops.to_list()), Query[list[int]])
assert_type(numbers.pipe(ops.count()), Query[int])
assert_type(numbers.pipe(ops.average()), Query[float])
assert_type(numbers.pipe(ops.zip(rx.of("a"))), Query[tuple[int, str]])
assert_type(numbers.pipe(ops.with_latest_from(rx.of("a"), rx.of(1.5))), Query[tuple[int, str, float]])
assert_type(numbers.pipe(ops.merge(numbers)), Query[int])
assert_type(numbers.pipe(ops.flat_map(lambda n: rx.of(str(n)))), Query[str])
assert_type(numbers.pipe(ops.map(lambda n: rx.of(n)), ops.merge_all()), Query[int])
assert_type(numbers.pipe(ops.debounce(1.0), ops.delay(1.0), ops.retry(3)), Query[int])
assert_type(numbers.pipe(ops.catch(rx.of(4))), Query[int])


def running(total: float, n: int) -> float:
    return total + n


def key_of(n: int) -> str:
    return str(n)


def counted(group: GroupedObservable[str, int]) -> Observable[int]:
    return group.pipe(ops.count())


assert_type(numbers.pipe(ops.scan(running, 0.0)), Query[float])
assert_type(numbers.pipe(ops.reduce(running, 0.0)), Query[float])
assert_type(numbers.pipe(ops.scan(max)), Query[int])
assert_type(numbers.pipe(ops.group_by(key_of), ops.flat_map(counted)), Query[int])


def odd(n: int) -> bool:
    return n % 2 == 1


def found(n: int, index: int, source: Observable[int]) -> bool:
    return n == index


assert_type(numbers[1:-2], Query[int])
assert_type(numbers[3], Query[int])
assert_type(numbers.pipe(ops.slice(1, -2), ops.take_last(2), ops.skip_last(1)), Query[int])
assert_type(numbers.pipe(ops.take_last_buffer(2)), Query[list[int]])
assert_type(numbers.pipe(ops.all(odd)), Query[bool])
assert_type(numbers.pipe(ops.some(odd), ops.is_empty()), Query[bool])
assert_type(numbers.pipe(ops.contains(2)), Query[bool])
assert_type(numbers.pipe(ops.sequence_equal([1, 2])), Query[bool])
assert_type(numbers.pipe(ops.element_at(2), ops.first(odd), ops.last(), ops.single()), Query[int])
assert_type(numbers.pipe(ops.element_at_or_default(2)), Query[int | None])
assert_type(numbers.pipe(ops.element_at_or_default(2, "none")), Query[int | str])
assert_type(numbers.pipe(ops.first_or_default()), Query[int | None])
assert_type(numbers.pipe(ops.first_or_default(odd, 0)), Query[int])
assert_type(numbers.pipe(ops.first_or_default(default_value=0)), Query[int])
assert_type(numbers.pipe(ops.last_or_default("none")), Query[int | str])
assert_type(numbers.pipe(ops.find(found)), Query[int | None])
assert_type(numbers.pipe(ops.find_index(found)), Query[int])
assert_type(numbers.pipe(ops.min_by(key_of)), Query[list[int]])
assert_type(numbers.pipe(ops.max()), Query[int])
assert_type(numbers.pipe(ops.filter_indexed(), ops.ignore_elements(), ops.distinct(key_of)), Query[int])


def late(n: int) -> float:
    return n / 2


def few(n: int) -> bool:
    return n < 3


assert_type(rx.timer(1.0, 2.0, catch_up="skip"), Query[int])
assert_type(rx.interval(1.0), Query[int])
assert_type(rx.generate_with_relative_time(1, few, abs, late), Query[int])
assert_type(numbers.pipe(ops.take_with_time(1.0), ops.skip_until_with_time(2.0)), Query[int])
assert_type(numbers.pipe(ops.take_last_with_time(1.0), ops.skip_last_with_time(1.0)), Query[int])
assert_type(numbers.pipe(ops.delay_subscription(1.0), ops.throttle_first(1.0)), Query[int])
assert_type(numbers.pipe(ops.throttle_with_timeout(1.0), ops.timestamp()), Query[Timestamp[int]])
assert_type(numbers.pipe(ops.time_interval()), Query[TimeInterval[int]])
assert_type(numbers.pipe(ops.buffer_with_time_or_count(1.0, 2)), Query[list[int]])
assert_type(numbers.pipe(ops.window_with_time_or_count(1.0, 2), ops.merge_all()), Query[int])


def pair(x: int, y: str) -> bytes:
    return (str(x) + y).encode()


def some(n: int) -> list[str]:
    return [str(n)]


def numbered(n: int, index: int) -> Observable[str]:
    return rx.of(str(n + index))


def text(n: int) -> Observable[str]:
    return rx.of(str(n))


def again(n: int) -> Observable[int]:
    return rx.of(n)


assert_type(rx.pipe(numbers, ops.map(str)), Query[str])
assert_type(
    rx.pipe(
        numbers, ops.map(str), ops.map(len), ops.take(9), ops.skip(1), ops.map(float), ops.map(int), ops.pairwise()
    ),
    Query[tuple[int, int]],
)
nine = numbers.pipe(
    ops.map(str),
    ops.map(len),
    ops.take(9),
    ops.skip(1),
    ops.map(float),
    ops.map(int),
    ops.map(str),
    ops.take(1),
    ops.to_set(),
)
assert_type(nine, Query[set[str]])
assert_type(rx.compose(ops.map(key_of), ops.to_list())(numbers), Query[list[str]])
assert_type(numbers.pipe(ops.zip_with_iterable(["a"]), ops.starmap(pair)), Query[bytes])
assert_type(numbers.pipe(ops.zip_with_list("ab")), Query[tuple[int, str]])
assert_type(numbers.pipe(ops.flat_map(some)), Query[str])
assert_type(numbers.pipe(ops.flat_map_indexed(numbered)), Query[str])
assert_type(numbers.pipe(ops.flat_map_latest(text)), Query[str])
assert_type(numbers.pipe(ops.concat_map(text)), Query[str])
assert_type(numbers.pipe(ops.switch_map(text)), Query[str])
assert_type(numbers.pipe(ops.switch_map_indexed(numbered)), Query[str])
assert_type(numbers.pipe(ops.map(text), ops.concat_all()), Query[str])
assert_type(numbers.pipe(ops.map(text), ops.exclusive()), Query[str])
assert_type(numbers.pipe(ops.expand(again)), Query[int])
assert_type(numbers.pipe(ops.materialize()), Query[Notification[int]])
assert_type(numbers.pipe(ops.materialize(), ops.dematerialize()), Query[int])
assert_type(numbers.pipe(ops.do_action(key_of), ops.tap(key_of), ops.as_observable()), Query[int])
assert_type(numbers.pipe(ops.finally_action(print, effects="live")), Query[int])
assert_type(numbers.pipe(ops.to_dict(key_of)), Query[dict[str, int]])
assert_type(numbers.pipe(ops.to_dict(key_of, float)), Query[dict[str, float]])
assert_type(numbers.pipe(ops.to_set()), Query[set[int]])
assert_type(numbers.pipe(ops.to_iterable()), Query[list[int]])
assert_type(numbers.pipe(ops.delay_with_mapper(text)), Query[int])
assert_type(numbers.pipe(ops.throttle_with_mapper(text)), Query[int])
assert_type(numbers.pipe(ops.timeout_with_mapper(numbers, text, numbers)), Query[int])
assert_type(numbers.pipe(ops.to_marbles()), Query[str])


async def fetched(n: int) -> str:
    return str(n)


async def counted_letters(text: str) -> int:
    return len(text)


assert_type(numbers.pipe(ops.map_async(fetched, concurrency=2), ops.map(len)), Query[int])
assert_type(numbers.map_async(fetched), Query[str])


def holds(source: Observable[int]) -> bool:
    return False


texts = rx.of("a")
assert_type(rx.amb(numbers, rx.range(3)), Query[int])
assert_type(rx.fork_join(numbers, texts), Query[tuple[int, str]])
assert_type(rx.zip_latest(numbers, texts, rx.of(1.5)), Query[tuple[int, str, float]])
assert_type(rx.generate(1, bool, abs), Query[int])
assert_type(rx.for_in([1, 2], rx.range), Query[int])
assert_type(rx.case(str, {"a": numbers}), Query[int])
assert_type(rx.if_then(bool, numbers), Query[int])
assert_type(rx.repeat_value("a", 3), Query[str])
assert_type(rx.concat_with_iterable([numbers]), Query[int])
assert_type(rx.catch_with_iterable([texts]), Query[str])
assert_type(numbers.pipe(ops.fork_join(texts), ops.repeat(2)), Query[tuple[int, str]])
assert_type(numbers.pipe(ops.zip_latest(texts)), Query[tuple[int, str]])
assert_type(numbers.pipe(ops.amb(numbers), ops.skip_until(texts), ops.while_do(holds)), Query[int])
assert_type(numbers.pipe(ops.retry_with_backoff(first_s=1, max_s=60), ops.do_while(holds)), Query[int])
assert_type(numbers.pipe(ops.catch(numbers, on=(KeyError, ValueError))), Query[int])
assert_type(numbers.pipe(ops.on_error_resume_next(numbers)), Query[int])


def enriched(query: Query[int]) -> Query[str]:
    return query.map(str)


def perhaps(total: int | None, n: int) -> int:
    return n


def collected(seen: tuple[int, ...], n: int) -> tuple[int, ...]:
    return (*seen, n)


assert_type(numbers.map(str), Query[str])
assert_type(numbers.map(lambda n: n + 0.5).filter(lambda n: n > 1), Query[float])
assert_type(numbers.map(str).explain(), str)
assert_type(numbers.map(str).bind(a=numbers), Query[str])
assert_type(numbers + texts, Query[int | str])
assert_type(numbers.group_by(key_of, subject_mapper=Subject), Query[GroupedObservable[str, Any]])
assert_type(numbers.group_by_until(key_of, None, lambda g: g.tumbling_window(1.0)), Query[rx.Inner[str, int]])
assert_type(numbers.map(str).map_async(counted_letters), Query[int])
assert_type(numbers.scan(lambda total, n: total + n, 0.5), Query[float])
assert_type(numbers.scan(perhaps, None), Query[int])
assert_type(numbers.scan(collected, ()), Query[tuple[int, ...]])
assert_type(numbers.reduce(perhaps, None), Query[int | None])
assert_type(numbers.group_by(key_of, ttl_s=3.0), Query[rx.Inner[str, int]])
assert_type(numbers.group_by(key_of).flat_map(lambda g: g.count().map(lambda n: (g.key, n))), Query[tuple[str, int]])
assert_type(numbers.group_by(key_of).flat_map(counted), Query[int])
assert_type(numbers.flat_map(lambda n: rx.of(str(n))), Query[str])
assert_type(numbers.flat_map(lambda n: [str(n)]), Query[str])
assert_type(numbers.zip(texts), Query[tuple[int, str]])
assert_type(numbers.zip(texts).starmap(pair), Query[bytes])
assert_type(numbers.combine_latest(texts, texts), Query[tuple[int, str, str]])
assert_type(numbers.join_within(texts, lambda n: n, within_s=1.0), Query[tuple[int, str]])
assert_type(numbers.tumbling_window(3.0).flat_map(lambda w: w.sum()), Query[int])
assert_type(numbers.sliding_window(3.0, 1.0), Query[rx.Inner[tuple[float, float], int]])
assert_type(numbers.window_with_inactivity(1.0).flat_map(lambda w: w.to_list()), Query[list[int]])
assert_type(numbers.buffer_with_inactivity(1.0), Query[list[int]])
assert_type(numbers.where_key(key_of, "1").distinct(ttl_s=3.0).catch(numbers, on=KeyError), Query[int])
assert_type(numbers.retry_with_backoff(first_s=1.0, max_s=2.0), Query[int])
assert_type(numbers.map(text).merge_all(), Query[str])
assert_type(numbers.publish().ref_count(), Query[int])
assert_type(numbers.partition(odd), list[Query[int]])
assert_type(numbers.do(print).tap(print), Query[int])
assert_type(numbers.pipe(ops.map(lambda n: n.bit_length())), Query[int])
numbers.pipe(ops.filter(lambda n: n > 1), ops.map(lambda n: n + 1)).explain()
assert_type(numbers.pipe(enriched, ops.map(len)), Query[int])
assert_type(numbers.pipe(ops.map(str), ops.partition(str.isdigit)), list[Query[str]])
numbers.pipe(ops.group_by(lambda n: n % 2), ops.flat_map(lambda g: g.pipe(ops.count()))).explain()
rx.source("a").pipe(ops.tumbling_window(3.0), ops.flat_map(lambda w: w.sum())).explain()
rx.source("a").starmap(lambda a, b: a + b).map(lambda a: a["key"]).bind(a=numbers)

# What is wrong is marked: mypy reports an ignored error that is none.
numbers.tumbling_windw(3.0)  # type: ignore[attr-defined]
numbers.distinct(ttl=3.0)  # type: ignore[call-overload]
numbers.tumbling_window("a minute")  # type: ignore[arg-type]
numbers.map(lambda n: n.nothing)  # type: ignore[attr-defined]
numbers.group_by(key_of).flat_map(lambda g: g.nothing)  # type: ignore[attr-defined]
numbers.pipe(ops.map(lambda n: n.nothing))  # type: ignore[attr-defined]
numbers.pipe(ops.map(str), ops.starmap(pair))  # type: ignore[misc]
numbers.merge_all()  # type: ignore[misc]
list(numbers)  # type: ignore[call-overload]
