"""Questions about a searched space: the view's keys, whether chosen rows are net, what stands in a plan's way."""

from __future__ import annotations

from tidemill.plan.ops import Filter, FinalChange, Net, Project, Scan
from tidemill.plan.query import Query
from tidemill.search.choose.extract import Chosen, Extractor
from tidemill.search.space.space import Space
from tidemill.tvr.form import DELTA


def view_keys(query: Query, found: Space) -> tuple[str, ...] | None:
    names = dict(query.output)
    keys = [k for k in found.memo.tvrs[found.root].props.keys if k and k <= names.keys()]
    if not keys:
        return None
    return tuple(n for c, n in query.output if c in min(keys, key=len))


def is_net(found: Space, extractor: Chosen, group: int) -> bool:
    """True if the chosen rows of a delta hold each row value once."""
    choice = extractor.best(group)
    if choice is None or choice.expression is None:
        return True
    e = choice.expression
    match e.op:
        case Net() | FinalChange():
            return True
        case Filter():
            return is_net(found, extractor, e.inputs[0])
        case Project(columns):
            kept = {getattr(x, "id", None) for _, x in columns}
            below = found.memo.group(e.inputs[0]).about
            covers = below is not None and set(found.memo.tvrs[below[0]].props.columns) <= kept
            return covers and is_net(found, extractor, e.inputs[0])
        case _:
            return False


def unable(found: Space, extractor: Extractor) -> str:
    """The lowest operator whose delta nothing computes, and why, as "operator: reason"."""
    for tvr in found.memo.tvrs:
        if not found.memo.changed(tvr.number, found.since):
            continue
        if extractor.best(found.memo.change(tvr.number, DELTA, found.since)) is not None:
            continue
        op, _ = tvr.expressions[0]
        if isinstance(op, Scan):
            return f"scan of {found.memo.query.sources[op.source].name}: it cannot tell what changed"
        reason = getattr(op, "reason", "") or "no rule but recompute applies to it"
        name = getattr(op, "name", "") or " ".join(x for x in (getattr(op, "kind", ""), type(op).__name__.lower()) if x)
        return f"{name}: {reason}"
    return "query: no plan was found"
