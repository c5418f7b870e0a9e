"""Old manifests put together, with their small rows: a reader that is away for a day shall not keep 86,400 files.

What nobody has read for `SPANS[0]` batches is put together in blocks of so many, and so many of these again; blocks
begin at multiples of their counts, so everyone knows in which few files a manifest can be. It moves only upwards, and
is in the upper file before it leaves the lower: who looks into the lower first always finds it. Ids, batches and
digests stay, for the manifests do. Rows of tasks that have a small file of their own are taken in.

1. The new file is created, whole. If the driver dies here, both are there and say the same; the lower go next time.
2. If lower files have gone meanwhile, the new file goes too, if nobody wants what is in it: readers have forgotten
   them. Otherwise it stays, since another driver may have removed them, having seen it.
3. The lower files are removed, durably, then the files of rows that were taken in; what dies here is swept.

Large files of rows stay what they are, and so do blocks that would become too large. Rejected: doing it by a thread or
a job of its own, which would be another writer to coordinate; writing rows into larger record batches, which have ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from reliable_rx.failpoints import probe
from spark_bridge.micro_batch_log import names
from spark_bridge.micro_batch_log.manifest import decoded, inlined
from spark_bridge.micro_batch_log.names import span_name, span_numbers
from spark_bridge.micro_batch_log.retention import is_wanted
from spark_bridge.micro_batch_log.spans import encoded_span
from spark_bridge.micro_batch_log.view import LogView

SPAN_BYTES_MAX = 16 << 20
BLOCKS_MAX = 8
"""How many blocks one commit puts together: what is left is for the next."""


def is_due(number: int) -> bool:
    """Whether the driver that wrote manifest *number* should look for old ones."""
    return (number + 1) % names.SPANS[0] == 0


def compact(view: LogView, *, newest: int) -> int:
    """Put together what is old enough; return how many blocks were."""
    done = 0
    for numbers, lower, made in _blocks(view.disk.names(), newest + 1 - names.SPANS[0]):
        if done == BLOCKS_MAX:
            break
        if made:
            view.disk.settle()  # whoever made it may not have come to that
            _clear(view, lower, [])
        elif len(lower) == names.parts_of(numbers):
            done += _put_together(view, numbers, sorted(lower, key=_start))
    return done


def _blocks(listed: Iterable[str], stop: int) -> Iterator[tuple[range, list[str], bool]]:
    """Yield the blocks up to *stop*: their numbers, the lower files that are there, and whether they are made."""
    there = {numbers: name for name in listed if (numbers := span_numbers(name)) is not None}
    for level, count in enumerate(names.SPANS):
        below = 1 if not level else names.SPANS[level - 1]
        blocks: dict[range, list[str]] = {}
        for numbers, name in there.items():
            first = numbers.start // count * count
            if len(numbers) <= below and first + count <= stop:
                blocks.setdefault(range(first, first + count), []).append(name)
        for block in sorted(blocks, key=lambda each: each.start):
            made = any(home in there for home in names.homes(block.start) if len(home) >= count)
            lower = blocks[block]
            yield block, lower if made else [each for each in lower if len(_numbers(each)) == below], made


def _numbers(name: str) -> range:
    return span_numbers(name) or range(0)


def _start(name: str) -> int:
    return _numbers(name).start


def _put_together(view: LogView, numbers: range, lower: list[str]) -> bool:
    contents = [each for name in lower for each in _contents(view, name)]
    room = SPAN_BYTES_MAX - sum(map(len, contents))
    if len(contents) < len(numbers) or room < 0:
        return False
    whole, taken, files = _taken_in(view, contents, room)
    try:
        view.disk.create(span_name(numbers), encoded_span(whole, files))
    except FileExistsError:  # another driver is at it
        return False
    probe("spark.after_span")
    if any(view.disk.size(name) is None for name in lower) and not is_wanted(view, numbers):
        view.disk.remove(span_name(numbers))
        return False
    _clear(view, lower, taken)
    return True


def _contents(view: LogView, name: str) -> list[bytes]:
    numbers = _numbers(name)
    if len(numbers) > 1:
        span = view.span(numbers)
        return [] if span is None else [span.manifest(number) for number in numbers]
    data = view.disk.read(name)
    return [] if data is None else [data]


def _taken_in(view: LogView, manifests: list[bytes], room: int) -> tuple[list[bytes], list[str], list[str]]:
    """Return *manifests* with files of rows inside as far as there is *room*, these files, and those that stay."""
    whole, taken, stay = [], list[str](), list[str]()
    for data in manifests:
        manifest, blob = decoded(data, where=view.where)
        parts = []
        for part in manifest.parts:
            rows = None if part.is_inline or part.size > room else view.disk.read(manifest.file_of(part))
            room -= 0 if rows is None else part.size
            parts.append(inlined(part, blob) if rows is None else replace(part, inline=rows))
        fuller = replace(manifest, parts=tuple(parts))
        gained = set(manifest.files) - set(fuller.files)
        whole.append(fuller.encoded() if gained else data)
        taken += sorted(gained)
        stay += fuller.files
    return whole, taken, stay


def _clear(view: LogView, lower: list[str], taken: list[str]) -> None:
    for name in lower:
        view.disk.remove(name)
    view.disk.settle()
    for name in taken:
        view.disk.remove(name)
