"""What type checkers make of queries: never run, checked by `test_operators_typing.py`.

Named functions only: mypy does not infer the argument of a lambda inside an operator, with RxPY's annotations or ours.
"""

from __future__ import annotations

from typing import Any, assert_type

from reactivex import Notification, Observable
from reactivex.observable.groupedobservable import GroupedObservable

import reliable_rx as rx
from reliable_rx import operators as ops
from reliable_rx.operators.time_stamps import TimeInterval, Timestamp
from reliable_rx.query import Query

numbers = rx.of(1, 2, 3)
assert_type(numbers, Query[int])
assert_type(rx.range(3), Query[int])
assert_type(rx.from_iterable(["a"]), Query[str])
assert_type(rx.return_value(1.5), Query[float])
assert_type(rx.merge(numbers, rx.range(3)), Query[int])
assert_type(rx.zip(numbers, rx.of("a")), Query[tuple[int, str]])
assert_type(rx.combine_latest(numbers, rx.of("a"), rx.of(b"b")), Query[tuple[int, str, bytes]])
assert_type(rx.source("orders"), Query[Any])

assert_type(numbers.pipe(ops.map(str)), Observable[str])
assert_type(numbers.pipe(ops.map(str), ops.filter(str.isdigit), ops.map(len)), Observable[int])
assert_type(numbers.pipe(ops.filter(bool), ops.take(2), ops.pairwise()), Observable[tuple[int, int]])
assert_type(numbers.pipe(ops.buffer_with_count(2)), Observable[list[int]])
assert_type(numbers.pipe(ops.to_list()), Observable[list[int]])
assert_type(numbers.pipe(ops.count()), Observable[int])
assert_type(numbers.pipe(ops.average()), Observable[float])
assert_type(numbers.pipe(ops.zip(rx.of("a"))), Observable[tuple[int, str]])
assert_type(numbers.pipe(ops.with_latest_from(rx.of("a"), rx.of(1.5))), Observable[tuple[int, str, float]])
assert_type(numbers.pipe(ops.merge(numbers)), Observable[int])
assert_type(numbers.pipe(ops.flat_map(lambda n: rx.of(str(n)))), Observable[str])
assert_type(numbers.pipe(ops.map(lambda n: rx.of(n)), ops.merge_all()), Observable[int])
assert_type(numbers.pipe(ops.debounce(1.0), ops.delay(1.0), ops.retry(3)), Observable[int])
assert_type(numbers.pipe(ops.catch(rx.of(4))), Observable[int])


def running(total: float, n: int) -> float:
    return total + n


def key_of(n: int) -> str:
    return str(n)


def counted(group: GroupedObservable[str, int]) -> Observable[int]:
    return group.pipe(ops.count())


assert_type(numbers.pipe(ops.scan(running, 0.0)), Observable[float])
assert_type(numbers.pipe(ops.reduce(running, 0.0)), Observable[float])
assert_type(numbers.pipe(ops.scan(max)), Observable[int])
assert_type(numbers.pipe(ops.group_by(key_of), ops.flat_map(counted)), Observable[int])


def odd(n: int) -> bool:
    return n % 2 == 1


def found(n: int, index: int, source: Observable[int]) -> bool:
    return n == index


assert_type(numbers[1:-2], Query[int])
assert_type(numbers[3], Query[int])
assert_type(numbers.pipe(ops.slice(1, -2), ops.take_last(2), ops.skip_last(1)), Observable[int])
assert_type(numbers.pipe(ops.take_last_buffer(2)), Observable[list[int]])
assert_type(numbers.pipe(ops.all(odd)), Observable[bool])
assert_type(numbers.pipe(ops.some(odd), ops.is_empty()), Observable[bool])
assert_type(numbers.pipe(ops.contains(2)), Observable[bool])
assert_type(numbers.pipe(ops.sequence_equal([1, 2])), Observable[bool])
assert_type(numbers.pipe(ops.element_at(2), ops.first(odd), ops.last(), ops.single()), Observable[int])
assert_type(numbers.pipe(ops.element_at_or_default(2)), Observable[int | None])
assert_type(numbers.pipe(ops.element_at_or_default(2, "none")), Observable[int | str])
assert_type(numbers.pipe(ops.first_or_default()), Observable[int | None])
assert_type(numbers.pipe(ops.first_or_default(odd, 0)), Observable[int])
assert_type(numbers.pipe(ops.first_or_default(default_value=0)), Observable[int])
assert_type(numbers.pipe(ops.last_or_default("none")), Observable[int | str])
assert_type(numbers.pipe(ops.find(found)), Observable[int | None])
assert_type(numbers.pipe(ops.find_index(found)), Observable[int])
assert_type(numbers.pipe(ops.min_by(key_of)), Observable[list[int]])
assert_type(numbers.pipe(ops.max()), Observable[int])
assert_type(numbers.pipe(ops.filter_indexed(), ops.ignore_elements(), ops.distinct(key_of)), Observable[int])


