"""A user's planning request, written to a file and planned again elsewhere."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cost_model.default import MODEL
from tidemill import cli
from tidemill.cost.models import text
from tidemill.plan.change import SourceChange
from tidemill.search.contract.request import PlanRequest
from tidemill.search.service.messages import plan_to_json
from tidemill.search.service.planner import plan_run
from tidemill.search.service.requests import FORMAT, read_request, write_request
from tidemill.settings import PACKS, PlannerSettings
from tidemill.text.parser import parse_query
from tidemill.version import __version__

QUERY = """\
source 0 orders [id: long, customer: long] rows=1000000
source 1 customers [id: long, country: string] rows=10000
aggregate keys=[#4 := #3] calls=[#5 := count(*)]
  join inner [(#1 = #2)]
    scan 0 [#0 := id, #1 := customer]
    scan 1 [#2 := id, #3 := country]"""


def request(**more: Any) -> PlanRequest:
    change = SourceChange(True, True, rows=1e6, inserts=5e3, deletes=5e2)
    told: dict[str, Any] = {"policy": "INCREMENTAL", "states": frozenset(), "first": False, "full_reason": None}
    return PlanRequest(query=parse_query(QUERY), sources={0: change, 1: change}, **{**told, **more})


def written(folder: Path, asked: PlanRequest, name: str = "spark_catalog.shop.by country-run-7") -> Path:
    write_request(str(folder), name, asked)
    (path,) = folder.iterdir()
    return path


def test_it_is_planned_again_as_it_was(tmp_path: Path) -> None:
    asked = request(settings=PlannerSettings(debug_requests=str(tmp_path)))
    path = written(tmp_path / "new" / "folder", asked)
    assert path.name.endswith("-spark_catalog.shop.by_country-run-7.json")
    with read_request(path) as again:
        assert plan_to_json(plan_run(again).bare) == plan_to_json(plan_run(asked).bare)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert (document["format"], document["version"]) == (FORMAT, __version__)
    assert str(tmp_path) not in path.read_text(encoding="utf-8")


def test_each_request_has_a_file_of_its_own(tmp_path: Path) -> None:
    for _ in range(3):
        write_request(str(tmp_path), "query", request())
    assert len(list(tmp_path.iterdir())) == 3


def test_constants_that_were_measured_go_with_it(tmp_path: Path) -> None:
    dear = tmp_path / "dear.json"
    dear.write_text(text(MODEL.name, [replace(c, value=c.value * 100) for c in MODEL.constants], {"machine": "mine"}))
    asked = request(settings=PlannerSettings(cost_constants=str(dear)))
    estimated = plan_run(asked).estimated
    path = written(tmp_path / "requests", asked)
    dear.unlink()
    with read_request(path) as again:
        assert plan_run(again).estimated == estimated
    assert estimated > plan_run(request()).estimated
    assert "machine" not in path.read_text(encoding="utf-8")


def test_secrets_stay_and_states_are_found_all_the_same(tmp_path: Path) -> None:
    meaning = "spark.sql.ansi.enabled=true\nspark.sql.catalog.c.token=geheim\nweiter\nspark.sql.session.timeZone=UTC"
    filling = plan_run(request(meaning=meaning, first=True))
    states = frozenset(s.name for s in filling.states)
    assert states
    asked = request(meaning=meaning, states=states, stored=filling.states, chosen=filling.chosen)
    path = written(tmp_path, asked)
    content = path.read_text(encoding="utf-8")
    assert "geheim" not in content
    assert "weiter" not in content
    assert "timeZone=UTC" in content
    plan = plan_run(asked)
    assert plan.reason is None
    with read_request(path) as again:
        replayed = plan_run(again)
        assert len(again.states & {s.name for s in replayed.states}) == len(states)
    assert (replayed.kind, replayed.reason, replayed.methods) == (plan.kind, plan.reason, plan.methods)
    assert replayed.estimated == plan.estimated


def test_a_failure_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING, logger="tidemill"):
        write_request(str(tmp_path / "file"), "query", request())
    assert "the planning request was not written to" in caplog.text


def test_replay_prints_what_plan_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(written(tmp_path, request()))
    assert cli.main(["debug", "replay", path]) == 0
    plain = capsys.readouterr().out
    assert plain.startswith("INCREMENTAL by ")
    assert "\nestimated: " in plain
    assert "alternative recompute" in plain
    assert cli.main(["debug", "replay", "--steps", "--memo", path]) == 0
    trace, plan, memo, counts = capsys.readouterr().out.split("\n\n")
    assert trace.startswith("space 1: changes of customers, orders; readable: the content\n")
    assert f"{plan}\n" == plain
    assert memo.startswith("R0: ")
    assert counts.startswith("rule ")
    assert cli.main(["debug", "replay", "--disable", "lineage,higher_order", "--prefer", "affected", path]) == 0
    assert capsys.readouterr().out.startswith("INCREMENTAL by affected, delta\n")


def test_packs_of_the_user_may_be_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    undo = Path(__file__).parents[2] / "examples" / "packs" / "undo"
    gone = SourceChange(changed=True, old_readable=False, rows=1e6, inserts=10.0, deletes=5.0)
    settings = PlannerSettings(packs=frozenset({*PACKS, "undo"}), rules_paths=("/of/the/user/undo",))
    asked = request(settings=settings, policy="AUTO")
    path = str(written(tmp_path, replace(asked, sources={0: gone, 1: gone})))
    assert cli.main(["debug", "replay", path]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("tidemill debug: planned without the rules of /of/the/user/undo")
    assert "undo" not in said.out
    assert cli.main(["debug", "replay", "--rules", str(undo), path]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "alternative undo" in said.out


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "tidemill planning request 1"}', None])
def test_what_is_no_request_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None) -> None:
    path = tmp_path / "request.json"
    if content is not None:
        path.write_text(content)
    assert cli.main(["debug", "replay", str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"tidemill debug: {path}: ")
