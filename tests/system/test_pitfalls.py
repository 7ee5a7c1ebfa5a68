"""One test for each way of getting it wrong that this surface can meet.

Each test works in keys of its own within shared tables, so that it is cheap and any order of the tests is right.
"""

from __future__ import annotations

import pytest

from tests.system.conftest import World

pytestmark = pytest.mark.slow

FEED = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
VIEWS = {
    "bag": "SELECT v, w FROM l",
    "uniq": "SELECT DISTINCT v, w FROM l",
    "outer_rows": "SELECT l.k, l.v, r.w, COALESCE(r.w, -1) AS c, "
    "CASE WHEN r.k IS NULL THEN 'none' ELSE 'some' END AS s FROM l LEFT JOIN r ON l.k = r.k",
    "outer_more": "SELECT l.k, l.v, r.w FROM l LEFT JOIN r ON l.k = r.k AND r.w > 10 AND l.v < 100",
    "outer_where": "SELECT l.k, l.v, r.w FROM l LEFT JOIN r ON l.k = r.k WHERE r.w IS NULL OR r.w > 10",
    "outer_chain": "SELECT a.k, a.v, b.w, c.w AS w2 FROM l a LEFT JOIN r b ON a.k = b.k LEFT JOIN r c ON b.w = c.k",
    "null_safe": "SELECT l.v, r.w FROM l JOIN r ON l.k <=> r.k",
    "groups": "SELECT k, COUNT(*) AS n, COUNT(v) AS nv, COUNT(w) AS nw, SUM(v) AS sv, SUM(w) AS sw, AVG(v) AS av "
    "FROM l GROUP BY k",
    "padded": "SELECT l.k, COUNT(*) AS n, COUNT(r.w) AS nr, SUM(r.w) AS s FROM l LEFT JOIN r ON l.k = r.k GROUP BY l.k",
    "extremes": "SELECT k, MIN(v) AS lo, MAX(v) AS hi, MIN(w) AS lw FROM l GROUP BY k",
    "having_groups": "SELECT k, SUM(v) AS s FROM l GROUP BY k HAVING SUM(v) > 10",
    "distincts": "SELECT k, COUNT(DISTINCT v) AS dv, COUNT(DISTINCT w) AS dw, SUM(DISTINCT v) AS sv, COUNT(*) AS n, "
    "COUNT(DISTINCT v) FILTER (WHERE w > 0) AS fv FROM l GROUP BY k",
    "selfjoin": "SELECT a.v AS x, b.v AS y, c.v AS z FROM l a JOIN l b ON a.k = b.k JOIN l c ON b.k = c.k",
    "level2": "SELECT n, COUNT(*) AS m FROM (SELECT k, COUNT(*) AS n FROM l GROUP BY k) GROUP BY n",
    "lists": "SELECT k, sort_array(collect_list(v)) AS vs, percentile(v, 0.5) AS p FROM l GROUP BY k",
    "numbers": "SELECT k, SUM(d) AS s, AVG(d) AS a, STDDEV(d) AS sd, VAR_POP(d) AS vp, VAR_SAMP(d) AS vs "
    "FROM e GROUP BY k",
    "by_double": "SELECT d, COUNT(*) AS n FROM e GROUP BY d",
    "money": "SELECT k, SUM(m) AS s, AVG(CASE WHEN k = 2201 THEN m END) AS a, COUNT(m) AS n FROM e GROUP BY k",
    "total": "SELECT COUNT(*) AS n, SUM(v) AS s, MAX(v) AS hi FROM alone",
    "total_having": "SELECT COUNT(*) AS n FROM alone HAVING COUNT(*) > 1",
    "top": "SELECT v, k FROM alone ORDER BY v DESC, k LIMIT 3",
    "none_of": "SELECT k, v FROM l WHERE k NOT IN (SELECT k FROM r WHERE w BETWEEN 900 AND 999)",
    "not_there": "SELECT k, v FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND w BETWEEN 900 AND 999)",
    "there": "SELECT k, v FROM l WHERE k IN (SELECT k FROM r)",
    "not_any": "SELECT k, v FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
    "one_of_both": "SELECT k FROM l UNION SELECT k FROM r",
    "in_both": "SELECT k FROM l INTERSECT SELECT k FROM r",
    "in_both_all": "SELECT k FROM l INTERSECT ALL SELECT k FROM r",
    "left_only": "SELECT k FROM l EXCEPT SELECT k FROM r",
    "left_only_all": "SELECT k FROM l EXCEPT ALL SELECT k FROM r",
    "ranked": "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM l",
    "numbered": "SELECT k, v, w, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM l WHERE k = 3201",
    "above": "SELECT k, v FROM alone WHERE v > (SELECT AVG(v) FROM alone)",
    "one_row": "SELECT k, (SELECT v FROM alone WHERE k = 9) AS x FROM alone",
    "with_count": "SELECT l.k, l.v, (SELECT COUNT(*) FROM r WHERE r.k = l.k) AS n FROM l",
    "rolled": "SELECT k, v, COUNT(*) AS n, SUM(w) AS s FROM l GROUP BY ROLLUP (k, v)",
    "rolled_alone": "SELECT k, COUNT(*) AS n FROM alone GROUP BY ROLLUP (k)",
}


