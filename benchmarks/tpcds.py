"""TPC-DS: data by DuckDB's generator, Delta tables made from it, and changes of all tables."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
from pyspark.sql import SparkSession

from benchmarks.changes import Table, delete, merge, update
from benchmarks.data import kept

CONFS = {"spark.sql.ansi.doubleQuotedIdentifiers": "true"}
"""What some of the texts need of a session: they quote names."""


def _fact(name: str, key: tuple[str, ...], updates: Mapping[str, str]) -> Table:
    return Table(name, key, key[-1], updates)


def _more(column: str, kind: str = "DECIMAL(7, 2)") -> str:
    return f"CAST({column} * 1.1 AS {kind})"


FACTS = (
    _fact(
        "store_sales",
        ("ss_item_sk", "ss_ticket_number"),
        {
            "ss_quantity": "ss_quantity % 100 + 1",
            "ss_sales_price": _more("ss_sales_price"),
            "ss_ext_sales_price": _more("ss_ext_sales_price"),
            "ss_net_paid": _more("ss_net_paid"),
            "ss_net_profit": _more("ss_net_profit"),
        },
    ),
    _fact(
        "store_returns",
        ("sr_item_sk", "sr_ticket_number"),
        {"sr_return_quantity": "sr_return_quantity % 100 + 1", "sr_return_amt": _more("sr_return_amt")},
    ),
    _fact(
        "catalog_sales",
        ("cs_item_sk", "cs_order_number"),
        {
            "cs_quantity": "cs_quantity % 100 + 1",
            "cs_sales_price": _more("cs_sales_price"),
            "cs_ext_sales_price": _more("cs_ext_sales_price"),
            "cs_net_paid": _more("cs_net_paid"),
            "cs_net_profit": _more("cs_net_profit"),
        },
    ),
    _fact(
        "catalog_returns",
        ("cr_item_sk", "cr_order_number"),
        {"cr_return_quantity": "cr_return_quantity % 100 + 1", "cr_return_amount": _more("cr_return_amount")},
    ),
    _fact(
        "web_sales",
        ("ws_item_sk", "ws_order_number"),
        {
            "ws_quantity": "ws_quantity % 100 + 1",
            "ws_sales_price": _more("ws_sales_price"),
            "ws_ext_sales_price": _more("ws_ext_sales_price"),
            "ws_net_paid": _more("ws_net_paid"),
            "ws_net_profit": _more("ws_net_profit"),
        },
    ),
    _fact(
        "web_returns",
        ("wr_item_sk", "wr_order_number"),
        {"wr_return_quantity": "wr_return_quantity % 100 + 1", "wr_return_amt": _more("wr_return_amt")},
    ),
    Table(
        "inventory",
        ("inv_date_sk", "inv_item_sk", "inv_warehouse_sk"),
        "inv_warehouse_sk",
        {"inv_quantity_on_hand": "inv_quantity_on_hand + 10"},
    ),
)
DIMENSIONS = (
    Table("call_center", ("cc_call_center_sk",), "cc_call_center_sk", {"cc_manager": "concat(cc_manager, '.')"}),
    Table("catalog_page", ("cp_catalog_page_sk",), "cp_catalog_page_sk", {"cp_catalog_page_id": "upper(cp_type)"}),
    Table(
        "customer",
        ("c_customer_sk",),
        "c_customer_sk",
        {"c_birth_month": "c_birth_month % 12 + 1", "c_last_name": "concat(c_last_name, '.')"},
    ),
    Table("customer_address", ("ca_address_sk",), "ca_address_sk", {"ca_state": "'TN'", "ca_city": "'Midway'"}),
    Table(
        "customer_demographics",
        ("cd_demo_sk",),
        "cd_demo_sk",
        {"cd_gender": "IF(cd_gender = 'M', 'F', 'M')", "cd_dep_count": "(cd_dep_count + 1) % 7"},
    ),
    Table("date_dim", ("d_date_sk",), "d_date_sk", {"d_day_name": "'Sunday'", "d_weekend": "'Y'"}),
    Table("household_demographics", ("hd_demo_sk",), "hd_demo_sk", {"hd_dep_count": "(hd_dep_count + 1) % 10"}),
    Table("income_band", ("ib_income_band_sk",), "ib_income_band_sk", {"ib_upper_bound": "ib_upper_bound + 1"}),
    Table("item", ("i_item_sk",), "i_item_sk", {"i_current_price": _more("i_current_price"), "i_class": "'dresses'"}),
    Table("promotion", ("p_promo_sk",), "p_promo_sk", {"p_channel_email": "IF(p_channel_email = 'N', 'Y', 'N')"}),
    Table("reason", ("r_reason_sk",), "r_reason_sk", {"r_reason_desc": "concat(r_reason_desc, '.')"}),
    Table("ship_mode", ("sm_ship_mode_sk",), "sm_ship_mode_sk", {"sm_type": "concat(sm_type, '.')"}),
    Table("store", ("s_store_sk",), "s_store_sk", {"s_number_employees": "s_number_employees + 1"}),
    Table("time_dim", ("t_time_sk",), "t_time_sk", {"t_hour": "(t_hour + 1) % 24"}),
    Table("warehouse", ("w_warehouse_sk",), "w_warehouse_sk", {"w_warehouse_sq_ft": "w_warehouse_sq_ft + 1"}),
    Table("web_page", ("wp_web_page_sk",), "wp_web_page_sk", {"wp_char_count": "wp_char_count % 5200 + 1"}),
    Table("web_site", ("web_site_sk",), "web_site_sk", {"web_manager": "concat(web_manager, '.')"}),
)
TABLES = (*FACTS, *DIMENSIONS)
FEW = 20
"""Tables with no more rows keep them all: without its only store a query has no answer left."""


def files(scale: float) -> Path:
    """The folder with one Parquet file per table, made if it is not there."""

    def make(folder: Path) -> None:
        with duckdb.connect() as connection:
            connection.execute("LOAD tpcds")
            connection.execute(f"CALL dsdgen(sf={scale:g})")
            for table in TABLES:
                connection.execute(f"COPY {table.name} TO '{folder / table.name}.parquet' (FORMAT PARQUET)")

    return kept(f"tpcds-{scale:g}", make)


def load_delta(spark: SparkSession, folder: Path) -> None:
    """Creates one Delta table per file in the current database; the change feed on for every other one."""
    statements = [
        f"CREATE TABLE {table.name} USING delta "
        f"TBLPROPERTIES (delta.enableChangeDataFeed = {str(i % 2 == 0).lower()}) "
        f"AS SELECT * FROM parquet.`{folder / table.name}.parquet`"
        for i, table in enumerate(TABLES)
    ]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(spark.sql, statements))


def facts(seed: int, share: float) -> tuple[str, ...]:
    """The mix of change R on `share` of the rows of each table of facts."""
    return tuple(merge(table, seed, share) for table in FACTS)


def deletes(seed: int, share: float) -> tuple[str, ...]:
    """`share` of the rows of each table of facts deleted."""
    return tuple(delete(table, seed, share) for table in FACTS)


def updates(seed: int, share: float) -> tuple[str, ...]:
    """`share` of the rows of each table of facts updated."""
    return tuple(update(table, seed, share) for table in FACTS)


def dimensions(spark: SparkSession, seed: int, share: float) -> tuple[str, ...]:
    """The mix of change R on `share` of the rows of each dimension; of those of few rows, all are updated."""
    return tuple(
        update(table, seed, 1) if spark.table(table.name).count() <= FEW else merge(table, seed, share)
        for table in DIMENSIONS
    )
