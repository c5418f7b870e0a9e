"""The table, continued: notifications, effects, collecting, pairing, and what leaves the query."""

from __future__ import annotations

from concurrent.futures import Future

from operator_cases import cases, over
from reactivex.observer import Observer
from reactivex.scheduler import ImmediateScheduler


def ignore(*_):
    """An action without effect."""


def shown(notification):
    """A notification as plain values: RxPY compares errors by their text, and gives notifications no hash."""
    kind = notification.kind
    return (kind, notification.value if kind == "N" else str(notification.exception) if kind == "E" else None)


cases(
    "materialize",
    {
        "shown": lambda ops, rx, s: s.pipe(ops.materialize(), ops.map(shown)),
        "raw": lambda ops, rx, s: s.pipe(ops.filter(lambda x: x != 2), ops.materialize(), ops.map(str)),
        "kept": lambda ops, rx, s: s.pipe(
            ops.materialize(), ops.pairwise(), ops.map(lambda pair: tuple(shown(each) for each in pair))
        ),
        "distinct": lambda ops, rx, s: s.pipe(ops.materialize(), ops.distinct_until_changed(), ops.map(shown)),
        "collected": lambda ops, rx, s: s.pipe(
            ops.materialize(), ops.to_list(), ops.map(lambda all_: [shown(each) for each in all_])
        ),
        "delayed": lambda ops, rx, s: s.pipe(ops.materialize(), ops.delay(1.5), ops.dematerialize()),
        "mended": lambda ops, rx, s: s.pipe(
            ops.map(over(1, lambda x: x)), ops.materialize(), ops.filter(lambda n: n.kind == "N"), ops.dematerialize()
        ),
    },
)
cases(
    "dematerialize",
    {
        "back": lambda ops, rx, s: s.pipe(ops.materialize(), ops.dematerialize()),
        "inside": lambda ops, rx, s: s.pipe(
            ops.flat_map(lambda x: rx.of(x, x + 10).pipe(ops.materialize())), ops.dematerialize()
        ),
        "an error inside": lambda ops, rx, s: s.pipe(
            ops.flat_map(lambda x: (rx.throw(ValueError("in")) if x == 1 else rx.of(x)).pipe(ops.materialize())),
            ops.filter(lambda n: n.kind != "C"),
            ops.dematerialize(),
        ),
    },
)
cases("as_observable", {"itself": lambda ops, rx, s: s.pipe(ops.as_observable(), ops.scan(lambda a, x: a + x))})
for name in ("do_action", "tap"):
    cases(
        name,
        {
            "nothing": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)()),
            "all three": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(ignore, ignore, ignore)),
            "next fails": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(over(1, ignore))),
            "error fails": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(None, lambda error: [][0])),
            "completed fails": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(on_completed=lambda: [][0])),
            "groups": lambda ops, rx, s, n=name: s.pipe(
                ops.group_by(lambda x: x), getattr(ops, n)(ignore), ops.flat_map(lambda g: g.pipe(ops.count()))
            ),
        },
    )
cases("do", {"observer": lambda ops, rx, s: s.pipe(ops.do(Observer(over(2, ignore), ignore, ignore)))})
cases(
    "finally_action",
    {
        "passes": lambda ops, rx, s: s.pipe(ops.finally_action(ignore)),
        "take": lambda ops, rx, s: s.pipe(ops.finally_action(ignore), ops.take(1)),
        "retried": lambda ops, rx, s: s.pipe(ops.map(over(1, lambda x: x)), ops.finally_action(ignore), ops.retry(2)),
        "inside": lambda ops, rx, s: s.pipe(
            ops.switch_map(lambda x: rx.timer(1.5).pipe(ops.finally_action(ignore), ops.map(lambda _: x)))
        ),
    },
)
cases(
    "to_dict",
    {
        "keys": lambda ops, rx, s: s.pipe(ops.to_dict(lambda x: x % 2)),
        "elements": lambda ops, rx, s: s.pipe(ops.to_dict(lambda x: x, lambda x: x * 10)),
        "key fails": lambda ops, rx, s: s.pipe(ops.to_dict(over(1, lambda x: x))),
        "element fails": lambda ops, rx, s: s.pipe(ops.to_dict(lambda x: x, over(1, lambda x: x))),
    },
)
cases("to_set", {"all": lambda ops, rx, s: s.pipe(ops.to_set())})
cases("to_iterable", {"all": lambda ops, rx, s: s.pipe(ops.to_iterable())})
for name in ("zip_with_iterable", "zip_with_list"):
    cases(
        name,
        {
            "list": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(["a", "b"])),
            "range": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(range(9))),
            "empty": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(())),
            "repeated": lambda ops, rx, s, n=name: s.pipe(ops.take(2), getattr(ops, n)([5, 6, 7]), ops.repeat(2)),
        },
    )
cases(
    "zip_with_iterable",
    {
        "iterator": lambda ops, rx, s: s.pipe(ops.zip_with_iterable(iter([5, 6]))),
        "generator": lambda ops, rx, s: s.pipe(ops.zip_with_iterable(x * x for x in range(2))),
        "dict": lambda ops, rx, s: s.pipe(ops.zip_with_iterable({5: 1, 6: 2})),
    },
    hostable=False,
)
cases(
    "pluck",
    {
        "key": lambda ops, rx, s: s.pipe(ops.map(lambda x: {"x": x}), ops.pluck("x")),
        "place": lambda ops, rx, s: s.pipe(ops.map(lambda x: (5, x)), ops.pluck(1)),
        "not there": lambda ops, rx, s: s.pipe(ops.map(lambda x: {x: x}), ops.pluck(1)),
    },
)
cases(
    "pluck_attr",
    {
        "there": lambda ops, rx, s: s.pipe(ops.pluck_attr("imag")),
        "not there": lambda ops, rx, s: s.pipe(ops.pluck_attr("nothing")),
    },
)
cases(
    "starmap",
    {
        "adds": lambda ops, rx, s: s.pipe(ops.map(lambda x: (x, 5)), ops.starmap(lambda x, y: x + y)),
        "default": lambda ops, rx, s: s.pipe(ops.map(lambda x: (x, 5)), ops.starmap()),
        "fails": lambda ops, rx, s: s.pipe(ops.map(lambda x: (5, x)), ops.starmap(over(1, lambda x, y: x))),
        "wrong number": lambda ops, rx, s: s.pipe(ops.map(lambda x: (5, x)), ops.starmap(lambda x: x)),
    },
)
cases(
    "starmap_indexed",
    {
        "index": lambda ops, rx, s: s.pipe(
            ops.map_indexed(lambda x, i: (x, i)), ops.starmap_indexed(lambda x, i: x * 9 + i)
        )
    },
)
cases(
    "leaving",
    {
        "observe_on": lambda ops, rx, s: s.pipe(ops.observe_on(ImmediateScheduler()), ops.scan(lambda a, x: a + x)),
        "subscribe_on": lambda ops, rx, s: s.pipe(ops.subscribe_on(ImmediateScheduler()), ops.take(1)),
        "to_marbles": lambda ops, rx, s: s.pipe(ops.to_marbles(1.0)),
        "to_future": lambda ops, rx, s: rx.defer(lambda _: rx.from_future(s.pipe(ops.to_future(Future)))),
    },
    hostable=False,
)
