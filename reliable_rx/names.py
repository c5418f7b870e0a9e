"""Names: one rule for whatever is called by name, so that a name that is taken can also be stored.

A name becomes a key in a store, a column in PostgreSQL, a part of a path and a word in a message. What one of these
cannot hold must be refused where the name is given, since later it stops every checkpoint. Rejected: escaping (a name
that `status` shows otherwise than the code that gave it), and a rule for each store (an app would not move to another).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reliable_rx.shown import bounded_repr, cut_end

NAME_BYTES_MAX = 255
PARTITION_BYTES_MAX = 4096
"""A partition may be called after a file, and a store in a database after a partition."""
LONG = frozenset(("partition", "store"))
DEAD_LETTERS, LATE = ENDINGS = (".dead_letters", ".late")
"""Streams beside that of a query: what it could not digest, and what came too late."""
EVERYTHING = "*"
DECLARED = frozenset(("source", "query", "pushed input", "app"))
"""What gives a stream its name, which must not be that of a stream beside another query's."""
HOLDERS = SINK, STORED = ("sink ", "store ")
"""How the names begin under which sinks, and subscribers with a store, hold a stream."""
SUBSCRIBING = frozenset(("subscriber", "rule"))
"""Who holds streams under names of their own."""
FIRST = DECLARED | {"stream"}
"""What is declared as name and thing."""
BREAKS = frozenset("\u2028\u2029")


def check_name(kind: str, name: Any) -> str:
    r"""Return *name* as a plain `str`, or refuse it as a name of a *kind* (``"source"``, ``"query"``, ``"group"``…).

    >>> check_name("query", "orders")
    'orders'
    >>> check_name("query", "orders\n")
    Traceback (most recent call last):
    ValueError: a query cannot be called 'orders\n': it has the control character '\n'; leave that out

    *Raises* `TypeError` for what is no string; `ValueError` for an empty string, one of over 255 bytes, one with
    control characters or half a surrogate pair, and for what is declared with the ending of a stream beside another
    query's.
    """
    if type(name) is str and name.isidentifier() and name.isascii() and len(name) <= NAME_BYTES_MAX:
        return name  # the usual one
    if (
        type(name) is str
        and name.isascii()
        and name.isprintable()
        and 0 < len(name) <= NAME_BYTES_MAX
        and not (kind in DECLARED and (name.endswith(ENDINGS) or name == EVERYTHING))
        and not (kind in SUBSCRIBING and name.startswith(HOLDERS))
    ):
        return name
    if not isinstance(name, str):
        first = "; the name comes first" if kind in FIRST else ""
        raise TypeError(f"{_article(kind)} is named by a string, got {type(name).__name__}: {_cut(name)}{first}")
    plain = str.__str__(name)
    for what, remedy in _faults(kind, plain):
        raise _refusal(kind, plain, what, remedy)
    return plain


def _faults(kind: str, name: str) -> Iterator[tuple[str, str]]:
    if not name:
        yield "it is empty", "give it a name"
    wrong = next((each for each in name if is_control(each)), None)
    if wrong is not None:
        yield f"it has the control character {wrong!r}", "leave that out"
    most = PARTITION_BYTES_MAX if kind in LONG else NAME_BYTES_MAX
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        yield f"its character {name[error.start]!r} is half a pair and cannot be written", "leave that out"
    else:
        if size > most:
            yield f"it has {size:,} bytes of UTF-8", f"{most} are the most"
    if kind in DECLARED and is_reserved(name):
        yield _reserved(name)
    if kind in SUBSCRIBING and name.startswith(HOLDERS):
        yield "a sink or a store holds a stream under a name that begins so", "choose another beginning"


def is_reserved(name: str) -> bool:
    """Whether a stream of the library's own may have this name."""
    return name.endswith(ENDINGS) or name == EVERYTHING


def _reserved(name: str) -> tuple[str, str]:
    if name == EVERYTHING:
        return "for a group it means the queries that see everything", "choose another name"
    ending = next(each for each in ENDINGS if name.endswith(each))
    return f"{ending!r} ends the name of a stream beside a query's own", "choose another ending"


def is_control(character: str) -> bool:
    """Whether *character* is a control character or ends a line; the same in every version of Unicode."""
    return character < " " or "\x7f" <= character <= "\x9f" or character in BREAKS


def _refusal(kind: str, name: str, what: str, remedy: str) -> ValueError:
    return ValueError(f"{_article(kind)} cannot be called {_cut(name)}: {what}; {remedy}")


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeio' else 'a'} {kind}"


def _cut(name: Any) -> str:
    text = ascii(name) if isinstance(name, str) else bounded_repr(name, 60)
    return cut_end(text, 60)


def query_of(stream: str) -> str:
    """Return the name of the query that *stream* is of, be it its own stream or one beside it.

    >>> [query_of(name) for name in ("orders", "orders.dead_letters", "orders.late")]
    ['orders', 'orders', 'orders']
    """
    ending = next((each for each in ENDINGS if stream.endswith(each)), "")
    return stream.removesuffix(ending)


def check_query(name: str) -> None:
    """*Raises* `KeyError` for the *name* of a stream beside a query's or source's, which is no query itself.

    >>> check_query("orders.late")
    Traceback (most recent call last):
    KeyError: "'orders.late' is a stream beside 'orders' and no query: name 'orders'"
    """
    beside = query_of(name)
    if beside != name:
        raise KeyError(f"{name!r} is a stream beside {beside!r} and no query: name {beside!r}")


def only_name(name: Any, given: Sequence[Any]) -> Any:
    """Return the *name* of an input. *Raises* `TypeError` for what is *given* with it, as if it were the source."""
    if given:
        held = f"app.source({name!r}, ListSource([...])), or write rx.from_iterable([...])"
        raise TypeError(f"rx.source only names an input: give its host what it holds, {held}")
    return name
