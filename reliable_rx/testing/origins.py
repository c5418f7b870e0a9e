"""The origin that the suites for sinks write with, and others that a place of its ids is refused to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from reliable_rx.errors import PositionUnavailable, ReliableRxError
from reliable_rx.reliable import Claiming, Origin, Sink

HERE = Origin("checked", store="3f2a91c07be5d846", partition="n/a", group="checks")
OTHERS = (
    replace(HERE, stream="another stream"),
    replace(HERE, store="another store"),
    replace(HERE, partition="n/b"),
    replace(HERE, group="another group"),
)
S = TypeVar("S", bound=Sink)


def claimed(sink: S, origin: Origin) -> S:
    """Return *sink*, told of the *origin* of its ids if it asks for that."""
    if isinstance(sink, Claiming):
        sink.claim(origin)
    return sink


def refuses(ask: Callable[[], object], other: Origin, claim: str) -> None:
    """Check that *ask* refuses the *other* origin: for good, and so that another store's ids refuse the whole start."""
    try:
        found = ask()
    except ReliableRxError as error:
        is_of_store = isinstance(error, PositionUnavailable) and error.fields.get("first") is None
        if is_of_store == ((other.store, other.group) != (HERE.store, HERE.group)) and not isinstance(error, OSError):
            return
        raise AssertionError(f"{claim} with the error that `Claiming.claim` says, not with {error!r}") from error
    raise AssertionError(f"{claim}, not given: {found}")