@pytest.fixture(scope="module")
def shared(world: World) -> World:
    """Tables `l(k, v, w)`, `r(k, w)`, `e(k, d, m)`, `alone(k, v)`; views are made when a test first asks for one."""
    world.change(
        f"CREATE TABLE l (k INT, v INT, w INT) USING delta {FEED}",
        "CREATE TABLE r (k INT, w INT) USING delta",
        f"CREATE TABLE e (k INT, d DOUBLE, m DECIMAL(38, 2)) USING delta {FEED}",
        "CREATE TABLE alone (k INT, v INT) USING delta",
        "INSERT INTO l VALUES (1, 1, 1), (1, 1, 1), (NULL, 5, NULL)",
        "INSERT INTO r VALUES (1, 20), (NULL, 7)",
        "INSERT INTO e VALUES (1, 1.5, 2.25), (NULL, NULL, NULL)",
    )
    return world


def made(world: World, *names: str) -> None:
    """The views exist and are up to date."""
    for name in names:
        if name in world.queries:
            world.spark.sql(f"REFRESH INCREMENTAL VIEW {name}")
        else:
            world.view(name, VIEWS[name])


def after(world: World, change: list[str], *names: str) -> None:
    """One round: the views brought up to date before it, the change, one refresh of each."""
    made(world, *names)
    world.change(*change)
    for name in names:
        world.refresh(name)


# -- outer joins ------------------------------------------------------------------------------------------------------


def test_01_first_and_last_match_decide(shared: World) -> None:
    world = shared
    world.change("INSERT INTO l VALUES (100, 1, 0), (100, 2, 0), (100, 2, 0)")
    after(world, ["INSERT INTO r VALUES (100, 1)"], "outer_rows")
    after(world, ["INSERT INTO r VALUES (100, 2), (100, 2)"], "outer_rows")
    after(world, ["DELETE FROM r WHERE k = 100 AND w = 2"], "outer_rows")
    after(world, ["DELETE FROM r WHERE k = 100"], "outer_rows")
    assert len(world.rows("SELECT * FROM outer_rows WHERE k = 100 AND s = 'none'")) == 3


def test_02_both_sides_change_in_one_run(shared: World) -> None:
    world = shared
    world.change(
        "INSERT INTO l VALUES (200, 1, 0), (201, 1, 0), (202, 1, 0)", "INSERT INTO r VALUES (200, 5), (202, 6)"
    )
    change = [
        "INSERT INTO l VALUES (200, 2, 0), (203, 3, 0), (204, 4, 0)",
        "INSERT INTO r VALUES (201, 7), (203, 8)",
        "DELETE FROM l WHERE k = 202",
        "DELETE FROM r WHERE k = 200 OR k = 202",
    ]
    after(world, change, "outer_rows", "outer_more", "null_safe")


