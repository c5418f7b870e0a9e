"""What Spark is told of a batch that it has itself interrupted."""

from __future__ import annotations

import re
import traceback

import pytest

from spark_bridge.failures import interruptions_told

py4j = pytest.importorskip("py4j.protocol")
OWN = re.compile(r"py4j.protocol.Py4JJavaError: An error occurred while calling((.|\r\n|\r|\n)*)java.lang.Interrupted")
"""What Spark searches a message for; in Java each character takes room on the stack."""
TRACE = "\n".join(f"\tat org.apache.spark.Some.method{n}(Some.scala:{n})" for n in range(500))


def told_of(text: str) -> str:
    """Return what Spark hears of a job that has failed with *text* within a batch."""
    try:
        with interruptions_told("the log"):
            raise py4j.Py4JError(text)
    except Exception:
        return traceback.format_exc()


@pytest.mark.parametrize("what", ["java.lang.InterruptedException", "Job 5 cancelled part of cancelled job group"])
def test_an_interruption_is_told_in_a_line(what: str) -> None:
    """Spark finds in it what it looks for, and it is short enough for its stack."""
    told = told_of(f"An error occurred while calling o12.collect.\n: {what}\n{TRACE}")
    assert OWN.search(told)
    assert len(told) < 1000


def test_another_failure_is_told_as_it_is() -> None:
    """Whoever looks for what went wrong has all of it."""
    told = told_of(f"An error occurred while calling o12.collect.\n: java.io.IOException: disk\n{TRACE}")
    assert "java.io.IOException: disk" in told
    assert "method499" in told
