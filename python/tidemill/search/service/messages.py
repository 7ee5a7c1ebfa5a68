"""Requests and plans as JSON, for searches in worker processes."""

from __future__ import annotations

from typing import Any

from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from cattrs.preconf.json import make_converter

from tidemill.plan.query import Query
from tidemill.search.contract.request import PlanRequest
from tidemill.search.contract.run_plan import RunPlan
from tidemill.wire.query_document import read_query

_CONVERTER = make_converter()
_MEASURED = {"measured": override(omit=True)}  # a function, known to experiments only
# Equal sets give equal text.
_CONVERTER.register_unstructure_hook_func(lambda kind: getattr(kind, "__origin__", None) is frozenset, sorted)
_CONVERTER.register_unstructure_hook(Query, lambda query: query.document)
_CONVERTER.register_structure_hook(Query, lambda document, _: read_query(document))
_CONVERTER.register_unstructure_hook(PlanRequest, make_dict_unstructure_fn(PlanRequest, _CONVERTER, **_MEASURED))  # type: ignore[arg-type]
_CONVERTER.register_structure_hook(PlanRequest, make_dict_structure_fn(PlanRequest, _CONVERTER, **_MEASURED))  # type: ignore[arg-type]


def request_to_json(request: PlanRequest) -> dict[str, Any]:
    """The JSON of a request, with its query as the document that it was read from; `measured` is left out."""
    return dict(_CONVERTER.unstructure(request))


def request_from_json(data: dict[str, Any]) -> PlanRequest:
    """The inverse of `request_to_json`, except for `measured`."""
    return _CONVERTER.structure(data, PlanRequest)


def plan_to_json(plan: RunPlan) -> dict[str, Any]:
    """The JSON of a plan, without the record of how it was found."""
    return dict(_CONVERTER.unstructure(plan, RunPlan))


def plan_from_json(data: dict[str, Any]) -> RunPlan:
    """The inverse of `plan_to_json`."""
    return _CONVERTER.structure(data, RunPlan)