def test_03_update_of_the_right_keeps_null_rows_still(shared: World) -> None:
    world = shared
    world.change("INSERT INTO l VALUES (300, 1, 0)", "INSERT INTO r VALUES (300, 5)")
    made(world, "outer_rows")
    world.change("UPDATE r SET w = 6 WHERE k = 300")
    assert world.refresh("outer_rows").rows_out.asDict() == {"inserts": 1, "deletes": 1}
    world.change("INSERT INTO r VALUES (301, 1)", "DELETE FROM r WHERE k = 301", "INSERT INTO l VALUES (301, 1, 0)")
    assert world.refresh("outer_rows").rows_out.asDict() == {"inserts": 1, "deletes": 0}


def test_04_matching_uses_the_whole_condition(shared: World) -> None:
    world = shared
    world.change("INSERT INTO l VALUES (400, 1, 0), (400, 500, 0)", "INSERT INTO r VALUES (400, 5)")
    after(world, ["INSERT INTO r VALUES (400, 50)"], "outer_more", "outer_where")
    after(world, ["UPDATE r SET w = 3 WHERE k = 400 AND w = 50"], "outer_more", "outer_where")
    after(world, ["UPDATE l SET v = v + 200 WHERE k = 400"], "outer_more", "outer_where")


def test_05_right_changes_alone_pad_nothing(shared: World) -> None:
    world = shared
    made(world, "outer_rows", "outer_more")
    world.change("INSERT INTO r VALUES (500, 1), (501, 99)")
    for view in ("outer_rows", "outer_more"):
        assert world.refresh(view).rows_out.asDict() == {"inserts": 0, "deletes": 0}


def test_06_three_way_outer_joins(shared: World) -> None:
    world = shared
    world.change("INSERT INTO l VALUES (600, 1, 0), (601, 2, 0)", "INSERT INTO r VALUES (600, 650)")
    after(world, ["INSERT INTO r VALUES (650, 1)"], "outer_chain")
    after(world, ["DELETE FROM r WHERE k = 600", "INSERT INTO r VALUES (601, 650)"], "outer_chain")
    after(world, ["DELETE FROM r WHERE k = 650"], "outer_chain")


def test_07_null_keys_are_padded_and_found_again(shared: World) -> None:
    world = shared
    views = ("outer_rows", "null_safe", "padded")
    after(world, ["INSERT INTO l VALUES (NULL, 700, 1)", "INSERT INTO r VALUES (NULL, 700)"], *views)
    after(world, ["DELETE FROM l WHERE v = 700"], *views)
    after(world, ["DELETE FROM r WHERE w = 700"], *views)


def test_08_coalesce_case_and_is_null_above_an_outer_join(shared: World) -> None:
    world = shared
    world.change("INSERT INTO l VALUES (800, 1, 0)")
    after(world, ["INSERT INTO r VALUES (800, NULL)"], "outer_rows", "outer_where")
    assert world.rows("SELECT c, s FROM outer_rows WHERE k = 800") == [(-1, "some")]
    after(world, ["DELETE FROM r WHERE k = 800"], "outer_rows", "outer_where")
    assert world.rows("SELECT c, s FROM outer_rows WHERE k = 800") == [(-1, "none")]


def test_09_not_in_knows_null(shared: World) -> None:
    world, views = shared, ("none_of", "not_there")
    world.change("INSERT INTO l VALUES (900, 9, 0), (901, 9, 0)")
    after(world, ["INSERT INTO r VALUES (900, 900)"], *views)
    assert world.rows("SELECT k FROM none_of WHERE v = 9") == [(901,)]
    after(world, ["INSERT INTO r VALUES (NULL, 901)"], *views)
    assert world.rows("SELECT k FROM none_of") == []
    assert world.rows("SELECT k FROM not_there WHERE v = 9") == [(901,)]
    after(world, ["DELETE FROM r WHERE w = 901", "DELETE FROM l WHERE k = 901"], *views)
    after(world, ["DELETE FROM r WHERE w = 900"], *views)
    assert world.rows("SELECT k FROM none_of WHERE v = 9") == [(900,)]


