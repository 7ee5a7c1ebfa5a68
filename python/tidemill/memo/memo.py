"""The memo: relations with their forms, and groups of equivalent expressions.

It has two levels, as in Tempura section 5.1. A `Tvr` is a time-varying relation: the query's operators over other
relations (several when rules find equivalent ones), its derived properties, and a map from form to group. A `Group`
holds the expressions that compute one form: operators over other groups. Expressions are interned, so that equal work
is recognised; groups that are found equal are merged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tidemill.memo.events import Event, EventKind, Reader
from tidemill.plan.clock import mapped
from tidemill.plan.columns import ColumnIds
from tidemill.plan.expr import Timed
from tidemill.plan.ops import Aggregate, Changes, Crossing, Filter, Op, Project, QueryOp, Scan
from tidemill.plan.props import Props, derive
from tidemill.plan.query import Query
from tidemill.plan.tree import Tree
from tidemill.text.printer import Printer
from tidemill.tvr.form import NEW, OLD, Form, FormKind, Link, Span, Time, at, over
from tidemill.tvr.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Ref:
    """A form of a relation, as a leaf of the trees that rules build; its times are symbolic."""

    tvr: int
    form: Form


Built: TypeAlias = "Node | Ref"


@dataclass(frozen=True, slots=True)
class Node:
    """An operator over forms and other nodes, as rules build it; times in operators are symbolic."""

    op: Op
    inputs: tuple[Built, ...] = ()


@dataclass(frozen=True, slots=True)
class Expression:
    """An operator over groups, and the rule that found it."""

    op: Op
    inputs: tuple[int, ...]
    rule: str
    pack: str


@dataclass(slots=True)
class Group:
    """Equivalent expressions. `about` names the form that they compute; None for an inner part of a rule's result."""

    number: int
    about: tuple[int, Form] | None
    expressions: list[Expression] = field(default_factory=list)


@dataclass(slots=True)
class Tvr:
    """A time-varying relation.

    `expressions`: all known ways to write it, the original one first. `found`: for each of them the rule and the pack
    that found it; None for the original.
    """

    number: int
    expressions: list[tuple[QueryOp, tuple[int, ...]]]
    props: Props
    forms: dict[Form, int] = field(default_factory=dict)
    found: list[tuple[str, str] | None] = field(default_factory=lambda: [None])


