"""What became of the state of a query that goes over to other code, by path: kept, migrated, dropped, begun afresh."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Report:
    """What became of the state of an edited query, by path."""

    kept: list[str] = field(default_factory=list)
    migrated: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)
    why: dict[str, str] = field(default_factory=dict)
    """For what reason some of them begin afresh whose path and operator are what they were."""
    note: str = ""
    """What is to be said besides, before all else."""
    how: str = "was edited"
    """By what it has come to that."""

    @property
    def lost(self) -> bool:
        """Whether some of the state did not go over as it was."""
        return bool(self.migrated or self.dropped or self.fresh)

    def __str__(self) -> str:
        kept = set(self.kept) - {*self.dropped, *self.fresh}  # what is so in one instance of several is not kept
        parts = [("kept", kept), *((name, getattr(self, name)) for name in ("migrated", "dropped", "fresh"))]
        said = [
            f"{name}: {', '.join(self._told(name, each) for each in sorted(set(paths)))}"
            for name, paths in parts
            if paths
        ]
        return "; ".join([*([self.note] if self.note else ()), *said]) or "no state"

    def _told(self, name: str, path: str) -> str:
        return f"{path} ({self.why[path]})" if name == "fresh" and path in self.why else path
