from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.expr import Col
from tidemill.plan.ops import Project, Scan
from tidemill.rule.match import Match
from tidemill.rule.result import Equivalent, Result
from tidemill.rule.rule import rule


@rule(Scan)
def read_once(m: Match[Scan]) -> Iterator[Result]:
    """Several scans of one source take their columns from a single scan of all these columns.

    Matches:  scan S [a], with scan S [b, c] elsewhere in the query
    Yields:   project [a] (scan S [a, b, c]), the same scan for both

    Why: reading a source twice costs twice, and without this only scans of the same columns would be shared. Rows of
        the same keys are also looked up once for all scans, and the result is small.
    Unsafe: if the columns were those of one of the scans: in a self-join both sides would have the same ones.
    Citation: common sub-expressions, as in [Graefe95]; shared deltas of self-joins as in [Tempura] section 4.1.
    """
    source, places = m.op.source, m.query.scans(m.op.source)
    if len(places) < 2 or m.op not in places:
        return
    of = {field: column for place in places for column, field in place.columns}
    read = {f: m.types.fresh((source, f, "read once"), m.types.type(c), m.types.name(c)) for f, c in of.items()}
    whole = m.derive(Scan(source, tuple((column, field) for field, column in read.items())))
    yield Equivalent(Project(tuple((column, Col(read[field])) for column, field in m.op.columns)), (whole.number,))
