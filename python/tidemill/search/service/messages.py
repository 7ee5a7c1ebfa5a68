"""What a search is asked and what it finds as JSON, for searches in processes of their own."""

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
# One text for one set.
_CONVERTER.register_unstructure_hook_func(lambda kind: getattr(kind, "__origin__", None) is frozenset, sorted)
_CONVERTER.register_unstructure_hook(Query, lambda query: query.document)
_CONVERTER.register_structure_hook(Query, lambda document, _: read_query(document))
_CONVERTER.register_unstructure_hook(PlanRequest, make_dict_unstructure_fn(PlanRequest, _CONVERTER, **_MEASURED))  # type: ignore[arg-type]
_CONVERTER.register_structure_hook(PlanRequest, make_dict_structure_fn(PlanRequest, _CONVERTER, **_MEASURED))  # type: ignore[arg-type]


def request_to_json(request: PlanRequest) -> dict[str, Any]:
    """A request, its query as the document that it was read from. `measured` is left out."""
    return dict(_CONVERTER.unstructure(request))


def request_from_json(data: dict[str, Any]) -> PlanRequest:
    """The request that `request_to_json` was given."""
    return _CONVERTER.structure(data, PlanRequest)


def plan_to_json(plan: RunPlan) -> dict[str, Any]:
    """A plan without how it was found."""
    return dict(_CONVERTER.unstructure(plan, RunPlan))


def plan_from_json(data: dict[str, Any]) -> RunPlan:
    """The plan that `plan_to_json` was given."""
    return _CONVERTER.structure(data, RunPlan)
