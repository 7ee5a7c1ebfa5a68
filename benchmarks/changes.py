"""Changes of TPC-H and TPC-DS Delta tables, as SQL statements: deterministic in the seed, shared by demo, tests and
benchmarks.

Rows are picked by a hash of their key and the seed, so that an order and its line items are picked together without a
join, and a round can be repeated.  New rows are copies of picked rows under keys above all present ones: they pass the
queries' filters as often as the old ones do.

Change F: 1 % of orders and their line items; 60 % new keys, 20 % deleted, 20 % updated.
Change R: 1 % random rows of every table, same mix.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

RESOLUTION = 1_000_000  # of a share: picks are made in millionths of the rows
NEW, DELETED, UPDATED = 0.6, 0.2, 0.2  # the mix of changes F and R


@dataclass(frozen=True, slots=True)
class Table:
    """How a table is changed.

    `key`: columns that identify a row.  `fresh`: the key column that gets values of its own in new rows.
    `updates`: new value per column for an update; each differs from the old one.
    """

    name: str
    key: tuple[str, ...]
    fresh: str
    updates: Mapping[str, str]

    @property
    def step(self) -> str:
        """What is added to `fresh` in new rows.  A relation of one row, joined: Delta does not read itself in a scalar
        sub-query."""
        return f"(SELECT max({self.fresh}) AS step FROM {self.name})"


TABLES = {
    table.name: table
    for table in (
        Table(
            "lineitem",
            ("l_orderkey", "l_linenumber"),
            "l_linenumber",
            {
                "l_quantity": "CAST(l_quantity % 50 + 1 AS DECIMAL(15, 2))",
                "l_extendedprice": "CAST(l_extendedprice * 1.01 AS DECIMAL(15, 2))",
                "l_shipdate": "date_add(l_shipdate, 7)",
                "l_receiptdate": "date_add(l_receiptdate, 9)",
                "l_returnflag": "CASE WHEN l_returnflag = 'R' THEN 'A' ELSE 'R' END",
            },
        ),
        Table(
            "orders",
            ("o_orderkey",),
            "o_orderkey",
            {
                "o_totalprice": "CAST(o_totalprice + 1 AS DECIMAL(15, 2))",
                "o_orderdate": "date_add(o_orderdate, 7)",
                "o_orderpriority": "CASE WHEN o_orderpriority = '1-URGENT' THEN '5-LOW' ELSE '1-URGENT' END",
            },
        ),
        Table("customer", ("c_custkey",), "c_custkey", {"c_nationkey": "(c_nationkey + 1) % 25"}),
        Table(
            "part",
            ("p_partkey",),
            "p_partkey",
            {
                "p_type": "IF(p_type LIKE 'PROMO%', 'ECONOMY ANODIZED STEEL', 'PROMO ANODIZED STEEL')",
                "p_size": "p_size % 50 + 1",
            },
        ),
        Table(
            "partsupp",
            ("ps_partkey", "ps_suppkey"),
            "ps_suppkey",
            {"ps_supplycost": "CAST(ps_supplycost + 1 AS DECIMAL(15, 2))"},
        ),
        Table("supplier", ("s_suppkey",), "s_suppkey", {"s_nationkey": "(s_nationkey + 1) % 25"}),
        Table("nation", ("n_nationkey",), "n_nationkey", {"n_comment": "concat(n_comment, '.')"}),
        Table("region", ("r_regionkey",), "r_regionkey", {"r_comment": "concat(r_comment, '.')"}),
    )
}
# Orders and their line items are picked, and renumbered, by the order's key.
ORDERS_AND_LINES = (("lineitem", "l_orderkey"), ("orders", "o_orderkey"))
ORDER_STEP = TABLES["orders"].step


def inserts(seed: int, share: float) -> tuple[str, ...]:
    """New orders with their line items; `share` of the present ones are copied.  Line items first: both take the step
    from the orders that are there before."""
    return tuple(_insert(name, key, ORDER_STEP, key, _pick((key,), seed, 0, share)) for name, key in ORDERS_AND_LINES)


def deletes(seed: int, share: float) -> tuple[str, ...]:
    """Deletes `share` of the orders with their line items."""
    return tuple(_delete(name, _pick((key,), seed, 0, share)) for name, key in ORDERS_AND_LINES)


def updates(seed: int, share: float) -> tuple[str, ...]:
    """Updates `share` of the orders and their line items."""
    return tuple(_update(TABLES[name], _pick((key,), seed, 0, share)) for name, key in ORDERS_AND_LINES)


def merges(seed: int, share: float) -> tuple[str, ...]:
    """One MERGE per table with the mix of change F."""
    return tuple(_merge(TABLES[name], (key,), key, ORDER_STEP, seed, share) for name, key in ORDERS_AND_LINES)


def one_order(seed: int, *, updated: bool) -> tuple[str, ...]:
    """One order with its line items is updated, or copied under a new key; another one for each seed below 400."""
    # At every scale the first eight of 32 keys are there; at scale 0.01 the keys end at 60,000.
    key = 32 * seed + (2 if updated else 1)
    if updated:
        return tuple(_update(TABLES[name], f"{column} = {key}") for name, column in ORDERS_AND_LINES)
    return tuple(_insert(name, column, ORDER_STEP, column, f"{column} = {key}") for name, column in ORDERS_AND_LINES)


def insert(table: Table, seed: int, share: float) -> str:
    """Copies of `share` of the table's rows under new keys."""
    return _insert(table.name, table.fresh, table.step, table.key[0], _pick(table.key, seed, 0, share))


