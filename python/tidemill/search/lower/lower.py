"""Lowering: from the chosen expressions to the plan nodes that the JVM decodes (wire format 1).

A signed relation carries its counts in one column. Rewriter operators become plain relational ones here, so that the
JVM knows nothing of deltas, parts or times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidemill.cost.costing import BROADCAST_ROWS
from tidemill.memo.memo import Expression, Memo
from tidemill.plan.expr import ONE, ZERO, Col, Expr, Lit, expr_to_json, fn, type_from_text
from tidemill.plan.grouping import groupable
from tidemill.plan.ops import (
    Aggregate,
    Answer,
    Changes,
    Combine,
    Empty,
    Filter,
    Final,
    FinalChange,
    Gather,
    HeldScan,
    Join,
    KeyFilter,
    Keys,
    Less,
    Limit,
    LookUp,
    Merge,
    Named,
    Negate,
    Net,
    Op,
    Opaque,
    Pad,
    Partial,
    Project,
    ResultScan,
    RowWise,
    Scan,
    StateScan,
    Sum,
    Union,
    Unsign,
    Window,
)
from tidemill.plan.query import COUNT_FIELD, count_field
from tidemill.search.choose.extract import Chosen
from tidemill.search.lower.attribute import AttributeForm
from tidemill.search.lower.join_order import Input, join_order
from tidemill.search.lower.lowered import Lowered, Staged
from tidemill.search.lower.state import StateForm
from tidemill.wire import nodes as wire
from tidemill.wire.nodes import Wire


class NotComputableError(Exception):
    """A group that no allowed expression computes; the message names it."""


class Lowerer:
    """Lowers groups as an extractor chose them.

    Args:
        memo, extractor: what was chosen.
        staged: groups that earlier steps wrote.
        base_rows: rows of each relation before filters, for join orders.
        segments: rows of a state's pieces after the first, by its name.
    """

    def __init__(
        self,
        memo: Memo,
        extractor: Chosen,
        staged: Mapping[int, Staged],
        base_rows: Mapping[int, float],
        segments: Callable[[str], float],
    ) -> None:
        self.memo = memo
        self.extractor = extractor
        self._staged = staged
        self._base_rows = base_rows
        self.state = StateForm(self, segments)
        self._now = extractor.runs[0].moment
        self._fresh = 0
        self.count = memo.columns.fresh("count", "long", COUNT_FIELD)
        self.attribute = AttributeForm(self)
        self.used: list[tuple[int, Expression]] = []
        self.staged_used: list[int] = []

    def group(self, number: int) -> Lowered:
        """A group's rows.

        Raises:
            NotComputableError: if nothing computes it.
        """
        number = self.memo.find(number)
        staged = self._staged.get(number)
        if staged is not None:
            self.staged_used.append(number)
            return self._read_staged(staged)
        choice = self.extractor.best(number)
        if choice is None or choice.expression is None:
            raise NotComputableError(f"group {number}: {self.memo.group(number).about}")
        if (number, choice.expression) not in self.used:
            self.used.append((number, choice.expression))
        return self._op(choice.expression)

    def _read_staged(self, staged: Staged) -> Lowered:
        fields = [(c, f, self.memo.columns.type(c)) for c, f in staged.columns]
        count = self.count if staged.count else None
        if count is not None:
            fields.append((count, COUNT_FIELD, "long"))
        node = {"op": "staged", "step": staged.step, "columns": wire.typed(fields)}
        return Lowered(node, tuple(c for c, _ in staged.columns), count)

    # -- one operator -------------------------------------------------------------------------------------------------

    def _op(self, e: Expression) -> Lowered:
        if not e.inputs:
            return self.leaf(e.op)
        match e.op:
            case Join(kind, condition, exists):
                return self._join(e, kind, condition, exists)
            case KeyFilter(on, equal):
                return self._key_filter(e, on, "<=>" if equal else "=")
            case LookUp():
                return self._look_up(e.op, e.inputs[0])
            case FinalChange(partial):
                return self.attribute.final_change(partial, e, self._unmerged(e.inputs[0]), self.group(e.inputs[1]))
        if (merged := self.state.merged(e)) is not None:
            return merged
        inputs = [self.group(i) for i in e.inputs]
        match e.op:
            case Filter(condition):
                return Lowered(wire.where(condition, inputs[0].node), inputs[0].columns, inputs[0].count)
            case Project(named):
                return self._project(named, inputs[0])
            case Union(columns, branches):
                return self.union(columns, list(zip(branches, inputs, strict=True)))
            case Sum():
                columns = inputs[0].columns
                return self.union(columns, [(columns, self.signed(i)) for i in inputs])
            case Negate():
                return self._negate(inputs[0])
            case Net(columns):
                return self._net(columns, self.signed(inputs[0]))
            case Unsign(columns):
                return self.unsign(columns, inputs[0])
            case Less(columns):
                change = self._negate(inputs[1])
                both = self.union(columns, [(columns, self.signed(inputs[0])), (columns, change)])
                return self.unsign(columns, self._net(columns, both))
            case Aggregate(keys, calls):
                self._plain(inputs[0], "aggregate")
                return self._aggregate(keys, calls, inputs[0].node)
            case Partial():
                return self.attribute.partial(e.op, inputs[0])
            case Merge(partial):
                return self.attribute.merge(partial, inputs)
            case Combine():
                return self.attribute.combine(e.op, inputs[0])
            case Final(partial):
                return self.attribute.final(partial, inputs[0])
            case Gather(partial):
                return self.attribute.gather(partial, inputs)
            case Answer(partial, calls):
                return self.attribute.answer(partial, calls, inputs[0])
            case Keys(branches):
                return self._keys(branches, inputs)
            case Pad(nulls):
                padded = tuple((c, wire.null_of(t)) for c, t in nulls)
                return self._project((*wire.same(inputs[0].columns), *padded), inputs[0])
            case Limit(limit, offset, order):
                self._plain(inputs[0], "limit")
                limited: Wire = {
                    "op": "limit",
                    "limit": expr_to_json(limit),
                    "offset": expr_to_json(offset) if offset else None,
                    "order": [wire.sort_key(k) for k in order],
                    "inputs": [inputs[0].node],
                }
                return Lowered(limited, inputs[0].columns, None)
            case RowWise(node=number, columns=columns):
                return self._kept_in_jvm(number, columns, inputs, inputs[0].count)
            case Window(node=number, columns=columns):
                self._plain(inputs[0], "window")
                return self._kept_in_jvm(number, columns, inputs, None)
            case Opaque(node=number, columns=columns, children=children):
                return self._kept_in_jvm(number, columns, inputs, None, children)
        raise TypeError(f"{type(e.op).__name__} cannot be lowered")

    def _kept_in_jvm(
        self, number: int, columns: tuple[int, ...], inputs: Sequence[Lowered], count: int | None, children: int = 1
    ) -> Lowered:
        """An operator by its number there; counts go through it as one column more."""
        shown = (*columns, count) if count is not None else columns
        node: Wire = {"op": "opaque", "node": number, "children": children, "columns": list(shown)}
        return Lowered({**node, "inputs": [i.node for i in inputs]}, columns, count)

    def chosen(self, number: int) -> Expression | None:
        """What computes a group; None if an earlier step wrote it."""
        number = self.memo.find(number)
        choice = None if number in self._staged else self.extractor.best(number)
        return choice.expression if choice is not None else None

    def _unmerged(self, number: int) -> Lowered:
        """An attribute form for a reader that merges anyway: its pieces, where it is a merge of pieces."""
        number = self.memo.find(number)
        e = self.chosen(number)
        if e is None or not isinstance(e.op, Merge):
            return self.group(number)
        if (number, e) not in self.used:
            self.used.append((number, e))
        return self.attribute.pieces(e.op.partial, [self.group(i) for i in e.inputs])

    def compacted(self, scan: StateScan, partial: Partial | None, first: int) -> Lowered:
        """The pieces of a state from number `first` on, merged.

        Only with the base among them is a group whose rows add up to none gone; in segments alone it may take away
        from what the base has.
        """
        leaf = self.leaf(scan)
        pieces = Lowered({**leaf.node, "first": first}, leaf.columns, leaf.count)
        if partial is None:
            return self.net(pieces)
        merged = self.attribute.merge(partial, [pieces])
        if first > 0 or not partial.keys:
            return merged
        return Lowered(wire.where((fn(">", Col(partial.count), ZERO),), merged.node), merged.columns, None)

    def leaf(self, op: Op) -> Lowered:
        """An operator without inputs."""
        match op:
            case Scan(source, columns, time):
                assert time is not None
                time = min(time, self._now)  # what stands still is there now
                node = {"op": "scan", "source": source, "columns": [list(c) for c in columns], "at": time}
                return Lowered(node, tuple(c for c, _ in columns), None)
            case Changes(source, columns, start, end):
                end = min(end, self._now)
                node = {"op": "changes", "source": source, "columns": [list(c) for c in columns], "count": self.count}
                return Lowered({**node, "from": start, "to": end}, tuple(c for c, _ in columns), self.count)
            case Empty(ids, signed):
                shown = (*ids, self.count) if signed else ids
                node = {"op": "empty", "columns": [[c, self._type(c)] for c in shown]}
                return Lowered(node, ids, self.count if signed else None)
            case StateScan(name, form, typed, part):
                signed = form == "snapshot"
                fields = [*typed, (self.count, COUNT_FIELD, "long")] if signed else list(typed)
                node = {"op": "state", "name": name, "columns": wire.typed(fields), **({"part": part} if part else {})}
                return Lowered(node, tuple(c for c, _, _ in typed), self.count if signed else None)
            case HeldScan(typed):
                fields = [*typed, (self.count, count_field(f for _, f, _ in typed), "long")]
                return Lowered({"op": "held", "columns": wire.typed(fields)}, tuple(c for c, _, _ in typed), self.count)
            case Opaque(node=number, columns=columns):
                return self._kept_in_jvm(number, columns, [], None, 0)
            case ResultScan(typed):
                return Lowered({"op": "result", "columns": wire.typed(typed)}, tuple(c for c, _, _ in typed), None)
        raise TypeError(f"{type(op).__name__} is no leaf")

    def _type(self, column: int) -> Any:
        return type_from_text(self.memo.columns.type(column))

    def column(self, kind: str, name: str) -> int:
        """A column that only this plan knows."""
        self._fresh += 1
        return self.memo.columns.fresh(("lowering", self._fresh), kind, name)

    def _plain(self, lowered: Lowered, what: str) -> None:
        if lowered.count is not None:
            raise TypeError(f"{what} over a signed relation")

    def signed(self, lowered: Lowered) -> Lowered:
        """A relation with counts; a plain row counts 1."""
        if lowered.count is not None:
            return lowered
        return Lowered(
            wire.project((*wire.same(lowered.columns), (self.count, ONE)), lowered.node), lowered.columns, self.count
        )

    def unsign(self, columns: tuple[int, ...], lowered: Lowered) -> Lowered:
        """Each row as often as its count says."""
        node = {"op": "replicate", "count": expr_to_json(Col(self.count)), "inputs": [lowered.node]}
        return self._project(wire.same(columns), Lowered(node, columns, None))

    def _project(self, columns: Named, lowered: Lowered) -> Lowered:
        kept: Named = columns if lowered.count is None else (*columns, (lowered.count, Col(lowered.count)))
        return Lowered(wire.project(kept, lowered.node), tuple(c for c, _ in columns), lowered.count)

    def _negate(self, lowered: Lowered) -> Lowered:
        count: Expr = Lit(-1, "long") if lowered.count is None else fn("negative", Col(lowered.count))
        node = wire.project((*wire.same(lowered.columns), (self.count, count)), lowered.node)
        return Lowered(node, lowered.columns, self.count)

    def union(self, columns: tuple[int, ...], branches: Sequence[tuple[tuple[int, ...], Lowered]]) -> Lowered:
        """The rows of several relations, each with its columns in the order of the result's; signed if one is."""
        signed = any(part.count is not None for _, part in branches)
        parts = [(ids, self.signed(part) if signed else part) for ids, part in branches]
        extra = (self.count,) if signed else ()
        node = {
            "op": "union",
            "columns": [*columns, *extra],
            "from": [[*ids, *extra] for ids, _ in parts],
            "inputs": [part.node for _, part in parts],
        }
        return Lowered(node, columns, self.count if signed else None)

    def net(self, lowered: Lowered) -> Lowered:
        """One row per row value with its summed count."""
        return self._net(lowered.columns, self.signed(lowered))

    def _net(self, columns: tuple[int, ...], lowered: Lowered) -> Lowered:
        keys: list[tuple[int, Expr]] = []
        carried: list[tuple[int, Expr]] = []
        for c in columns:
            by = groupable(c, self.memo.columns.type(c))
            if by == Col(c):
                keys.append((c, by))
            else:
                keys.append((self.column("string", "net"), by))
                carried.append((c, fn("any_value", Col(c))))
        counts: list[tuple[int, Expr]] = [(self.count, fn("sum", Col(self.count)))]
        node = wire.aggregate(keys, [*counts, *carried], lowered.node)
        node = wire.where((fn("not", fn("=", Col(self.count), ZERO)),), node)
        if carried:
            node = wire.project((*wire.same(columns), (self.count, Col(self.count))), node)
        return Lowered(node, columns, self.count)

    def _aggregate(self, keys: Named, calls: Named, node: Wire) -> Lowered:
        return Lowered(wire.aggregate(keys, calls, node), tuple(c for c, _ in (*keys, *calls)), None)

    # -- joins --------------------------------------------------------------------------------------------------------

    def _join(self, e: Expression, kind: str, condition: tuple[Expr, ...], exists: int | None) -> Lowered:
        inputs = [self.group(i) for i in e.inputs]
        if kind == "inner":
            return self._inner(e, inputs, condition)
        left, right = inputs
        columns: tuple[int, ...] = left.columns
        if kind in {"left", "full"}:
            columns = (*left.columns, *right.columns)
        if exists is not None:
            columns = (*left.columns, exists)
        small = self.extractor.rows(e.inputs[1]) <= BROADCAST_ROWS and right.count is not None
        node = wire.join(kind, condition, left.node, right.node, "right" if small and kind != "full" else None, exists)
        return Lowered(node, columns, left.count)

    def _inner(self, e: Expression, inputs: Sequence[Lowered], condition: tuple[Expr, ...]) -> Lowered:
        parts = [
            Input(
                frozenset(x.columns), self.extractor.rows(i), self._base(i), x.count is not None or self._is_change(i)
            )
            for i, x in zip(e.inputs, inputs, strict=True)
        ]
        first, steps = join_order(self.memo.query, parts, condition)
        node = inputs[first].node
        for step in steps:
            broadcast = "left" if step.broadcast else None
            node = wire.join("inner", step.condition, node, inputs[step.input].node, broadcast)
        count = self.count if any(x.count is not None for x in inputs) else None
        return Lowered(node, tuple(c for x in inputs for c in x.columns), count)

    def _is_change(self, group: int) -> bool:
        about = self.memo.group(group).about
        return about is not None and about[1].kind.interval

    def _base(self, group: int) -> float:
        about = self.memo.group(group).about
        return self._base_rows.get(about[0], 1.0) if about else self.extractor.rows(group)

    def _key_filter(self, e: Expression, on: tuple[tuple[Expr, int], ...], equal: str) -> Lowered:
        rows, wanted = (self.group(i) for i in e.inputs)
        condition = tuple(fn(equal, expr, Col(c)) for expr, c in on)
        small = self.extractor.rows(e.inputs[1]) <= BROADCAST_ROWS
        return Lowered(
            wire.join("semi", condition, rows.node, wanted.node, "right" if small else None), rows.columns, rows.count
        )

    def _look_up(self, op: LookUp, wanted: int) -> Lowered:
        """A state's rows of keys that an earlier step wrote; its leaf says which, so that Spark can skip the others.

        Raises:
            NotComputableError: if none did.
        """
        staged = self._staged.get(self.memo.find(wanted))
        if staged is None:
            raise NotComputableError(f"group {wanted}: no step has written the keys that are looked up")
        fields, (first, key) = dict(staged.columns), op.on[0]
        assert isinstance(first, Col)
        leaf, keys = self.leaf(op.scan), self.group(wanted)
        among = {"column": first.id, "step": staged.step, "field": fields[key], "nulls": op.nulls}
        rows = Lowered({**leaf.node, "among": among}, leaf.columns, leaf.count)
        return self.state.having(rows, op.on, keys, op.nulls, broadcast=self.extractor.rows(wanted) <= BROADCAST_ROWS)

    def _keys(self, branches: tuple[Named, ...], inputs: Sequence[Lowered]) -> Lowered:
        columns = tuple(c for c, _ in branches[0])
        parts = [
            (tuple(c for c, _ in named), Lowered(wire.project(named, x.node), tuple(c for c, _ in named), None))
            for named, x in zip(branches, inputs, strict=True)
        ]
        united = parts[0][1] if len(parts) == 1 else self.union(columns, parts)
        return self._aggregate(wire.same(columns), (), united.node)
