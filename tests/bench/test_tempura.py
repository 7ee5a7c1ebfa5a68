"""The queries of the Tempura grid with written outer joins, and how its methods are compared."""

from __future__ import annotations

import duckdb
import pytest

from benchmarks import tempura, texts


@pytest.fixture(scope="module")
def data() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("LOAD tpcds")
    connection.execute("CALL dsdgen(sf=0.01)")
    return connection


@pytest.mark.parametrize("number", ["10", "35"])
def test_written_outer_joins_give_the_same_rows(data: duckdb.DuckDBPyConnection, number: str) -> None:
    # The standard's parameters leave nothing at this scale.
    original = texts.tpcds(small=True)[f"q{number}"]
    made = tempura.with_outer_joins(original)
    assert made.count("LEFT JOIN") == 3
    assert "EXISTS" not in made
    rows = data.execute(original).fetchall()
    assert rows
    assert data.execute(made).fetchall() == rows


def test_texts_by_name() -> None:
    assert "LEFT JOIN" in tempura.text("35 written")
    assert "LEFT JOIN" not in tempura.text("35")
    with pytest.raises(ValueError, match="no EXISTS"):
        tempura.with_outer_joins("SELECT 1")


def test_a_method_alone_has_deltas_and_recomputing_below_it() -> None:
    assert tempura.packs("IM-1") == {"delta", "recompute"}
    assert tempura.packs("HOV") == {"delta", "higher_order", "recompute"}
    assert tempura.packs("recompute") == {"recompute"}
    assert tempura.packs("all") > tempura.packs("HOV")
    assert "spark.tidemill.method.prefer" not in tempura.confs(tempura.SCENARIOS["0.3"], "HOV")


def test_the_vector_counts_the_last_run_and_prices_count_both() -> None:
    found = {name: kind.priced(100, 10) for name, kind in tempura.SCENARIOS.items()}
    assert found == {"second": 10, "c_v": 10, "0.3": 40, "0.7": 80}
