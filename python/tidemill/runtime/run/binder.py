"""Binds a plan to one run: replaces symbolic positions by real ones, and stored relations by lists of files.

A plan has numbered moments. Only here are they replaced by the positions that were pinned at the start of the run, and
states by the files that earlier runs, or earlier steps of this run, wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from tidemill.plan.expr import Col, Expr, Lit, fn
from tidemill.plan.keyed import keyed_fields
from tidemill.runtime.before.situation import Situation
from tidemill.runtime.content.row_expressions import ROWS, signed_counts
from tidemill.runtime.view.record import RunRecord
from tidemill.wire import nodes
from tidemill.wire.nodes import Among, WireNode

Position = Any
Files = Sequence[Mapping[str, Any]]
VALUES = "values of "
"""Before a field: the metric of its distinct values."""


@dataclass(slots=True)
class Binder:
    """The values of the symbols in one run's plan.

    `positions`: at each moment a source's position by its number; the last moment is this run. `states`: a state's
    committed pieces by its name, each a list of files; `before`: the number of them at the first moment. `staged`: the
    files that a step wrote in this run by its name, added as steps end. `result`: the view's live files; `held`: the
    files of its held change. `values`: the keys that a step wrote, by step and field, if they are few enough for a
    look-up. `observe_scans`: count the rows of all sources except those in `counted`, so that nothing stands between
    the scans of the latter and the query's filters; and the distinct values of the fields in `keyed`, of the rows that
    pass these filters.
    """

    positions: Sequence[Mapping[int, Position]]
    states: dict[str, Sequence[Files]]
    result: Files
    before: Mapping[str, int | None] = field(default_factory=dict)
    held: Files = ()
    staged: dict[str, Files] = field(default_factory=dict)
    values: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    observe_scans: bool = False
    counted: Mapping[int, int] = field(default_factory=dict)
    keyed: Mapping[int, Sequence[str]] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)
    scans: dict[str, int] = field(default_factory=dict)
    selected: dict[str, int] = field(default_factory=dict)
    _numbered: int = 0

    def bind(self, node: Mapping[str, Any]) -> WireNode:
        """Returns `node` with every symbol replaced. Each `changes` leaf gets an observation, named in `changes`;
        those of a first run are named in `scans` and `selected`."""
        kind = nodes.kind_of(node)
        match kind:
            case "scan":
                return self._rows_of(node, self._scan(node))
            case "changes":
                return self._changes(node)
            case "state":
                pieces = self.states.get(node["name"], ())
                before = self.before.get(node["name"])
                match node.get("part"):
                    case "before":
                        pieces = pieces[:before]
                    case "since":
                        pieces = pieces[len(pieces) if before is None else before :]
                pieces = pieces[node.get("first", 0) : node.get("end")]
                found = self._files(node, [file for piece in pieces for file in piece])
                among = nodes.among_of(node)
                return found if among is None else self._among(node, among, found)
            case "staged":
                return self._files(node, self.staged[node["step"]])
            case "result":
                return self._files(node, self.result)
            case "held":
                return self._files(node, self.held)
            case "files" | "empty":
                return dict(node)
            case "filter" if nodes.kind_of(scan := nodes.inputs_of(node)[0]) == "scan":
                return self._rows_of(scan, self._over(node, [self._scan(scan)]))
            case "filter" | "project" | "join" | "aggregate" | "union" | "sort" | "limit" | "replicate" | "observe":
                return self._over_inputs(node)
            case "numbered" | "row_wise" | "window" | "opaque":
                return self._over_inputs(node)
            case _:
                assert_never(kind)

    def _over_inputs(self, node: Mapping[str, Any]) -> WireNode:
        return self._over(node, [self.bind(i) for i in nodes.inputs_of(node)])

    def _over(self, node: Mapping[str, Any], inputs: Sequence[WireNode]) -> WireNode:
        own = {name: value for name, value in node.items() if name != "inputs"}
        if self.clock(-1) is not None:
            own = self._at_clock(own)
        return nodes.over(own, inputs)

    def clock(self, moment: int) -> int | None:
        """Returns what the clock shows at a moment (epoch microseconds); None if no position tells."""
        at = (p["clock"] for p in self.positions[moment].values() if isinstance(p, Mapping) and "clock" in p)
        return next(at, None)

    def _at_clock(self, part: Any) -> Any:
        """Returns a part of a node in which handles have the clock of their moment, by default of the last one."""
        match part:
            case {"handle": number}:
                return {"handle": number, "clock": self.clock(part.get("at", -1))}
            case Mapping():
                return {name: self._at_clock(value) for name, value in part.items()}
            case list():
                return [self._at_clock(value) for value in part]
            case _:
                return part

    def _scan(self, node: Mapping[str, Any]) -> WireNode:
        bound = dict(node)
        bound["at"] = self._at(node["source"], node.get("at"))
        if not self._is_present(node) or node["source"] in self.counted:
            return bound
        return self._observed(node["source"], bound, self.scans, [ROWS, *self._values(node)])

    def _is_present(self, node: Mapping[str, Any]) -> bool:
        """Returns True for a scan whose rows are all rows of the source now, in a run that observes them."""
        return self.observe_scans and node.get("at") in {None, len(self.positions) - 1}

    def _rows_of(self, scan: Mapping[str, Any], bound: WireNode) -> WireNode:
        """Returns the rows of a source that counts its rows itself, with the distinct values observed."""
        values = self._values(scan) if self._is_present(scan) and scan["source"] in self.counted else []
        return self._observed(scan["source"], bound, self.selected, values) if values else bound

    def _values(self, scan: Mapping[str, Any]) -> list[tuple[str, Expr]]:
        """Returns the metrics of a scan's distinct values."""
        wanted = self.keyed.get(scan["source"], ())
        return [(f"{VALUES}{f}", fn("approx_count_distinct", Col(c))) for c, f in scan["columns"] if f in wanted]

    def _changes(self, node: Mapping[str, Any]) -> WireNode:
        bound = dict(node)
        bound["from"] = self._at(node["source"], node["from"])
        bound["to"] = self._at(node["source"], node["to"])
        return self._observed(node["source"], bound, self.changes, signed_counts(node["count"]))

    def _observed(
        self, source: int, node: WireNode, names: dict[str, int], metrics: list[tuple[str, Expr]]
    ) -> WireNode:
        self._numbered += 1
        name = f"source_{source}_{self._numbered}"
        names[name] = source
        return nodes.observe(name, metrics, node)

    def _among(self, node: Mapping[str, Any], among: Among, files: WireNode) -> WireNode:
        """Returns the rows that a look-up may find. Without this filter Spark would have to read all rows first."""
        values = self.values.get((among.step, among.field))
        if values is None:
            return files
        (kind,) = (t for c, _, t in nodes.stored_columns(node) if c == among.column)
        column = Col(among.column)
        wanted: Expr = fn("in", column, *(Lit(value, kind) for value in values))
        if among.nulls:
            wanted = fn("or", wanted, fn("isnull", column))
        return nodes.where([wanted], files)

    def _at(self, source: int, moment: int | None) -> Position:
        return self.positions[-1 if moment is None else moment].get(source)

    def _files(self, node: Mapping[str, Any], listed: Files) -> WireNode:
        return nodes.files(listed, nodes.stored_columns(node), node.get("path_column"), node.get("row_column"))


def binder_of(head: RunRecord | None, situation: Situation) -> Binder:
    """Returns a binder that knows positions, states and result as they are before the run. `head`: the last run."""
    states = head.states if head else {}
    return Binder(
        positions=situation.positions,
        states={name: [p.files for p in s.pieces] for name, s in states.items()},
        before={name: s.before for name, s in states.items()},
        result=head.files if head else (),
        held=head.held_files if head else (),
        observe_scans=situation.first and not situation.prepared,
        counted=situation.counted,
        keyed=keyed_fields(situation.query),
    )
