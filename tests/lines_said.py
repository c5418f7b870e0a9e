r"""What the command line is given to say: each line on its own, and one of something in the singular.

A text of several lines is written as one, with ``\n`` in it: right for a value or an error that brings its own lines
along (then the test is marked `lines`), and a slip where the command has put it together. Looked at where all is
written, so that every test of a command looks, whatever it is about.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

TERMINAL = "hosting.cli.terminal"
ONE_OF_MANY = re.compile(r"(?<![\w.,:/'\"-])1 (?!is\b|has\b|was\b|does\b|goes\b|s\b|ms\b)[a-z]+s\b")


def is_wrong(text: str) -> bool:
    r"""Whether *text* is no line, or says one of something in the plural.

    >>> [is_wrong(text) for text in ("1 turn", "1 turns", "21 turns", "written by it\n", "1 is lost")]
    [False, True, False, True, False]
    """
    return "\n" in text or ONE_OF_MANY.search(text) is not None


@contextmanager
def overheard() -> Iterator[list[str]]:
    """Give what is wrong of what the command line is told meanwhile, in this process."""
    found: list[str] = []
    terminal: Any = sys.modules.get(TERMINAL)
    if terminal is None:
        yield found
        return
    one_line: Callable[[str], str] = terminal.one_line

    def listening(text: str) -> str:
        if is_wrong(text):
            found.append(text)
        return one_line(text)

    terminal.one_line = listening
    try:
        yield found
    finally:
        terminal.one_line = one_line
