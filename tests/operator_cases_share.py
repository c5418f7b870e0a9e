"""Cases for what shares one subscription among several readers."""

from __future__ import annotations

from typing import Any

from operator_cases import GAPS, TWO, cases, over
from reactivex.subject import BehaviorSubject, ReplaySubject, Subject


def counted(ops: Any, kind: Any, source: Any) -> Any:
    return source.pipe(kind(ops), ops.ref_count())


KINDS = {
    "publish": lambda ops: ops.publish(),
    "publish_value": lambda ops: ops.publish_value(7),
    "replay": lambda ops: ops.replay(2),
}


def twice(ops: Any, shared: Any) -> Any:
    return shared.pipe(ops.map(lambda x: ("a", x)), ops.merge(shared.pipe(ops.filter(lambda x: x != 1))))


def with_itself(ops: Any, shared: Any) -> Any:
    return shared.pipe(ops.zip(shared.pipe(ops.skip(1))))


def one_after_the_other(ops: Any, shared: Any) -> Any:
    return shared.pipe(ops.take(2), ops.concat(shared.pipe(ops.map(lambda x: ("late", x)))))


def again_and_again(ops: Any, shared: Any) -> Any:
    return shared.pipe(ops.take(1), ops.repeat(3))


def retried(ops: Any, shared: Any) -> Any:
    return shared.pipe(ops.map(over(1, lambda x: x)), ops.retry(2))


def caught(ops: Any, rx: Any, shared: Any) -> Any:
    return shared.pipe(
        ops.catch(rx.of("mended")), ops.merge(shared.pipe(ops.map(lambda x: ("b", x)), ops.catch(rx.of("mended too"))))
    )


def combined(ops: Any, shared: Any) -> Any:
    return shared.pipe(ops.combine_latest(shared.pipe(ops.scan(lambda a, x: a + x, 0))))


def within(ops: Any, shared: Any) -> Any:
    """Readers that come with the elements: each element's own, and one of the element itself."""
    return shared.pipe(ops.flat_map(lambda x: shared.pipe(ops.take(2), ops.map(lambda y: (x, y)))))


def within_only(ops: Any, shared: Any, other: Any) -> Any:
    return other.pipe(ops.flat_map(lambda x: shared.pipe(ops.map(lambda y: (x, y)))))


def switching(ops: Any, shared: Any, other: Any) -> Any:
    return other.pipe(ops.map(lambda x: shared.pipe(ops.map(lambda y: (x, y)))), ops.switch_latest())


def emitted(ops: Any, shared: Any, other: Any) -> Any:
    """Queries as elements that wait for their turn: they are state, and know what they read."""
    return other.pipe(
        ops.map(lambda x: shared.pipe(ops.map(lambda y: (x, y)), ops.take(1))), ops.merge(max_concurrent=1)
    )


def until(ops: Any, shared: Any, other: Any) -> Any:
    return shared.pipe(ops.take_until(other), ops.concat(shared.pipe(ops.map(lambda x: ("late", x)))))


def grouped(ops: Any, shared: Any) -> Any:
    return shared.pipe(
        ops.group_by(lambda x: x % 2),
        ops.flat_map(lambda g: g.pipe(ops.merge(shared.pipe(ops.map(lambda x: (g.key, x)), ops.take(2))))),
    )


def in_groups(ops: Any, kind: Any, source: Any) -> Any:
    """A shared part of each group's own."""

    def inside(group: Any) -> Any:
        shared = counted(ops, kind, group)
        return shared.pipe(ops.map(lambda x: (group.key, x)), ops.merge(shared.pipe(ops.count())))

    return source.pipe(ops.group_by(lambda x: x % 2), ops.flat_map(inside))


def in_elements(ops: Any, kind: Any, source: Any) -> Any:
    """A shared part made anew for each element."""

    def inside(x: Any) -> Any:
        shared = counted(ops, kind, source)
        return shared.pipe(ops.map(lambda y: (x, y)), ops.merge(shared.pipe(ops.skip(1))), ops.take(3))

    return source.pipe(ops.flat_map(inside))


