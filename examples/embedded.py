"""The library inside an application of yours, without the command line.

python examples/embedded.py
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import ListSource, QueryEvaluator

WORDS = ["the", "same", "words", "come", "again", "and", "again", "and", "the", "same", "answer", "comes", "once"]


def main(directory: Path) -> None:
    query = (
        rx.source("words")
        .group_by(lambda word: word)
        .flat_map(lambda group: group.count().map(lambda count: (group.key, count)))
        .filter(lambda pair: pair[1] > 1)
    )
    with SqliteStore(directory) as store, QueryEvaluator(store) as evaluator:
        evaluator.source("words", ListSource(WORDS))
        evaluator.create("repeated", query)
        evaluator.run()
        for part in evaluator.stream("repeated").read(0, 100):
            print(*part.values, sep="\n")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(Path(folder))
