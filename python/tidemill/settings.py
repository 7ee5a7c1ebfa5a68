"""All settings of Tidemill in one registry, and their values for one planning call as one frozen object.

The registry generates docs/settings.md (`python -m tidemill.settings > docs/settings.md`). Each pack of rules has a
setting. Nothing here needs Spark: a session's confs come in as a plain mapping.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from tidemill.errors import TidemillError
from tidemill.rule.pack import Pack, built_in_packs

PREFIX = "spark.tidemill."
INTERNAL = PREFIX + "internal."  # set by Tidemill itself in sessions of its own
MONITOR_PORT = f"{PREFIX}monitor.port"
PACKS = tuple(pack.name for pack in built_in_packs())
"""Names of the packs of this release, in the order in which their rules are tried."""
NO_DEFAULT = ""

Scope = Literal["startup", "session"]
Kind = Literal["boolean", "string", "paths", "pack", "choice", "duration", "count", "port"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting; `choices` are the values that a setting of kind `choice` takes."""

    name: str
    kind: Kind
    default: str
    scope: Scope
    doc: str
    choices: tuple[str, ...] = ()


def _pack_toggle(pack: Pack) -> Setting:
    doc = f"Whether plans may use the pack `{pack.name}`: {pack.method}."
    return Setting(f"{PREFIX}method.{pack.name}.enabled", "boolean", "true", "session", doc)


