"""Errors of Tidemill: named conditions with a SQLSTATE, in the layout of Spark's own.

`errors.json` has all conditions, with SQLSTATE, message, example and explanation. `page()` makes `docs/errors.md` from
it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_PARAMETER = re.compile(r"<(\w+)>")


@dataclass(frozen=True, slots=True)
class Condition:
    """One row of `errors.json`. `message` has its parameters as `<parameter>`; `doc` says what to do about it."""

    name: str
    sql_state: str
    message: str
    example: str
    doc: str

    @property
    def parameters(self) -> tuple[str, ...]:
        """Returns the names of the parameters of the message, in order of first use."""
        return tuple(dict.fromkeys(_PARAMETER.findall(self.message)))

    @property
    def of_spark(self) -> bool:
        """True if the condition is one of Spark's own, which Tidemill raises in the same case as Spark."""
        return not self.name.startswith("TIDEMILL_")


@cache
def conditions() -> Mapping[str, Condition]:
    """Returns all conditions by name, in the order of the file."""
    rows = json.loads(Path(__file__).with_name("errors.json").read_text(encoding="utf-8"))
    return {
        name: Condition(name, row["sqlState"], row["message"], row["example"], row["doc"]) for name, row in rows.items()
    }


class TidemillError(Exception):
    """An error that a user can cause or must know of.

    `position` is the character range (start, stop), stop exclusive, in the statement's text, in code points; None if
    the error has no place in a text. A parameter that the caller leaves out stays in the message as `<parameter>`. A
    condition that `errors.json` does not have raises KeyError.
    """

    def __init__(
        self,
        condition: str,
        parameters: Mapping[str, object] | None = None,
        position: tuple[int, int] | None = None,
    ) -> None:
        known = conditions()[condition]
        self.condition = condition
        self.sql_state = known.sql_state
        self.parameters = {name: str(value) for name, value in (parameters or {}).items()}
        self.position = position
        text = _PARAMETER.sub(lambda match: self.parameters.get(match.group(1), match.group()), known.message)
        self.message = f"[{condition}] {text} SQLSTATE: {known.sql_state}"
        super().__init__(self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own would call the constructor with the message as the condition.
        return TidemillError, (self.condition, self.parameters, self.position)

    def envelope(self, sql: str = "") -> dict[str, Any]:
        """Returns the answer of the planner endpoint for this error (contract between JVM and Python).

        `sql` is the text that the position points into: the JVM counts its characters in UTF-16 units.
        """
        start, stop = (None, None) if self.position is None else (utf16_offset(sql, at) for at in self.position)
        return {
            "error": {
                "condition": self.condition,
                "sqlState": self.sql_state,
                "message": self.message,
                "parameters": self.parameters,
                "start": start,
                "stop": stop,
            }
        }


def utf16_offset(text: str, offset: int) -> int:
    """Returns the JVM's offset, in UTF-16 units, for this offset in code points.

    >>> utf16_offset("\N{WATER WAVE}x", 1)
    2
    """
    return offset + sum(char > "\uffff" for char in text[:offset])


def page() -> str:
    """Returns the text of `docs/errors.md`."""
    known = conditions().values()
    own = [condition for condition in known if not condition.of_spark]
    others = [condition for condition in known if condition.of_spark]
    lines = [
        "# Errors",
        "",
        "<!-- Made from python/tidemill/errors.json: python -m tidemill.errors > docs/errors.md -->",
        "",
        "Every error of Tidemill has a condition, an SQLSTATE and parameters, as Spark's own errors have. In PySpark,",
        "`getCondition()`, `getSqlState()` and `getMessageParameters()` return them. An error in the text of a",
        "statement points at its place. A statement that fails changes nothing.",
        "",
        "| condition | SQLSTATE | in short |",
        "|---|---|---|",
        *(f"| [{c.name}](#{c.name.lower()}) | {c.sql_state} | {_cell(c.message)} |" for c in own),
        "",
        *(line for condition in own for line in _section(condition)),
        "## Conditions of Spark",
        "",
        "Mistakes in the syntax of a statement are reported with Spark's own conditions.",
        "",
        *(line for condition in others for line in _section(condition)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _section(condition: Condition) -> list[str]:
    return [
        f"### {condition.name}",
        "",
        f"SQLSTATE {condition.sql_state}. `{condition.message}`",
        "",
        condition.doc,
        "",
        "```sql",
        condition.example,
        "```",
        "",
    ]


def _cell(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
