"""The seal around a group's document: a registry gives back what was written as this version, or refuses it.

An edited document would be obeyed by every node: partitions that are said to have ended are never read again. So it is
sealed as every other stored blob is, with the name of its group and the number of its version. Without *keys* the key
is known to everybody: damage and mix-ups are found, and edits by hand, but not a forger. Rejected: a key beside the
registry (who can edit the one can read the other, and whoever loses it has lost the group), a checksum inside the
document (it would be parsed first).
"""

from __future__ import annotations

from checkpoint.format.envelope import KeyRing, seal, unseal
from reliable_rx.errors import CheckpointRefused

KIND = "group"
KNOWN = KeyRing(b"the document of a group")


class DocumentSeal:
    """Seals the documents of group *name*, which lie at *where*. *remedy* says how one that is refused is put right.

    >>> sealing = DocumentSeal("g", where="here", remedy="restore it")
    >>> sealing.opened(3, sealing.sealed(3, b"the document"))
    b'the document'
    """

    def __init__(self, name: str, *, where: str, remedy: str, keys: KeyRing | None = None) -> None:
        self._name, self._keys = name, keys or KNOWN
        self._where, self._remedy = f"{where}, the document of group {name!r}", remedy
        self._opened: tuple[int, bytes, bytes] = (0, b"", b"")
        """What was opened last: it is read far more often than it is written."""

    def sealed(self, version: int, document: bytes) -> bytes:
        """Return *document* as it is stored as that *version*."""
        return seal(document, keys=self._keys, kind=KIND, owner=self._name, generation=version)

    def opened(self, version: int, blob: bytes) -> bytes:
        """Return the document in *blob*. *Raises* `CheckpointRefused` unless it was written as that *version*."""
        known_version, known, document = self._opened
        if version == known_version and blob == known:
            return document
        try:
            document = unseal(blob, keys=self._keys, kind=KIND, owner=self._name, generation=version, where=self._where)
        except CheckpointRefused as error:
            message = f"{error.message}; {self._remedy}"
            raise CheckpointRefused(message, what=error.what, where=self._where) from None
        self._opened = version, blob, document
        return document
