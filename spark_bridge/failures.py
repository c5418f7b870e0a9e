"""What a failure of Spark's says in a line, and how an interrupted batch of ours is told to Spark.

To stop a query in the midst of a batch Spark interrupts it, and searches the message of what our function for
`foreachBatch` then raises for a word of that, with a regular expression which overflows the stack at some ten thousand
characters: a trace is longer. The query's thread dies of it, with a thousand lines on the JVM's output. So a batch that
was interrupted says so in a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reliable_rx.errors import SourceFailed

INTERRUPTIONS = ("InterruptedException", "InterruptedIOException", "ClosedByInterruptException", " cancelled ")
INTERRUPTED = "py4j.protocol.Py4JJavaError: An error occurred while calling it: java.lang.InterruptedException"
"""What Spark takes for its own interruption."""


def told(text: str) -> str:
    """Return what an error of Spark's says in a line: of a traceback of Python's its last line, of one that came out of
    Java what was thrown there.

    >>> told("Job aborted.\\n=== Streaming Query ===\\nIdentifier: rides")
    'Job aborted.'
    >>> told("[ERROR] Failed: Traceback (most recent call last):\\n  File ...\\nImportError: no such name")
    'ImportError: no such name'
    >>> told("Traceback (most recent call last):\\n  ...\\nPy4JJavaError: ...\\n: IOException: disk\\n\\tat Disk:7\\n")
    'IOException: disk'
    """
    text = text.partition("\n=== Streaming Query")[0]
    _, thrown, in_java = text.rpartition("\n: ")
    text = in_java.partition("\n\tat ")[0] if thrown else text
    lines = [line for line in text.splitlines() if line.strip()]
    plain = [line for line in lines if not line[0].isspace()]
    return plain[-1 if "Traceback" in text else 0].strip() if plain else text.strip()


@contextmanager
def interruptions_told(where: str) -> Iterator[None]:
    """In a function for `foreachBatch`: raise an interruption by Spark as a `SourceFailed` in which Spark finds it."""
    from py4j.protocol import Py4JError

    try:
        yield
    except Py4JError as error:
        if any(each in str(error) for each in INTERRUPTIONS):
            raise SourceFailed(INTERRUPTED, source=where) from None
        raise
