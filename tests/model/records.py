"""Records that steps write, and those of a state, merged."""

from __future__ import annotations

from collections.abc import Sequence

from tests.model.scalars import Exact, Row
from tests.model.semantics import Record, Relation
from tidemill.search.contract.run_plan import Step


def records_of(step: Step, rows: Relation) -> list[Record]:
    """The records that a step writes."""
    at = [(rows.columns.index(c), f) for c, f in step.columns]
    return [{f: r[i] for i, f in at} for r in rows.rows]


def merged(records: Sequence[Record], keys: int | None) -> dict[Row, Row]:
    """A state's rows by key: counts or parts added up, what has no row left out.

    `keys`: how many of the first fields of an attribute state are its keys; None for a snapshot in signed rows.
    """
    found: dict[Row, list[object]] = {}
    for record in records:
        if keys is None:
            key, parts = tuple(v for f, v in record.items() if f != "_n"), [record["_n"]]
        else:
            values = [record[f"c{i}"] for i in range(len(record))]
            key, parts = tuple(values[:keys]), values[keys:]
        known = found.get(key)
        found[key] = parts if known is None else [_plus(a, b) for a, b in zip(known, parts, strict=True)]
    return {k: tuple(v) for k, v in found.items() if v[0] != 0 or keys == 0}


def _plus(a: object, b: object) -> object:
    if isinstance(a, Exact):
        assert isinstance(b, Exact)
        return a.merge(b)
    return a + b  # type: ignore[operator]  # numbers
