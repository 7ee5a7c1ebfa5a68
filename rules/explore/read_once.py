from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.expr import Col
from tidemill.plan.ops import Project, Scan
from tidemill.rule.match import Match
from tidemill.rule.result import Equivalent, Result
from tidemill.rule.rule import rule


@rule(Scan)
def read_once(m: Match[Scan]) -> Iterator[Result]:
    """Where a query reads a source in several places, each takes its columns from one reading of them all.

    Matches:  scan S [a], with scan S [b, c] elsewhere in the query
    Yields:   project [a] (scan S [a, b, c]), the same scan for both

    Why: rows of the same keys are looked for once for all places, and what is found is small. Reading a source twice
        costs twice; only a scan of the same columns would be shared without this.
    Unsafe: if the columns were those of one of the places: joined with itself, both sides would have the same ones.
    Citation: common sub-expressions, as in [Graefe95]; shared deltas of self-joins as in [Tempura] section 4.1.
    """
    source, places = m.op.source, m.query.scans(m.op.source)
    if len(places) < 2 or m.op not in places:
        return
    of = {field: column for place in places for column, field in place.columns}
    read = {f: m.types.fresh((source, f, "read once"), m.types.type(c), m.types.name(c)) for f, c in of.items()}
    whole = m.derive(Scan(source, tuple((column, field) for field, column in read.items())))
    yield Equivalent(Project(tuple((column, Col(read[field])) for column, field in m.op.columns)), (whole.number,))
