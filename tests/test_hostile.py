"""The hostile draws are what they say: a store can have the storable ones back, and no others."""

from __future__ import annotations

from typing import Any

import pytest
from every_case import CASES
from lanes import at_each_commit, left_to_commits, share_of

from checkpoint.format.codec import decode, digest, encode
from checkpoint.format.plain import shown
from hosting.engine.snapshot import only_atoms
from reliable_rx.class_of import is_a, is_odd
from reliable_rx.errors import described, text_of, type_of
from reliable_rx.testing import Timed, check_query, hostile
from reliable_rx.testing.hostile import ERRORS, STORABLE, UNREADABLE, VALUES, Hostile
from reliable_rx.testing.marbles import NEXT
from reliable_rx.testing.queries import UNMET, check_run, phrases

QUICK = ("Refused", "Holding", "Wordless")


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_are_of_their_kind(value: Hostile) -> None:
    """What is called storable goes into bytes and back, unreadable into bytes only, and the rest not even that."""
    if value.kind == STORABLE:
        again = decode(encode(value.make()))
        assert type(again) is type(value.make())
        assert shown(again) == shown(value.make())
    elif value.kind == UNREADABLE:
        data = encode(value.make())
        with pytest.raises(BaseException):  # whatever it likes
            decode(data)
    else:
        with pytest.raises(BaseException):  # whatever it likes
            encode(value.make())


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_each_value_has_a_digest(value: Hostile) -> None:
    """The digest raises for nothing, and is the same for the same value made anew."""
    assert digest([value.make()]) == digest([value.make()])
    assert digest([[value.make()], {1: value.make()}]) == digest([[value.make()], {1: value.make()}])


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_each_error_can_be_stored(error: Hostile) -> None:
    """Every error goes into bytes and back, as itself or as what it said, and has the digest that it had."""
    again = decode(encode([error.make()]))[0]
    assert type_of(again) == type_of(error.make())
    if error.name != "Telling":
        assert (text_of(again), described(again)) == (text_of(error.make()), described(error.make()))
    assert digest([again]) == digest([error.make()])


QUERIES = {
    "pairwise": lambda ops, rx, s: s.pipe(ops.pairwise()),
    "buffers": lambda ops, rx, s: s.pipe(ops.buffer_with_count(2)),
    "the last": lambda ops, rx, s: s.pipe(ops.scan(lambda before, value: value), ops.last()),
    "delayed": lambda ops, rx, s: s.pipe(ops.delay(1.5)),
    "windows": lambda ops, rx, s: s.pipe(ops.window_with_count(2), ops.flat_map(lambda each: each.pipe(ops.to_list()))),
    "replayed": lambda ops, rx, s: s.pipe(ops.start_with(0), ops.take_last(3)),
}


@pytest.mark.parametrize("name", QUERIES)
def test_queries_over_hostile_values(name: str) -> None:
    """Hostile values pass operators as they pass those of `reactivex`, crashed anywhere and read from bytes."""
    check_query(QUERIES[name], values=hostile.values(STORABLE), events_max=6, examples=share_of(40))


@pytest.mark.parametrize("error", [each if each.name in QUICK else at_each_commit(each) for each in ERRORS], ids=repr)
def test_queries_that_raise(error: Hostile) -> None:
    """Errors of every kind end a query as they end it on `reactivex`, and come out of bytes as what they were."""
    made = error.make()
    if not is_a(made, Exception) or is_odd(made) or error.name in ("Telling", "StopIteration", "led by odd ones"):
        pytest.skip("goes through plain reactivex, or says something else each time")
    check_query(
        lambda ops, rx, s: s.pipe(ops.map(hostile.Raises(error.name)), ops.pairwise()),
        examples=share_of(20),
        events_max=6,
    )


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.name)
def test_each_value_may_lie_in_a_state_while_a_checkpoint_is_written(value: Hostile) -> None:
    """Whether a row may change is seen without asking its values: no class is hashed, no value compared."""
    assert only_atoms([(1, "a", None), None, (b"",)])
    made = value.make()
    assert only_atoms([(1, made)]) is any(type(made) is kind for kind in (int, float, str, bytes, bool, type(None)))


def minus(ops: Any, rx: Any) -> Any:
    return ops.catch(lambda error, source: rx.of(-1))


KEYED: dict[str, Any] = {
    "groups": lambda ops, rx, s: s.pipe(ops.group_by(itself), ops.flat_map(lambda group: group), minus(ops, rx)),
    "a set": lambda ops, rx, s: s.pipe(ops.to_set(), minus(ops, rx)),
    "a dict": lambda ops, rx, s: s.pipe(ops.to_dict(lambda x: x), minus(ops, rx)),
}


def itself(x: Any) -> Any:
    return x


@pytest.mark.parametrize("name", KEYED)
def test_what_plain_reactivex_raises_into_the_source_is_no_difference(name: str) -> None:
    """A `catch` behind a key without a hash hears of the error here; until then both give the same, and our ways do."""
    streams = [[Timed(1.0, NEXT, 1), Timed(2.0, NEXT, 2), Timed(3.0, NEXT, []), Timed(4.0, NEXT, 3)]]
    check_run(KEYED[name], streams, phrases(2), wording=False)
    with pytest.raises(AssertionError, match="disagrees with plain reactivex"):
        check_run(KEYED[name], streams, ())


def test_what_comes_before_such_an_error_is_compared() -> None:
    """Another value before it is a difference, and so is one that is missing."""
    streams = [[Timed(1.0, NEXT, 1), Timed(2.0, NEXT, 2), Timed(3.0, NEXT, [])]]
    for change in (lambda ops: ops.map(lambda x: x if x == 1 else -2), lambda ops: ops.filter(lambda x: x != 2)):

        def other(ops: Any, rx: Any, s: Any, change: Any = change) -> Any:
            return KEYED["groups"](ops, rx, s).pipe(change(ops))

        for build, reference in ((KEYED["groups"], other), (other, KEYED["groups"])):
            with pytest.raises(AssertionError, match="disagrees with plain reactivex"):
                check_run(build, streams, (), reference=reference, wording=False)


BY_KEY: dict[str, tuple[Any, Any]] = {"distinct": (lambda ops, rx, s: s.pipe(ops.distinct()), None)}
BY_KEY |= {
    name: (case.build, case.reference)
    for name, case in CASES.items()
    if name.startswith("group_by: two groups that nobody reads")
}
"""What remembers keys by hash, each with its reference if plain `reactivex` has another."""


@left_to_commits
@pytest.mark.parametrize("name", BY_KEY)
def test_every_value_may_be_a_key(name: str) -> None:
    """Also one that raises when it is hashed or compared ends a query only where the reference ends."""
    build, reference = BY_KEY[name]
    for value in (each for each in VALUES if each.kind == STORABLE and each.name not in UNMET):
        for given in ([value.make()], [1, value.make(), 2]):
            streams = [[Timed(float(at), NEXT, each) for at, each in enumerate(given, 1)]]
            check_run(build, streams, ([],), reference=reference, wording=False)