def merge(table: Table, seed: int, share: float) -> str:
    """One MERGE with the mix of change R: `share` random rows of the table."""
    return _merge(table, table.key, table.fresh, table.step, seed, share)


def update(table: Table, seed: int, share: float) -> str:
    """Updates `share` of the table's rows."""
    return _update(table, _pick(table.key, seed, 0, share))


def delete(table: Table, seed: int, share: float) -> str:
    """Deletes `share` of the table's rows."""
    return _delete(table.name, _pick(table.key, seed, 0, share))


def change_f(seed: int, share: float = 0.01) -> tuple[str, ...]:
    """Change F: `share` of orders and their line items; 60 % new keys, 20 % deleted, 20 % updated."""
    made: list[str] = []
    for name, key in ORDERS_AND_LINES:
        made += _mix(TABLES[name], (key,), key, ORDER_STEP, seed, share)
    return tuple(made)


def change_r(seed: int, share: float = 0.01) -> tuple[str, ...]:
    """Change R: `share` random rows of every table, in the same mix.  Tables of a few rows may happen to have none."""
    made: list[str] = []
    for table in TABLES.values():
        made += _mix(table, table.key, table.fresh, table.step, seed, share)
    return tuple(made)


def apply(spark: SparkSession, statements: Iterable[str]) -> None:
    """Run the statements one by one."""
    for statement in statements:
        spark.sql(statement)


def _mix(table: Table, key: tuple[str, ...], fresh: str, step: str, seed: int, share: float) -> list[str]:
    new, gone = NEW * share, (NEW + DELETED) * share
    return [
        _delete(table.name, _pick(key, seed, new, gone)),
        _update(table, _pick(key, seed, gone, share)),
        _insert(table.name, fresh, step, key[0], _pick(key, seed, 0, new)),
    ]


def _pick(key: tuple[str, ...], seed: int, low: float, high: float) -> str:
    """Condition that holds for the rows whose hash falls between the shares `low` and `high` (0 to 1)."""
    hashed = f"pmod(xxhash64({', '.join(key)}, {seed}L), {RESOLUTION})"
    return f"{hashed} >= {round(low * RESOLUTION)} AND {hashed} < {round(high * RESOLUTION)}"


def _insert(name: str, fresh: str, step: str, order: str, condition: str) -> str:
    # Ordered by key as rows that arrive in time order are: a new file holds neighbouring keys.
    return (
        f"INSERT INTO {name} BY NAME SELECT * EXCEPT ({fresh}, step), {fresh} + step AS {fresh} "
        f"FROM {name} CROSS JOIN {step} WHERE {condition} ORDER BY {order}"
    )


def _delete(name: str, condition: str) -> str:
    return f"DELETE FROM {name} WHERE {condition}"


def _update(table: Table, condition: str) -> str:
    assignments = ", ".join(f"{column} = {value}" for column, value in table.updates.items())
    return f"UPDATE {table.name} SET {assignments} WHERE {condition}"


def _merge(table: Table, key: tuple[str, ...], fresh: str, step: str, seed: int, share: float) -> str:
    new, gone = NEW * share, (NEW + DELETED) * share
    columns = [fresh, *table.updates]

    def rows(change: str, values: Mapping[str, str], low: float, high: float) -> str:
        items = ", ".join(f"{values.get(column, column)} AS {column}" for column in columns)
        return (
            f"SELECT * EXCEPT ({', '.join(columns)}, step), {items}, '{change}' AS change "
            f"FROM {table.name} CROSS JOIN {step} WHERE {_pick(key, seed, low, high)}"
        )

    source = " UNION ALL ".join(
        (
            rows("insert", {fresh: f"{fresh} + step"}, 0, new),
            rows("delete", {}, new, gone),
            rows("update", table.updates, gone, share),
        )
    )
    same = " AND ".join(f"old.{column} = new.{column}" for column in table.key)
    return (
        f"MERGE INTO {table.name} old USING ({source}) new ON {same} "
        "WHEN MATCHED AND new.change = 'delete' THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
