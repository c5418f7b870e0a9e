"""A Spark session in this process, whose JVM does not hear the signals that are meant for us.

Ctrl-C goes to every process of a terminal's foreground group, and so do the signals of `timeout` and of many
supervisors: a JVM that dies at once of what asks us to stop in order leaves a batch in the middle. PySpark has its JVM
ignore Ctrl-C only. Here it gets a session of its own; it still ends when we do, however we do, because it reads our end
of a pipe. PySpark also puts its own handler of Ctrl-C in place of ours where a session is started in the main thread;
it is put back.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reliable_rx.errors import SourceFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
STARTING = threading.Lock()
"""One thread starts the session that is then that of all: companions are started in threads of their own."""
SCRIPTS = "reliable_rx-"
REMEDY = "install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or let JAVA_HOME name it"
WORKER_PYTHON = """#!/bin/sh
PYTHONPATH=${{PYTHONPATH#*pyspark.zip:}}
PYTHONPATH=${{PYTHONPATH#*py4j-*-src.zip:}}
export PYTHONPATH
exec {python} "$@"
"""


def start_session(settings: Mapping[str, str], *, jvm_log: str | os.PathLike[str] | None = None) -> SparkSession:
    """Start Spark with *settings* such as ``{"spark.master": "local[2]"}``, out of reach of signals meant for us.

    What the JVM writes goes behind what is in the file *jvm_log*, or to our own outputs, where it is written over a
    display. A session that is there already is returned as it is, with the settings that can still be set. Workers
    on this machine run the interpreter that runs us (`worker_python`), unless ``PYSPARK_PYTHON`` says otherwise.

    *Raises* `SourceFailed` if there is no PySpark or no Java that is new enough.
    """
    check_java()
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        message = "PySpark is not installed; run: pip install 'reliable-rx[spark]'"
        raise SourceFailed(message, source="pyspark") from error
    if "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = worker_python()
    with STARTING:
        if SparkContext._active_spark_context is None:  # what is active is asked by thread, this is not
            conf = SparkConf().setAll(list(settings.items()))
            conf.setIfMissing("spark.app.name", "reliable_rx")
            conf.setIfMissing("spark.master", "local[*]")
            conf.setIfMissing("spark.ui.showConsoleProgress", "false")  # it would draw over what we show
            handler = signal.getsignal(signal.SIGINT)
            with nullcontext() if jvm_log is None else open(jvm_log, "ab") as output:
                gateway: Any = launch_gateway
                started = gateway(conf, {"start_new_session": True, "stdout": output, "stderr": output})
                context = SparkContext(conf=conf, gateway=started)
                end_quietly(getattr(context, "_accumulatorServer", None))
            if threading.current_thread() is threading.main_thread() and handler is not None:
                signal.signal(signal.SIGINT, handler)
    return SparkSession.builder.config(map=dict(settings)).getOrCreate()


def end_quietly(server: Any) -> None:
    """Have the *server* of PySpark's accumulators take the end of the JVM for what it is, and print no traceback."""
    told = getattr(server, "handle_error", None)
    if told is None:
        return

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], (EOFError, ConnectionError)):
            told(request, client_address)

    server.handle_error = handle_error


def worker_python() -> str:
    """Return what runs Python workers on this machine as our interpreter does, and starts them in a third of the time.

    Spark puts its own PySpark before all others on their path: a zip file of sources, which each worker compiles anew
    (1.4 s of CPU against 0.3 s, in every process that a batch starts). What is installed here is the same, compiled.
    It goes with this process; what one has left that was killed goes with the next call.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{SCRIPTS}*-*"):
        if is_ours(left) and not is_running(int(left.name.removeprefix(SCRIPTS).partition("-")[0])):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{SCRIPTS}{os.getpid()}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    script = folder / "python"
    script.write_text(WORKER_PYTHON.format(python=shlex.quote(sys.executable)))
    script.chmod(0o755)
    return str(script)


def is_ours(folder: Path) -> bool:
    """Whether *folder* was made by `worker_python` in a process of this user's."""
    try:
        return folder.stat().st_uid == os.getuid() and folder.name.split("-")[1].isdigit()
    except FileNotFoundError:  # another has just removed it
        return False


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def check_java() -> None:
    """*Raises* `SourceFailed`, with the remedy, unless Spark will find a Java that is new enough."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    if java is None:
        where = f"under JAVA_HOME, which is {home}" if home else "on the PATH"
        raise SourceFailed(f"Spark needs Java {JAVA_MIN} or newer, and there is none {where}; {REMEDY}", source="java")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = java_version(told)
    if found is None or found < JAVA_MIN:
        what = f"version {found}" if found else f"of no version that it tells ({told.strip()[:80]!r})"
        raise SourceFailed(f"Spark needs Java {JAVA_MIN} or newer, and {java} is {what}; {REMEDY}", source="java")


def java_version(told: str) -> int | None:
    """Return the version in what ``java -version`` says.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_392"')
    (17, 8)
    >>> java_version('openjdk version "21-ea" 2023-09-19'), java_version("command not found")
    (21, None)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else None


if __name__ == "__main__":  # for a Makefile, to ask before it installs or starts anything large
    try:
        check_java()
    except SourceFailed as error:
        sys.exit(error.message)