class Memo:
    """All relations and groups of one planning call.

    Args:
        query: the query being planned.
        timeline: the moments planned, and the transitions between them.
        readers: called with every event.

    Methods that take an interval use the whole timeline by default.
    """

    def __init__(self, query: Query, timeline: Timeline, readers: Sequence[Reader] = ()) -> None:
        self.query = query
        self.columns = ColumnIds(query)
        self.timeline = timeline
        self.tvrs: list[Tvr] = []
        self.groups: list[Group] = []
        self.links: set[Link] = set()
        self.news: set[int] = set()
        """The relations of which a way to write them, a link or a key became known since somebody emptied this."""
        self._readers = readers
        self._tvr_of: dict[tuple[QueryOp, tuple[int, ...]], int] = {}
        self._group_of: dict[tuple[Op, tuple[int, ...]], int] = {}
        self._parent: list[int] = []
        self._read_by: dict[int, set[int]] = defaultdict(set)
        self._absorbed: list[int] = []

    @property
    def heard(self) -> bool:
        """True if there are readers of events; costly descriptions are made only then."""
        return bool(self._readers)

    def emit(
        self, kind: EventKind, rule: str, place: int, detail: str = "", *, new: bool = False, seconds: float = 0.0
    ) -> None:
        """Sends an event to the readers."""
        if self._readers:
            event = Event(kind, rule, place, detail, new, seconds)
            for reader in self._readers:
                reader(event)

    # -- relations ----------------------------------------------------------------------------------------------------

    def register(self, tree: Tree) -> int:
        """The relation of a query's tree; registers all relations below it too."""
        return self.relation(tree.op, tuple(self.register(i) for i in tree.inputs))

    def relation(self, op: QueryOp, inputs: tuple[int, ...]) -> int:
        """The relation of an operator over other relations; the same one each time."""
        key = (op, inputs)
        if key not in self._tvr_of:
            props = derive(op, [self.tvrs[i].props for i in inputs], self.query, self.columns)
            self._tvr_of[key] = len(self.tvrs)
            self.tvrs.append(Tvr(len(self.tvrs), [key], props))
            if self.heard:
                self.emit("relation", "", self._tvr_of[key], self._written(op, inputs))
        return self._tvr_of[key]

    def equate(self, tvr: int, op: QueryOp, inputs: tuple[int, ...], rule: str = "", pack: str = "") -> bool:
        """Records another way to write a relation; returns False if it was known.

        If the other way is already a relation of its own, the two share their forms from then on. The keys of a
        relation are the union of the keys of all ways to write it.

        Raises:
            ValueError: if the relations differ: in their columns, in being reproducible, or in the parts of an
                aggregate.
        """
        key = (op, inputs)
        relation = self.tvrs[tvr]
        known = self._tvr_of.get(key)
        props = derive(op, [self.tvrs[i].props for i in inputs], self.query, self.columns)
        if set(props.columns) != set(relation.props.columns) or (
            relation.props.reproducible and not props.reproducible
        ):
            raise ValueError(f"relation {tvr} is not the same relation as {op} over {inputs}")
        if len({e for e, _ in (*relation.expressions, key) if isinstance(e, Aggregate)}) > 1:
            raise ValueError(f"relation {tvr} cannot have the parts of two aggregates")
        self._learn_keys(relation, props.keys)
        if known is not None:
            return self._unite(tvr, known, rule)
        self._tvr_of[key] = tvr
        relation.expressions.append(key)
        relation.found.append((rule, pack))
        self.news.add(tvr)
        self.emit("added", rule, tvr)
        return True

    def _learn_keys(self, relation: Tvr, keys: frozenset[frozenset[int]]) -> None:
        """Adds keys of a relation to those that are known."""
        if not keys <= relation.props.keys:
            relation.props = replace(relation.props, keys=relation.props.keys | keys)
            self.news.add(relation.number)

    def _written(self, op: Op, inputs: Sequence[int]) -> str:
        """An operator over relations as text."""
        below = f" <- {', '.join(f'R{i}' for i in inputs)}" if inputs else ""
        return f"{Printer(self.query).op(op)}{below}"

    def _unite(self, one: int, other: int, rule: str) -> bool:
        """Makes two equal relations share their forms; returns False if they did already."""
        here, there = self.tvrs[one], self.tvrs[other]
        aggregates = {op for op, _ in (*here.expressions, *there.expressions) if isinstance(op, Aggregate)}
        if here.forms is there.forms or len(aggregates) > 1:
            return False
        self._learn_keys(there, here.props.keys)
        apart = False
        for form, group in there.forms.items():
            if self.find(here.forms.setdefault(form, group)) != self.find(group):
                self._join(here.forms[form], group, rule)
                apart = True
        if apart:
            self._rebuild()
        for tvr in self.tvrs:
            if tvr.forms is there.forms and tvr is not there:
                tvr.forms = here.forms
        there.forms = here.forms
        return True

    def link(self, link: Link) -> bool:
        """Records a typed edge; returns False if it was known."""
        if link in self.links:
            return False
        self.links.add(link)
        self.news.add(link.of)
        return True

    def linked(self, kind: str, of: int) -> int | None:
        """The relation that a link of this kind leads to; None if there is none."""
        return min((link.to for link in self.links if (link.kind, link.of) == (kind, of)), default=None)

    def tree(self, tvr: int) -> Tree:
        """A relation as it was written originally."""
        op, inputs = self.tvrs[tvr].expressions[0]
        return Tree(op, tuple(map(self.tree, inputs)))

    # -- groups -------------------------------------------------------------------------------------------------------

    def changed(self, tvr: int, span: Span | None = None) -> bool:
        """True if a source below a relation changes within an interval."""
        return bool(self.tvrs[tvr].props.sources & self.timeline.changed(span or self.timeline.whole))

    def spans(self, tvr: int) -> Iterator[Span]:
        """The distinct intervals of a relation."""
        return self.timeline.spans(self.tvrs[tvr].props.sources)

    def form(self, tvr: int, form: Form) -> int:
        """The group of a form. Moments between which nothing below changes share one group."""
        relation = self.tvrs[tvr]
        start, end = (None if t is None else self._unchanged_until(relation, t) for t in (form.start, form.end))
        assert end is not None
        form = Form(form.kind, start, end)
        if form not in relation.forms:
            relation.forms[form] = self._new_group((tvr, form))
        return self.find(relation.forms[form])

    def _unchanged_until(self, relation: Tvr, time: Time) -> Time:
        if time not in self.timeline.moments:
            raise ValueError(f"{time} lies outside the timeline")
        return self.timeline.unchanged_until(relation.props.sources, time)

    def moment(self, tvr: int, kind: FormKind, *, old: bool, span: Span | None = None) -> int:
        """The group of a snapshot-like kind at the start or the end of an interval."""
        return self.form(tvr, at(kind, (span or self.timeline.whole).of(OLD if old else NEW)))

    def change(self, tvr: int, kind: FormKind, span: Span | None = None) -> int:
        """The group of a delta-like kind over an interval."""
        return self.form(tvr, over(kind, span or self.timeline.whole))

    def _new_group(self, about: tuple[int, Form] | None) -> int:
        self.groups.append(Group(len(self.groups), about))
        self._parent.append(len(self._parent))
        return self._parent[-1]

    def find(self, group: int) -> int:
        """The number of the group that a group was merged into; its own if it was not merged."""
        while self._parent[group] != group:
            self._parent[group] = group = self._parent[self._parent[group]]
        return group

    def add(self, group: int, node: Built, rule: str, pack: str, span: Span | None = None) -> bool:
        """Adds the tree that a rule built for an interval to a group; inner nodes get groups of their own.

        Returns:
            False if it was known.
        """
        span = span or self.timeline.whole
        if isinstance(node, Ref):
            other = self.form(node.tvr, node.form.placed(span))
            if other == self.find(group):
                return False
            self._merge(group, other, rule)
            return True
        inputs = tuple(self._intern(i, rule, pack, span) for i in node.inputs)
        return self._add(self.find(group), Expression(self.placed(node.op, span), inputs, rule, pack))

    def part(self, op: Op, inputs: tuple[int, ...], rule: str, pack: str) -> int:
        """The group of an operator over groups; the same one each time."""
        inputs = tuple(map(self.find, inputs))
        known = self._group_of.get((op, inputs))
        if known is None:
            known = self._new_group(None)
            self._add(known, Expression(op, inputs, rule, pack))
        return self.find(known)

    def put(self, group: int, op: Op, inputs: tuple[int, ...], rule: str, pack: str) -> bool:
        """Adds an operator over groups to a group; returns False if it was known."""
        return self._add(self.find(group), Expression(op, tuple(map(self.find, inputs)), rule, pack))

    def _intern(self, node: Built, rule: str, pack: str, span: Span) -> int:
        if isinstance(node, Ref):
            return self.form(node.tvr, node.form.placed(span))
        inputs = tuple(self._intern(i, rule, pack, span) for i in node.inputs)
        return self.part(self.placed(node.op, span), inputs, rule, pack)

    def placed(self, op: Op, span: Span) -> Op:
        """An operator at the moments of an interval; moments between which its source does not change are one."""

        def until(source: int, symbol: Time) -> Time:
            return self.timeline.unchanged_until(frozenset({source}), span.of(symbol))

        clock = self.query.clock
        match op:
            case Scan(source, columns, symbol) if symbol is not None:
                return Scan(source, columns, until(source, symbol))
            case Changes(source, columns, start, end):
                return Changes(source, columns, until(source, start), until(source, end))
            case Filter() | Project() if clock is not None:
                return mapped(op, lambda e: Timed(e.number, until(clock, e.at)) if isinstance(e, Timed) else e)
            case Crossing(of, start, end) if clock is not None:
                return Crossing(of, until(clock, start), until(clock, end))
            case _:
                return op

    def _add(self, group: int, expression: Expression) -> bool:
        key = (expression.op, expression.inputs)
        known = self._group_of.get(key)
        if known is not None:
            if self.find(known) == group:
                return False
            self._merge(group, known, expression.rule)
            return True
        self._group_of[key] = group
        self.groups[group].expressions.append(expression)
        self.emit("added", expression.rule, group)
        for i in expression.inputs:
            self._read_by[i].add(group)
        return True

    def _merge(self, keep: int, other: int, rule: str) -> None:
        self._join(keep, other, rule)
        self._rebuild()

    def _join(self, keep: int, other: int, rule: str) -> None:
        keep, other = self._absorb(self.find(keep), self.find(other))
        if self.heard:
            self.emit("merged", rule, keep, f"{self.name(other)} is {self.name(keep)}")

    def _absorb(self, keep: int, other: int) -> tuple[int, int]:
        """Merges two groups, keeping that of a form if there is one; returns the kept and the absorbed group."""
        if self.groups[keep].about is None:
            keep, other = other, keep
        self._parent[other] = keep
        known = {(e.op, e.inputs) for e in self.groups[keep].expressions}
        moved = self.groups[other].expressions
        self.groups[keep].expressions.extend(e for e in moved if (e.op, e.inputs) not in known)
        self.groups[other].expressions = []
        self._absorbed.append(other)
        return keep, other

    def _rebuild(self) -> None:
        """Rewrites inputs after merges; expressions that become equal merge their groups.

        Only groups that read an absorbed one are visited (congruence closure with a list of readers: Downey, Sethi and
        Tarjan, JACM 1980).
        """
        while self._absorbed:
            gone = self._absorbed.pop()
            readers = sorted({self.find(group) for group in self._read_by.pop(gone, ())})
            self._read_by[self.find(gone)].update(readers)
            for reader in readers:
                self._rewrite(self.find(reader))

    def _rewrite(self, group: int) -> None:
        fresh: dict[tuple[Op, tuple[int, ...]], Expression] = {}
        for e in self.groups[group].expressions:
            inputs = tuple(map(self.find, e.inputs))
            if inputs != e.inputs:
                self._group_of.pop((e.op, e.inputs), None)
                e = Expression(e.op, inputs, e.rule, e.pack)
            fresh.setdefault((e.op, inputs), e)
        self.groups[group].expressions = list(fresh.values())
        for key in fresh:
            here = self.find(group)
            known = self.find(self._group_of.setdefault(key, here))
            if known != here:
                self._absorb(min(known, here), max(known, here))

    def live_groups(self) -> Iterator[Group]:
        """The groups that were not merged into others."""
        return (g for g in self.groups if self._parent[g.number] == g.number)

    def group(self, number: int) -> Group:
        """The group of this number, after merges."""
        return self.groups[self.find(number)]

    def name(self, number: int) -> str:
        """A readable name of a group: the form that it computes, or its number."""
        about = self.groups[number].about
        return f"G{number}" if about is None else f"R{about[0]}.{about[1]}"
