"""The 99 queries of TPC-DS with parameters under which each result is there at scale 0.01 and changes.

`tpcds_parameters.toml` says, for each query that needs it, what replaces what in the text that DuckDB brings.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.data import standard

PARAMETERS = Path(__file__).with_name("tpcds_parameters.toml")
_ORDER = re.compile(r"(.*\bORDER\s+BY\s+)(.*?)(\s+LIMIT\s+\d+)", re.DOTALL | re.IGNORECASE)
"""A text up to the list of its last ORDER BY, that list, and the LIMIT after it."""


def texts(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The query texts by name, q01 to q99, for DuckDB and for Spark; ValueError if a replacement does not fit."""
    made = standard(connection, "tpcds")
    for name, parameters in tomllib.loads(PARAMETERS.read_text(encoding="utf-8")).items():
        if name not in made:
            raise ValueError(f"{name}: no such query")
        made[name] = replaced(name, made[name], parameters)
    return made


def replaced(name: str, text: str, parameters: dict[str, Any]) -> str:
    """The text with `changes` (pairs of old and new, each old one everywhere) and with `order` as its last ORDER BY.

    >>> replaced("q00", "SELECT a, b FROM t WHERE a=1 ORDER BY a LIMIT 9", {"changes": [["=1", "<5"]], "order": "a, 2"})
    'SELECT a, b FROM t WHERE a<5 ORDER BY a, 2 LIMIT 9'
    """
    if unknown := parameters.keys() - {"changes", "order"}:
        raise ValueError(f"{name}: unknown {', '.join(sorted(unknown))}")
    for old, new in parameters.get("changes", ()):
        text, count = re.subn(r"\s+".join(map(re.escape, old.split())), new.replace("\\", r"\\"), text)
        if not count:
            raise ValueError(f"{name}: no {old!r} in the text")
    if "order" in parameters:
        found = _ORDER.fullmatch(text)
        if not found or found[2].count("(") != found[2].count(")"):
            raise ValueError(f"{name}: no ORDER BY and LIMIT at the end of the text")
        text = found[1] + parameters["order"] + found[3]
    return text
