"""Entry point of the command `reliable-rx`: what an interrupt ends before the command line is there to catch it.

Importing the command line and all that it hosts takes most of a second. An interrupt in that time would be a traceback
of the import system, or be swallowed by a module that tries imports. So this module imports nothing of ours before its
handler is there. Rejected: a part of one of the packages (to import it imports the package, and with it the rest).
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from contextlib import suppress

INTERRUPTED = 130


def main() -> int:
    """Run the command line; return the exit code, 130 if it was interrupted before it could begin.

    Where native code of an app ends the process, stderr says which line of Python was at work.
    """
    with suppress(AttributeError, OSError, RuntimeError, ValueError):  # there may be no stderr
        faulthandler.enable()
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))  # nothing is open yet
    from hosting.cli.command import main as run

    try:
        if is_default:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return run()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
