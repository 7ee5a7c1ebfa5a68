"""Searches in processes of their own find what a search here finds, and are never needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.search.test_cases import SOURCES, VIEWS
from tidemill.errors import TidemillError
from tidemill.plan.change import SourceChange
from tidemill.rule.engine import RuleFailedError
from tidemill.search.contract.choice import Choice, Circumstances, Worth
from tidemill.search.contract.past import Past, PastRun
from tidemill.search.contract.request import PlanRequest, UpcomingPoint
from tidemill.search.contract.stored import Piece
from tidemill.search.runs.explanation import ExplainedPlan
from tidemill.search.service import pool as search_pool
from tidemill.search.service.messages import plan_from_json, plan_to_json, request_from_json, request_to_json
from tidemill.search.service.planner import plan_run
from tidemill.search.service.pool import SearchPool, is_long
from tidemill.search.service.worker import serve
from tidemill.settings import PACKS, PlannerSettings
from tidemill.text.parser import parse_query

LONG = "full join of full joins"


@pytest.fixture
def pool() -> Iterator[SearchPool]:
    """No process yet; none is left."""
    found = SearchPool()
    yield found
    assert found.busy == 0
    found.end()


def asked(name: str, **more: Any) -> PlanRequest:
    """What is planned for a view of the planner's cases of which each source has changed."""
    query = parse_query(SOURCES + VIEWS[name])
    change = SourceChange(True, True, rows=1e7, inserts=5e4, deletes=5e3)
    told: dict[str, Any] = {"policy": "STRICT", "states": frozenset(), "first": False, "full_reason": None, "rows": 1e6}
    return PlanRequest(query=query, sources=dict.fromkeys(query.sources, change), **{**told, **more})


