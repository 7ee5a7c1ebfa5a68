"""What the parser refuses, and where it points: blocks of statement, carets and error in two text files.

`PYTHONPATH=python python tests/sql/test_refusals.py` writes the files anew from their statements: read the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.errors import TidemillError
from tidemill.sql import not_yet
from tidemill.sql.parse import parse, read

HERE = Path(__file__).parent
FILES = ("refusals.txt", "not_yet.txt")


def blocks(file: str) -> list[str]:
    return (HERE / file).read_text(encoding="utf-8").strip("\n").split("\n\n")


def block_of(sql: str) -> str:
    try:
        parse(sql)
    except TidemillError as error:
        start, stop = error.position or (-1, -1)
        text = error.message.removeprefix(f"[{error.condition}] ").replace("\n", " ")
        return f"{sql}\n{' ' * start}{'^' * max(1, stop - start)}\n{error.condition}: {text}"
    return f"{sql}\naccepted"


@pytest.mark.parametrize("block", [block for file in FILES for block in blocks(file)])
def test_refused(block: str) -> None:
    assert block_of(block.split("\n")[0]) == block
    assert "accepted" not in block


@pytest.mark.parametrize("block", blocks("not_yet.txt"))
def test_what_is_not_supported_yet_is_read(block: str) -> None:
    assert "TIDEMILL_NOT_YET" in block
    read(block.split("\n")[0])


def test_every_row_of_not_yet_is_shown() -> None:
    shown = [block.split("\n")[2].removeprefix("TIDEMILL_NOT_YET: ") for block in blocks("not_yet.txt")]
    for clause in not_yet.NOT_YET:
        assert any(line.startswith(f"{clause} is part of") for line in shown), clause


def test_the_first_of_several_is_named() -> None:
    with pytest.raises(TidemillError) as raised:
        parse("CREATE INCREMENTAL VIEW v TOTAL WORK <= 2 SCHEDULE (ON DEMAND) USING iceberg AS SELECT 1")
    assert raised.value.parameters["clause"] == "TOTAL WORK"


def test_a_wrong_clause_is_reported_before_a_missing_feature() -> None:
    with pytest.raises(TidemillError) as raised:
        parse("CREATE INCREMENTAL VIEW v FINAL WORK <= 0.1 SCHEDULE (ON DEMAND) REFRESH POLICY NEVER AS SELECT 1")
    assert raised.value.condition == "PARSE_SYNTAX_ERROR"


def test_places_count_all_lines_and_characters() -> None:
    sql = "-- \N{WATER WAVE}\nREFRESH INCREMENTAL\n  VIEW v /* 'x' */ SOON"
    with pytest.raises(TidemillError) as raised:
        parse(sql)
    assert raised.value.position is not None
    assert sql[slice(*raised.value.position)] == "SOON"
    document = raised.value.envelope(sql)["error"]
    # The JVM counts the wave twice.
    assert (document["start"], document["stop"]) == tuple(place + 1 for place in raised.value.position)


if __name__ == "__main__":
    for name in FILES:
        texts = [block_of(block.split("\n")[0]) for block in blocks(name)]
        (HERE / name).write_text("\n\n".join(texts) + "\n", encoding="utf-8")
