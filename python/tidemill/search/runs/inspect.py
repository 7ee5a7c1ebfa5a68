"""Questions about a searched space: the view's keys, whether chosen rows are net, and what prevents a plan."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from tidemill.plan.ops import Filter, FinalChange, Net, Opaque, Project, Scan
from tidemill.plan.query import Query
from tidemill.search.choose.chosen import Chosen
from tidemill.search.choose.extract import Extractor
from tidemill.search.space.space import Space
from tidemill.settings import PACKS
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


def unable(space: Space, extractor: Extractor, packs: Collection[str]) -> str:
    """The lowest operator whose delta nothing computes, and why, as "operator: reason". `packs`: those enabled."""
    for tvr in space.memo.tvrs:
        if not space.memo.changed(tvr.number, space.since):
            continue
        if extractor.best(space.memo.change(tvr.number, DELTA, space.since)) is not None:
            continue
        op, _ = tvr.expressions[0]
        if isinstance(op, Scan):
            name = f"scan of {space.memo.query.sources[op.source].name}"
            return f"{name}: {_switched_off(packs, only='delta') or 'it cannot tell what changed'}"
        switched = _switched_off(packs)
        reason = "no rule but recompute applies to it" + (f" while {switched}" if switched else "")
        if isinstance(op, Opaque):
            told = op.reason.replace(f"{op.name} has", "it has")
            return f"{in_words(op.name)}: {told or reason}"
        name = getattr(op, "name", "") or " ".join(x for x in (getattr(op, "kind", ""), type(op).__name__.lower()) if x)
        return f"{name}: {getattr(op, 'reason', '') or reason}"
    return "query: no plan was found"


WORDS: Mapping[str, str] = {
    "UnionLoop": "WITH RECURSIVE",
    "Generate": "a generator function, as explode",
    "Sample": "TABLESAMPLE",
    "LateralJoin": "LATERAL join",
    "RepartitionByExpression": "DISTRIBUTE BY",
    "ScriptTransformation": "TRANSFORM",
    "WithCTE": "WITH",
    "Expand": "GROUPING SETS",
    "Window": "a window function",
    "Offset": "OFFSET",
}
"""Operators of Catalyst as SQL calls them."""


def in_words(name: str) -> str:
    """Returns an operator's name in the words of SQL.

    >>> in_words("UnionLoop"), in_words("MapInPandas")
    ('WITH RECURSIVE', 'map in pandas')
    """
    return WORDS.get(name) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def _switched_off(packs: Collection[str], only: str | None = None) -> str:
    """Returns which switches of packs are off, in words; the empty text if none is."""
    off = [name for name in PACKS if name not in packs and name != "recompute" and only in (None, name)]
    names = [f"spark.tidemill.method.{name}.enabled" for name in off]
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} false" if names else ""
