"""EXPLAIN INCREMENTAL: shows a plan in six modes. A new mode is one function and one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidemill.explain.cost import cost
from tidemill.explain.document import document
from tidemill.explain.dot import dot
from tidemill.explain.kept import NOTHING_DROPPED
from tidemill.explain.memo import memo
from tidemill.explain.plan import plan
from tidemill.explain.state import state
from tidemill.search.runs.explanation import ExplainedPlan

Document = Mapping[str, Any]

MODES: Mapping[str, Callable[[Document], str]] = {
    "PLAN": plan,
    "COST": cost,
    "STATE": state,
    "JSON": lambda shown: json.dumps(shown, ensure_ascii=False),
    "DOT": dot,
}
"""The modes that show the document; MEMO shows the space that was searched."""


def explained(
    run: ExplainedPlan,
    mode: str,
    stored: Mapping[str, int] | None = None,
    notes: Sequence[str] = (),
    ran: Sequence[Document] = (),
    dropped: Mapping[str, str] = NOTHING_DROPPED,
) -> str:
    """The plan of a run in a mode of the statement.

    `stored`: bytes of the view's stored states; `dropped`: those that the last run gave up, and why.
    `notes`: sentences about what the plan was made for. `ran`: what earlier runs took, newest first.
    """
    return memo(run) if mode == "MEMO" else MODES[mode](document(run, stored or {}, notes, ran, dropped))