def test_10_semi_and_anti_joins_keep_the_left_sides_duplicates(shared: World) -> None:
    world, views = shared, ("there", "not_any")
    after(world, ["INSERT INTO l VALUES (1000, 1, 1), (1000, 1, 1)"], *views)
    after(world, ["INSERT INTO r VALUES (1000, 1), (1000, 1), (1000, 2)"], *views)
    assert world.rows("SELECT v FROM there WHERE k = 1000") == [(1,), (1,)]
    after(world, ["DELETE FROM r WHERE k = 1000 AND w = 1"], *views)
    after(world, ["DELETE FROM r WHERE k = 1000", "INSERT INTO l VALUES (1000, 1, 1)"], *views)
    assert world.rows("SELECT v FROM not_any WHERE k = 1000") == [(1,), (1,), (1,)]


# -- bags and merging -------------------------------------------------------------------------------------------------


def test_11_one_of_several_equal_rows_goes(shared: World) -> None:
    world = shared
    world.change("INSERT INTO l VALUES (1100, 11, 0), (1101, 11, 0), (1102, 11, 0)")
    after(world, ["DELETE FROM l WHERE k = 1101"], "bag", "uniq")
    assert len(world.rows("SELECT * FROM bag WHERE v = 11")) == 2
    after(world, ["DELETE FROM l WHERE v = 11"], "bag", "uniq")


def test_12_net_changes_first(shared: World) -> None:
    world = shared
    made(world, "bag", "groups")
    world.change(
        "INSERT INTO l VALUES (1200, 12, 1)",
        "DELETE FROM l WHERE k = 1200",
        "INSERT INTO l VALUES (1200, 12, 1)",
        "UPDATE l SET v = 13 WHERE k = 1200",
        "UPDATE l SET v = 12 WHERE k = 1200",
    )
    assert world.refresh("bag").rows_out.asDict() == {"inserts": 1, "deletes": 0}
    assert world.refresh("groups").rows_out.asDict() == {"inserts": 1, "deletes": 0}
    world.change("DELETE FROM l WHERE k = 1200", "INSERT INTO l VALUES (1200, 12, 1)")
    assert world.refresh("bag").rows_out.asDict() == {"inserts": 0, "deletes": 0}


def test_13_no_key_survives_the_projection(shared: World) -> None:
    world = shared
    world.view("projected", "SELECT n FROM (SELECT k, COUNT(*) AS n FROM l GROUP BY k)")
    world.change("INSERT INTO l VALUES (1300, 1, 0), (1301, 1, 0)")
    world.refresh("projected")
    world.change("INSERT INTO l VALUES (1300, 1, 0)", "DELETE FROM l WHERE k = 1301")
    world.refresh("projected")


def test_14_two_deltas_of_one_group_are_merged(shared: World) -> None:
    world = shared
    world.change("INSERT INTO l VALUES (1400, 1, 0), (1400, 2, 0)", "INSERT INTO r VALUES (1400, 1)")
    change = [
        "INSERT INTO l VALUES (1400, 3, 0)",
        "DELETE FROM l WHERE k = 1400 AND v = 1",
        "INSERT INTO r VALUES (1400, 2)",
    ]
    after(world, change, "groups", "padded", "extremes")


# -- aggregates -------------------------------------------------------------------------------------------------------


def test_15_a_group_exists_while_it_has_rows(shared: World) -> None:
    world = shared
    after(world, ["INSERT INTO l VALUES (1500, 5, 0), (1500, -5, 0)"], "groups")
    assert world.rows("SELECT n, sv FROM groups WHERE k = 1500") == [(2, 0)]
    after(world, ["DELETE FROM l WHERE k = 1500"], "groups")
    assert world.rows("SELECT n FROM groups WHERE k = 1500") == []


