"""Whatever the command line is told can be shown, on any terminal; and what it hosts does not depend on one."""

from __future__ import annotations

import ast
import io
import os
import pty
import subprocess
import sys
import threading
import unicodedata
from pathlib import Path

import pytest
from cli_process import cli, write
from lanes import every, left_to_commits

from hosting.cli import main
from hosting.cli.terminal import PLAINLY, StdoutClosed, in_one_record, outlives, ready, say
from hosting.cli.wording import FAILED, columns_of, table
from reliable_rx.errors import one_line

ROOT = Path(__file__).parent.parent
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
ODD = r"\ud800 \x1b[31m\nERROR query 'fake': forged\r\u202e\x9b é –"
APP = f'''
from hosting import App, ListSource
app = App()
def raising(name):
    raise ValueError(f"no price for {{name}}")
names = app.source("names", ListSource(["{ODD}"]))
app.query("bad", names.map(raising))
app.query("names_of", names.map(lambda name: name))
app.query("skips", names.map(raising), policy="skip")
app.query("last", names.last())
'''
COMMANDS = [
    ["status", "--store", "s"], ["status", "--store", "s", "--json"], ["tail", "s", "bad"], ["tail", "s", "names_of"],
    ["inspect", "s", "--all"], ["inspect", "s", "--state", "last"], ["holders", "s"], ["tail", "s", "\ud800\nERROR"],
    ["restart", "s", "no\x1b[31m"],
]  # fmt: skip


def is_obeyed(character: str) -> bool:
    """Whether a terminal would do something else with *character* than show it."""
    return (character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")) or (
        unicodedata.bidirectional(character) in ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
    )


def check_shown(text: str) -> None:
    """Hold that a terminal shows *text*, and that no line of it is one that a value has brought along."""
    assert not [each for each in text if is_obeyed(each)]
    assert not [line for line in text.splitlines() if line.startswith("ERROR query 'fake'")]


def touches(node: ast.AST) -> bool:
    """Whether *node* writes to a stream, or reads or draws on a terminal."""
    match node:
        case ast.Call(func=ast.Name(id="print" | "input")):
            return True
        case ast.Attribute(value=ast.Name(id="sys"), attr=attr):
            return attr in STREAMS
        case ast.Call(func=ast.Attribute(value=ast.Name(id="traceback"), attr=attr)):
            return attr.startswith("print_")
        case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in ("rich", "sys", "traceback"):
            return True
        case ast.ImportFrom(module=str(module)):
            return False
    return False


def test_one_module_writes_for_the_command_line() -> None:
    """No other module of the command line and the demos touches the streams; a worker's pipe is no terminal."""
    folders = ("hosting/cli", "hosting/demo", "spark_bridge/demo")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    found = {str(path.relative_to(ROOT)) for path in paths if any(map(touches, ast.walk(ast.parse(path.read_text()))))}
    assert found - {"hosting/demo/worker.py", "spark_bridge/demo/worker.py"} == {"hosting/cli/terminal.py"}


def test_every_command_shows_what_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a surrogate, escape sequences and line ends in values, errors and names: shown in any encoding, by all."""
    write(tmp_path, "app.py", APP)
    told = cli("run", "app.py:app", "--store", "s", "--plain", cwd=tmp_path, code=FAILED)
    check_shown(told.stdout + told.stderr)
    assert "no price for \\ud800" in told.stderr
    monkeypatch.chdir(tmp_path)
    codes = []
    for encoding in ("utf-8", "latin-1", "ascii"):
        codes.append([])
        for command in COMMANDS:
            streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
            with monkeypatch.context() as patched:
                patched.setattr(sys, "stdout", streams[0])
                patched.setattr(sys, "stderr", streams[1])
                codes[-1].append(main(command))
            said = "".join(each.buffer.getvalue().decode(encoding) for each in streams)
            check_shown(said)
            assert said and "Unicode" not in said
    assert codes == [[FAILED, FAILED, 0, 0, 0, 0, 0, 2, 2]] * 3


def hosted(folder: Path, redirected: str) -> tuple[int, str]:
    """Run an app with a shell's redirection; return its exit code, and all else that it said."""
    script = f'{sys.executable} -m hosting.cli run app.py:app --store s --plain {redirected}; exit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


LOST = [">&-", ">/dev/full", "2>/dev/full", "2>&-", ">&- 2>&- <&-", "| head -c 1"]


