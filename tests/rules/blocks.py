"""Text blocks that test rules: a command with flags, a query, `----`, what is expected.

    rule expect=linear changed=t
    source 0 t [a: long] rows=1000
    filter [(#0 > 3)]
      scan 0 [#0 := a]
    ----
    delta(0, 1] = filter [(#0 > 3)] <delta of scan>

Commands:
    rule      the rule that the file is named after, alone, over the seeded memo: the forms and links that it yields
    explore   every rule: the forms of every relation, and every way to compute each
    plan      `plan_run`: each step with its wire plan, and the states kept
Flags (several values with commas; a flag may stand several times):
    expect=RULE expect-not=RULE   the rule fires, or does not
    disable=RULE-or-PACK          it is switched off
    with=RULE                     `rule`: others that are at work too
    prefer=PACK                   `plan` takes its way wherever it applies
    changed=SOURCE                names of the sources that changed (all, if the flag is absent; `-`: none)
    mute=SOURCE  lost=SOURCE      it cannot tell its changes; its old snapshot cannot be read
    states=all                    `plan`: every possible state was kept by earlier runs; `rules`: those of rules as well
    first, policy=POLICY          `plan`: the first run; AUTO, INCREMENTAL, STRICT or FULL
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cost_model.default import MODEL
from tidemill.errors import TidemillError
from tidemill.memo.check import check
from tidemill.memo.events import Event
from tidemill.memo.memo import Memo
from tidemill.plan.change import SourceChange
from tidemill.plan.expr import expr_from_json
from tidemill.plan.query import Query
from tidemill.rule.engine import Budget, explore
from tidemill.rule.registry import load_rules
from tidemill.rule.rule import Rule
from tidemill.search.contract.request import PlanRequest
from tidemill.search.service.planner import plan_run
from tidemill.search.space.seed import Seeding, candidates, keep, keep_result
from tidemill.search.space.space import Kept, SpaceRequest, explore_space, normal_query, step_of
from tidemill.settings import PACKS, PlannerSettings
from tidemill.text.parser import parse_query
from tidemill.text.printer import Printer
from tidemill.tvr.timeline import Timeline

SEPARATOR = "----"
KNOWN = {"expect", "expect-not", "disable", "with", "prefer", "changed", "mute", "lost", "states", "first", "policy"}


@dataclass(frozen=True)
class Block:
    """One test: where it stands, its command line, its input, and what it expects."""

    line: int
    command: str
    flags: tuple[tuple[str, str], ...]
    query: str
    expected: str

    @property
    def head(self) -> str:
        return " ".join((self.command, *(f"{k}={v}" if v else k for k, v in self.flags)))

    def values(self, flag: str) -> list[str]:
        return [x for k, v in self.flags if k == flag for x in v.split(",")]


def read_blocks(text: str) -> list[Block]:
    """The blocks of a file. They are parted by blank lines; lines that start with `# ` before one are comments."""
    blocks = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("# "):
            at += 1
            continue
        end = next((i for i in range(at, len(lines)) if not lines[i].strip()), len(lines))
        command, *flags = lines[at].split()
        body = lines[at + 1 : end]
        assert SEPARATOR in body, f"line {at + 1}: a block without {SEPARATOR}"
        split = body.index(SEPARATOR)
        pairs = tuple((k, v) for k, _, v in (f.partition("=") for f in flags))
        assert {k for k, _ in pairs} <= KNOWN, f"line {at + 1}: unknown flag"
        blocks.append(Block(at + 1, command, pairs, "\n".join(body[:split]), "\n".join(body[split + 1 :])))
        at = end
    return blocks


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
    query = normal_query(parse_query(block.query))
    match block.command:
        case "rule":
            rules = [r for r in _rules(block) if r.name in {tested, *block.values("with")}]
            return _explored(block, query, rules, tested)
        case "explore":
            return _explored(block, query, _rules(block))
        case "plan":
            return _planned(block, query)
    raise AssertionError(f"line {block.line}: unknown command {block.command!r}")


def _rules(block: Block) -> list[Rule]:
    off = set(block.values("disable"))
    rules = load_rules()
    assert off <= {r.name for r in rules} | {r.pack for r in rules}, f"line {block.line}: disables what does not exist"
    return [r for r in rules if r.name not in off and r.pack not in off]


def _changes(block: Block, query: Query) -> dict[int, SourceChange]:
    names = {s.name for s in query.sources.values()}
    changed, mute, lost = set(block.values("changed")) - {"-"}, set(block.values("mute")), set(block.values("lost"))
    assert changed | mute | lost <= names, f"line {block.line}: no such source"
    if not block.values("changed"):
        changed = names
    return {
        n: SourceChange(
            changed=s.name in changed,
            old_readable=s.name not in lost,
            rows=s.rows,
            inserts=(s.rows or 1000) / 100,
            deletes=(s.rows or 1000) / 100,
            reason="FILES_REWRITTEN" if s.name in mute else None,
        )
        for n, s in query.sources.items()
    }


# -- rule and explore -------------------------------------------------------------------------------------------------


def _explored(block: Block, query: Query, rules: Sequence[Rule], shown: str = "") -> tuple[str, frozenset[str]]:
    sources = _changes(block, query)
    events: list[Event] = []
    memo = Memo(query, Timeline((replace(step_of(sources), mixed=frozenset()),)), [events.append])
    seeding = Seeding(memo, 1, lambda source, _: sources[source].old_readable)
    root = seeding.query(query.root)
    explore(memo, rules, Budget(seconds=60), check, seeding.snapshots)
    if block.values("states") == ["all"]:
        for candidate in candidates(memo, root, ""):
            keep(memo, candidate, 0, parted=False)
        if memo.changed(root):
            keep_result(memo, root)
    check(memo)
    applied = frozenset(e.rule for e in events if e.kind == "applied")
    return "\n".join(_forms(memo, shown)), applied


def _forms(memo: Memo, rule: str) -> Iterator[str]:
    """Each form of each relation, and how to compute it; only what one rule found, if given."""
    printer = Printer(memo.query)

    def name(group: int) -> str:
        about = memo.group(group).about
        return "" if about is None else f"{about[0]}.{about[1]}"

    def show(group: int, depth: int) -> Iterator[str]:
        """Inner groups are shown whole; those that are forms by name."""
        if name(group):
            yield "  " * depth + name(group)
            return
        for e in memo.group(group).expressions:
            yield "  " * depth + printer.op(e.op)
            for i in e.inputs:
                yield from show(i, depth + 1)

    for tvr in memo.tvrs:
        shown = False
        for form, group in tvr.forms.items():
            for e in memo.group(group).expressions:
                if rule and e.rule != rule:
                    continue
                if not shown:
                    yield f"{tvr.number}: {printer.op(tvr.expressions[0][0])}"
                    shown = True
                yield f"  {tvr.number}.{form} = {printer.op(e.op)}  [{e.rule}]"
                for i in e.inputs:
                    yield from show(i, 2)
    for link in sorted(memo.links, key=str):
        yield f"link {link.kind}: {link.of} -> {link.to}"


# -- plan -------------------------------------------------------------------------------------------------------------


def _planned(block: Block, query: Query) -> tuple[str, frozenset[str]]:
    off = set(block.values("disable"))
    assert off <= set(PACKS), f"line {block.line}: `plan` disables packs only"
    sources = _changes(block, query)
    kept: frozenset[str] = frozenset()
    if block.values("states"):
        every = explore_space(SpaceRequest(query, [sources], 1, Kept(None)), _rules(block), MODEL, Budget(seconds=60))
        kept = frozenset(c.name for c in every.candidates)
    request = PlanRequest(
        query=query,
        policy=next(iter(block.values("policy")), "AUTO"),
        sources=sources,
        states=kept,
        first=any(k == "first" for k, _ in block.flags),
        full_reason=None,
        settings=replace(
            PlannerSettings(time_limit=60),
            packs=frozenset(PACKS) - off,
            prefer=next(iter(block.values("prefer")), None),
        ),
    )
    try:
        plan = plan_run(request)
    except TidemillError as error:
        return f"error: {error}", frozenset()
    names = {s: f"s{i}" for i, s in enumerate(dict.fromkeys((*(s.name for s in plan.states), *sorted(kept))))}
    lines = [plan.kind + (f" ({plan.reason})" if plan.reason else "") + f" by {', '.join(plan.methods) or 'nothing'}"]
    for step in plan.steps:
        lines.append(f"{step.name}: [{', '.join(f'#{c} := {f}' for c, f in step.columns)}]")
        lines.extend(_wire(step.plan, query, 1))
    lines.extend(f"state {s.name}: {s.form} of {s.text}" for s in plan.states)
    text = "\n".join(lines)
    for state, short in names.items():
        text = text.replace(state, short)
    return text, frozenset(used.expression.rule for used in plan.explanation.used)


def _wire(node: dict[str, Any], query: Query, depth: int) -> Iterator[str]:
    """A wire plan, one line per node: its operands in the order of the contract."""
    printer = Printer(query)

    def expr(data: Any) -> str:
        return printer.expr(expr_from_json(data))

    def show(key: str, value: Any) -> str:
        match key:
            case "condition":
                return "[" + ", ".join(map(expr, value)) + "]"
            case "keys" | "aggregates":
                return f"{key}=[" + ", ".join(f"#{c} := {expr(e)}" for c, e in value) + "]"
            case "columns" if node["op"] == "project":
                return "[" + ", ".join(f"#{c}" if e == {"col": c} else f"#{c} := {expr(e)}" for c, e in value) + "]"
            case "columns":
                shown = (c if isinstance(c, list) else [c] for c in value)
                return "[" + ", ".join(f"#{c[0]}" + (f" := {c[1]}" if len(c) > 1 else "") for c in shown) + "]"
            case "count":
                return f"count={expr(value) if isinstance(value, dict) else f'#{value}'}"
            case "limit" | "offset":
                return f"{key}={expr(value)}"
            case "order":
                return "order=[" + ", ".join(f"{expr(e)} {up} {first}" for e, up, first in value) + "]"
            case "kind" | "source" | "name":
                return str(value)
            case _:
                return f"{key}={value}"

    hidden = {"op", "inputs", "from", "to"}
    operands = [show(k, v) for k, v in node.items() if k not in hidden and v is not None]
    yield "  " * depth + " ".join((node["op"], *operands))
    for child in node.get("inputs", ()):
        yield from _wire(child, query, depth + 1)
