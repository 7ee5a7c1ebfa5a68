"""Performs the text blocks that test rules (their format: `tidemill.debug.blocks`), and rewrites what they expect."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidemill.debug import blocks, wire_plan
from tidemill.debug.blocks import Block, request_of
from tidemill.debug.forms import forms
from tidemill.errors import TidemillError
from tidemill.memo.events import Event
from tidemill.search.service.planner import plan_run


def read_blocks(text: str) -> list[Block]:
    """The blocks of a file, each of which says what it expects."""
    found = blocks.read_blocks(text)
    for block in found:
        assert block.expected is not None, f"line {block.line}: a block without {blocks.SEPARATOR}"
    return found


def rewrite(path: Path, results: Sequence[tuple[Block, str]]) -> None:
    """Put what came out where what was expected stood."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for block, result in reversed(results):
        start = block.line + block.query.count("\n") + 2 if block.query else block.line + 1
        old = block.expected.count("\n") + 1 if block.expected else 0
        lines[start : start + old] = result.splitlines()
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def perform(block: Block, tested: str) -> tuple[str, frozenset[str]]:
    """What a block gives, and the rules that yielded something."""
    match block.command:
        case "rule" | "explore":
            events: list[Event] = []
            text = forms(block, tested if block.command == "rule" else "", [events.append])
            return text, frozenset(e.rule for e in events if e.kind == "applied")
        case "plan":
            request = request_of(block)
            try:
                plan = plan_run(request)
            except TidemillError as error:
                return f"error: {error}", frozenset()
            text = wire_plan.numbered(wire_plan.steps(plan), plan, request.states)
            return text, frozenset(used.expression.rule for used in plan.explanation.used)
    raise AssertionError(f"line {block.line}: unknown command {block.command!r}")
