"""The names of plans in a store, which have two halves.

The *content* is a hash of what a plan does, equal in every process: it says whether a query was edited. The *code* is a
digest of the bytes that are stored: what runs under a name is what was stored under it, whatever the hash has not
seen. A content is that of one interpreter: byte code is in it, also of classes that go by name into a store, and so the
name says whose it is. Rejected: the content alone, by which two queries that differ in something the hash does not see
would run one another's code; a mark only on what byte code is in (names in the standard library move, too).
"""

from __future__ import annotations

from hashlib import blake2b

from checkpoint.format.code import OtherCode, makers
from reliable_rx.limits import Limits
from reliable_rx.runtime.plan import NO_LIMITS


def content_of(digest: str, limits: Limits) -> str:
    """Return what a plan does, and within which limits, as a hash."""
    return digest if limits == NO_LIMITS else f"{digest}:{hash(limits):x}"


def name_of(content: str, code: bytes) -> str:
    """Return the name of a plan in the store."""
    return f"{content}/{blake2b(code, digest_size=12).hexdigest()}/{makers().bytecode}"


def content_in(name: str) -> str:
    """Return the part of a plan's name that says what it does."""
    return name.partition("/")[0]


def are_comparable(name: str, other: str) -> bool:
    """Whether the contents of two plans were hashed by one kind of interpreter.

    >>> are_comparable("a/c/3495", "b/d/3495"), are_comparable("a/c/3495", "a/c/3571")
    (True, False)
    """
    return name.rpartition("/")[2] == other.rpartition("/")[2]


def why_untold(name: str, other: str, by: OtherCode | None = None) -> str:
    """Say why it cannot be told whether the plan *name* is an edit of *other*, of which the code, *by* others, was not
    read.

    >>> why_untold("a/c/3495", "a/c/3495"), why_untold("a/c/3495", "a/c/3571")
    ('what its stored code holds cannot be read here', 'another Python (or release) has stored its code')
    """
    if are_comparable(name, other) and (by is None or by.makers.fits(makers())):
        return "what its stored code holds cannot be read here"
    return "another Python (or release) has stored its code"


def do_the_same(name: str, other: str) -> bool:
    """Whether two plans are one query as far as their hashes tell: those of two interpreters tell nothing."""
    return content_in(name) == content_in(other) or not are_comparable(name, other)


def is_here(name: str) -> bool:
    """Whether the content of a plan was hashed by an interpreter like this one."""
    return name.rpartition("/")[2] == str(makers().bytecode)