def test_16_aggregates_over_only_nulls(shared: World) -> None:
    world = shared
    world.change("INSERT INTO l VALUES (1600, 5, NULL), (1600, NULL, NULL)")
    after(world, ["DELETE FROM l WHERE k = 1600 AND v = 5"], "groups", "extremes", "distincts")
    assert world.rows("SELECT n, nv, sv, av FROM groups WHERE k = 1600") == [(1, 0, None, None)]
    after(world, ["UPDATE l SET v = 6 WHERE k = 1600"], "groups", "extremes", "distincts")


def test_17_the_global_aggregate_always_has_a_row(shared: World) -> None:
    world = shared
    world.change("DELETE FROM alone")
    made(world, "total", "total_having")
    assert world.rows("SELECT * FROM total") == [(0, None, None)]
    assert world.rows("SELECT * FROM total_having") == []
    after(world, ["INSERT INTO alone VALUES (1, 5), (2, 7)"], "total", "total_having")
    after(world, ["DELETE FROM alone"], "total", "total_having")
    assert world.rows("SELECT * FROM total") == [(0, None, None)]
    assert world.rows("SELECT * FROM total_having") == []


def test_18_counts_skip_nulls_with_the_right_sign(shared: World) -> None:
    world = shared
    world.change("INSERT INTO l VALUES (1800, NULL, 1), (1800, 2, NULL)")
    after(
        world, ["INSERT INTO l VALUES (1800, NULL, NULL)", "DELETE FROM l WHERE k = 1800 AND v = 2"], "groups", "padded"
    )
    assert world.rows("SELECT n, nv, nw FROM groups WHERE k = 1800") == [(2, 0, 1)]
    assert world.rows("SELECT n, nr FROM padded WHERE k = 1800") == [(2, 0)]


def test_19_extremes_that_go(shared: World) -> None:
    world = shared
    world.change("INSERT INTO l VALUES (1900, 9, 0), (1900, 9, 1), (1900, 8, 2), (1900, 7, 3), (1900, NULL, NULL)")
    after(world, ["DELETE FROM l WHERE k = 1900 AND w = 0"], "extremes")
    assert world.rows("SELECT hi FROM extremes WHERE k = 1900") == [(9,)]
    after(world, ["DELETE FROM l WHERE k = 1900 AND v >= 8"], "extremes")
    after(world, ["DELETE FROM l WHERE k = 1900 AND v IS NOT NULL"], "extremes")
    assert world.rows("SELECT lo, hi FROM extremes WHERE k = 1900") == [(None, None)]


def test_20_averages_and_variances(shared: World) -> None:
    world = shared
    values = ", ".join(f"(2000, {1e9 + i}, NULL)" for i in range(4))
    after(world, [f"INSERT INTO e VALUES {values}, (2001, 0.1, NULL), (2001, 0.1, NULL)"], "numbers")
    after(world, ["DELETE FROM e WHERE k = 2000 AND d > 1000000000"], "numbers")
    assert world.rows("SELECT sd, vp, vs FROM numbers WHERE k = 2000") == [(None, 0.0, None)]
    assert world.rows("SELECT vp >= 0 FROM numbers WHERE k = 2001") == [(True,)]


def test_21_doubles_that_cancel_and_that_are_no_numbers(shared: World) -> None:
    world = shared
    after(world, ["INSERT INTO e VALUES (2100, 1, NULL), (2100, 1e16, NULL), (2101, 3, NULL)"], "numbers")
    after(world, ["DELETE FROM e WHERE k = 2100 AND d = 1e16"], "numbers")
    assert world.rows("SELECT s, a FROM numbers WHERE k = 2100") == [(1.0, 1.0)]
    for bad in ("double('NaN')", "double('inf')", "double('-inf')"):
        after(world, [f"INSERT INTO e VALUES (2101, {bad}, NULL)"], "numbers")
    after(world, ["DELETE FROM e WHERE k = 2101 AND d <> 3"], "numbers")
    assert world.rows("SELECT s, a, vp FROM numbers WHERE k = 2101") == [(3.0, 3.0, 0.0)]


