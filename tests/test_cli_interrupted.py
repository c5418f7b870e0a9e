"""Ctrl-C at any moment of a command that has not begun yet: no traceback, and the exit code of an interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from lanes import at_each_commit, every

ROOT = Path(__file__).parent.parent
PRELUDE = """
import os, signal, sys


class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {at!r}:
            os.kill(os.getpid(), signal.SIGINT)
        return None


sys.meta_path.insert(0, Interrupts())
sys.argv = ["reliable-rx", "--version"]
"""
MOMENTS = [
    "reactivex",
    "hosting",
    "hosting.evaluator.evaluator",
    "hosting.cli",
    "hosting.cli.run",
    "hosting.cli.command",
]


def entry() -> tuple[str, str]:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["reliable-rx"].partition(":")
    return module, function


def python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("at", every(3, MOMENTS))
def test_an_interrupt_while_it_imports(at: str) -> None:
    """Whichever module is being imported, it ends at once, says nothing and returns 130."""
    module, function = entry()
    ended = python(f"{PRELUDE.format(at=at)}\nfrom {module} import {function}\nsys.exit({function}())")
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_an_interrupt_while_arguments_are_read() -> None:
    """Between the imports and the command, where no handler of a command is there yet."""
    module, function = entry()
    interrupt = "import signal, hosting.cli.command as c\nc.parser = lambda: signal.raise_signal(signal.SIGINT)"
    ended = python(f"import sys\n{interrupt}\nfrom {module} import {function}\nsys.exit({function}())")
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_what_is_not_interrupted_begins() -> None:
    """The entry imports nothing of ours by itself, and an interrupt that was ignored from outside stays so."""
    module, function = entry()
    code = f"import sys, {module}\nprint(sorted(m for m in sys.modules if m.startswith(('hosting', 'reactivex'))))"
    assert python(code).stdout == "[]\n"
    ignoring = f"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN){PRELUDE.format(at='hosting.cli')}"
    ended = python(f"{ignoring}\nfrom {module} import {function}\nsys.exit({function}())")
    assert (ended.returncode, ended.stdout[:12]) == (0, "reliable-rx "), ended


ENDS = """
import atexit, os, threading
import hosting.cli.run
from hosting import App, ListSource

hosting.cli.run.TOGETHER_S = 60.0


def again(number={number!r}, kill=os.kill, pid=os.getpid()):
    kill(pid, number)


class Last:
    def __del__(self, again=again):
        again()


last, app = Last(), App()
numbers = app.source("numbers", ListSource([1, 2], follow=True))
app.query("q", numbers.map(lambda n: n))
atexit.register(again)
threading._register_atexit(again)
threading.Thread(target=lambda: (threading.main_thread().join(), again())).start()


@app.feed
def stop(inputs):
    again()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, at_each_commit(signal.SIGINT)])
def test_signals_until_the_very_end_are_one_wish(tmp_path: Path, number: signal.Signals) -> None:
    """One that comes with the first while threads, exit handlers and modules of the app end changes no exit code."""
    (tmp_path / "app.py").write_text(ENDS.format(number=int(number)))
    command = [sys.executable, "-c", "import sys, reliable_rx_cli as c; sys.exit(c.main())", "run", "app.py:app"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [*command, "--store", "s", "--plain"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, ""), ended
    assert "stopped" in ended.stdout


MIDST = """
import signal
from hosting.cli.run import Stop
stops = [Stop()]
signal.signal(signal.SIGALRM, lambda number, frame: stops[-1]._hear(number, frame))
signal.setitimer(signal.ITIMER_REAL, 5e-5, 5e-5)
for _ in range(3_000):
    stops.append(Stop())
    while not stops[-1].wait(1e-6):
        stops[-1].wake()
    stops[-1]._hear(signal.SIGTERM, None)
signal.setitimer(signal.ITIMER_REAL, 0)
assert all(each.asked and each.wait() for each in stops[1:])
"""


def test_a_signal_in_the_midst_of_anything_waits_for_nothing() -> None:
    """The handler comes in the midst of itself and of what waits for it, and takes no lock that those may hold.

    In a process of its own: the alarm is also that of the tests' deadline, which a late one would reach instead.
    """
    ended = subprocess.run([sys.executable, "-c", MIDST], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert (ended.returncode, ended.stderr) == (0, "")