def chained(ops: Any, kind: Any, source: Any) -> Any:
    """A shared part before a shared part."""
    first = counted(ops, kind, source)
    second = counted(ops, kind, first.pipe(ops.map(lambda x: x + 10)))
    return second.pipe(ops.merge(first, second.pipe(ops.take(1))))


for _name, _kind in KINDS.items():
    cases(
        f"shared, {_name}",
        {
            "alone": lambda ops, rx, s, kind=_kind: counted(ops, kind, s),
            "one reader": lambda ops, rx, s, kind=_kind: counted(ops, kind, s).pipe(ops.map(lambda x: x)),
            "twice": lambda ops, rx, s, kind=_kind: twice(ops, counted(ops, kind, s)),
            "with itself": lambda ops, rx, s, kind=_kind: with_itself(ops, counted(ops, kind, s)),
            "combined": lambda ops, rx, s, kind=_kind: combined(ops, counted(ops, kind, s)),
            "one after the other": lambda ops, rx, s, kind=_kind: one_after_the_other(ops, counted(ops, kind, s)),
            "again and again": lambda ops, rx, s, kind=_kind: again_and_again(ops, counted(ops, kind, s)),
            "retried": lambda ops, rx, s, kind=_kind: retried(ops, counted(ops, kind, s)),
            "caught": lambda ops, rx, s, kind=_kind: caught(ops, rx, counted(ops, kind, s)),
            "fails before": lambda ops, rx, s, kind=_kind: caught(
                ops, rx, counted(ops, kind, s.pipe(ops.map(over(1, lambda x: x))))
            ),
            "within": lambda ops, rx, s, kind=_kind: within(ops, counted(ops, kind, s)),
            "in groups": lambda ops, rx, s, kind=_kind: in_groups(ops, kind, s),
            "in elements": lambda ops, rx, s, kind=_kind: in_elements(ops, kind, s),
            "grouped": lambda ops, rx, s, kind=_kind: grouped(ops, counted(ops, kind, s)),
            "chained": lambda ops, rx, s, kind=_kind: chained(ops, kind, s),
            "of a cold source": lambda ops, rx, s, kind=_kind: twice(ops, counted(ops, kind, rx.of(1, 2))).pipe(
                ops.merge(s)
            ),
            "behind a scan": lambda ops, rx, s, kind=_kind: twice(
                ops, counted(ops, kind, s.pipe(ops.scan(lambda a, x: a + x, 0)))
            ),
        },
    )
    cases(
        f"shared with two sources, {_name}",
        {
            "within": lambda ops, rx, s, t, kind=_kind: within_only(ops, counted(ops, kind, s), t),
            "switching": lambda ops, rx, s, t, kind=_kind: switching(ops, counted(ops, kind, s), t),
            "emitted": lambda ops, rx, s, t, kind=_kind: emitted(ops, counted(ops, kind, s), t),
            "until": lambda ops, rx, s, t, kind=_kind: until(ops, counted(ops, kind, s), t),
            "both": lambda ops, rx, s, t, kind=_kind: counted(ops, kind, s).pipe(
                ops.combine_latest(counted(ops, kind, t))
            ),
        },
        **TWO,
    )

cases(
    "share",
    {
        "twice": lambda ops, rx, s: twice(ops, s.pipe(ops.share())),
        "delayed": lambda ops, rx, s: (lambda shared: shared.pipe(ops.merge(shared.pipe(ops.delay(1.5)))))(
            s.pipe(ops.share())
        ),
        "buffered": lambda ops, rx, s: (lambda shared: shared.pipe(ops.merge(shared.pipe(ops.buffer_with_time(2.5)))))(
            s.pipe(ops.share())
        ),
    },
    **GAPS,
)


def disconnected_in_time(ops: Any, s: Any) -> Any:
    """A reader that fails in the middle of what it is greeted with: what comes behind that is not remembered."""
    shared = counted(ops, lambda o: o.replay(1), within(ops, counted(ops, lambda o: o.replay(2), s)))
    failing = shared.pipe(ops.map(lambda pair: over(1, lambda x: x)(pair[1])), ops.retry(2))
    return shared.pipe(ops.take(2), ops.concat(failing))