def test_22_decimals_as_spark_rounds_them(shared: World) -> None:
    world = shared
    big = "9" * 36 + ".99"
    after(world, [f"INSERT INTO e VALUES (2200, NULL, -{big}), (2201, NULL, 0.01)"], "money")
    # The change alone, +big and again +big for the row that goes, does not fit into the type; old and new sums do.
    after(world, [f"UPDATE e SET m = {big} WHERE k = 2200"], "money")
    after(world, ["INSERT INTO e VALUES (2201, NULL, 0.01), (2201, NULL, 0.02)"], "money")
    after(world, ["DELETE FROM e WHERE k = 2200", "DELETE FROM e WHERE k = 2201 AND m = 0.02"], "money")


def test_23_distinct_aggregates(shared: World) -> None:
    world = shared
    world.change("INSERT INTO l VALUES (2300, 1, 1), (2300, 1, 2), (2300, 2, 0), (2300, NULL, 1)")
    after(world, ["DELETE FROM l WHERE k = 2300 AND v = 1 AND w = 1"], "distincts")
    after(world, ["DELETE FROM l WHERE k = 2300 AND v = 1", "INSERT INTO l VALUES (2300, 2, 5)"], "distincts")
    assert world.rows("SELECT dv, fv, n FROM distincts WHERE k = 2300") == [(1, 1, 3)]


def test_24_having_lets_groups_leave_and_return(shared: World) -> None:
    world = shared
    world.change("INSERT INTO l VALUES (2400, 9, 0)")
    for change in (
        "INSERT INTO l VALUES (2400, 2, 0)",
        "DELETE FROM l WHERE k = 2400 AND v = 2",
        "UPDATE l SET v = 11 WHERE k = 2400",
    ):
        after(world, [change], "having_groups")
    assert world.rows("SELECT s FROM having_groups WHERE k = 2400") == [(11,)]


def test_25_a_moved_row_touches_two_groups(shared: World) -> None:
    world = shared
    world.change("INSERT INTO l VALUES (2500, 1, 0), (2501, 2, 0)")
    after(world, ["UPDATE l SET k = 2501 WHERE k = 2500"], "groups", "level2")
    after(world, ["UPDATE l SET k = NULL WHERE k = 2501 AND v = 1"], "groups", "level2")


def test_25_zeros_and_nans_are_one_group(shared: World) -> None:
    world = shared
    after(
        world,
        ["INSERT INTO e VALUES (2550, -0.0D, NULL), (2550, 0.0D, NULL), (2550, double('NaN'), NULL)"],
        "by_double",
    )
    after(world, ["INSERT INTO e VALUES (2551, -0.0D, NULL), (2551, double('NaN'), NULL)"], "by_double")
    after(world, ["DELETE FROM e WHERE k = 2550"], "by_double")
    assert world.rows("SELECT n FROM by_double WHERE d = 0") == [(1,)]


def test_26_holistic_aggregates_recompute_the_touched_groups(shared: World) -> None:
    world = shared
    world.change("INSERT INTO l VALUES (2600, 1, 0), (2600, 2, 0), (2601, 3, 0)")
    after(world, ["DELETE FROM l WHERE k = 2600 AND v = 1", "INSERT INTO l VALUES (2601, 4, 0)"], "lists")


# -- joins, limits, others --------------------------------------------------------------------------------------------


def test_27_a_self_join_shares_one_delta(shared: World) -> None:
    world = shared
    world.change("INSERT INTO l VALUES (2700, 2701, 0), (2700, 2702, 0)")
    after(world, ["INSERT INTO l VALUES (2700, 2703, 0)", "DELETE FROM l WHERE k = 2700 AND v = 2701"], "selfjoin")
    assert len(world.rows("SELECT * FROM selfjoin WHERE x > 2700 AND x < 2710")) == 8
    after(world, ["UPDATE l SET v = v + 10 WHERE k = 2700"], "selfjoin")


