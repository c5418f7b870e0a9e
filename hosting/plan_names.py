"""The names of plans in a store, which have two halves.

The *content* is a hash of what a plan does, equal in every process: it says whether a query was edited. The *code* is a
digest of the bytes that are stored: what runs under a name is what was stored under it, whatever the hash has not
seen. Rejected: the content alone, by which two queries that differ in something the hash does not see would run one
another's code.
"""

from __future__ import annotations

from hashlib import blake2b

from reliable_rx.identity import content_hash
from reliable_rx.limits import Limits
from reliable_rx.plan import NO_LIMITS
from reliable_rx.query import Node


def content_of(node: Node, limits: Limits) -> str:
    """Return what a plan does, and within which limits, as a hash."""
    return content_hash(node) if limits == NO_LIMITS else f"{content_hash(node)}:{hash(limits):x}"


def name_of(content: str, code: bytes) -> str:
    """Return the name of a plan in the store."""
    return f"{content}/{blake2b(code, digest_size=12).hexdigest()}"


def content_in(name: str) -> str:
    """Return the part of a plan's name that says what it does."""
    return name.partition("/")[0]


def do_the_same(name: str, other: str) -> bool:
    """Whether two plans are one query as far as their hashes tell."""
    return content_in(name) == content_in(other)
