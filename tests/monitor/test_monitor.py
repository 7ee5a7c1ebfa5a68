"""Observers, the log of runs, health and metrics: fed with plain values."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.client import HTTPConnection
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidemill.monitor import run_log
from tidemill.monitor.observer import Observers, RunReport
from tidemill.monitor.run_log import RunLog
from tidemill.monitor.server import Monitor

ENDED = RunReport(
    view="c.d.v",
    run=3,
    point=1,
    trigger="MANUAL",
    kind="FULL",
    reason="COST: full 6 ms, incremental 9 ms",
    started_at=1_700_000_000.0,
    wall_ms=1500,
    cpu_ms=250,
    jobs=2,
    read=100,
    written=20,
    inserted=7,
    deleted=3,
    state_bytes=4096,
    regret_ms=50.0,
)
LABELS = ("view", "kind", "reason", "flow")
NO_TICK = {"begun": None, "ended": None}
FAILED = RunReport("c.d.v", None, 1, "MANUAL", "FAILED", "DIVIDE_BY_ZERO", 1_700_000_100.0, 500, message="by zero")


@pytest.fixture
def observers() -> Observers:
    return Observers()


@pytest.fixture
def monitor(observers: Observers) -> Iterator[Monitor]:
    with Monitor(observers=observers) as serving:
        yield serving


def asked(monitor: Monitor, path: str, method: str = "GET", host: str | None = None) -> tuple[int, str, str]:
    """Status, content type and text."""
    connection = HTTPConnection(monitor.host, monitor.port, timeout=10)
    connection.request(method, path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.getheader("Content-Type") or "", text


def health(monitor: Monitor) -> tuple[int, dict[str, Any]]:
    status, kind, text = asked(monitor, "/health")
    assert kind == "application/json"
    found: dict[str, Any] = json.loads(text)
    return status, found


def samples(monitor: Monitor) -> dict[tuple[str, tuple[str, ...]], float]:
    """Values by name and values of labels, without those of creation and of buckets."""
    status, kind, text = asked(monitor, "/metrics")
    assert (status, kind.split(";")[0]) == (200, "text/plain")
    return {
        (sample.name, tuple(sample.labels[label] for label in LABELS if label in sample.labels)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith(("_created", "_bucket"))
    }


def test_nothing_has_happened(monitor: Monitor) -> None:
    assert health(monitor) == (200, {"ok": True, "views": {}, "last_tick": NO_TICK, "failing": {}})
    assert samples(monitor) == {("tidemill_last_tick_timestamp_seconds", ()): 0.0}


def test_health_follows_a_view(monitor: Monitor, observers: Observers) -> None:
    observers.tick_begun(1_700_000_000.0)
    observers.run_begun("c.d.v", 1, "SCHEDULE", 1_700_000_000.0)
    _, found = health(monitor)
    assert found["views"]["c.d.v"] == {"lag_seconds": None, "running_since": "2023-11-14T22:13:20.000+00:00"}
    observers.run_ended(ENDED)
    observers.tick_ended(1_700_000_005.5, lambda: {"c.d.v": 12.5, "c.d.w": None})
    status, found = health(monitor)
    assert (status, found["ok"], found["failing"]) == (200, True, {})
    assert found["last_tick"] == {"begun": "2023-11-14T22:13:20.000+00:00", "ended": "2023-11-14T22:13:25.500+00:00"}
    assert found["views"]["c.d.w"] == {"lag_seconds": None, "running_since": None}
    assert found["views"]["c.d.v"] == {
        "run": 3,
        "kind": "FULL",
        "reason": ENDED.reason,
        "ended_at": "2023-11-14T22:13:21.500+00:00",
        "lag_seconds": 12.5,
        "running_since": None,
    }
    observers.run_failed(FAILED)
    status, found = health(monitor)
    assert (status, found["ok"], found["failing"]) == (503, False, {"c.d.v": "DIVIDE_BY_ZERO"})
    assert found["views"]["c.d.v"]["message"] == "by zero"
    observers.run_ended(replace(ENDED, run=4, kind="NO_DATA"))
    assert health(monitor)[1]["ok"]


def test_what_was_left_to_another_one_is_no_refresh(monitor: Monitor, observers: Observers) -> None:
    observers.run_failed(FAILED)
    observers.run_begun("c.d.v", 1, "SCHEDULE", 1_700_000_200.0)
    observers.run_left("c.d.v")
    status, found = health(monitor)
    assert (status, found["views"]["c.d.v"]["running_since"]) == (503, None)
    assert not [name for name, _ in samples(monitor) if name.startswith("tidemill_runs")]


def test_a_view_that_was_dropped_is_forgotten(monitor: Monitor, observers: Observers) -> None:
    observers.run_ended(ENDED)
    observers.run_failed(FAILED)
    observers.view_gone("c.d.v")
    assert health(monitor) == (200, {"ok": True, "views": {}, "last_tick": NO_TICK, "failing": {}})
    gauges = {"tidemill_state_bytes", "tidemill_lag_seconds", "tidemill_last_refresh_timestamp_seconds"}
    assert not [name for name, _ in samples(monitor) if name in gauges]


def test_a_view_that_is_gone_fails_no_more(monitor: Monitor, observers: Observers) -> None:
    observers.run_failed(FAILED)
    observers.tick_ended(1.0, lambda: {"c.d.w": None})
    assert not health(monitor)[1]["ok"], "it may be a view that the scheduler has nothing to do with"
    observers.tick_ended(2.0, lambda: {"c.d.v": 1.0, "c.d.w": 2.0})
    observers.tick_ended(3.0, lambda: {"c.d.w": 2.0})
    assert health(monitor) == (
        200,
        {
            "ok": True,
            "views": {"c.d.w": {"lag_seconds": 2.0, "running_since": None}},
            "last_tick": {"begun": None, "ended": "1970-01-01T00:00:03.000+00:00"},
            "failing": {},
        },
    )
    lags = {labels: value for (name, labels), value in samples(monitor).items() if name == "tidemill_lag_seconds"}
    assert lags == {("c.d.w",): 2.0}


def test_metrics_add_up(monitor: Monitor, observers: Observers) -> None:
    observers.run_ended(ENDED)
    observers.run_ended(replace(ENDED, run=4, reason="COST: other text", regret_ms=None, state_bytes=8192))
    observers.run_ended(RunReport("c.d.v", 4, 1, "MANUAL", "NO_DATA", None, 1_700_000_050.0, 10))
    observers.run_failed(FAILED)
    observers.tick_ended(1_700_000_060.0, lambda: {"c.d.v": 12.5})
    full, idle, failed = ("c.d.v", "FULL", "COST"), ("c.d.v", "NO_DATA", ""), ("c.d.v", "FAILED", "DIVIDE_BY_ZERO")
    assert samples(monitor) == {
        ("tidemill_runs_total", full): 2.0,
        ("tidemill_runs_total", idle): 1.0,
        ("tidemill_failures_total", failed): 1.0,
        ("tidemill_cpu_seconds_total", full): 0.5,
        ("tidemill_rows_total", (*full, "read")): 200.0,
        ("tidemill_rows_total", (*full, "written")): 40.0,
        ("tidemill_rows_total", (*full, "inserted")): 14.0,
        ("tidemill_rows_total", (*full, "deleted")): 6.0,
        ("tidemill_regret_seconds_total", full): 0.05,
        ("tidemill_wall_seconds_count", full): 2.0,
        ("tidemill_wall_seconds_sum", full): 3.0,
        ("tidemill_wall_seconds_count", idle): 1.0,
        ("tidemill_wall_seconds_sum", idle): 0.01,
        ("tidemill_wall_seconds_count", failed): 1.0,
        ("tidemill_wall_seconds_sum", failed): 0.5,
        ("tidemill_state_bytes", ("c.d.v",)): 8192.0,
        ("tidemill_lag_seconds", ("c.d.v",)): 12.5,
        ("tidemill_last_refresh_timestamp_seconds", ("c.d.v",)): 1_700_000_050.01,
        ("tidemill_last_tick_timestamp_seconds", ()): 1_700_000_060.0,
    }


def test_labels_hold_any_name(monitor: Monitor, observers: Observers) -> None:
    name = 'c.d.a"\\\n\N{CRAB}'
    observers.run_ended(replace(ENDED, view=name))
    assert samples(monitor)["tidemill_state_bytes", (name,)] == 4096.0
    assert [*health(monitor)[1]["views"]] == [name]


def test_what_is_answered(monitor: Monitor) -> None:
    assert monitor.address == f"http://127.0.0.1:{monitor.port}"
    assert asked(monitor, "/")[0] == 404
    assert asked(monitor, "/metrics?x=1")[0] == 200
    assert asked(monitor, "/health", "HEAD")[::2] == (200, "")
    assert asked(monitor, "/health", "POST")[0] == 501
    for host in ("localhost", "localhost:1", "127.0.0.1", "[::1]:80", "[::1]"):
        assert asked(monitor, "/health", host=host)[0] == 200
    for host in ("", "example.org", "example.org:80", "127.0.0.1.example.org", "10.0.0.1"):
        assert asked(monitor, "/health", host=host)[0] == 421


def test_served_to_other_machines_any_name_will_do(observers: Observers) -> None:
    with Monitor(host="0.0.0.0", observers=observers) as serving:
        assert asked(serving, "/health", host="example.org")[0] == 200


def test_closed(observers: Observers) -> None:
    serving = Monitor(observers=observers)
    serving.close()
    serving.close()
    observers.run_failed(FAILED)
    assert serving.health.told()["ok"]
    with pytest.raises(OSError, match="refused"):
        asked(serving, "/health")


def test_a_taken_port(monitor: Monitor, observers: Observers) -> None:
    with pytest.raises(OSError, match="in use"):
        Monitor(monitor.port, observers=observers)
    observers.run_failed(FAILED)
    assert health(monitor)[0] == 503


def test_told_from_many_threads(monitor: Monitor, observers: Observers) -> None:
    def tell() -> None:
        for _ in range(200):
            observers.run_begun("c.d.v", 1, "MANUAL", 1.0)
            observers.run_ended(ENDED)
            observers.tick_ended(1.0, lambda: {"c.d.v": None})

    threads = [threading.Thread(target=tell) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert samples(monitor)["tidemill_runs_total", ("c.d.v", "FULL", "COST")] == 1600.0


class Broken(RunLog):
    def run_ended(self, run: RunReport) -> None:
        raise RuntimeError("out of order")


def test_an_observer_that_fails_harms_nobody(
    monitor: Monitor, observers: Observers, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Broken()
    observers.detach(monitor.metrics)
    observers.attach(broken)
    observers.attach(broken)
    observers.attach(monitor.metrics)
    observers.run_ended(ENDED)
    assert samples(monitor)["tidemill_runs_total", ("c.d.v", "FULL", "COST")] == 1.0
    assert [r.getMessage() for r in caplog.records] == ["Tidemill: an observer of runs failed"]
    observers.detach(broken)
    observers.run_ended(ENDED)
    assert len(caplog.records) == 1


def test_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tidemill")
    for kind in ("text", "json"):
        log = RunLog("json" if kind == "json" else "text")
        log.run_begun("c.d.v", 1, "MANUAL", 1.0)
        log.run_ended(ENDED)
        log.run_ended(replace(ENDED, kind="NO_DATA"))
        log.run_failed(FAILED)
        log.tick_begun(1.0)
        log.tick_ended(2.0, dict)
    texts = [record.getMessage() for record in caplog.records]
    assert texts[0] == (
        'run of view=c.d.v run=3 point=1 trigger=MANUAL kind=FULL reason="COST: full 6 ms, incremental 9 ms"'
        " started_at=1700000000.0 wall_ms=1500 cpu_ms=250 jobs=2 read=100 written=20 inserted=7 deleted=3"
        " state_bytes=4096 regret_ms=50.0"
    )
    assert "kind=FAILED reason=DIVIDE_BY_ZERO" in texts[1]
    assert texts[1].endswith('message="by zero"')
    assert [json.loads(text) for text in texts[2:]] == [ENDED.told(), FAILED.told()]
    assert [vars(record)["tidemill"] for record in caplog.records] == [ENDED.told(), FAILED.told()] * 2
    assert "run" not in FAILED.told()


@pytest.mark.parametrize("value", ["a b", 'a"b', "a=b", "a\nb", "", "\N{CRAB} x"])
def test_a_line_is_one_line_whatever_is_in_it(value: str) -> None:
    for kind in ("text", "json"):
        line = run_log.line({"view": value, "run": 1}, "json" if kind == "json" else "text")
        assert "\n" not in line
        if kind == "text":
            quoted = line.removeprefix("run of view=").removesuffix(" run=1")
            assert json.loads(quoted) == value


RUN = "point=1 trigger=MANUAL kind=FULL started_at=0.0"
PROGRAM = """
import logging
from tidemill.monitor.observer import Observers, RunReport
from tidemill.monitor.run_log import asked_for
{before}
told = Observers()
told.attach(asked_for())
told.attach(asked_for())
told.run_ended(RunReport("v", 3, 1, "MANUAL", "FULL"))
"""


def printed(before: str = "", **variables: str) -> list[str]:
    """The lines on the standard error of a program, which are those of its log."""
    command = [sys.executable, "-c", PROGRAM.format(before=before)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment(variables))
    return done.stderr.splitlines()


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if k != run_log.VARIABLE}, **variables}


def test_the_environment_asks_for_lines() -> None:
    assert printed() == []
    (text,) = printed(TIDEMILL_LOG="text")
    assert text.startswith("run of view=v run=3 ")
    (document,) = printed(TIDEMILL_LOG="json")
    assert json.loads(document)["kind"] == "FULL"
    basic = "logging.basicConfig(format='%(levelname)s %(name)s: %(message)s')"
    assert printed(basic) == []
    (text,) = printed(basic, TIDEMILL_LOG="text")
    assert text.startswith("INFO tidemill: run of view=v ")
    (document,) = printed(f"{basic}; logging.getLogger('tidemill').setLevel('DEBUG')", TIDEMILL_LOG="json")
    assert json.loads(document.removeprefix("INFO tidemill: "))["run"] == 3
    show = "from tidemill.monitor import run_log; run_log.show('%(levelname)s %(name)s: %(message)s')"
    before = f"{show}; logging.getLogger('tidemill.scheduler').warning('v failed')"
    assert printed(before) == ["WARNING tidemill.scheduler: v failed", "INFO tidemill: run of view=v run=3 " + RUN]
    warning, document = printed(before, TIDEMILL_LOG="json")
    assert (warning, json.loads(document)["run"]) == ("WARNING tidemill.scheduler: v failed", 3)
    assert {*printed(TIDEMILL_LOG="yaml")} == {"Tidemill: TIDEMILL_LOG=yaml counts for nothing: it is text or json"}
