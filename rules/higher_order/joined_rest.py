from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidemill.memo.memo import Built
from tidemill.plan.expr import Expr
from tidemill.plan.ops import Filter, Join, Project, RowWise, Scan
from tidemill.plan.props import equi_keys
from tidemill.rule.build import join, total
from tidemill.rule.match import Match, Relation
from tidemill.rule.result import Result
from tidemill.rule.rule import rule

FEW = 3
"""Number of inputs that may be joined into one relation in any join; in one of many inputs, half of them may."""


@rule(Join, kind="inner")
def joined_rest(m: Match[Join]) -> Iterator[Result]:
    """An inner join without one of its inputs is a relation of its own, which need not be computed for each change.

    Matches:  R |x| S |x| T on c, S and T linked by an equality, both rows of a source, of one of them only some
    Yields:   delta = dR |x| J.old  +  R.new |x| dJ    with J = S |x| T on the conjuncts of c that read no R
              and J as a state that is worth keeping
              Of several inputs without R each linked part is a J; an input in no J has a term of its own.

    Why: a change of R alone leaves J as it is. If J is kept, dR meets the rows that the filters leave of S |x| T, and
        neither S nor T is read. If S changes too, dS meets T once, for J and the view.
    Unsafe: with J.new beside dR, as a pair that changed on both sides would count twice. Without a filter J has as many
        rows as its tables, and without an equality more: nothing is yielded.
    Citation: [IQP] figure 2b, a hash table of the inputs that stay as they are; [DBToaster] has views of joins too.
    """
    if len(m.inputs) < 3 or not m.of_query or not m.relation.props.reproducible:
        return
    most, linked, selected = max(FEW, len(m.inputs) // 2), _linked(m), [_selected(m, r) for r in m.inputs]
    for alone, one in enumerate(m.inputs):
        condition, inputs, joined = m.op.condition, [one], list[Relation]()
        for part in _parts(linked, alone):
            some = [m.inputs[i] for i in part]
            if 1 < len(part) <= most and any(selected[i] for i in part) and all(selected[i] is not None for i in part):
                within = _within(m, condition, some)
                condition = tuple(c for c in condition if c not in within)
                joined.append(m.derive(Join("inner", within), *some))
            else:
                inputs += some
        yield from map(m.keep, joined)
        if joined and m.relation.changed:
            yield m.delta(_change(m, condition, (*inputs, *joined)))


def _selected(m: Match[Join], relation: Relation) -> bool | None:
    """True for some rows of a source, False for all of them; None for a relation that is more than that."""
    op, inputs = next(m.ways(relation))
    if isinstance(op, Filter | Project | RowWise):
        below = _selected(m, inputs[0])
        return below if below is None else below or isinstance(op, Filter)
    return False if isinstance(op, Scan) else None


def _linked(m: Match[Join]) -> list[set[int]]:
    """By input, the others that an equality links to it."""
    columns = [frozenset(r.columns) for r in m.inputs]
    every = range(len(columns))
    return [{j for j in every if i != j and equi_keys(m.op.condition, columns[i], columns[j], m.query)} for i in every]


def _parts(linked: Sequence[set[int]], alone: int) -> list[list[int]]:
    """The inputs but one, in parts that equalities link."""
    left, parts = set(range(len(linked))) - {alone}, list[list[int]]()
    while left:
        part, near = set[int](), {min(left)}
        while near:
            part |= near
            near = {j for i in near for j in linked[i] & left} - part
        parts.append(sorted(part))
        left -= part
    return parts


def _within(m: Match[Join], condition: Sequence[Expr], inputs: Sequence[Relation]) -> tuple[Expr, ...]:
    """The conjuncts that read columns of these inputs alone."""
    columns = {c for r in inputs for c in r.columns}
    return tuple(c for c in condition if m.read(c) and m.read(c) <= columns)


def _change(m: Match[Join], condition: tuple[Expr, ...], inputs: Sequence[Relation]) -> Built:
    """The change of the join of these inputs: a term for each, new to its left, old to its right."""
    terms = []
    for i, changed in enumerate(inputs):
        before, after = (r.new for r in inputs[:i]), (r.old for r in inputs[i + 1 :])
        terms.append(join("inner", condition, m.relation.columns, *before, changed.delta, *after))
    return total(m.relation.columns, *terms)
