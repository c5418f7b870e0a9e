"""The hostile draws are what they say: a store can have the storable ones back, and no others."""

from __future__ import annotations

import pytest

from checkpoint.codec import decode, digest, encode
from checkpoint.plain import shown
from reliable_rx.errors import described, text_of, type_of
from reliable_rx.testing.hostile import ERRORS, STORABLE, UNREADABLE, VALUES, Hostile


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_are_of_their_kind(value: Hostile) -> None:
    """What is called storable goes into bytes and back, unreadable into bytes only, and the rest not even that."""
    if value.kind == STORABLE:
        again = decode(encode(value.make()))
        assert type(again) is type(value.make())
        assert shown(again) == shown(value.make())
    elif value.kind == UNREADABLE:
        data = encode(value.make())
        with pytest.raises(BaseException, match=r"not to be read|3"):
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
