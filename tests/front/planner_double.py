"""A planner that understands a handful of statements: for tests of the bridge that need no view and no planner.

Run as a program it stands for `python -m tidemill.driver.process`.

| statement contains | what happens |
|---|---|
| `refused` | the parser refuses that word |
| `AS query` | the JVM has Spark parse the query |
| `missing` | TIDEMILL_NOT_FOUND when executed |
| `spark error` | an error of Spark's analyser |
| `python error` | the Python code fails |
| `die` | the planner's process ends |
| else | one row of every type of cell |
"""

from __future__ import annotations

import os
import threading
from typing import Any

from tidemill.bridge.jvm import Jvm
from tidemill.driver import process
from tidemill.driver.endpoint import Endpoint
from tidemill.errors import TidemillError, utf16_offset

STRINGS = {"type": "array", "elementType": "string", "containsNull": True}
PAIRS = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
COUNTS = {
    "type": "struct",
    "fields": [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in ("inserts", "deletes")],
}
COLUMNS = [
    ["where", "string", False],
    ["process", "long", False],
    ["nothing", "integer", True],
    ["flag", "boolean", True],
    ["cost", "double", True],
    ["at", "timestamp", True],
    ["methods", STRINGS, True],
    ["positions", PAIRS, True],
    ["rows_in", COUNTS, True],
]


class Double(Endpoint):
    """The planner's end of the bridge with the planner left out."""

    def _parse(self, sql: str) -> dict[str, Any]:
        if "refused" in sql:
            at = sql.index("refused")
            raise TidemillError("TIDEMILL_INVALID_CLAUSE", {"clause": "x", "reason": "refused"}, (at, at + 7))
        query = None
        if " AS " in sql:
            query = [utf16_offset(sql, sql.index(" AS ") + 4), utf16_offset(sql, len(sql))]
        return {"statement": {"kind": "test"}, "columns": COLUMNS, "query": query}

    def _execute(self, jvm: Jvm, statement: dict[str, Any], sql: str) -> dict[str, Any]:
        assert statement == {"kind": "test"}
        if "missing" in sql:
            raise TidemillError("TIDEMILL_NOT_FOUND", {"view": "missing", "catalog": "the catalog"})
        if "spark error" in sql:
            jvm.session.sql("SELECT no_such_column FROM range(3)")
        if "python error" in sql:
            raise ZeroDivisionError("by zero")
        if "die" in sql:
            os._exit(3)
        group = jvm.session.sparkContext().getLocalProperty("spark.jobGroup.id")
        where = f"{threading.current_thread().name}/{group}"
        row = [where, os.getpid(), None, True, 0.5, 1_700_000_000_123_456, ["a", None], {"k": "v"}, [1, None]]
        return {"rows": [row], "warnings": ["a warning of the planner"]}


if __name__ == "__main__":
    process.main(Double)
