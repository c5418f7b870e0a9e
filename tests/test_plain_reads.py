"""What a function only reads is told from what it may change, by the byte code of each Python that is here."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest
from test_interpreters import interpreters

from reliable_rx.functions import plain_reads

READ = (
    "out.append(T[x])", "out.append(x in T)", "out.append(T.get(x, 0))", "return [out.append(t) for t in T]",
    "for t in T: out.append(t)", "out.append(len(T))", "out.append(sorted(T)[0])", "out.append(module.T[x])",
    "out.append(x.T[x])", "out.append(T[x] if x in T else 1)", "out.append(T[1:])", "out.append(x * T[x + 1])",
    "out.append(lambda: T[x])", "if T: out.append(1)", "out[x] = T[x] + T[0]", "out[x] = T == out",
    "for t in T.items(): out.append(t)", "out.append(f'{T[x]} {x}')", "out.append(not T)",
)  # fmt: skip
NOT_PROVEN = (
    "T[x] = 1", "T[x] += 1", "T.append(1)", "t = T; t.append(1)", "out.append(helper(T))", "out.append(1); return T",
    "del T[x]", "out.append(T.setdefault(x, 1))", "out.append(lambda: T.append(x))", "module.T[x] = 1", "x.T = out",
    "from m import T; T.append(1)", "(t := T).append(1)", "(T if x else out).append(1)", "(x or T).append(1)",
    "(T, 1)[0].append(1)", "out.append(max([T], key=x))", "out.append(x.m(T))", "out[1 if x else 2] = T", "out[x] = T",
    "out.append(T[x]); T.clear()", "out.append(T[x]); T.sort()", "with T as t: t.append(1)", "out += T, T",
    "out.append(lambda: T[x]); T.pop()", "yield T", "out.append(iter(T))", "a, *b = out, T", "T.extend(out)",
)  # fmt: skip
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from plain_reads import plain_reads
for text in {texts!r}:
    space = {{}}
    exec("def f(x, out, module, helper):\\n    " + text.replace("; ", "\\n    "), space)
    print("T" in plain_reads(space["f"].__code__))
"""


@pytest.mark.parametrize("version", interpreters())
def test_what_is_only_read(version: str, tmp_path: Path) -> None:
    """Each kind of reading is proven, and nothing that may change what is read, or give it to somebody who may."""
    (tmp_path / "plain_reads.py").write_text(Path(plain_reads.__file__).read_text())
    program = textwrap.dedent(PROGRAM.format(texts=READ + NOT_PROVEN))
    ran = subprocess.run(
        [interpreters()[version], "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    found = dict(zip(READ + NOT_PROVEN, ran.stdout.split(), strict=True))
    assert found == {**dict.fromkeys(READ, "True"), **dict.fromkeys(NOT_PROVEN, "False")}