cases(
    "shared",
    {
        "disconnected in time": lambda ops, rx, s: disconnected_in_time(ops, s),
        "replay all": lambda ops, rx, s: one_after_the_other(ops, counted(ops, lambda o: o.replay(), s)),
        "replay none": lambda ops, rx, s: within(ops, counted(ops, lambda o: o.replay(0), s)),
        "multicast": lambda ops, rx, s: within(ops, counted(ops, lambda o: o.multicast(BehaviorSubject(7)), s)),
        "multicast, replay": lambda ops, rx, s: within(ops, counted(ops, lambda o: o.multicast(ReplaySubject(1)), s)),
    },
)

SELECTED = {
    "publish": lambda ops, mapper: ops.publish(mapper),
    "publish_value": lambda ops, mapper: ops.publish_value(7, mapper),
    "replay": lambda ops, mapper: ops.replay(2, mapper=mapper),
    "multicast": lambda ops, mapper: ops.multicast(subject_factory=lambda scheduler: Subject(), mapper=mapper),
    "multicast, replay": lambda ops, mapper: ops.multicast(
        subject_factory=lambda scheduler: ReplaySubject(1), mapper=mapper
    ),
}
for _name, _form in SELECTED.items():
    cases(
        f"selected, {_name}",
        {
            "itself": lambda ops, rx, s, form=_form: s.pipe(form(ops, lambda p: p)),
            "twice": lambda ops, rx, s, form=_form: s.pipe(form(ops, lambda p: twice(ops, p))),
            "with itself": lambda ops, rx, s, form=_form: s.pipe(form(ops, lambda p: with_itself(ops, p))),
            "one after the other": lambda ops, rx, s, form=_form: s.pipe(
                form(ops, lambda p: one_after_the_other(ops, p))
            ),
            "again and again": lambda ops, rx, s, form=_form: s.pipe(form(ops, lambda p: again_and_again(ops, p))),
            "retried inside": lambda ops, rx, s, form=_form: s.pipe(form(ops, lambda p: retried(ops, p))),
            "retried": lambda ops, rx, s, form=_form: retried(ops, s.pipe(form(ops, lambda p: twice(ops, p)))),
            "caught": lambda ops, rx, s, form=_form: s.pipe(form(ops, lambda p: caught(ops, rx, p))),
            "within": lambda ops, rx, s, form=_form: s.pipe(form(ops, lambda p: within(ops, p))),
            "grouped": lambda ops, rx, s, form=_form: s.pipe(form(ops, lambda p: grouped(ops, p))),
            "in groups": lambda ops, rx, s, form=_form: s.pipe(
                ops.group_by(lambda x: x % 2), ops.flat_map(lambda g: g.pipe(form(ops, lambda p: twice(ops, p))))
            ),
            "key in groups": lambda ops, rx, s, form=_form: s.pipe(
                ops.group_by(lambda x: x % 2),
                ops.flat_map(
                    lambda g: g.pipe(form(ops, lambda p: p.pipe(ops.map(lambda x: (g.key, x)), ops.merge(p))))
                ),
            ),
            "used twice": lambda ops, rx, s, form=_form: (lambda q: q.pipe(ops.map(lambda x: ("a", x)), ops.merge(q)))(
                s.pipe(form(ops, lambda p: p.pipe(ops.take(2), ops.merge(p))))
            ),
            "one operator, two places": lambda ops, rx, s, form=_form: (
                lambda op: s.pipe(op, ops.merge(s.pipe(ops.skip(1), op)))
            )(form(ops, lambda p: p.pipe(ops.take(2), ops.merge(p)))),
            "selector fails": lambda ops, rx, s, form=_form: s.pipe(form(ops, lambda p: over(1, lambda x: p)(1))),
            "constant": lambda ops, rx, s, form=_form: s.pipe(form(ops, lambda p: rx.of(1))),
            "never": lambda ops, rx, s, form=_form: s.pipe(form(ops, lambda p: rx.never())),
            "within a selector": lambda ops, rx, s, form=_form: s.pipe(
                form(ops, lambda p: p.pipe(form(ops, lambda q: q.pipe(ops.merge(p, q.pipe(ops.take(1)))))))
            ),
            "of a cold source": lambda ops, rx, s, form=_form: rx.of(1, 2).pipe(
                form(ops, lambda p: twice(ops, p)), ops.merge(s)
            ),
        },
    )
