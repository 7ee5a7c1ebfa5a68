"""A plan in plain words: the paragraph with which PLAN begins, and descriptions of states by what they hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidemill.memo.memo import Memo
from tidemill.plan.expr import Expr
from tidemill.plan.ops import Aggregate, Changes, FinalChange, Keys, Scan
from tidemill.search.runs.explanation import ExplainedPlan, Explanation
from tidemill.search.space.seed import RECOMPUTE, Candidate
from tidemill.text.printer import Printer


def paragraph(run: ExplainedPlan, shown: Mapping[str, Any]) -> str:
    """The run in plain words: its reads, the keys it touches, its cost beside the other way's. `shown`: as JSON."""
    return " ".join((*_work(run), _costs(run, shown), *shown["notes"]))


def _work(run: ExplainedPlan) -> Iterator[str]:
    why = run.explanation
    if run.kind == "FULL":
        reason = f" ({run.reason})" if run.reason else ""
        yield f"The run computes the view from all rows of {_listed(sorted(_names(why))) or 'its constants'}{reason}."
        return
    if run.kind == "PARTIAL" and not run.steps:
        yield "The run does nothing: no early work pays."
        return
    verb = "does early work and reads" if run.kind == "PARTIAL" else "reads"
    yield f"The run {verb} {_listed(list(_changes(why))) or 'no changes'}."
    touched = [f"about {_count(rows)} keys of {keys}" for keys, rows in _touched(why).items()]
    if touched:
        yield f"It touches {_listed(touched)}."


def _costs(run: ExplainedPlan, shown: Mapping[str, Any]) -> str:
    total, priced = shown["estimated"]["total"], shown["estimated"]["priced"]
    others = {a["pack"]: a["priced"] for a in shown["alternatives"]}
    unit = "ms of CPU" if shown["estimated"]["model"] == "default" else "in the unit of the cost model"
    if len(shown["points"]) > 1:
        text = f"The {len(shown['points'])} points planned together cost {_count(priced)} {unit} at their prices"
    else:
        text = f"It costs about {_count(total)} {unit}"
    gradual = [cost for pack, cost in others.items() if pack != RECOMPUTE]
    if run.kind != "FULL" and RECOMPUTE in others:
        return f"{text}, against {_count(others[RECOMPUTE])} in full."
    if run.kind == "FULL" and gradual:
        return f"{text}, against {_count(min(gradual))} incrementally."
    return f"{text}."


def _names(why: Explanation) -> Iterator[str]:
    yield from (s.name for s in why.space.memo.query.sources.values() if s.kind != "clock")


def _changes(why: Explanation) -> Iterator[str]:
    space, ops = why.space, [used.expression.op for used in why.used]
    read = {op.source for op in ops if isinstance(op, Changes)}
    scanned = {op.source for op in ops if isinstance(op, Scan)}
    for number, source in sorted(space.memo.query.sources.items()):
        if number not in space.memo.timeline.changed(space.since):
            continue
        if source.kind == "clock":
            yield "the rows that the clock lets in or out"
            continue
        if number not in read and number in scanned:
            yield f"all rows of {source.name} before and after its change"
            continue
        known = space.facts.change_over(number, *(space.since.old, space.since.new))
        rows = "an unknown number of" if known is None else _count(sum(known))
        yield f"{rows} changed rows of {source.name}"


def _touched(why: Explanation) -> dict[str, float]:
    """The keys by which the plan finds rows again, with their numbers."""
    memo, found = why.space.memo, dict[str, float]()
    rows = {memo.find(u.group): float(u.rows) for u in why.used}
    for used in why.used:
        match used.expression.op:
            case FinalChange(partial) if partial.keys:
                keys, touched = [e for _, e in partial.keys], rows.get(memo.find(used.expression.inputs[1]))
            case Keys(columns) if columns[0]:
                keys, touched = [e for _, e in columns[0]], float(used.rows)
            case _:
                continue
        if touched is not None:
            text = _exprs(memo, keys)
            found[text] = max(touched, found.get(text, 0.0))
    return found


def holds(memo: Memo, candidate: Candidate) -> str:
    """A state's content in words, such as `sum(price) per cat of sales`."""
    op = memo.tvrs[candidate.tvr].expressions[0][0]
    sources = (memo.query.sources[n] for n in sorted(memo.tvrs[candidate.tvr].props.sources))
    of = f" of {', '.join(s.name.rpartition('.')[2] for s in sources if s.kind != 'clock')}"
    if isinstance(op, Aggregate) and candidate.partial is not None:
        calls = _exprs(memo, [e for _, e in op.calls]) or "number of rows"
        keys = _exprs(memo, [e for _, e in op.keys])
        return f"{calls}{f' per {keys}' if keys else ''}{of}"
    return f"rows of {Printer(memo.query, memo.columns.name).op(op)}{of}"


def _exprs(memo: Memo, exprs: Sequence[Expr]) -> str:
    return ", ".join(map(Printer(memo.query, memo.columns.name).expr, exprs))


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _listed(parts: Sequence[str]) -> str:
    """Parts as a list in a sentence.

    >>> _listed(["a", "b", "c"]), _listed(["a"]), _listed([])
    ('a, b and c', 'a', '')
    """
    return " and ".join(x for x in (", ".join(parts[:-1]), *parts[-1:]) if x)
