"""Print, as JSON, the digests of the syntax trees of all functions in some files: what one interpreter tells of them.

A process of its own for each interpreter (`test_interpreters.py`).
"""

import json
import sys
from pathlib import Path

from hosting.engine.code_text import INLINED, _described, _node_of, _parsed
from reliable_rx.functions.code_digest import joined


def trees_in(path: str) -> dict[str, list[str]]:
    """Return the digests by name; names under which there is a function whose tree cannot be told are left out."""
    nodes, codes = _parsed(Path(path).read_text(), path)
    found = dict[str, set[str | None]]()
    for name, those in codes.items():
        if not name.endswith(">") or name.endswith("<lambda>"):
            told = (_node_of(each, nodes) for each in those)
            trees = {None if each is None else joined(_described(each)) for each in told}
            found.setdefault(f"{path} {INLINED.sub('', name)}", set()).update(trees)
    return {name: sorted(each for each in trees if each) for name, trees in found.items() if None not in trees}


if __name__ == "__main__":
    sys.stdout.write(json.dumps({name: trees for path in sys.argv[1:] for name, trees in trees_in(path).items()}))
