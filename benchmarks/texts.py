"""The query texts of TPC-H and TPC-DS as DuckDB brings them, and what is replaced in those of TPC-DS.

`tpcds_parameters.toml` says of each query that needs it what replaces what: an order that leaves nothing open to LIMIT,
and parameters under which its result is there and changes at scale 0.01.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import duckdb

PARAMETERS = Path(__file__).with_name("tpcds_parameters.toml")
_ORDER = re.compile(r"(.*\bORDER\s+BY\s+)(.*?)(\s+LIMIT\s+\d+)", re.DOTALL | re.IGNORECASE)
"""A text up to the list of its last ORDER BY, that list, and the LIMIT after it."""


def standard(benchmark: str) -> dict[str, str]:
    """The query texts of `tpch` or `tpcds` by name, q01 and so on, with the parameters that DuckDB gives them."""
    with duckdb.connect() as connection:
        connection.execute(f"LOAD {benchmark}")
        rows = connection.execute(f"FROM {benchmark}_queries()").fetchall()
    return {f"q{number:02}": text.strip().rstrip(";").rstrip() for number, text in rows}


def tpcds(*, small: bool = False) -> dict[str, str]:
    """The 99 texts by name, q01 to q99, each in an order that leaves nothing open, for DuckDB and for Spark.

    small: with parameters for scale 0.01. ValueError if a replacement does not fit.
    """
    made = standard("tpcds")
    for name, parameters in tomllib.loads(PARAMETERS.read_text(encoding="utf-8")).items():
        if name not in made:
            raise ValueError(f"{name}: no such query")
        wanted = parameters if small else {kind: what for kind, what in parameters.items() if kind == "order"}
        made[name] = replaced(name, made[name], wanted)
    return made


def by_number(found: dict[str, str]) -> dict[int, str]:
    """Texts by number instead of by name."""
    return {int(name.removeprefix("q")): text for name, text in found.items()}


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
