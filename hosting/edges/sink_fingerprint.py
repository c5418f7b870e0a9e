"""A fingerprint of a sink: what tells two of one label apart, such as two callbacks that one function has made.

It is taken when the sink is declared, of what is flat in it: texts, numbers and paths in its attributes, code, defaults
and closures of the functions among these. A label is what a sink is called, and stays when its code is edited or
another Python compiles it; a fingerprint may change with either, so it decides only between sinks of one label, and an
unknown one is no new sink. Rejected: to have it in the label (each edit of a callback would be another sink), and the
identity of all that a callback reaches (a list that it has filled, a connection, when it was made).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from functools import partial
from pathlib import PurePath
from types import FunctionType, MemberDescriptorType, MethodType
from typing import Any

from hosting.edges.sink_positions import StandIn
from hosting.sinks.guard import sink_itself
from reliable_rx.class_of import bases_of, dict_of, is_a, path_of, space_of
from reliable_rx.functions.code_digest import code_digest, joined
from reliable_rx.functions.reach import given
from reliable_rx.interrupts import let_through

DEPTH_MAX, ITEMS_MAX, TEXT_MAX = 4, 1000, 100_000
FLAT = (str, bytes, int, float, bool, type(None))
BY_TEXT = (PurePath, Decimal)


def fingerprint_of(sink: Any) -> str:
    """Return the fingerprint of *sink*; nothing for what stands in the place of one, or cannot be looked at.

    >>> sinks = [lambda n, value, to=to: print(to, value) for to in ("ann", "bob", "ann")]
    >>> ann, bob, other = map(fingerprint_of, sinks)
    >>> ann == other, ann == bob
    (True, False)
    """
    if is_a(sink, StandIn):
        return ""
    try:
        return joined(_texts(sink_itself(sink), 0))
    except BaseException as raised:  # a sink is somebody else's code
        let_through(raised)
        return ""


def _texts(value: Any, depth: int) -> Iterator[str]:
    kind = type(value)
    if kind in FLAT:
        yield f"{kind.__name__} {value!r:.{TEXT_MAX}}" if kind is not int else f"int {value:x}"
        return
    yield path_of(kind)
    if is_a(value, BY_TEXT):
        yield str(value)
        return
    if depth == DEPTH_MAX:
        return
    if kind is FunctionType:
        yield code_digest(value.__code__)
        within: list[Any] = given(value)
    elif kind is MethodType:
        within = [value.__func__, value.__self__]
    elif is_a(value, partial):
        within = [value.func, *value.args, *value.keywords.items()]
    elif kind is tuple:
        within = list(value[:ITEMS_MAX])
    else:
        within = [*dict_of(value).items(), *slots_of(value)]
    for each in within:
        yield from _texts(each, depth + 1)


def slots_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Give what *value* has in the slots of its class."""
    for base in bases_of(type(value)):
        for name, slot in space_of(base).items():
            if type(slot) is MemberDescriptorType:
                with suppress(AttributeError):
                    yield name, slot.__get__(value)
