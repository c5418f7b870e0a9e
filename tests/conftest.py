"""How Hypothesis runs here: new examples every time, and whoever finds one prints what repeats it.

Hypothesis itself draws the same examples for ever where it sees that it runs unattended; then a bug that the first
examples miss is never found.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("ci", derandomize=False, print_blob=True, deadline=None)
settings.load_profile("ci")