SETTINGS: tuple[Setting, ...] = (
    Setting(
        f"{PREFIX}python",
        "string",
        NO_DEFAULT,
        "startup",
        "Interpreter of the planner process that a JVM driver (`spark-sql`, Thrift server, Connect server) starts. "
        "Without it: `spark.pyspark.driver.python`, `spark.pyspark.python`, `PYSPARK_DRIVER_PYTHON`, `PYSPARK_PYTHON`, "
        "`python3`.",
    ),
    Setting(
        f"{PREFIX}rules.paths",
        "paths",
        NO_DEFAULT,
        "startup",
        "Folders of further rule packs, separated by commas. Rule packs are code that runs in the driver.",
    ),
    Setting(
        f"{PREFIX}scheduler.enabled",
        "boolean",
        "false",
        "startup",
        "Whether this application fires the schedules of the views in its catalog, for as long as it runs "
        "([schedules.md](schedules.md)). Without it, `tidemill run` does, or they are refreshed by hand.",
    ),
    Setting(
        f"{PREFIX}scheduler.interval",
        "duration",
        "2s",
        "session",
        "The time between two looks of a scheduler for changed sources and for new views; times of day and intervals "
        "are kept to the second all the same. Looks that take long are made less often. A scheduler reads it when it "
        "starts, of the session that starts it.",
    ),
    Setting(
        MONITOR_PORT,
        "port",
        NO_DEFAULT,
        "startup",
        "A port of the driver's machine at which health and metrics are served to this "
        "machine alone ([monitoring.md](monitoring.md)). 0: any free one, which the log names. Without it: none.",
    ),
    Setting(
        f"{PREFIX}answers",
        "choice",
        "columns",
        "session",
        "`columns`: REFRESH and SHOW REFRESHES answer with columns, and CREATE with nothing. `text`: they answer with "
        "lines for people, and CREATE says what it did. `tidemill sql` sets `text`.",
        ("columns", "text"),
    ),
    *map(_pack_toggle, built_in_packs()),
    Setting(
        f"{PREFIX}method.prefer",
        "pack",
        NO_DEFAULT,
        "session",
        "A pack to use wherever it applies, whatever it costs (for experiments).",
    ),
    Setting(
        f"{PREFIX}cost.model",
        "choice",
        "default",
        "session",
        "`default`: executor CPU milliseconds. `tuples`: the signed rows that arrive at each join, aggregate and "
        "DISTINCT of the query as written.",
        ("default", "tuples"),
    ),
    Setting(
        f"{PREFIX}cost.constants",
        "string",
        NO_DEFAULT,
        "session",
        "A file that `tidemill calibrate` wrote, on the driver's machine: constants of the model `default` as "
        "they were measured ([costs.md](costs.md)). Without it: the shipped ones.",
    ),
    Setting(
        f"{PREFIX}cost.objective",
        "choice",
        "priced",
        "session",
        "`priced`: the sum over the points of price times cost. `last`: the cost at the last point decides, whatever "
        "that costs before; what is equal there is compared by the point before it, and so on. Prices do not count.",
        ("priced", "last"),
    ),
    Setting(
        f"{PREFIX}fullRuns.tellChanges",
        "boolean",
        "true",
        "session",
        "Whether a run that recomputes a view compares the new content with the old one if other views read it, so "
        "that their next runs can be incremental. Its cost is part of the run's. If not, these runs are full "
        "(`SOURCE_REWRITTEN`).",
    ),
    Setting(
        f"{PREFIX}search.timeLimit",
        "duration",
        "3s",
        "session",
        "The time that the search for a plan may take in each of its parts: exploring by rules, choosing states at the "
        "initial load, and trying plans of single methods beside the cheapest plan. Then the best plan found so far is "
        "used. Three things are done however long they take: the states of the view are found, its change is derived, "
        "and what the plan computes several times is shared. A number with `ms`, `s`, `min` or `h`.",
    ),
    Setting(
        f"{PREFIX}search.processes",
        "count",
        "2",
        "session",
        "The number of processes beside the planner's own that may search for plans of large queries at a time, so "
        "that other statements do not wait for the interpreter. They are started when they are needed. 0: none.",
    ),
    Setting(
        f"{PREFIX}refresh.sideBySide",
        "count",
        "4",
        "session",
        "The number of views that REFRESH INCREMENTAL VIEWS refreshes at a time, if they do not read each other, and "
        "of steps of runs that work at a time, if they do not wait for each other. 1: one after the other. Small "
        "ones wait more than they compute, so more than the number of cores can pay.",
    ),
    Setting(
        f"{PREFIX}debug.requests",
        "string",
        NO_DEFAULT,
        "session",
        "A folder on the driver's machine. Each request to the planner is written there as a JSON file, for "
        "`tidemill debug replay` ([debugging.md](debugging.md)). A file that cannot be written is a warning in the "
        "log. Without it: nothing is written.",
    ),
)


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """The settings of a session that the planner needs. `time_limit`: in seconds."""

    packs: frozenset[str] = frozenset(PACKS)
    prefer: str | None = None
    cost_model: str = "default"
    cost_constants: str = ""
    objective: str = "priced"
    time_limit: float = 3.0
    processes: int = 2
    rules_paths: tuple[str, ...] = ()
    debug_requests: str = ""
    tell_changes: bool = True
    side_by_side: int = field(default=4, compare=False, repr=False)  # no plan depends on it, nor on what follows
    scheduler_enabled: bool = field(default=False, compare=False, repr=False)
    scheduler_interval: float = field(default=2.0, compare=False, repr=False)

    @property
    def last_first(self) -> bool:
        """True if the cost at the last point counts before that at the one before it, and so on (Tempura's c_v)."""
        return self.objective == "last"

    @classmethod
    def from_confs(cls, confs: Mapping[str, str]) -> "PlannerSettings":
        """Reads the settings from a session's confs; confs outside spark.tidemill.* are ignored.

        The folders of `spark.tidemill.rules.paths` are packs too. Raises TIDEMILL_INVALID_SETTING for a name or a value
        that does not exist.

        >>> settings = PlannerSettings.from_confs({"spark.tidemill.method.affected.enabled": "false"})
        >>> "affected" in settings.packs, "delta" in settings.packs
        (False, True)
        """
        rules_paths = tuple(filter(None, map(str.strip, confs.get(f"{PREFIX}rules.paths", "").split(","))))
        known = _with_user_packs(PurePath(path).name for path in rules_paths)
        values = {name: setting.default for name, setting in known.items()}
        for name, value in confs.items():
            if name.startswith(PREFIX) and not name.startswith(INTERNAL):
                if name not in known:
                    raise _error(name, value, _unknown_name(name, known))
                values[name] = value.strip()
        packs = tuple(s.name.split(".")[3] for s in known.values() if _is_toggle(s.name))
        enabled = frozenset(p for p in packs if _boolean(_toggle(p), values[_toggle(p)]))
        prefer = values[f"{PREFIX}method.prefer"] or None
        if prefer is not None and prefer not in packs:
            raise _error(f"{PREFIX}method.prefer", prefer, "one of " + ", ".join(packs))
        if prefer is not None and prefer not in enabled:
            raise _error(f"{PREFIX}method.prefer", prefer, f"an enabled pack ({_toggle(prefer)} is false)")
        monitor_port(values[MONITOR_PORT])  # read at the first statement
        _choice(known[f"{PREFIX}answers"], values)  # read by the session's own statements, checked here
        return cls(
            packs=enabled,
            prefer=prefer,
            cost_model=_choice(known[f"{PREFIX}cost.model"], values),
            cost_constants=values[f"{PREFIX}cost.constants"],
            objective=_choice(known[f"{PREFIX}cost.objective"], values),
            time_limit=_seconds(f"{PREFIX}search.timeLimit", values[f"{PREFIX}search.timeLimit"]),
            processes=_count(f"{PREFIX}search.processes", values[f"{PREFIX}search.processes"]),
            rules_paths=rules_paths,
            debug_requests=values[f"{PREFIX}debug.requests"],
            side_by_side=max(1, _count(f"{PREFIX}refresh.sideBySide", values[f"{PREFIX}refresh.sideBySide"])),
            scheduler_enabled=_boolean(f"{PREFIX}scheduler.enabled", values[f"{PREFIX}scheduler.enabled"]),
            scheduler_interval=_seconds(f"{PREFIX}scheduler.interval", values[f"{PREFIX}scheduler.interval"]),
            tell_changes=_boolean(f"{PREFIX}fullRuns.tellChanges", values[f"{PREFIX}fullRuns.tellChanges"]),
        )


