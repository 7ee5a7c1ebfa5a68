"""A pack of a user's own, as rules/README.md has it: found by its folder, used where it helps, switched off by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tidemill.plan.change import SourceChange
from tidemill.rule.pack import RuleLoadError
from tidemill.rule.registry import load_rules
from tidemill.search.contract.request import PlanRequest
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.service.planner import plan_run
from tidemill.settings import PREFIX, PlannerSettings
from tidemill.text.parser import parse_query

UNDO = Path(__file__).parents[2] / "examples" / "packs" / "undo"
JOIN = """\
source 0 t [a: long] rows=1000000
source 1 u [a: long] rows=1000000
join inner [(#0 = #1)]
  scan 0 [#0 := a]
  scan 1 [#1 := a]
"""


def planned(**confs: str) -> ExplainedPlan:
    """Both tables have changed, and neither's history is there."""
    gone = SourceChange(changed=True, old_readable=False, rows=1e6, inserts=10.0, deletes=5.0)
    settings = PlannerSettings.from_confs({f"{PREFIX}{name}": value for name, value in confs.items()})
    request = PlanRequest(parse_query(JOIN), "AUTO", {0: gone, 1: gone}, frozenset(), first=False, full_reason=None)
    return plan_run(replace(request, settings=settings))


def test_a_rule_of_ones_own_is_used_where_it_helps() -> None:
    assert planned().reason == "HISTORY_GONE: what t, u held at the last run cannot be read any more"
    plan = planned(**{"rules.paths": str(UNDO)})
    assert (plan.kind, plan.reason, plan.methods) == ("INCREMENTAL", None, ("delta", "undo"))
    off = planned(**{"rules.paths": str(UNDO), "method.undo.enabled": "false"})
    assert off.kind == "FULL"


def test_a_file_without_its_rule_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text((UNDO / "old_from_new.py").read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(RuleLoadError, match="holds no rule called other"):
        load_rules((str(tmp_path),))
    with pytest.raises(RuleLoadError, match="no folder of rules"):
        load_rules((str(tmp_path / "none"),))


def test_a_pack_of_another_name_than_its_folders_is_an_error(tmp_path: Path) -> None:
    declaration = "from tidemill.rule.pack import Pack\n\nPACK = Pack('{}')\n"
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "__init__.py").write_text(declaration.format("mine"), encoding="utf-8")
    load_rules((str(mine),))
    (mine / "__init__.py").write_text(declaration.format("yours"), encoding="utf-8")
    with pytest.raises(RuleLoadError, match="the folder mine declares a pack yours"):
        load_rules((str(mine), str(UNDO)))


def test_two_packs_of_one_name_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuleLoadError, match="two packs are called undo"):
        load_rules((str(UNDO), str(UNDO)))
    (tmp_path / "delta").mkdir()
    with pytest.raises(RuleLoadError, match="two packs are called delta"):
        load_rules((str(tmp_path / "delta"),))
