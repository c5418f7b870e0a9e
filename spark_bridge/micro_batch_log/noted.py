"""What Spark's checkpoint notes of its log, so that a log which was set back to an older copy is found out.

Such a log goes on as if nothing were missing: Spark continues behind what its own checkpoint says is done, and what lay
between is in no log any more. So whoever writes a manifest notes its number beside Spark's offsets. The manifest is
durable before, and the note is not synced: it can lag behind the log, and never be ahead of it. A lost or torn note
finds nothing out. Rejected: looking for the batches that Spark has noted as done (one without rows has no manifest).
"""

from __future__ import annotations

import os

from spark_bridge.micro_batch_log.disk import RealLogDisk, log_directory

NOTE = "reliable_rx.newest"
DIGITS_MAX = 18


class Noted:
    """The note in the checkpoint at *place*; there is none where that is no local or mounted directory.

    >>> import tempfile
    >>> noted = Noted(tempfile.mkdtemp())
    >>> noted.note(7)
    >>> noted.newest
    7
    """

    def __init__(self, place: str | os.PathLike[str]) -> None:
        directory = log_directory(place)
        self.where = f"the checkpoint {os.fspath(place)}"
        self._disk = None if directory is None else RealLogDisk(directory)

    @property
    def newest(self) -> int:
        """The number of a manifest that was there; -1 if none is known."""
        data = None if self._disk is None else self._disk.read(NOTE)
        return int(data) if data is not None and data.isdigit() and len(data) <= DIGITS_MAX else -1

    def note(self, number: int) -> None:
        """Note that manifest *number* is there."""
        if self._disk is not None and number != self.newest:
            self._disk.replace(NOTE, str(number).encode(), durably=False)
