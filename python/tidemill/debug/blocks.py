"""Text blocks: a command with flags, a query, and in tests `----` and the expected output.

    rule expect=linear changed=t
    source 0 t [a: long] rows=1000
    filter [(#0 > 3)]
      scan 0 [#0 := a]
    ----
    delta(0, 1] = filter [(#0 > 3)] <delta of scan>

Commands:
    rule      one rule alone, over the seeded memo: the forms and links that it yields
    explore   every rule: the forms of every relation, and every way to compute each
    plan      `plan_run`: each step with its wire plan, and the states kept
Flags (several values with commas; a flag may occur several times):
    expect=RULE expect-not=RULE   tests: the rule fires, or does not
    disable=RULE-or-PACK          the rule or pack is switched off
    with=RULE                     `rule`: other rules that are applied too
    prefer=PACK                   `plan` uses the pack's ways wherever they apply
    changed=SOURCE                names of the sources that changed (all, if the flag is absent; `-`: none)
    mute=SOURCE  lost=SOURCE      its change is unknown; its old snapshot cannot be read
    growing=SOURCE                no row leaves it
    states=all                    `plan`: earlier runs kept every possible state; `rules`: those that rules propose too
    first, policy=POLICY          `plan`: the first run; AUTO, INCREMENTAL, STRICT or FULL
    rules=FOLDER                  further packs, as in spark.tidemill.rules.paths
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from tidemill.cost.models import cost_model
from tidemill.plan.change import SourceChange
from tidemill.plan.kinds import one_of
from tidemill.plan.query import Query
from tidemill.rule.engine import Budget
from tidemill.rule.registry import load_rules
from tidemill.rule.rule import Rule
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.run_kinds import POLICIES
from tidemill.search.space.space import Kept, SpaceRequest, explore_space, normal_query
from tidemill.settings import PACKS, PlannerSettings
from tidemill.text.parser import parse_query

SEPARATOR = "----"
FLAGS = {
    "disable": "a rule or a pack that is switched off (plan, steps: a pack)",
    "with": "rule: another rule that is at work too",
    "prefer": "a pack whose way is taken wherever it applies",
    "changed": "a source that changed (-: none); without it all have",
    "mute": "a source that cannot tell its changes",
    "lost": "a source whose old snapshot cannot be read",
    "growing": "a source that no row leaves",
    "states": "all: every possible state was kept by earlier runs",
    "first": "the view was never filled",
    "policy": "AUTO, INCREMENTAL, STRICT or FULL",
    "rules": "a folder of further rules",
}
"""The flags of commands, with their meaning."""
TEST_FLAGS = {"expect", "expect-not"}
SECONDS = 60.0
"""Time limit of searches, large enough that results do not depend on the machine."""


class BlockError(Exception):
    """A block that cannot be read or performed; the message names its line."""


@dataclass(frozen=True)
class Block:
    """A block: its first line (from 1), its command line, its query, and the expected output (None if absent)."""

    line: int
    command: str
    flags: tuple[tuple[str, str], ...]
    query: str
    expected: str | None

    @property
    def head(self) -> str:
        """The command line."""
        return " ".join((self.command, *(f"{k}={v}" if v else k for k, v in self.flags)))

    def values(self, flag: str) -> list[str]:
        """All values of a flag."""
        return [x for k, v in self.flags if k == flag for x in v.split(",")]

    def value(self, flag: str) -> str | None:
        """The first value of a flag; None without it."""
        return next(iter(self.values(flag)), None)

    def has(self, flag: str) -> bool:
        """True if the block has the flag, with or without a value."""
        return any(k == flag for k, _ in self.flags)

    def told(self, flags: Sequence[tuple[str, str]]) -> Block:
        """The block with other values of these flags."""
        names = {k for k, _ in flags}
        return replace(self, flags=(*(f for f in self.flags if f[0] not in names), *flags))


def read_blocks(text: str) -> list[Block]:
    """The blocks of a file. Blank lines separate them; lines before a block that start with `# ` are comments.

    Raises:
        BlockError: for a flag that does not exist.
    """
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
        split = body.index(SEPARATOR) if SEPARATOR in body else len(body)
        pairs = tuple((k, v) for k, _, v in (f.partition("=") for f in flags))
        if unknown := {k for k, _ in pairs} - FLAGS.keys() - TEST_FLAGS:
            raise BlockError(f"line {at + 1}: unknown flag {', '.join(sorted(unknown))}")
        expected = "\n".join(body[split + 1 :]) if split < len(body) else None
        blocks.append(Block(at + 1, command, pairs, "\n".join(body[:split]), expected))
        at = end
    return blocks


def query_of(block: Block) -> Query:
    """The block's query in the planner's normal form.

    Raises:
        BlockError: if it cannot be read.
    """
    try:
        return normal_query(parse_query(block.query))
    except (ValueError, LookupError) as error:
        raise BlockError(f"line {block.line}: {error}") from error


def rules_of(block: Block) -> list[Rule]:
    """The rules that are switched on.

    Raises:
        BlockError: if the block disables a rule or pack that does not exist.
    """
    off = set(block.values("disable"))
    rules = load_rules(tuple(block.values("rules")))
    if unknown := off - {r.name for r in rules} - {r.pack for r in rules}:
        raise BlockError(f"line {block.line}: disables what does not exist: {', '.join(sorted(unknown))}")
    return [r for r in rules if r.name not in off and r.pack not in off]


def changes_of(block: Block, query: Query) -> dict[int, SourceChange]:
    """The change of each source: one row of a hundred is inserted, and one deleted if the source is not growing.

    Raises:
        BlockError: if a flag names a source that the query does not have.
    """
    names = {s.name for s in query.sources.values()}
    changed, mute, lost = set(block.values("changed")) - {"-"}, set(block.values("mute")), set(block.values("lost"))
    growing = set(block.values("growing"))
    if unknown := (changed | mute | lost | growing) - names:
        raise BlockError(f"line {block.line}: no such source: {', '.join(sorted(unknown))}")
    if not block.has("changed"):
        changed = names
    return {
        n: SourceChange(
            changed=s.name in changed,
            old_readable=s.name not in lost,
            rows=s.rows,
            inserts=(s.rows or 1000) / 100,
            deletes=0.0 if s.name in growing else (s.rows or 1000) / 100,
            reason="FILES_REWRITTEN" if s.name in mute else None,
        )
        for n, s in query.sources.items()
    }


def request_of(block: Block) -> PlanRequest:
    """The planner's request that a block describes.

    Raises:
        BlockError: if the block disables a single rule, or prefers a pack that does not exist.
    """
    query, off = query_of(block), set(block.values("disable"))
    packs = {*PACKS, *(PurePath(folder).name for folder in block.values("rules"))}
    if unknown := off - packs:
        raise BlockError(f"line {block.line}: a plan is made without packs, not rules: {', '.join(sorted(unknown))}")
    prefer = block.value("prefer")
    if prefer is not None and prefer not in packs - off:
        raise BlockError(f"line {block.line}: there is no pack {prefer}")
    sources = changes_of(block, query)
    kept: frozenset[str] = frozenset()
    if block.has("states"):
        model, budget = cost_model("default"), Budget(seconds=SECONDS)
        every = explore_space(SpaceRequest(query, [sources], 1, Kept(None)), rules_of(block), model, budget)
        kept = frozenset(c.name for c in every.candidates)
    return PlanRequest(
        query=query,
        policy=one_of(POLICIES, block.value("policy") or "AUTO", "policy"),
        sources=sources,
        states=kept,
        first=block.has("first"),
        full_reason=None,
        settings=replace(
            PlannerSettings(time_limit=SECONDS),
            packs=frozenset(packs) - off,
            prefer=prefer,
            rules_paths=tuple(block.values("rules")),
        ),
    )
