"""Names of groups, sources and partitions as file names, of which each belongs to one name.

A file name has at most 255 bytes, a quoted name up to nine times those of the name, and ``.`` and ``..`` are taken. So
a long one is cut, with a hash behind it: ``%`` followed by no hexadecimal digits is ours. What a cut one stands for is
in a file in its folder. Rejected: shorter names for groups only (they are keys everywhere else).
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

from checkpoint.sqlite.files import RealDisk, create_durably, make_directory

CHARACTERS_MAX = 200
NAME_FILE = "%name"
_CUT = "%x"


def file_name(name: str, *, safe: str = "") -> str:
    """Turn *name* into a file name that no other name has, with the *safe* characters as they are.

    >>> file_name("night shift"), file_name(".."), len(file_name("\u0434" * 127))
    ('night%20shift', '%2E%2E', 166)
    """
    quoted = quote(name, safe=safe)
    if name.startswith("."):
        quoted = quoted.replace(".", "%2E")
    if len(quoted) > CHARACTERS_MAX:
        return f"{quoted[:100]}{_CUT}{hashlib.sha256(name.encode()).hexdigest()}"
    return quoted or _CUT


def write_name(folder: Path, name: str) -> None:
    """Say in *folder* which *name* it is of, if what it is called does not."""
    if _CUT in folder.name and not (folder / NAME_FILE).exists():
        make_directory(folder)
        create_durably(RealDisk(folder), NAME_FILE, name.encode())


def name_of(folder: Path) -> str:
    """Return the name that *folder* is of; what it is called, if that is cut and is not said."""
    if _CUT in folder.name:
        with suppress(OSError, UnicodeDecodeError):
            return (folder / NAME_FILE).read_bytes().decode()
    return unquote(folder.name)
