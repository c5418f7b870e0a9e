"""The origin that the suites for sinks write with, and others that a place of its ids is refused to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from reliable_rx.errors import ReliableRxError
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


def refuses(ask: Callable[[], object], claim: str) -> None:
    """Check that *ask* raises one of our errors, and none after which it would be asked again."""
    try:
        found = ask()
    except ReliableRxError as error:
        if not isinstance(error, OSError):
            return
        raise AssertionError(f"{claim}, for good, not with {error!r}") from error
    raise AssertionError(f"{claim}, not given: {found}")
