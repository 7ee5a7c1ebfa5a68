"""Readers of the event stream: each firing and each decision as a line, and per rule what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tidemill.memo.events import Event


@dataclass
class Trace:
    """Writes what happens, a line each, as it happens: firings that found something, merges, what the search tried.

    `ended`: nothing more is written.
    """

    write: Callable[[str], None]
    ended: bool = False
    spaces: int = 0
    firings: int = 0
    _exploring: bool = False
    _merged: list[str] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        if self.ended:
            return
        match event.kind:
            case "space":
                self.spaces += 1
                self.write(f"space {self.spaces}: {event.detail}")
            case "relation":
                self.write(f"  R{event.place}: {event.detail}")
            case "applied" if event.new:
                self.firings += 1
                self.write(f"  {self.firings}. {event.rule} at R{event.place}: {event.detail}")
                self._write_merged()
            case "merged":
                self._merged.append(f"     {event.detail}: one group, by {event.rule}")
                if not self._exploring:  # otherwise it comes before the result that it is due to
                    self._write_merged()
            case "stopped":
                self._exploring = False
                self._write_merged()
                self.write(f"  exploration ended: {event.detail}")
            case "best":
                self.write(f"  choice: {event.detail}")
            case "kept" | "dropped":
                self.write(f"  {event.kind}: {event.detail}")
            case "matched":
                self._exploring = True
            case "added" | "tried" | "applied":
                pass  # `Counts` reads them

    def _write_merged(self) -> None:
        for line in self._merged:
            self.write(line)
        self._merged.clear()


@dataclass
class Count:
    """Of one rule: ways at which it was tried, those at which it found something, all its results, the expressions that
    were new to the memo, and wall seconds."""

    matched: int = 0
    applied: int = 0
    results: int = 0
    new: int = 0
    seconds: float = 0.0


@dataclass
class Counts:
    """What each rule did, over all spaces of a planning call."""

    rules: dict[str, Count] = field(default_factory=dict)

    def __call__(self, event: Event) -> None:
        if event.kind == "matched":
            self.rules.setdefault(event.rule, Count()).matched += 1
        if event.rule not in self.rules:
            return  # not a rule: what a memo is seeded with
        count = self.rules[event.rule]
        match event.kind:
            case "applied":
                count.results += 1
            case "added":
                count.new += 1
            case "tried":
                count.applied += event.new
                count.seconds += event.seconds
            case _:
                pass

    def table(self) -> Iterator[str]:
        """A line per rule, those first that found most."""
        width = max(map(len, self.rules), default=4)
        yield f"{'rule':<{width}} {'matched':>8} {'applied':>8} {'results':>8} {'new':>8} {'ms':>9}"
        for name, c in sorted(self.rules.items(), key=lambda item: (-item[1].new, -item[1].results, item[0])):
            ms = 1000 * c.seconds
            yield f"{name:<{width}} {c.matched:>8} {c.applied:>8} {c.results:>8} {c.new:>8} {ms:>9.3f}"
