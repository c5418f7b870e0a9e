"""The hostile draws are what they say: a store can have the storable ones back, and no others."""

from __future__ import annotations

import pytest
from lanes import at_each_commit, share_of

from checkpoint.format.codec import decode, digest, encode
from checkpoint.format.plain import shown
from hosting.engine.snapshot import only_atoms
from reliable_rx.class_of import is_a, is_odd
from reliable_rx.errors import described, text_of, type_of
from reliable_rx.testing import check_query, hostile
from reliable_rx.testing.hostile import ERRORS, STORABLE, UNREADABLE, VALUES, Hostile

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
