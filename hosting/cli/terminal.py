"""The terminal of a command: the one place where the command line writes, so that whatever it is told can be shown.

Names, values and the texts of errors are the user's, or an attacker's. A line stays a line: control characters, halves
of surrogate pairs and what turns the direction of writing are shown by their escapes, and what the encoding of the
stream lacks likewise (the few typographic signs of our own as ASCII). A stream may be closed, full or have no reader: a
command that only shows something ends with that; one that hosts goes on and is silent (`outlives`). stderr is borne by
all. A test holds that no other module of the command line touches the streams.

Rejected: escaping where a text is made (the next one forgets it), and leaving it to the streams (they know encodings,
not lines).
"""

from __future__ import annotations

import codecs
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any, TextIO

from reliable_rx.errors import one_line

PLAINLY = "reliable_rx.plainly"
OURS = {"–": "-", "…": "...", "·": "-", "→": "->", "█": "#", "✗": "x"}
Lines = Callable[[Iterable[str]], None]
_outlived: list[bool] = []
"""Not empty while the command goes on without its streams."""


class StdoutClosed(BrokenPipeError):
    """Nobody reads the standard output any more, such as behind ``head``."""


def say(text: str = "") -> None:
    """Write a line to the standard output at once."""
    say_all([text])


def say_all(lines: Iterable[str]) -> None:
    """Write each of *lines*, at once."""
    _write(sys.stdout, "".join(f"{one_line(each)}\n" for each in lines), bears=bool(_outlived))


def complain(text: str) -> None:
    """Write a line to the standard error."""
    _write(sys.stderr, f"reliable-rx: {one_line(text)}\n", bears=True)


def complain_of(error: BaseException) -> None:
    """Write a traceback to the standard error."""
    _write(sys.stderr, in_one_record("".join(traceback.format_exception(error)).rstrip()) + "\n", bears=True)


def redraw(text: str, *, end: bool = False) -> None:
    """Write over the line at which the terminal is; *end* it there."""
    _write(sys.stdout, f"\r\033[K{one_line(text)}" + ("\n" if end else ""), bears=bool(_outlived))


def agreed(question: str) -> bool:
    """Ask on the terminal; no answer is no."""
    _write(sys.stdout, f"{one_line(question)} [y/N] ", bears=False)
    answer = "" if sys.stdin is None else sys.stdin.readline()
    if not answer:
        say()
    return answer.strip().lower() in ("y", "yes")


def flush() -> None:
    """Have written what others have printed; nothing is left in a stream that they have closed or detached."""
    with suppress(ValueError):
        _write(sys.stdout, "", bears=bool(_outlived))
    _write(sys.stderr, "", bears=True)


def is_terminal() -> bool:
    """Whether somebody looks at the standard output, and it can be drawn over."""
    try:
        return sys.stdout is not None and sys.stdout.isatty()
    except ValueError:  # it has been closed
        return False


@contextmanager
def drawn_over() -> Iterator[Lines | None]:
    """Give what draws lines over those before on a terminal; None where that cannot be done.

    What is said or logged meanwhile stands above them.
    """
    if not is_terminal() or find_spec("rich") is None:
        yield None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    live = Live(console=Console(), auto_refresh=False)

    def draw(lines: Iterable[str]) -> None:
        text = Text("\n".join(map(one_line, lines)), no_wrap=True, overflow="ellipsis")
        _try(lambda: live.update(text, refresh=True), sys.__stdout__, bears=bool(_outlived))

    _try(live.start, sys.__stdout__, bears=bool(_outlived))
    try:
        yield draw
    finally:
        _try(live.stop, sys.__stdout__, bears=bool(_outlived))


@contextmanager
def outlives() -> Iterator[None]:
    """Have what is hosted go on whatever happens to the streams: they are only for who looks."""
    _outlived.append(True)
    try:
        yield
        flush()
    finally:
        _outlived.pop()


class LogHandler(logging.Handler):
    """Writes to what stderr is now: a live display puts lines above itself that way. A record begins its line.

    What ends the process is the last thing that a command says, and is not said before.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write *record*; what follows its first line is indented, so that no text of a user's can look like one."""
        if getattr(record, "ends", False):
            return
        try:
            text = in_one_record(self.format(record))
        except Exception:
            self.handleError(record)
        else:
            _write(sys.stderr, f"{text}\n", bears=True)


def in_one_record(text: str) -> str:
    r"""Return a *text* of several lines of which only the first looks like the beginning of one.

    >>> in_one_record("ERROR query 'q': no\nERROR forged\x1b[31m")
    "ERROR query 'q': no\n  ERROR forged\\x1b[31m"
    """
    first, *others = map(one_line, re.split("\r?\n", text))
    return "\n".join([first, *(line if line.startswith("  ") else f"  {line}" for line in others)])


# ---- the streams


@contextmanager
def ready() -> Iterator[None]:
    """Have streams that take any text, and nothing that is opened meanwhile be mistaken for one that was closed."""
    _occupy()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (each or open(os.devnull, "w") for each in before)  # noqa: SIM115 (for as long as it runs)
    codecs.register_error(PLAINLY, _plainly)
    changed = [(each, each.errors) for each in (sys.stdout, sys.stderr) if hasattr(each, "reconfigure")]
    for each, _ in changed:
        with suppress(OSError, ValueError):  # what cannot be changed is written to with escapes
            each.reconfigure(errors=PLAINLY)
    try:
        yield
    finally:
        for each, errors in changed:
            with suppress(OSError, ValueError):
                each.reconfigure(errors=errors)
        for stream, was in zip((sys.stdout, sys.stderr), before, strict=True):
            if was is None:
                stream.close()
        sys.stdout, sys.stderr = before


def _occupy() -> None:
    """Open what is closed of the first three descriptors: a file that got its number would be written into."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)


def _plainly(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start]
    return OURS.get(found, found.encode("ascii", "backslashreplace").decode()), error.start + 1


def _write(stream: TextIO | None, text: str, *, bears: bool) -> None:
    if stream is None:
        return

    def write() -> None:
        try:
            stream.write(text)
        except UnicodeEncodeError:  # a stream of somebody else's
            stream.write(text.encode("ascii", "backslashreplace").decode())
        stream.flush()

    _try(write, stream, bears=bears)


def _try(write: Callable[[], Any], stream: TextIO | None, *, bears: bool) -> None:
    try:
        write()
    except (OSError, ValueError) as error:
        if stream is not None:
            _lose(stream)
        if bears:
            return
        if isinstance(error, BrokenPipeError):
            raise StdoutClosed(*error.args) from error
        raise


def _lose(stream: TextIO) -> None:
    """Let what is still to be written go nowhere: the interpreter would stumble over it when it ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
        stream.flush()