@pytest.mark.parametrize("prefer", ["delta", "affected", "recompute"])
def test_28_a_level_above_reads_the_net_change(shared: World, prefer: str) -> None:
    world = shared
    made(world, "level2")
    world.spark.conf.set("spark.tidemill.method.prefer", prefer)
    try:
        after(
            world,
            ["INSERT INTO l VALUES (2800, 1, 0), (2801, 1, 0), (1, 3, 3)", "DELETE FROM l WHERE k = 1 AND v = 3"],
            "level2",
        )
        after(world, ["DELETE FROM l WHERE k = 2800"], "level2")
    finally:
        world.spark.conf.unset("spark.tidemill.method.prefer")


def test_31_set_operations_cross_thresholds(shared: World) -> None:
    world = shared
    views = ("one_of_both", "in_both", "in_both_all", "left_only", "left_only_all")
    after(world, ["INSERT INTO l VALUES (3100, 1, 1), (3100, 2, 2), (3100, 3, 3)"], *views)
    after(world, ["INSERT INTO r VALUES (3100, 1), (3100, 2)", "INSERT INTO r VALUES (NULL, 3100)"], *views)
    assert world.rows("SELECT k FROM in_both_all WHERE k = 3100") == [(3100,)] * 2
    assert world.rows("SELECT k FROM left_only_all WHERE k = 3100") == [(3100,)]
    after(world, ["DELETE FROM l WHERE k = 3100 AND v < 3", "DELETE FROM r WHERE w = 3100"], *views)
    after(world, ["DELETE FROM l WHERE k = 3100", "DELETE FROM r WHERE k = 3100"], *views)
    assert world.rows("SELECT k FROM one_of_both WHERE k = 3100") == []


def test_32_a_change_ranks_its_partition_anew(shared: World) -> None:
    world, views = shared, ("ranked", "numbered")
    world.change("INSERT INTO l VALUES (3200, 1, 0), (3200, 2, 0), (3201, 1, 1), (3201, 1, 2), (3201, 5, 0)")
    after(world, ["INSERT INTO l VALUES (3200, 3, 0), (NULL, 3200, 0)"], *views)
    assert world.rows("SELECT v, n FROM ranked WHERE k = 3200") == [(1, 3), (2, 2), (3, 1)]
    after(world, ["UPDATE l SET k = 3201 WHERE k = 3200 AND v = 2"], *views)  # two partitions
    after(world, ["DELETE FROM l WHERE k = 3201 AND w = 1"], *views)  # one of two that tie
    after(world, ["DELETE FROM l WHERE k = 3201"], *views)
    assert world.rows("SELECT * FROM numbered") == []


def test_33_a_limit_is_refilled_from_below(shared: World) -> None:
    world = shared
    world.change("DELETE FROM alone", "INSERT INTO alone VALUES (1, 5), (2, 7), (3, 9), (4, 3), (5, 1)")
    after(world, ["DELETE FROM alone WHERE v = 9"], "top")
    assert world.rows("SELECT v FROM top") == [(3,), (5,), (7,)]
    after(world, ["INSERT INTO alone VALUES (6, 8)", "DELETE FROM alone WHERE v IN (7, 3)"], "top")
    assert world.rows("SELECT v FROM top") == [(1,), (5,), (8,)]
    after(world, ["DELETE FROM alone WHERE v > 1"], "top")


def test_34_every_row_depends_on_a_scalar(shared: World) -> None:
    world, views = shared, ("above", "one_row")
    world.change("DELETE FROM alone", "INSERT INTO alone VALUES (1, 10), (2, 20), (3, 30)")
    after(world, ["INSERT INTO alone VALUES (4, 2), (9, 28)"], *views)
    assert world.rows("SELECT k FROM above") == [(2,), (3,), (9,)]
    assert world.rows("SELECT DISTINCT x FROM one_row") == [(28,)]
    world.change("INSERT INTO alone VALUES (9, 29)")
    world.unmoved("one_row", "SCALAR_SUBQUERY_TOO_MANY_ROWS")
    world.change("DELETE FROM alone WHERE k = 9")
    for name in views:
        world.refresh(name)
    assert world.rows("SELECT DISTINCT x FROM one_row") == [(None,)]
    after(world, ["DELETE FROM alone"], *views)
    after(world, ["INSERT INTO alone VALUES (1, 1)"], *views)
    assert world.rows("SELECT k FROM above") == []


