"""Settings: the page is current, and what a session says becomes one typed object or a clear error."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidemill import settings
from tidemill.errors import TidemillError
from tidemill.rule.pack import built_in_packs
from tidemill.settings import PlannerSettings

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_current() -> None:
    written = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert written == settings.page(), "run: python -m tidemill.settings > docs/settings.md"


def test_each_pack_has_a_switch_whose_meaning_is_what_it_declares() -> None:
    meanings = {setting.name: setting.doc for setting in settings.SETTINGS}
    for pack in built_in_packs():
        assert meanings[f"spark.tidemill.method.{pack.name}.enabled"].endswith(
            f"the pack `{pack.name}`: {pack.method}."
        )


def test_the_defaults_of_the_registry_are_those_of_the_object() -> None:
    assert PlannerSettings.from_confs({}) == PlannerSettings()


def test_values_are_read() -> None:
    read = PlannerSettings.from_confs(
        {
            "spark.tidemill.method.delta.enabled": "FALSE",
            "spark.tidemill.method.prefer": "affected",
            "spark.tidemill.cost.model": "tuples",
            "spark.tidemill.cost.objective": "last",
            "spark.tidemill.search.timeLimit": "250ms",
            "spark.tidemill.search.processes": " 3 ",
            "spark.tidemill.rules.paths": "/a, /b/c",
            "spark.tidemill.debug.requests": "/d",
            "spark.tidemill.python": "/usr/bin/python3",
            "spark.tidemill.internal.anything": "1",
            "spark.sql.ansi.enabled": "perhaps",
        }
    )
    assert "delta" not in read.packs
    assert "affected" in read.packs
    assert (read.prefer, read.cost_model, read.objective) == ("affected", "tuples", "last")
    assert (read.time_limit, read.processes) == (0.25, 3)
    assert read.rules_paths == ("/a", "/b/c")
    assert read.debug_requests == "/d"


def test_packs_of_the_user_have_toggles_too() -> None:
    paths = {"spark.tidemill.rules.paths": "/somewhere/mine, /b/yours/"}
    assert {"mine", "yours"} <= PlannerSettings.from_confs(paths).packs
    assert "mine" not in PlannerSettings.from_confs({**paths, "spark.tidemill.method.mine.enabled": "false"}).packs
    assert PlannerSettings.from_confs({**paths, "spark.tidemill.method.prefer": "mine"}).prefer == "mine"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("method.delta.enabled", "yes", "true or false"),
        ("method.prefer", "fastest", "one of delta, "),
        ("cost.model", "magic", "one of default, tuples"),
        ("cost.objective", "", "one of priced, last"),
        ("search.timeLimit", "0s", "a positive duration"),
        ("search.processes", "-1", "a whole number"),
        ("search.processes", "many", "a whole number"),
        ("monitor.port", "http", "a port"),
        ("monitor.port", "65536", "a port"),
        ("search.timeLimit", "soon", "a positive duration"),
        ("method.dleta.enabled", "true", "did you mean spark.tidemill.method.delta.enabled"),
        ("zzz", "1", "no setting of this name"),
    ],
)
def test_what_cannot_be_is_an_error(name: str, value: str, words: str) -> None:
    with pytest.raises(TidemillError, match=words) as error:
        PlannerSettings.from_confs({f"spark.tidemill.{name}": value})
    assert error.value.condition == "TIDEMILL_INVALID_SETTING"
    assert f"spark.tidemill.{name}" in error.value.message


def test_a_disabled_pack_cannot_be_preferred() -> None:
    with pytest.raises(TidemillError, match="an enabled pack"):
        PlannerSettings.from_confs(
            {"spark.tidemill.method.prefer": "delta", "spark.tidemill.method.delta.enabled": "false"}
        )


def test_neither_the_package_nor_the_settings_import_spark() -> None:
    code = "import sys, tidemill, tidemill.settings; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_how_many_views_run_at_a_time_is_no_part_of_a_plan() -> None:
    """Plans that were made for another number are used again: they are kept by the text of the settings."""
    one, many = (PlannerSettings.from_confs({"spark.tidemill.refresh.sideBySide": n}) for n in ("0", "8"))
    assert (one.side_by_side, many.side_by_side) == (1, 8)
    assert (one, repr(one)) == (many, repr(many))
