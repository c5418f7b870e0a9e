"""A sink that calls a function: for whoever keeps books of his own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hosting.sinks.guard import sink_itself
from reliable_rx.class_of import is_a
from reliable_rx.operators.contract.arguments import check_function
from reliable_rx.operators.contract.choices import names_keywords
from reliable_rx.reliable import DeadLetter


class CallbackSink:
    """Call ``on_next(id, value)`` for every value and ``on_end(id, error)`` at the end (error None: completed).

    It does not know what it has had, so after a crash it is called again with ids that it had before: at least once.
    Whoever remembers the highest id, and ignores what is not above it, has exactly once. A function that raises has not
    taken its value: an `OSError` is tried again, from that value on; other errors are dealt with as the sink's
    ``on_error`` says. ``on_dead_letter(letter)`` takes the values set aside, which may be repeated likewise; without it
    ``on_error="dead_letter"`` is refused. *label* is what the sink is known by from start to start, and no other of its
    stream; without it, the name of the function.

    It cannot be fenced either: only the function's own books can refuse a former owner of a partition that was stopped
    before the call and goes on after it. Give the function the epoch of its `hosting.partitioned.places.Place`, and the
    sink a label; keep the highest epoch with the highest id, in the transaction of what the function writes, and refuse
    lower ones with `LeaseLost`.

    >>> sink = CallbackSink(lambda n, value: print(n, value))
    >>> sink.write(7, ["a", "b"])
    7 a
    8 b
    """

    _next = 0
    """Behind what the function has been called with; of the class, for what is built upon it may be made in `open`."""

    @names_keywords
    def __init__(
        self,
        on_next: Callable[[int, Any], None],
        on_end: Callable[[int, Exception | None], None] | None = None,
        *,
        on_dead_letter: Callable[[DeadLetter], None] | None = None,
        label: str | None = None,
    ) -> None:
        check_function("on_next", on_next, "id", "value")
        if on_end is not None:
            check_function("on_end", on_end, "id", "error")
        if on_dead_letter is not None:
            check_function("on_dead_letter", on_dead_letter, "letter")
        self._on_next = on_next
        self._on_end = on_end
        if label is not None and (not is_a(label, str) or not str.__str__(label)):
            raise TypeError(f"`label` must be a text, and not empty, got {label!r}")
        self._on_dead_letter = on_dead_letter
        self._label = label

    @property
    def keeps_letters(self) -> bool:
        """Whether there is a function that takes dead letters."""
        return self._on_dead_letter is not None

    @property
    def label(self) -> str:
        """What tells this sink from others of its stream: what it was given, or the name of its function."""
        if self._label is not None:
            return self._label
        function = self._on_next
        while isinstance(function, partial):
            function = function.func
        return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"

    def open(self, stream: str, /) -> int | None:
        """Return None: the position is not known here."""
        self._next = 0
        return None

    def stored_position(self, stream: str, /) -> int | None:
        """Return None: the position is not known here."""
        return None

    def write(self, first: int, values: Sequence[Any], /) -> None:
        on_next = self._on_next
        taken = max(0, self._next - first)  # before a call failed
        n = first + taken
        try:
            for n, value in enumerate(values[taken:] if taken else values, first + taken):
                on_next(n, value)
        except BaseException:
            self._next = max(self._next, n)
            raise
        self._next = max(self._next, first + len(values))

    def end(self, n: int, error: Exception | None, /) -> None:
        if self._on_end is not None and n >= self._next:
            self._on_end(n, error)
            self._next = n + 1

    def skip(self, n: int, until: int, why: str, letter: DeadLetter | None, /) -> None:
        if letter is not None and self._on_dead_letter is not None and until > self._next:
            self._on_dead_letter(letter)
        self._next = max(self._next, until)

    def flush(self) -> None:
        """Do nothing: what the function did is its own affair."""

    def close(self) -> None: ...


def reached_by(sink: Any) -> int:
    """Return the id at which the function of *sink*, or of the one that it guards, stands; -1 for other sinks."""
    found = sink_itself(sink)
    is_ours = is_a(found, CallbackSink) and type(found).write is CallbackSink.write  # a double says that it is one
    return found._next if is_ours else -1
