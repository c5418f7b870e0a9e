"""The command line: `reliable-rx run`, `inspect`, `tail`, `demo`, `export`, `node`, `status`, `offsets`.

command.py        arguments, and errors as one sentence with a remedy
group_commands.py the arguments of the last four
loading.py        MODULE:APP to an `App`
run.py            host an app until its sources end, or until it is told to stop
display.py        what is going on: a live view on a terminal, lines elsewhere
inspect_store.py  what is in a store
tail.py           what is in a stream
bulk.py           what is in a source, as files
groups.py         finding a group, and what its app says of it
node.py           host the partitions that fall to this process
status.py         who is in a group, who has what, who waits
store_status.py   what has failed in a store, and what the process on it says
mend.py           running a failed query again, ending one
holders.py        who keeps streams from being forgotten; group_holders.py: in a group
offsets.py        where groups have come to; setting and moving that
terminal.py       where all of them write
wording.py        numbers, times and tables for people
"""

from hosting.cli.command import main

__all__ = ["main"]