@left_to_commits
@pytest.mark.parametrize("redirected", every(6, LOST))
def test_hosting_goes_on_without_a_terminal(tmp_path: Path, redirected: str) -> None:
    """Whatever happens to the streams, everything is taken, and the exit code is that of the work."""
    lines = [line for line in APP.splitlines() if "(raising)" not in line]
    write(tmp_path, "app.py", "\n".join(lines))
    code, said = hosted(tmp_path, redirected)
    assert code == 0 and "Traceback" not in said and "rror" not in said
    assert "\tcompleted" in cli("tail", "s", "names_of", cwd=tmp_path).stdout


CLOSES = ["sys.stdout.close()", "sys.stdout.buffer.close()", "setattr(sys, 'stdout', None)"]
CLOSES_BELOW = ["os.close(1)", "os.dup2(os.open('/dev/full', os.O_WRONLY), 1)"]
CLOSING = """
import os, sys
from hosting import App, ListSource
app = App()
numbers = app.source("numbers", ListSource([1, 2, 3]))
app.query("all", numbers.map(lambda n: n))
app.query("closes", numbers.do_action(lambda n: CLOSES if n == 2 else n == 1 and print("seen")).map(lambda n: n FAILS))
"""


@left_to_commits
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("closes", [*CLOSES, *CLOSES_BELOW])
def test_what_is_hosted_may_close_the_output(closes: str, fails: bool, tmp_path: Path) -> None:
    """However a query closes the standard output, the exit code is that of the work, and all of it is done."""
    write(tmp_path, "app.py", CLOSING.replace("CLOSES", closes).replace("FAILS", "and 1 // (n - 3)" if fails else ""))
    code, said = hosted(tmp_path, "")
    assert code == (FAILED if fails else 0), said
    assert not [each for each in ("closed file", "detached", "OSError", "Exception ignored") if each in said], said
    assert "3\tcompleted" in cli("tail", "s", "all", cwd=tmp_path).stdout


@pytest.mark.parametrize("closes", [*CLOSES, "sys.stdout.detach()"])
def test_a_closed_output_has_nothing_left_to_flush(closes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command has closed itself does not change its exit code."""
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
        patched.setattr("hosting.cli.command.run.run", lambda *_, **__: [exec(closes), FAILED][1])
        assert main(["run", "app:app"]) == FAILED


@left_to_commits
def test_a_terminal_that_goes_away_is_borne(tmp_path: Path) -> None:
    """`run` draws on a terminal, with an odd text to show; closed under it, the app is hosted to its end."""
    write(tmp_path, "app.py", APP)
    for closes in (False, True):
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "hosting.cli", "run", "app.py:app", "--store", f"s{closes}"]
        with subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=subprocess.PIPE, text=True) as process:
            os.close(theirs)
            drain = threading.Thread(target=drained, args=(ours,))
            if closes:
                os.close(ours)
            else:
                drain.start()
            said = process.communicate(timeout=60)[1]
        if not closes:
            drain.join()
            os.close(ours)
        assert process.returncode == FAILED and "Traceback (most recent call last)\n  File" not in said
        check_shown(said)


def drained(descriptor: int) -> None:
    """Read what a terminal shows until its other end is closed."""
    try:
        while os.read(descriptor, 4096):
            pass
    except OSError:
        pass


def test_what_only_shows_ends_when_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a reader `say` raises, unless what speaks outlives its streams."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as stream, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", stream)
        with ready():
            with pytest.raises(StdoutClosed):
                say("one")
            say("it goes nowhere by now")
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as stream, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", stream)
        with ready(), outlives():
            say("one")


def test_a_record_of_the_log_has_one_beginning() -> None:
    """A text of several lines cannot make a line that looks like a record of its own."""
    assert in_one_record("a\n2026-01-01 ERROR x").splitlines()[1].startswith("  ")


@pytest.mark.parametrize(
    "name", ["rain", "a\u202eb", "a\nb", "a\tb", "\x1b[31m", "\ud800", "雨", "e\u0301", "a\u200db"]
)
def test_a_table_is_straight_whatever_is_in_it(name: str) -> None:
    """Names are measured as they are shown: escaped where a terminal would obey them, wide ones as two columns."""
    shown = [one_line(each) for each in table(("name", "is"), [(name, "here"), ("x", "here")])]
    assert [columns_of(each.rpartition("here")[0]) for each in shown[1:]] == [
        columns_of(shown[0].rpartition("is")[0])
    ] * 2


def test_each_sign_that_the_terminal_lacks_is_written_in_another_way() -> None:
    """Two next to one another, too: ours by what looks like them, others by their numbers."""
    with ready():
        assert "–…é→".encode("ascii", PLAINLY) == b"-...\\xe9->"
