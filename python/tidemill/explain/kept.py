"""The states of a plan in the document of EXPLAIN: those that are kept, the candidates that are not, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidemill.explain.words import holds
from tidemill.search.contract.choice import Worth
from tidemill.search.runs.explanation import ExplainedPlan, Explanation
from tidemill.search.space.seed import Candidate
from tidemill.text.printer import Printer

NOTHING_DROPPED: Mapping[str, str] = {}


def states_shown(
    run: ExplainedPlan, steps: Sequence[Mapping[str, Any]], stored: Mapping[str, int], dropped: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """The states that are kept after the run, and the candidates that are not.

    `bytes`: as stored, else as a run saw them, else as estimated (`estimated`). `benefit`: CPU milliseconds that a
    state saves a likely run, or would save if it were kept; None if it was not weighed, or if nothing computes
    the change without it (`needed`). `stored`, `dropped`: as in `document`.
    """
    kept = {s.name for s in run.states}
    readers = {read.removeprefix("state "): s["id"] for s in steps for read in s["reads"] if read.startswith("state ")}
    known = {} if run.chosen is None else run.chosen.worth
    for candidate in {c.name: c for c in run.explanation.space.candidates}.values():
        name, worth = candidate.name, known.get(candidate.name)
        size = stored.get(name, None if worth is None else round(worth.bytes))
        gain = None if worth is None else worth.gain
        if name in kept:
            reason = _why_kept(run, readers.get(name), behind=name in run.behind)
        else:
            reason = f"given up in the last run: {dropped[name]}" if name in dropped else _why_not(run, worth)
        yield {
            "name": name,
            "form": candidate.kind.name,
            "of": _of(run.explanation, candidate),
            "holds": holds(run.explanation.space.memo, candidate),
            "rows": round(run.explanation.space.facts.kept.size(name)),
            "bytes": size,
            "estimated": name not in stored and (worth is None or not worth.measured),
            "benefit": None if gain is None else round(gain, 3),
            "benefit_per_byte": None if gain is None or not size else gain / size,
            "needed": worth is not None and worth.gain is None,
            "order": _order(run.explanation, candidate),
            "kept": name in kept,
            "reason": reason,
        }


def budgets_shown(run: ExplainedPlan) -> list[dict[str, float]]:
    """The cheapest sets of states that were found: their bytes, and the CPU milliseconds of a likely run with them."""
    curve = () if run.chosen is None else run.chosen.curve
    return [{"bytes": round(taken), "cost": round(cost, 3)} for taken, cost in curve]


def _of(why: Explanation, candidate: Candidate) -> str:
    memo = why.space.memo
    return Printer(memo.query, memo.columns.name).op(memo.tvrs[candidate.tvr].expressions[0][0])


def _order(why: Explanation, candidate: Candidate) -> str | None:
    """The column that sorts each file of a state's base; None if there is none."""
    fields = {field: why.space.memo.columns.name(column) for column, field, _ in candidate.scan.columns}
    return fields.get(why.orders.get(candidate.name, ""))


def _why_kept(run: ExplainedPlan, reader: int | None, *, behind: bool) -> str:
    if reader is not None:
        return f"step {reader} reads it"
    if run.kind == "FULL":
        return "the cheapest plan of a small change reads it"
    if run.kind == "PARTIAL" and not behind:
        return f"followed early, for point {run.explanation.points[-1].number}"
    return "likely runs read it; this run has no need of it"


def _why_not(run: ExplainedPlan, worth: Worth | None) -> str:
    budget = None if run.chosen is None else run.chosen.made_for.budget
    unpaid = None if run.chosen is None else run.chosen.made_for.unpaid
    if unpaid is not None:
        return f"given up: an incremental run took {unpaid:.0f} ms with the states of then, and a full run less"
    if worth is not None and budget is not None and (worth.gain is None or worth.gain > 0):
        alone = "it" if worth.bytes > budget else "it beside the states that are kept"
        return f"STATE BUDGET does not hold {alone}"
    if worth is not None and worth.gain is not None and worth.gain <= 0:
        return "making and following it costs more than it saves likely runs"
    if run.kind == "FULL":
        return "no step of the cheapest plan of a small change reads it"
    return "the view does not have it: when states were chosen, no step of the cheapest plan of a likely run read it"
