"""The forms of a query's relations, and all ways to compute each: by all rules, or by one rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidemill.debug.blocks import SECONDS, Block, BlockError, changes_of, query_of, rules_of
from tidemill.memo.check import check
from tidemill.memo.events import Reader
from tidemill.memo.memo import Memo
from tidemill.rule.engine import Budget, explore
from tidemill.search.space.seed import Seeding, candidates, keep, keep_result
from tidemill.search.space.space import transition_of
from tidemill.text.printer import Printer
from tidemill.tvr.timeline import Timeline


def forms(block: Block, rule: str = "", readers: Sequence[Reader] = ()) -> str:
    """The forms that rules find for a block's query, as text; the memo is checked after each firing.

    `rule`: only this rule is applied, with those that the block admits, and only its results are shown.

    Raises:
        BlockError: if the block cannot be performed, or there is no such rule.
        RuleFailedError: if a rule raises.
    """
    query, rules = query_of(block), rules_of(block)
    if rule:
        if all(r.name != rule for r in rules) and rule not in block.values("disable"):
            raise BlockError(f"line {block.line}: there is no rule {rule}")
        rules = [r for r in rules if r.name in {rule, *block.values("with")}]
    sources = changes_of(block, query)
    memo = Memo(query, Timeline((replace(transition_of(sources), mixed=frozenset()),)), readers)
    seeding = Seeding(memo, 1, lambda source, _: sources[source].old_readable)
    root = seeding.query(query.root)
    explore(memo, rules, Budget(seconds=SECONDS), check, seeding.snapshots)
    if block.values("states") == ["all"]:
        for candidate in candidates(memo, root, ""):
            keep(memo, candidate, 0, parted=False)
        if memo.changed(root):
            keep_result(memo, root)
    check(memo)
    return "\n".join(_forms(memo, rule))


def _forms(memo: Memo, rule: str) -> Iterator[str]:
    """Each form of each relation with its expressions; only those found by `rule`, if it is given."""
    printer = Printer(memo.query)

    def name(group: int) -> str:
        about = memo.group(group).about
        return "" if about is None else f"{about[0]}.{about[1]}"

    def show(group: int, depth: int) -> Iterator[str]:
        """A line per expression; inner groups are expanded, forms are shown by name."""
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
    links = sorted(memo.links, key=str)  # several packs may propose to keep the same relation
    yield from dict.fromkeys(f"link {link.kind}: {link.of} -> {link.to}" for link in links)
