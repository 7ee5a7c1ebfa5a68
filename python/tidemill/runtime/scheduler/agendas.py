"""The agenda of a view, out of its definition, its last run, the note on it, and the positions of its sources."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidemill.bridge.jvm import Jvm
from tidemill.runtime.scheduler import watch
from tidemill.runtime.scheduler.clock import Clock
from tidemill.runtime.scheduler.due import Agenda
from tidemill.runtime.scheduler.roster import Seen
from tidemill.runtime.view.arrivals import TIME_ZONE, Outlook, zone_of
from tidemill.runtime.view.fired import NOTHING_FIRED
from tidemill.runtime.view.notes import Note
from tidemill.runtime.view.views import View
from tidemill.sql.statements import AtProgress


@dataclass(frozen=True, slots=True)
class Looked:
    """An agenda, and by source the mark of the position that it was made at (nothing if none was asked for)."""

    agenda: Agenda
    marks: dict[str, str]


def by_clock(view: View, note: Note, clock: Clock) -> Agenda:
    """Returns the agenda of a view without what its sources have: no file is read."""
    definition = view.definition
    dealt: dict[str, float] = {}
    for fired in (view.head.fired if view.head is not None else NOTHING_FIRED, note.fired):
        for place, at in fired.instants.get(clock.name, {}).items():
            if clock.counts(at):
                dealt[place] = max(at, dealt.get(place, at))
    failing = note.failing_at(view.head.run if view.head is not None else -1, clock.name)
    return Agenda(
        schedule=definition.create.schedule,
        zone=zone_of(definition.settings.get(TIME_ZONE, "UTC")),
        clock=clock.name,
        origins={place: clock.origin(since / 1e6) for place, since in definition.points_since.items()},
        dealt=dealt,
        held=failing.retry_at if failing is not None else None,
        suspended=definition.suspended,
    )


def of(jvm: Jvm, seen: Seen, clock: Clock) -> Looked:
    """Returns the agenda of a view as it was last seen. Positions are asked for only if a point waits for them."""
    agenda, now = by_clock(seen.view, seen.note, clock), clock.now()
    waits = agenda.suspended or (agenda.held is not None and now < agenda.held)
    if waits or not watch.needs_positions(agenda.schedule):
        return Looked(agenda, {})
    found = watch.look(jvm, seen.view, seen.note)
    marks = {w.name: w.position for w in found}
    if not any(isinstance(point.trigger, AtProgress) for point in agenda.schedule):
        return Looked(replace(agenda, arrived=watch.arrived(seen.view, found, None, {})), marks)
    outlook = _outlook(seen, found, now)
    fired = (seen.view.head.fired if seen.view.head is not None else NOTHING_FIRED).then(seen.note.fired)
    cycles = {n: fired.cycles.get(name) == fired.ended for n, _, name in agenda.places()}
    arrived = watch.arrived(seen.view, found, outlook, cycles)
    return Looked(replace(agenda, arrived=arrived, cycle=fired.ended), marks)


def _outlook(seen: Seen, found: list[watch.Watched], now: float) -> Outlook:
    """Returns the outlook with what has arrived by now; the log is read once for each run."""
    if seen.outlook is None:
        seen.outlook = seen.view.outlook()
    return replace(seen.outlook, runs=(*seen.outlook.runs, watch.present(seen.view, found, now)))
