"""Many old manifests in one file: a line that says where each begins, and then each of them, as it was.

A file begins with the digest of that line; every manifest has its own. So one is found without reading the others, in a
file that is mapped. *files* are those of rows that the manifests still name, for whoever sweeps.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from reliable_rx.errors import CheckpointRefused
from spark_bridge.micro_batch_log.disk import View
from spark_bridge.micro_batch_log.manifest import FORMAT, digest_of


@dataclass(frozen=True, slots=True)
class Span:
    """The manifests with these *numbers*."""

    numbers: range
    files: tuple[str, ...]
    offsets: tuple[int, ...]
    data: View

    def manifest(self, number: int) -> bytes:
        """Return what `Manifest.encoded` was for *number*."""
        place = number - self.numbers.start
        return bytes(self.data[self.offsets[place] : self.offsets[place + 1]])


def encoded_span(manifests: Sequence[bytes], files: Sequence[str]) -> bytes:
    """Return the file that holds *manifests*.

    >>> encoded_span([b"ab", b"c"], []).partition(b"\\n")[2]
    b'{"format":2,"lengths":[2,1],"files":[]}\\nabc'
    """
    body = {"format": FORMAT, "lengths": [len(each) for each in manifests], "files": list(files)}
    line = json.dumps(body, separators=(",", ":")).encode()
    return digest_of(line).encode() + b"\n" + line + b"\n" + b"".join(manifests)


def decoded_span(data: View, numbers: range, *, where: str) -> Span:
    """Return what is in *data*. *Raises* `CheckpointRefused` if it is not as written."""
    end = data.find(b"\n", head := data.find(b"\n") + 1)
    line = bytes(data[head:end])
    if end < 0 or digest_of(line).encode() != data[: head - 1]:
        raise CheckpointRefused(f"{where}: the index is damaged", what="an index of manifests is damaged", where=where)
    body = json.loads(line)
    if body["format"] != FORMAT:
        what = f"manifests have format {body['format']}, this version reads {FORMAT}"
        raise CheckpointRefused(f"{where}: {what}", what=what, where=where)
    offsets = [end + 1]
    for length in body["lengths"]:
        offsets.append(offsets[-1] + length)
    if len(offsets) != len(numbers) + 1 or offsets[-1] != len(data):
        raise CheckpointRefused(f"{where}: it is cut", what="manifests are missing", where=where)
    return Span(numbers, tuple(body["files"]), tuple(offsets), data)
