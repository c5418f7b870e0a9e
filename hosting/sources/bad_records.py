"""Records that cannot be read: what is said of one, where it is, and what becomes of it.

What is said must be the same whenever the file is read again, wherever the reading began: so a place is a byte (or row)
of the file and never a place in some block, and everything here is a function of the file's bytes. Line numbers are for
people: they are counted when a source fails, not for each of a million records that are passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from reliable_rx.errors import cut_middle, described, text_of

RAW_MAX = 65_536
REASON_MAX = 2_000
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that is none: its *place* in the file, what is there, and the *reason*."""

    place: str
    raw: Any
    reason: str


def raw_text(data: bytes) -> str:
    r"""Return what is left of a record as text that any sink can write.

    >>> raw_text(b"caf\xe9,1\n")
    'caf\\xe9,1'
    """
    kept = data[:RAW_MAX].decode(errors="backslashreplace").rstrip("\r\n")
    return kept if len(data) <= RAW_MAX else f"{kept}…"


def reason_of(error: BaseException) -> str:
    """Say what *error* says, whatever its text does, without what is another in the next process.

    >>> reason_of(ValueError("too short")), reason_of(KeyError("delay"))
    ('too short', "KeyError: 'delay'")
    """
    text = text_of(error) if type(error) is ValueError else described(error)
    return cut_middle(ADDRESS.sub("", text), REASON_MAX)
