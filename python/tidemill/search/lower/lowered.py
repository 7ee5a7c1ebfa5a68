"""What lowering gives, and what it can read instead of computing."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.wire.nodes import Wire


@dataclass(frozen=True, slots=True)
class Lowered:
    """A wire node, its columns, and the column of its counts (None for a plain bag)."""

    node: Wire
    columns: tuple[int, ...]
    count: int | None


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows that an earlier step wrote: which step, and the fields of the columns."""

    step: str
    columns: tuple[tuple[int, str], ...]
    count: bool