def rules(tmp_path: Path, body: str) -> PlannerSettings:
    """Settings with a pack of one rule that does something before it yields nothing."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "look.py").write_text(
        "import os\nfrom pathlib import Path\nfrom tidemill.plan.ops import Join\nfrom tidemill.rule.rule import rule\n"
        "\n\n@rule(Join)\ndef look(m):\n"
        '    """Looks.\n\n    Matches: x\n    Yields: nothing\n    Citation: none\n    """\n'
        f"    {body}\n    yield from ()\n"
    )
    return PlannerSettings(packs=frozenset({*PACKS, "mine"}), rules_paths=(str(folder),))


# -- as JSON ----------------------------------------------------------------------------------------------------------


def test_a_request_is_what_it_was() -> None:
    change = SourceChange(True, False, rows=10.0, reason="FILES_REWRITTEN", direct=True)
    request = asked(
        LONG,
        states=frozenset({"s1"}),
        pieces={"s1": [Piece(1, 10, 10, 0), Piece(1, 2, 2, 1)]},
        standing={"s1": 1},
        between=({0: change}, {1: change}),
        ahead=(UpcomingPoint(0.5, output=True, changes={0: change}, number=2),),
        cycle={0: (5.0, 0.0)},
        past=Past([PastRun("FULL", 10.0, 20.0)]),
        settings=PlannerSettings(prefer="delta", time_limit=1.5),
        chosen=Choice(
            Circumstances(frozenset({"delta"}), 5, arrivals={"t": 5.0}), {"s": Worth(8.0, None)}, ((0.0, 1.0),)
        ),
    )
    again = request_from_json(request_to_json(request))
    assert replace(again, pieces={}, past=request.past) == replace(request, pieces={})
    assert list(again.pieces["s1"]) == request.pieces["s1"]
    assert list(again.past.runs) == list(request.past.runs)


@pytest.mark.parametrize(("name", "first"), [(LONG, True), *((name, False) for name in VIEWS)])
def test_a_plan_is_what_it_was(name: str, first: bool) -> None:
    plan = plan_run(asked(name, policy="AUTO", first=first)).bare
    data = plan_to_json(plan)
    again = plan_from_json(data)
    assert plan_to_json(again) == data
    assert replace(again, steps=()) == replace(plan, steps=())
    assert [s.columns for s in again.steps] == [s.columns for s in plan.steps]


# -- in a process -----------------------------------------------------------------------------------------------------


def test_a_process_finds_the_same_plans(pool: SearchPool) -> None:
    requests = [r for r in map(asked, VIEWS) if is_long(r)][:5]
    assert len(requests) > 2
    for request in requests:
        assert plan_to_json(pool.plan(request)) == plan_to_json(plan_run(request).bare)
        assert len(pool.idle) == 1, "it is kept for the next search"


def test_rules_run_elsewhere(pool: SearchPool, tmp_path: Path) -> None:
    seen = tmp_path / "pid"
    settings = rules(tmp_path, f"print('not an answer'); Path({str(seen)!r}).write_text(str(os.getpid()))")
    pool.plan(asked(LONG, settings=settings))
    assert int(seen.read_text()) == pool.idle[0].pid != os.getpid()


@pytest.mark.parametrize("processes", [0, 2])
def test_what_is_short_is_looked_for_here(pool: SearchPool, processes: int) -> None:
    name = LONG if processes == 0 else next(name for name in VIEWS if not is_long(asked(name)))
    plan = pool.plan(asked(name, settings=PlannerSettings(processes=processes)))
    assert plan.steps
    assert not isinstance(plan, ExplainedPlan), "the memo would live as long as the plan is remembered"
    assert pool.idle == []


def test_points_to_come_make_a_search_long() -> None:
    name = next(name for name in VIEWS if not is_long(asked(name)) and "join" in name)
    point = UpcomingPoint(1.0, output=True, changes={})
    assert is_long(asked(name, ahead=(point, point)))


def test_so_many_at_a_time(pool: SearchPool, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    settings = replace(rules(tmp_path, f"open(f'{seen}/{{os.getpid()}}', 'w').close()"), processes=2)
    with ThreadPoolExecutor(4) as threads:
        plans = list(threads.map(pool.plan, [asked(LONG, settings=settings)] * 4))
    assert len({plan.estimated for plan in plans}) == 1
    assert 1 <= len(pool.idle) <= 2
    assert {int(f.name) for f in seen.iterdir()} == {s.pid for s in pool.idle}


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_an_error_of_the_search_is_met_here(pool: SearchPool, tmp_path: Path) -> None:
    settings = rules(tmp_path, "raise ValueError('it is a Tuesday')")
    with pytest.raises(RuleFailedError, match="it is a Tuesday"):
        pool.plan(asked(LONG, settings=settings))
    assert len(pool.idle) == 1, "it can be asked again"
    assert pool.plan(asked(LONG)).steps


def test_a_refusal_is_met_here(pool: SearchPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_pool, "LONG", 1)
    refused = asked("two opaque operators alike")
    assert is_long(refused)
    with pytest.raises(TidemillError) as here:
        plan_run(refused)
    with pytest.raises(TidemillError) as there:
        pool.plan(refused)
    assert here.value.message == there.value.message


def test_a_process_that_was_killed(pool: SearchPool, caplog: pytest.LogCaptureFixture) -> None:
    wanted = plan_to_json(pool.plan(asked(LONG)))
    os.kill(pool.idle[0].pid, signal.SIGKILL)
    os.waitid(os.P_PID, pool.idle[0].pid, os.WEXITED | os.WNOWAIT)
    assert plan_to_json(pool.plan(asked(LONG))) == wanted
    assert "failed, here it did not" in caplog.text
    assert pool.idle == []
    assert plan_to_json(pool.plan(asked(LONG))) == wanted
    assert len(pool.idle) == 1


def test_one_that_is_killed_while_it_searches(pool: SearchPool, tmp_path: Path) -> None:
    here = os.getpid()
    settings = rules(tmp_path, f"os.getpid() == {here} or os.kill(os.getpid(), 9)")
    assert pool.plan(asked(LONG, settings=settings)).steps
    assert pool.idle == []


def test_an_answer_that_cannot_be_read(pool: SearchPool, tmp_path: Path) -> None:
    here = os.getpid()
    answer = "[os.write(fd, b'{no JSON\\n') for fd in range(3, 9) if os.path.exists(f'/proc/self/fd/{fd}')]"
    settings = rules(tmp_path, f"os.getpid() == {here} or {answer}")
    assert pool.plan(asked(LONG, settings=settings)).steps
    assert (pool.idle, pool.busy) == ([], 0)


def test_none_can_be_started(pool: SearchPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert pool.plan(asked(LONG)).steps
    assert (pool.idle, pool.busy) == ([], 0)


def test_it_ends_with_the_planner() -> None:
    text = (
        "import os, sys; from tidemill.search.service.pool import SearchWorker;"
        " s = SearchWorker(); print(s.pid, flush=True); os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, env=path())
    for _ in range(600):
        if not Path(f"/proc/{int(done.stdout)}").exists():
            return
        time.sleep(0.1)
    pytest.fail("it lives on")


def path() -> dict[str, str]:
    return search_pool.environment(os.environ, sys.path, os.getcwd())


def test_it_knows_no_way_to_the_jvm(pool: SearchPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_SECRET", "s3cret")
    seen = tmp_path / "environment"
    pool.plan(asked(LONG, settings=rules(tmp_path, f"Path({str(seen)!r}).write_text(repr(dict(os.environ)))")))
    assert "HOME" in seen.read_text()
    assert "s3cret" not in seen.read_text()


def test_what_cannot_be_read_is_answered() -> None:
    class Lines(list[str]):
        def write(self, text: str) -> None:
            self.append(text)

        def flush(self) -> None:
            pass

    answers = Lines()
    serve(["{}\n", "no JSON\n"], answers)  # type: ignore[arg-type]
    assert "".join(answers).count('"failed"') == 2
