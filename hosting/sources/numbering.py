"""Whether stored positions mean what they meant: what decides which record has which number, then and now.

A position is the number of a record within its partition. With a partition or an order that a function makes, another
function gives the same number to another record: behind any end of a run, also a clean one, some records would never be
read and others twice. So what numbers depend on is stored with the positions, apart from what turns are read with.

Of a function its code counts, and constants: those that it is made with (closure, defaults, arguments of a `partial`),
and globals as its file has them written. Other data may be others at each start, and are told. Code of another
interpreter tells nothing; what is given as a value does. Rejected: counting all data (an app whose key function names
the id of its run would start once).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hosting.sources.definition import Extending, numbering_of
from hosting.sources.fingerprint import (
    Fingerprint,
    Part,
    Versions,
    begin_anew,
    fingerprint_of,
    first_of,
    part_of,
    parts_of,
)
from reliable_rx.functions.code_digest import joined
from reliable_rx.functions.contents import Content
from reliable_rx.interrupts import let_through
from reliable_rx.reliable import Source

GIVEN, CODE, MORE, UNKNOWN = "given", "code", "more", "unknown"
"""How a digest compares: always, with one of the same interpreter, with as many names as there were, never."""


class Reading(NamedTuple):
    """What a source is defined by."""

    began: Fingerprint
    """As this process read it first, before a record was: what it reaches now may have come since."""
    now: Fingerprint
    names: list[Content]
    """The names that what is now was found under."""


def reading_of(source: Source, *, anew: bool = False) -> Reading:
    """Read what *source* is defined by; *anew*: nothing reads it, so a name that was bound since is an edit."""
    if anew:
        begin_anew([*parts_of(source).values(), *_numbering(source).values()])
    now, names = fingerprint_of(source)
    began, _ = fingerprint_of(source, first_of)
    began = began._replace(numbering=numbering_digests(source, first_of))
    return Reading(began, now._replace(numbering=numbering_digests(source)), names)


def numbering_digests(source: Source, read: Callable[[Any], Part] = part_of) -> dict[str, str]:
    """Return a digest of each part that decides which event of *source* has which id."""
    return {name: _digest(value, read) for name, value in _numbering(source).items() if value is not None}


def _numbering(source: Source) -> dict[str, Any]:
    try:
        return numbering_of(source)
    except BaseException as raised:  # a source is somebody else's code
        let_through(raised)
        return {}


def _digest(value: Any, read: Callable[[Any], Part]) -> str:
    if isinstance(value, Extending):
        return _more(value, len(value))
    try:
        return f"{CODE if callable(value) else GIVEN}:{read(value).made_with}"
    except BaseException as raised:  # what it reaches may be of any size, or raise when it is looked at
        let_through(raised)
        return f"{UNKNOWN}:"


def _more(names: Extending, count: int) -> str:
    return f"{MORE}:{count}:{joined(names[:count])}"


def renumbered_since(stored: Versions, read: Reading, source: Source) -> tuple[str, ...]:
    """Name what differs from the last meaning and, as code may come late in each process, from the first one."""
    found = renumbered(stored[-1], read.now, source)
    return found if found and renumbered(stored[0], read.began, source) else ()


def renumbered(stored: Fingerprint, now: Fingerprint, source: Source) -> tuple[str, ...]:
    """Name the parts of *source* by which its ids are other ones than by the *stored* fingerprint."""
    live = _numbering(source)
    found = []
    for name in sorted(stored.numbering.keys() | now.numbering.keys()):
        before, after = stored.numbering.get(name), now.numbering.get(name)
        if before is None or after is None:  # it counts by now, or no more: is it another one?
            differs = _code(stored, name) != _code(now, name) and stored.made_by == now.made_by
            differs = differs or (name in stored.parts) != (name in now.parts)
        else:
            differs = _differs(before, after, live.get(name), is_same_maker=stored.made_by == now.made_by)
        if differs:
            found.append(name)
    return tuple(found)


def _code(fingerprint: Fingerprint, name: str) -> str:
    return str(fingerprint.parts.get(name, ("", ""))[0])


def _differs(before: str, after: str, value: Any, *, is_same_maker: bool) -> bool:
    kinds = {before.partition(":")[0], after.partition(":")[0]}
    if UNKNOWN in kinds or (kinds == {CODE} and not is_same_maker):
        return False
    if kinds == {MORE} and isinstance(value, Extending):
        return before != _more(value, int(before.split(":")[1]))
    return before != after


def data_differing(stored: Fingerprint, now: Fingerprint) -> tuple[str, ...]:
    """Name the parts that ids depend on of which only data differ."""
    if stored.made_by != now.made_by:
        return ()
    names = stored.numbering.keys() & now.numbering.keys() & stored.parts.keys() & now.parts.keys()
    return tuple(name for name in sorted(names) if stored.parts[name] != now.parts[name])