def test_35_a_correlated_count_over_nothing_is_zero(shared: World) -> None:
    world = shared
    after(world, ["INSERT INTO l VALUES (3500, 1, 1), (3500, 1, 1)"], "with_count")
    assert world.rows("SELECT n FROM with_count WHERE k = 3500") == [(0,), (0,)]
    after(world, ["INSERT INTO r VALUES (3500, 1), (3500, 1)"], "with_count")
    assert world.rows("SELECT n FROM with_count WHERE k = 3500") == [(2,), (2,)]
    after(world, ["DELETE FROM r WHERE k = 3500", "DELETE FROM l WHERE k = 3500"], "with_count")
    after(world, ["INSERT INTO l VALUES (3500, 2, 2)"], "with_count")
    assert world.rows("SELECT n FROM with_count WHERE k = 3500") == [(0,)]


def test_36_grouping_sets_tell_null_from_all(shared: World) -> None:
    world, views = shared, ("rolled", "rolled_alone")
    world.change("DELETE FROM alone")
    after(
        world, ["INSERT INTO l VALUES (3600, NULL, 1), (NULL, NULL, 1)", "INSERT INTO alone VALUES (NULL, 1)"], *views
    )
    assert world.rows("SELECT v, n FROM rolled WHERE k = 3600") == [(None, 1), (None, 1)]
    assert world.rows("SELECT k, n FROM rolled_alone") == [(None, 1), (None, 1)]
    after(world, ["DELETE FROM l WHERE k = 3600", "DELETE FROM alone"], *views)  # the total is Spark's, row or none
    after(world, ["INSERT INTO alone VALUES (1, 1)"], "rolled_alone")


def test_37_random_values_are_refused_and_the_clock_follows_the_policy(shared: World) -> None:
    world = shared
    for expression in ("rand()", "uuid()"):
        world.fails(
            f"CREATE INCREMENTAL VIEW chance SCHEDULE (ON DEMAND) AS SELECT {expression} AS x FROM l",
            "TIDEMILL_NON_DETERMINISTIC",
        )
    world.fails(
        "CREATE INCREMENTAL VIEW today SCHEDULE (ON DEMAND) REFRESH POLICY STRICT AS SELECT current_date() AS d FROM l",
        "TIDEMILL_NOT_INCREMENTAL",
    )
    world.spark.sql("CREATE INCREMENTAL VIEW moment SCHEDULE (ON DEMAND) AS SELECT now() AS t, v FROM l")
    world.change("INSERT INTO l VALUES (3700, 37, 0)")
    row = world.spark.sql("REFRESH INCREMENTAL VIEW moment").first()
    assert row is not None
    assert (row.kind, row.reason.partition(":")[0]) == ("FULL", "TIME_DEPENDENT")
    assert world.rows("SELECT count(DISTINCT t), count(*) FROM moment") == world.rows("SELECT 1, count(*) FROM l")
    world.spark.sql("DROP INCREMENTAL VIEW moment")
    assert world.rows("SHOW INCREMENTAL VIEWS LIKE 'chance'") == []


def test_41_an_empty_batch_on_one_input_does_not_skip_the_others(shared: World) -> None:
    world = shared
    views = ("null_safe", "outer_rows", "padded")
    after(world, ["INSERT INTO l VALUES (4100, 1, 0)"], *views)
    after(world, ["INSERT INTO r VALUES (4100, 1)"], *views)
    # A commit of Delta without rows, beside one with rows.
    after(world, ["DELETE FROM r WHERE k = 999999", "INSERT INTO l VALUES (4100, 2, 0)"], *views)
