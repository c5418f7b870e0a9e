"""The command line: `reliable-rx run`, `inspect`, `tail`, `demo`.

command.py        arguments, and errors as one sentence with a remedy
loading.py        MODULE:APP to an `App`
run.py            host an app until its sources end, or until it is told to stop
display.py        what is going on: a live view on a terminal, lines elsewhere
inspect_store.py  what is in a store
tail.py           what is in a stream
wording.py        numbers, times and tables for people
"""

from hosting.cli.command import main

__all__ = ["main"]
