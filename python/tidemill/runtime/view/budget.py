"""STATE BUDGET: what kept states may take on storage after each commit.

The planner chooses states by what they are estimated to take. What they took is known only once they are written, so
it is looked at before the commit: while they take too much, the state that gains least per byte is given up. Its size
is remembered, so a later run does not make it again.
"""

from __future__ import annotations

from dataclasses import replace

from tidemill.errors import TidemillError
from tidemill.runtime.view.record import RunRecord
from tidemill.search.contract.choice import Choice, Worth
from tidemill.search.contract.run_kinds import GRADUAL, Policy

NOTHING_KNOWN = Worth(0.0, 0.0)


def over(record: RunRecord | None, budget: int | None) -> bool:
    """Returns True if the states after a run take more than the budget."""
    return record is not None and budget is not None and record.state_bytes > budget


def within(record: RunRecord, budget: int | None, policy: Policy) -> RunRecord:
    """Returns the record of a run without the states for which there is no room, and with what all of them take.

    Raises TIDEMILL_NOT_INCREMENTAL under INCREMENTAL and STRICT if nothing computes the view's change without them.
    """
    chosen = (record.chosen or Choice()).seen({name: state.bytes for name, state in record.states.items()})
    record = replace(record, chosen=None if record.chosen is None else chosen, dropped={})
    dropped: dict[str, str] = {}
    if over(record, budget) and record.held:
        dropped["held change"] = _told(sum(int(f["bytes"]) for f in record.held_files), record, budget)
        record = replace(record, held=(), held_run=None)
    while over(record, budget) and record.states:
        worth = {name: chosen.worth.get(name, NOTHING_KNOWN) for name in record.states}
        least = min(sorted(worth), key=lambda name: (worth[name].density, -record.states[name].bytes))
        if worth[least].gain is None and policy in GRADUAL:
            raise TidemillError(
                "TIDEMILL_NOT_INCREMENTAL",
                {"operator": record.states[least].text, "reason": _missed(record.states[least].bytes, budget)},
            )
        dropped[least] = _told(record.states[least].bytes, record, budget)
        record = replace(record, states={name: s for name, s in record.states.items() if name != least})
    if not dropped:
        return record
    standing = {record.held_run, *(s.run for s in record.states.values())}
    moments = {run: at for run, at in record.moments.items() if run in standing}
    row = replace(record.row, state_bytes=record.state_bytes)
    return replace(record, dropped=dropped, moments=moments, row=row)


def _told(size: int, record: RunRecord, budget: int | None) -> str:
    return f"{size} bytes; all states would take {record.state_bytes}, and STATE BUDGET is {budget}"


def _missed(size: int, budget: int | None) -> str:
    return f"its change needs a state of {size} bytes, and STATE BUDGET is {budget} bytes"