def late(n: int) -> float:
    return n / 2


def few(n: int) -> bool:
    return n < 3


assert_type(rx.timer(1.0, 2.0, catch_up="skip"), Query[int])
assert_type(rx.interval(1.0), Query[int])
assert_type(rx.generate_with_relative_time(1, few, abs, late), Query[int])
assert_type(numbers.pipe(ops.take_with_time(1.0), ops.skip_until_with_time(2.0)), Observable[int])
assert_type(numbers.pipe(ops.take_last_with_time(1.0), ops.skip_last_with_time(1.0)), Observable[int])
assert_type(numbers.pipe(ops.delay_subscription(1.0), ops.throttle_first(1.0)), Observable[int])
assert_type(numbers.pipe(ops.throttle_with_timeout(1.0), ops.timestamp()), Observable[Timestamp[int]])
assert_type(numbers.pipe(ops.time_interval()), Observable[TimeInterval[int]])
assert_type(numbers.pipe(ops.buffer_with_time_or_count(1.0, 2)), Observable[list[int]])
assert_type(numbers.pipe(ops.window_with_time_or_count(1.0, 2), ops.merge_all()), Observable[int])


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


assert_type(rx.pipe(numbers, ops.map(str)), Observable[str])
assert_type(
    rx.pipe(
        numbers, ops.map(str), ops.map(len), ops.take(9), ops.skip(1), ops.map(float), ops.map(int), ops.pairwise()
    ),
    Observable[tuple[int, int]],
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
assert_type(nine, Observable[set[str]])
assert_type(rx.compose(ops.map(key_of), ops.to_list())(numbers), Observable[list[str]])
assert_type(numbers.pipe(), Observable[int])
assert_type(numbers.pipe(ops.zip_with_iterable(["a"]), ops.starmap(pair)), Observable[bytes])
assert_type(numbers.pipe(ops.zip_with_list("ab")), Observable[tuple[int, str]])
assert_type(numbers.pipe(ops.flat_map(some)), Observable[str])
assert_type(numbers.pipe(ops.flat_map_indexed(numbered)), Observable[str])
assert_type(numbers.pipe(ops.flat_map_latest(text)), Observable[str])
assert_type(numbers.pipe(ops.concat_map(text)), Observable[str])
assert_type(numbers.pipe(ops.switch_map(text)), Observable[str])
assert_type(numbers.pipe(ops.switch_map_indexed(numbered)), Observable[str])
assert_type(numbers.pipe(ops.map(text), ops.concat_all()), Observable[str])
assert_type(numbers.pipe(ops.map(text), ops.exclusive()), Observable[str])
assert_type(numbers.pipe(ops.expand(again)), Observable[int])
assert_type(numbers.pipe(ops.materialize()), Observable[Notification[int]])
assert_type(numbers.pipe(ops.materialize(), ops.dematerialize()), Observable[int])
assert_type(numbers.pipe(ops.do_action(key_of), ops.tap(key_of), ops.as_observable()), Observable[int])
assert_type(numbers.pipe(ops.finally_action(print, effects="live")), Observable[int])
assert_type(numbers.pipe(ops.to_dict(key_of)), Observable[dict[str, int]])
assert_type(numbers.pipe(ops.to_dict(key_of, float)), Observable[dict[str, float]])
assert_type(numbers.pipe(ops.to_set()), Observable[set[int]])
assert_type(numbers.pipe(ops.to_iterable()), Observable[list[int]])
assert_type(numbers.pipe(ops.delay_with_mapper(text)), Observable[int])
assert_type(numbers.pipe(ops.throttle_with_mapper(text)), Observable[int])
assert_type(numbers.pipe(ops.timeout_with_mapper(numbers, text, numbers)), Observable[int])
assert_type(numbers.pipe(ops.to_marbles()), Observable[str])


async def fetched(n: int) -> str:
    return str(n)


assert_type(numbers.pipe(ops.map_async(fetched, concurrency=2), ops.map(len)), Observable[int])
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
assert_type(numbers.pipe(ops.fork_join(texts), ops.repeat(2)), Observable[tuple[int, str]])
assert_type(numbers.pipe(ops.zip_latest(texts)), Observable[tuple[int, str]])
assert_type(numbers.pipe(ops.amb(numbers), ops.skip_until(texts), ops.while_do(holds)), Observable[int])
assert_type(numbers.pipe(ops.retry_with_backoff(first_s=1, max_s=60), ops.do_while(holds)), Observable[int])
assert_type(numbers.pipe(ops.catch(numbers, on=(KeyError, ValueError))), Observable[int])
assert_type(numbers.pipe(ops.on_error_resume_next(numbers)), Observable[int])
