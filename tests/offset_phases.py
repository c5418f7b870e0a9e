"""What the phases of a group's way from one offset store to another admit (`checkpoint.offsets.migration`)."""

from __future__ import annotations

from checkpoint.offsets import Phase, Setting

ALLOWED: dict[Phase, tuple[Setting, ...]] = {
    "old": ("old", "dual"), "dual to new": ("old", "dual"), "dual": ("dual",),
    "new": ("dual", "new"), "dual to old": ("dual", "new"),
}  # fmt: skip
"""The settings with which members may be started; the last is where the way leads."""
