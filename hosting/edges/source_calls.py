"""Calls of what the author of a source has written, which may raise or return anything.

What goes wrong there ends the run, since nobody knows whether events are lost: by one error that names the source and
the remedy. Errors of ours are raised as they are: they say what to do. Rejected: to raise all as they are (who runs
many sources would not know whose they are), and to try again by ourselves (a source waits by an empty batch and
`trouble`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hosting.engine.blame import blamed
from reliable_rx.class_of import is_a, name_of
from reliable_rx.errors import ReliableRxError, SourceFailed, described
from reliable_rx.operators.contract.arguments import cut
from reliable_rx.reliable import Batch, Reader

T = TypeVar("T")
REMEDY = (
    "mend it; to wait for something, let fetch return an empty Batch and trouble() say why, and to end a partition "
    "with an error, Batch(..., error=...)"
)
METHODS = ("fetch", "acknowledge", "close")


def called(source: str, partition: str | None, what: str, call: Callable[..., T], *given: Any) -> T:
    """Return what *call* returns, which is *what* of a source. *Raises* `SourceFailed` for what is no error of ours."""
    try:
        return call(*given)
    except BaseException as raised:
        error = error_of(source, partition, what, raised)
    raise error


def error_of(source: str, partition: str | None, what: str, raised: BaseException, position: int = -1) -> Exception:
    """Return what is to be raised for what *what* of a source has *raised*, once that is not handled any more."""
    if is_a(raised, ReliableRxError):
        return raised
    error = blamed(raised)
    failed = _failed(source, partition, f"{what} raised {described(error)}", position)
    failed.__cause__ = error
    return failed


def checked_reader(source: str, partition: str, reader: Any) -> Reader:
    """Return *reader* if it is one. *Raises* `SourceFailed`."""
    missing = [each for each in METHODS if not callable(getattr(reader, each, None))]
    if not missing:
        return reader  # type: ignore[no-any-return]
    why = "a return is missing" if reader is None else f"it has no method {missing[0]}"
    raise _failed(source, partition, f"open returned {name_of(type(reader))}, which is no reader: {why}", -1)


def checked_batch(source: str, partition: str, batch: Any, position: int) -> Batch:
    """Return *batch* if it is one. *Raises* `SourceFailed`."""
    if isinstance(batch, Batch):
        return batch
    raise _failed(source, partition, f"fetch returned {name_of(type(batch))} in the place of a Batch", position)


def stands_still(source: str, partition: str, batch: Batch, position: int) -> SourceFailed:
    """Say that a reader gives again and again what it has given."""
    what = (
        f"fetch gives ids {batch.first:,} to {batch.next - 1:,} again and again, where {position:,} is wanted: a "
        f"reader goes on behind what it has returned, and begins at the id that it was opened at"
    )
    return _failed(source, partition, what, -1)


def _failed(source: str, partition: str | None, what: str, position: int) -> SourceFailed:
    where = f"source {cut(source)}" + ("" if partition is None else f", partition {cut(partition)}")
    at = f" at id {position:,}" if position >= 0 else ""
    remedy = REMEDY if what.startswith(("fetch raised", "open raised")) else "mend it"
    return SourceFailed(f"{where}: its {what}{at}; {remedy}", source=source, partition=partition, position=position)