def _toggle(pack: str) -> str:
    return f"{PREFIX}method.{pack}.enabled"


def _is_toggle(name: str) -> bool:
    return name.startswith(f"{PREFIX}method.") and name.endswith(".enabled")


def _with_user_packs(user_packs: Iterable[str]) -> dict[str, Setting]:
    known = {setting.name: setting for setting in SETTINGS}
    for pack in user_packs:
        known.setdefault(_toggle(pack), Setting(_toggle(pack), "boolean", "true", "session", "A pack of the user."))
    return known


def _unknown_name(name: str, known: Mapping[str, Setting]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return "nothing, for there is no setting of this name" + (f"; did you mean {close[0]}?" if close else "")


def _error(name: str, value: str, expected: str) -> TidemillError:
    return TidemillError("TIDEMILL_INVALID_SETTING", {"setting": name, "value": value, "expected": expected})


def _boolean(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise _error(name, value, "true or false")
    return value.lower() == "true"


def _choice(setting: Setting, values: Mapping[str, str]) -> str:
    value = values[setting.name]
    if value not in setting.choices:
        raise _error(setting.name, value, "one of " + ", ".join(setting.choices))
    return value


def _count(name: str, value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", value):
        raise _error(name, value, "a whole number from 0 on")
    return int(value)


def monitor_port(value: str) -> int | None:
    """Returns the port at which health and metrics are served; None: at none. Raises TIDEMILL_INVALID_SETTING."""
    if not value.strip():
        return None
    if not re.fullmatch(r"[0-9]{1,5}", value.strip()) or int(value) > 65_535:
        raise _error(MONITOR_PORT, value, "a port, from 0 to 65535")
    return int(value)


def _seconds(name: str, value: str) -> float:
    """Returns the seconds of a duration such as 500ms, 3s, 2min or 1h. A plain number is seconds, as in Spark."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)?", value.lower())
    if match is None or float(match[1]) == 0:
        raise _error(name, value, "a positive duration such as 500ms, 3s or 2min")
    return float(match[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}[match[2] or "s"]


def page() -> str:
    """Returns the text of docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "<!-- generated: python -m tidemill.settings > docs/settings.md -->",
        "",
        "Tidemill is switched on by `spark.sql.extensions=tidemill.spark.TidemillExtensions` and its jar, both of",
        "which `tidemill.configure(builder)` and `tidemill sql` add. An unknown name under `spark.tidemill.` or an",
        "impossible value is an error (`TIDEMILL_INVALID_SETTING`), never ignored.",
    ]
    titles = {
        "startup": "Fixed when the application starts",
        "session": "Per session, read when a refresh is planned",
    }
    for scope, title in titles.items():
        lines += ["", f"## {title}", "", "| name | type | default | meaning |", "|---|---|---|---|"]
        for setting in SETTINGS:
            if setting.scope == scope:
                default = f"`{setting.default}`" if setting.default else "none"
                kind = " or ".join(f"`{c}`" for c in setting.choices) or setting.kind
                lines.append(f"| `{setting.name}` | {kind} | {default} | {setting.doc} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
