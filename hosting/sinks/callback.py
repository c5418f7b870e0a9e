"""A sink that calls a function: for whoever keeps books of his own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class CallbackSink:
    """Call ``on_next(id, value)`` for every value and ``on_end(id, error)`` at the end (error None: completed).

    It does not know what it has had, so after a crash it is called again with ids that it had before: at least once.
    Whoever remembers the highest id, and ignores what is not above it, has exactly once.

    It cannot be fenced either: only the function's own books can refuse a former owner of a partition that was stopped
    before the call and goes on after it. Give the function the epoch of its `hosting.partitioned.places.Place`, keep
    the highest one with the highest id, in the transaction of what it writes, and refuse lower ones with `LeaseLost`.

    >>> sink = CallbackSink(lambda n, value: print(n, value))
    >>> sink.write(7, ["a", "b"])
    7 a
    8 b
    """

    def __init__(
        self,
        on_next: Callable[[int, Any], None],
        on_end: Callable[[int, Exception | None], None] | None = None,
    ) -> None:
        self._on_next = on_next
        self._on_end = on_end

    def open(self, stream: str, /) -> int | None:
        """Return None: the position is not known here."""
        return None

    def write(self, first: int, values: Sequence[Any], /) -> None:
        on_next = self._on_next
        for n, value in enumerate(values, first):
            on_next(n, value)

    def end(self, n: int, error: Exception | None, /) -> None:
        if self._on_end is not None:
            self._on_end(n, error)

    def flush(self) -> None:
        """Do nothing: what the function did is its own affair."""

    def close(self) -> None: ...
