"""Calls of what the author of a source has written, which may raise or return anything.

What goes wrong there ends the run, since nobody knows whether events are lost: by one error that names the source and
the remedy. Errors of ours are raised as they are: they say what to do. So is what is no `Exception`, as it may be the
program's own way to end (a signal's handler that exits); of that the log says where it came from. Rejected: to raise
all as they are (who runs many sources would not know whose they are), and to try again by ourselves (a source waits by
an empty batch and `trouble`).
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, TypeVar

from hosting.engine.blame import blamed
from hosting.reports.log import LOG
from reliable_rx.class_of import is_a, name_of
from reliable_rx.errors import ReliableRxError, SourceFailed, described
from reliable_rx.interrupts import let_through
from reliable_rx.operators.contract.arguments import cut
from reliable_rx.reliable import Batch, Reader, Rejected

T = TypeVar("T")
REMEDY = (
    "mend it; to wait for something, let fetch return an empty Batch and trouble() say why, and to end a partition "
    "with an error, Batch(..., error=...)"
)
METHODS = ("fetch", "acknowledge", "close")


def called(source: str, partition: str | None, what: str, call: Callable[..., T], *given: Any, position: int = -1) -> T:
    """Return what *call* returns, which is *what* of a source. *Raises* `SourceFailed` for what is no error of ours."""
    try:
        return call(*given)
    except BaseException as raised:
        error = _error_of(source, partition, what, raised, position)
    raise error  # once what was raised is not handled any more


def _error_of(source: str, partition: str | None, what: str, raised: BaseException, position: int) -> BaseException:
    if is_a(raised, (ReliableRxError, KeyboardInterrupt)):
        return raised
    if not is_a(raised, Exception):
        LOG.error("%s: its %s raised %s, which ends the run", _named(source, partition), what, described(raised))
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
    if not isinstance(batch, Batch):
        what = f"fetch returned {name_of(type(batch))} in the place of a Batch"
    elif not isinstance(batch.first, Integral):
        what = f"fetch returned a Batch whose first id is {cut(batch.first)}, and no int"
    elif batch.error is not None and not is_a(batch.error, Exception):
        what = f"fetch returned a Batch whose error is {cut(batch.error)}, and no Exception"
    elif not isinstance(batch.skipped, Integral):
        what = f"fetch returned a Batch whose skipped is {cut(batch.skipped)}, and no int"
    elif not isinstance(batch.rejected, (tuple, list)) or not all(_is_skipped(each, batch) for each in batch.rejected):
        what = (
            f"fetch returned a Batch whose rejected is {cut(batch.rejected)}, and no tuple of Rejected of skipped ids"
        )
    elif not (_is_flag(batch.ended) and _is_flag(batch.coming)):
        what = f"fetch returned a Batch whose ended is {cut(batch.ended)} and coming {cut(batch.coming)}, and no bools"
    else:
        return batch
    raise _failed(source, partition, what, position)


def _is_skipped(record: Any, batch: Batch) -> bool:
    is_one = isinstance(record, Rejected) and isinstance(record.position, Integral)
    return is_one and batch.first - batch.skipped <= record.position < batch.first


def _is_flag(value: Any) -> bool:
    if type(value) is not bool:
        try:
            bool(value)
        except BaseException as raised:  # an array has no truth
            let_through(raised)
            return False
    return True


def _named(source: str, partition: str | None) -> str:
    return f"source {cut(source)}" + ("" if partition is None else f", partition {cut(partition)}")


def _failed(source: str, partition: str | None, what: str, position: int) -> SourceFailed:
    at = f" at id {position:,}" if position >= 0 else ""
    remedy = REMEDY if what.startswith(("fetch raised", "open raised")) else "mend it"
    message = f"{_named(source, partition)}: its {what}{at}; {remedy}"
    method = what.partition(" ")[0]
    return SourceFailed(message, source=source, partition=partition, position=position, method=method)
