"""Questions about a searched space: the view's keys, whether chosen rows are net, and what prevents a plan."""

from __future__ import annotations

from tidemill.plan.ops import Filter, FinalChange, Net, Project, Scan
from tidemill.plan.query import Query
from tidemill.search.choose.chosen import Chosen
from tidemill.search.choose.extract import Extractor
from tidemill.search.space.space import Space
from tidemill.tvr.form import DELTA


def view_keys(query: Query, space: Space) -> tuple[str, ...] | None:
    """Names of the columns of a smallest key of the view; None if no key is known."""
    names = dict(query.output)
    keys = [k for k in space.memo.tvrs[space.root].props.keys if k and k <= names.keys()]
    if not keys:
        return None
    return tuple(n for c, n in query.output if c in min(keys, key=len))


def is_net(space: Space, extractor: Chosen, group: int) -> bool:
    """True if the chosen rows of a delta hold each distinct row once."""
    choice = extractor.best(group)
    if choice is None or choice.expression is None:
        return True
    e = choice.expression
    match e.op:
        case Net() | FinalChange():
            return True
        case Filter():
            return is_net(space, extractor, e.inputs[0])
        case Project(columns):
            kept = {getattr(x, "id", None) for _, x in columns}
            below = space.memo.group(e.inputs[0]).about
            covers = below is not None and set(space.memo.tvrs[below[0]].props.columns) <= kept
            return covers and is_net(space, extractor, e.inputs[0])
        case _:
            return False


def unable(space: Space, extractor: Extractor) -> str:
    """The lowest operator whose delta nothing computes, and why, as "operator: reason"."""
    for tvr in space.memo.tvrs:
        if not space.memo.changed(tvr.number, space.since):
            continue
        if extractor.best(space.memo.change(tvr.number, DELTA, space.since)) is not None:
            continue
        op, _ = tvr.expressions[0]
        if isinstance(op, Scan):
            return f"scan of {space.memo.query.sources[op.source].name}: it cannot tell what changed"
        reason = getattr(op, "reason", "") or "no rule but recompute applies to it"
        name = getattr(op, "name", "") or " ".join(x for x in (getattr(op, "kind", ""), type(op).__name__.lower()) if x)
        return f"{name}: {reason}"
    return "query: no plan was found"
