"""Values as text for people, in bounded time and length: `repr`, unless that would be far too long.

A list of one list twice, which is so too, and so on, is small in memory, pickles small, and has 2 ** n characters in
its `repr`. So what is held by a value is counted first, each part once, however often it is met; and what would be too
long is written piece by piece, as far as there is room. Rejected: `reprlib` (it calls the `repr` of all that is no
builtin container, among them dataclasses and errors) and a limit on the depth (two levels of a long list are enough).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import chain, islice
from types import FunctionType, MappingProxyType, MethodType, SimpleNamespace
from typing import Any

from reliable_rx.class_of import attribute_of, bases_of, is_a, path_of, qualname_of, space_of

LIGHT_MAX = 100_000
"""Of how many characters, about, a text may be that is made at once."""
PIECE_MAX, DEPTH_MAX, PLACED_MAX = 200, 6, 1000
NAMED_MAX = 10
_VIEWS: tuple[Any, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_ROWS: tuple[tuple[type, str, str], ...] = (
    (list, "[", "]"), (tuple, "(", ")"), (set, "{", "}"), (frozenset, "frozenset({", "})"), (deque, "deque([", "])"),
)  # fmt: skip


def listed(names: Sequence[str]) -> str:
    """Return the first of *names* as a list for a sentence.

    >>> listed(["a", "b"]), listed([str(n) for n in range(11)])[-8:]
    ("'a', 'b'", "'9', ...")
    """
    return ", ".join(map(repr, names[:NAMED_MAX])) + (", ..." if len(names) > NAMED_MAX else "")


def bounded_repr(value: Any, characters_max: int) -> str:
    """Return the `repr` of *value*, or its first *characters_max* characters if it is far longer.

    >>> twice = ["a"]
    >>> for _ in range(40):
    ...     twice = [twice, twice]
    >>> bounded_repr([1, {"a": 2}], 10), bounded_repr({"a": twice}, 20)
    ("[1, {'a': 2}]", "{'a': [[[[[…, …], […")

    *Raises* what a `__repr__` raises.
    """
    if is_light(value):
        return repr(value)
    room = _Room(characters_max)
    _write(value, room, 0)
    return room.text()


def placed_repr(value: Any, characters_max: int) -> str:
    """Return the first *characters_max* characters of the `repr` of *value*, with functions by module and line.

    >>> placed_repr({"a": [1, cut_end]}, 80).split(":")[:2]
    ["{'a'", ' [1, <reliable_rx.shown']
    """
    text, waiting, met = bounded_repr(value, characters_max), [value], 0
    while waiting and met < PLACED_MAX:
        held, met = waiting.pop(), met + 1
        if type(held) is FunctionType:
            place = f"<{held.__module__}:{held.__code__.co_firstlineno} {held.__qualname__.split('.')[-1]}>"
            text = text.replace(repr(held), place)
        else:
            waiting.extend(islice(parts(held) or (), PLACED_MAX))
    return cut_end(text, characters_max)


def cut_end(text: str, characters_max: int) -> str:
    """Return how *text*, that of a value, begins; a sentence, whose remedy is at its end, is cut in its middle.

    >>> cut_end("abc", 3), cut_end("abcd", 3)
    ('abc', 'ab…')
    """
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"


def is_light(value: Any, characters_max: int = LIGHT_MAX) -> bool:
    """Whether *value* has, written out, about so many characters at most. It takes no longer than to write those.

    >>> is_light("a" * 100, 50), is_light([1, 2], 50)
    (False, True)
    """
    known: dict[int, int] = {}
    waiting: list[tuple[int, Iterator[Any]]] = [(0, iter((value,)))]
    totals, met = [0], 0
    while waiting:
        key, children = waiting[-1]
        for child in children:
            size = _size(child)
            if size is None:
                size = known.get(id(child))
                if size is None:
                    known[id(child)] = 0  # met again within itself, it is cut there
                    waiting.append((id(child), iter(parts(child))))  # type: ignore[arg-type]
                    totals.append(0)
                    break
            met += 1
            totals[-1] += size + 2
            if totals[-1] > characters_max + 2 or met > characters_max:
                return False
        else:
            waiting.pop()
            total = known[key] = totals.pop()
            if waiting:
                totals[-1] += total + 2
                if totals[-1] > characters_max + 2:
                    return False
    return True


def _size(value: Any) -> int | None:
    """Return about how long the text of what holds nothing is; None for what does."""
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value)
    if kind is int:
        return value.bit_length() // 3 + 1  # type: ignore[no-any-return]
    if is_a(value, (str, bytes, bytearray)):
        return len(value) if type(value).__len__ in (str.__len__, bytes.__len__, bytearray.__len__) else 1
    return 1 if parts(value) is None else None


def parts(value: Any) -> Iterable[Any] | None:
    """Return what the text of *value* has within it, as far as it can be known; None if there is nothing.

    Nothing of the user's is called.
    """
    if is_a(value, dict):
        return chain(dict.keys(value), dict.values(value))
    for kind, *_ in _ROWS:
        if is_a(value, kind):
            return _HELD[kind](value)
    if is_a(value, BaseException):
        return chain(BaseException.args.__get__(value), _attributes(value))  # type: ignore[attr-defined]
    kind = type(value)
    other = _OTHERS.get(id(kind))
    if other is not None:
        return other(value)
    return _attributes(value) if is_a(attribute_of(kind, "__repr__"), FunctionType) else None


_HELD: dict[type, Callable[[Any], Iterable[Any]]] = {
    list: list.__iter__,
    tuple: tuple.__iter__,
    set: set.__iter__,
    frozenset: frozenset.__iter__,
    deque: deque.__iter__,
}
_OTHERS_OF: dict[Any, Callable[[Any], Iterable[Any]]] = {
    partial: lambda value: (value.func, value.args, value.keywords),
    MethodType: lambda value: (value.__self__,),
    MappingProxyType: lambda value: list(value.copy().items()),
    SimpleNamespace: lambda value: (value.__dict__,),
    **dict.fromkeys(_VIEWS, lambda value: (value.mapping.copy(),)),
}
_OTHERS = {id(kind): found for kind, found in _OTHERS_OF.items()}


def _attributes(value: Any) -> Iterable[Any]:
    held = [space_of(each).get("__slots__", ()) for each in bases_of(type(value))]
    names = chain.from_iterable([each] if is_a(each, str) else each for each in held)
    slots = []
    for name in names:
        try:
            slots.append(object.__getattribute__(value, name))
        except Exception:  # a property in its place may raise anything
            continue
    try:
        return [*slots, *object.__getattribute__(value, "__dict__").values()]
    except Exception:  # a property in its place may raise anything
        return slots


class _Room:
    """The pieces that were written, until there is no room left."""

    def __init__(self, characters_max: int) -> None:
        self.characters_max = self.left = characters_max
        self.pieces: list[str] = []

    def add(self, piece: str) -> bool:
        """Write *piece*; return whether there is room for more."""
        self.pieces.append(piece)
        self.left -= len(piece)
        return self.left > 0

    def text(self) -> str:
        text = "".join(self.pieces)
        return text if self.left > 0 else f"{text[: self.characters_max - 1]}…"


def _write(value: Any, room: _Room, depth: int) -> None:
    kind = type(value)
    if kind is str or kind is bytes:
        room.add(repr(value[: room.left + 1]))
    elif kind is int and value.bit_length() > LIGHT_MAX:
        room.add(f"<an int of {value.bit_length():,} bits>")
    elif is_light(value, PIECE_MAX):
        room.add(repr(value))
    elif is_a(value, dict):
        _row(value, dict, "{", "}", dict.items(value), room, depth)
    else:
        _write_held(value, room, depth)


def _write_held(value: Any, room: _Room, depth: int) -> None:
    kind = type(value)
    for base, opening, closing in _ROWS:
        if is_a(value, base) and not hasattr(kind, "_fields"):
            _row(value, base, opening, closing, _HELD[base](value), room, depth)
            return
    if is_a(value, BaseException):
        _row(value, object, "(", ")", BaseException.args.__get__(value), room, depth)  # type: ignore[attr-defined]
    elif is_dataclass(value) or hasattr(kind, "_fields"):
        names = [each.name for each in fields(value) if each.repr] if is_dataclass(value) else kind._fields
        found = ((name, getattr(value, name, None)) for name in names)
        _row(value, object, "(", ")", found, room, depth, sign="=")
    else:
        room.add(f"<a {path_of(kind)} that is too large to show>")


def _row(
    value: Any, base: type, opening: str, closing: str, items: Iterable[Any], room: _Room, depth: int, *, sign: str = ""
) -> None:
    """Write the *items* of *value*; those of a dictionary and of what has fields are pairs."""
    name, paired = "" if type(value) is base else qualname_of(type(value)), base is dict or sign == "="
    if name and opening != "(":
        opening, closing = f"{name}({opening}", f"{closing})"
    elif name:
        opening = f"{name}{opening}"
    if depth >= DEPTH_MAX:
        room.add("…")
        return
    between = room.add(opening)
    for count, item in enumerate(items):
        if not between or (count and not room.add(", ")):
            return
        if paired:
            _write(item[0], room, depth + 1) if sign != "=" else room.add(f"{item[0]}=")
            room.add("" if sign == "=" else ": ")
            item = item[1]
        _write(item, room, depth + 1)
        between = room.left > 0
    room.add(closing)
