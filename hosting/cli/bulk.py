"""`reliable-rx export`: what a source holds, as Parquet files."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hosting.bulk import Exported, export
from hosting.cli.loading import DeclaredSource
from hosting.cli.terminal import complain, say
from hosting.cli.wording import BadUsage, plural, span
from hosting.edges.positions import Point
from reliable_rx.errors import SourceFailed


def export_source(
    where: str,
    source: str,
    directory: Path,
    *,
    first: Point,
    until: Point,
    events_per_file: int,
    workers: int | None,
    kinds: dict[str, str],
) -> int:
    """Export *source* of the app named by *where*; return 0 when it is done, 1 if a partition has failed."""
    make, began = DeclaredSource(where, source), time.monotonic()
    make()
    try:
        with terminated_as_interrupted():
            done = export(
                make, directory, first=first, until=until, events_per_file=events_per_file, workers=workers,
                kinds=kinds, each=tell,
            )  # fmt: skip
    except SourceFailed as error:
        if "exported" not in error.fields:
            raise
        complain("some partitions failed; run it again, and they go on behind their last whole file")
        return 1
    except ValueError as error:
        raise BadUsage(str(error)) from error
    except KeyboardInterrupt:
        complain("stopped; run it again, and it goes on behind the last whole files")
        return 130
    events, files = sum(each.events for each in done), sum(each.files for each in done)
    seconds = time.monotonic() - began
    say(
        f"{plural(events, 'event')} of {plural(len(done), 'partition')} in {plural(files, 'new file')} "
        f"under {directory}, {span(seconds)}, {events / seconds:,.0f} events/s"
    )
    return 0


def tell(done: Exported) -> None:
    """Say what has been done of a partition."""
    if done.error is not None:
        complain(done.error)
    elif not done.events:
        say(f"{done.partition}: nothing new from {done.next:,} on")
    else:
        say(
            f"{done.partition}: {plural(done.events, 'event')}, ids {done.first:,} to {done.next - 1:,}, "
            f"in {plural(done.files, 'file')}, {done.events / done.seconds:,.0f} events/s"
        )


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Have SIGTERM do what Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
