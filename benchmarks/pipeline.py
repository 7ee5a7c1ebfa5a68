"""The data and views of the pipeline: a brokerage after TPC-DI's public specification, made by SQL from row numbers.

The first batch is all that happened in 700 days; each later one is a day, of about one row in a hundred. A table holds
what came, in the order of time: events of customers and accounts in full or with the changed fields alone, filings of
companies, states of trades, prices, cash, watches. Customers and companies are there from the first day on. Employees
and prospects are changed in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

DAYS = 700
FIRST = "TIMESTAMP'2024-02-01'"
SHARE = 100
"""A later batch has one row for so many of the first."""
FIRST_DATABASES = ("raw", "plain", "views")
"""Of the batches, of the tables that plain Spark makes of them, and of the views."""
FILE = Path(__file__).with_name("pipeline.sql")


@dataclass(frozen=True)
class View:
    layer: str
    name: str
    query: str


def views() -> list[View]:
    """All views, each after those that it reads."""
    parts = re.split(r"^-- (bronze|silver|gold) (\w+)\n", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [View(layer, name, query.strip()) for layer, name, query in zip(*[iter(parts)] * 3, strict=True)]


def rolled(salt: str, values: int | str) -> str:
    """SQL of a number below `values` that depends on the row alone."""
    return f"pmod(xxhash64(id, '{salt}'), {values})"


def picked(salt: str, *texts: str) -> str:
    """SQL of one of these texts, chosen by the row alone."""
    return f"element_at(array({', '.join(repr(text) for text in texts)}), 1 + CAST({rolled(salt, len(texts))} AS INT))"


@dataclass(frozen=True)
class Data:
    """The batches, as Delta tables. `scale` 1: 280,000 prices, 100,000 trades, 5,000 customers.

    `results`: the format of what is made of them.
    """

    scale: float
    results: str = "delta"

    def _number(self, of_scale_1: int, least: int = 20) -> int:
        return max(least, int(of_scale_1 * self.scale))

    @property
    def customers(self) -> int:
        return self._number(5_000)

    @property
    def symbols(self) -> int:
        return self._number(400, 10)

    @property
    def companies(self) -> int:
        return self._number(200, 5)

    @property
    def brokers(self) -> int:
        return self._number(500)

    def load(self, spark: SparkSession) -> None:
        """The first batch, as tables of the database `raw`."""
        for name, query in self._first():
            feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
            spark.sql(f"CREATE TABLE raw.{name} USING delta {feed} AS {query}")

    def apply(self, spark: SparkSession, batch: int) -> None:
        """The second batch, or the third."""
        for name, query in self._later(batch):
            spark.sql(f"INSERT INTO raw.{name} {query}")
        for statement in self._in_place(batch):
            spark.sql(statement)

    # -- rows of each table, from the first number to the last -------------------------------------------------------

    def _rows(self, batch: int, number: int) -> tuple[int, int, str]:
        """Numbers of the rows of a batch, and SQL of the second at which one of them comes."""
        few = max(1, number // SHARE)
        if batch == 1:
            return 0, number, f"CAST(id * {DAYS * 86_400 / number} AS INT)"
        first = number + (batch - 2) * few
        return first, first + few, f"{(DAYS + batch - 2) * 86_400} + CAST((id - {first}) * {80_000 / few} AS INT)"

    def _events(self, batch: int) -> str:
        """New customers with an account, then a second account each; later changes, of which most name few fields."""
        count = self.customers
        first, last, second = self._rows(batch, count * 5 // 2)
        new = f"id < {count}" if batch == 1 else "id % 5 = 0"
        customer = (
            f"CASE WHEN id < {2 * count} THEN id % {count} ELSE {rolled('customer', count)} END"
            if batch == 1
            else f"CASE WHEN id % 5 = 0 THEN id + {10 * count} ELSE {rolled('customer', count)} END"
        )
        kind = picked("kind", "UPDCUST", "UPDCUST", "UPDCUST", "UPDACCT", "UPDACCT", "INACT", "CLOSEACCT")
        added = f"WHEN id < {2 * count} THEN 'ADDACCT'" if batch == 1 else ""
        return f"""
            SELECT c AS c_id, action, ts, if(new, c * 7 + 1, NULL) AS tax_id,
                   if(new OR named, concat('Last', {rolled("last", 500)}), NULL) AS last_name,
                   if(new, concat('First', {rolled("first", 300)}), NULL) AS first_name,
                   if(new, {picked("gender", "m", "f", "u")}, NULL) AS gender,
                   if(new OR (of_customer AND {rolled("t", 3)} = 0), CAST(1 + {rolled("tier", 3)} AS INT),
                   NULL) AS tier,
                   if(new, DATE'1950-01-01' + CAST({rolled("dob", 20_000)} AS INT), NULL) AS dob,
                   if(new OR of_customer, concat('City', {rolled("city", 40)}), NULL) AS city,
                   if(new, {picked("country", "US", "CA", "MX", "UK")}, NULL) AS country,
                   if(new OR named, concat('c', id, '@mail.example'), NULL) AS email,
                   CASE WHEN new THEN 2 * c WHEN action = 'ADDACCT' THEN 2 * c + 1
                        WHEN action IN ('UPDACCT', 'CLOSEACCT') THEN 2 * c + {rolled("account", 2)} END AS ca_id,
                   if(new OR action = 'ADDACCT', CAST({rolled("broker", self.brokers)} AS BIGINT), NULL) AS broker_id,
                   if(new OR action IN ('ADDACCT', 'UPDACCT'), concat('Account', id), NULL) AS account_name,
                   if(new OR action = 'ADDACCT', CAST({rolled("status", 3)} AS INT), NULL) AS tax_status
            FROM (SELECT id, new, c, action, {FIRST} + make_dt_interval(0, 0, 0, second) AS ts,
                         action = 'UPDCUST' AS of_customer, action = 'UPDCUST' AND {rolled("named", 4)} = 0 AS named
                  FROM (SELECT id, {new} AS new, {customer} AS c, if(id < {2 * count}, id, {second}) AS second,
                               CASE WHEN {new} THEN 'NEW' {added} ELSE {kind} END AS action
                        FROM range({first}, {last})))"""

    def _trades(self, batch: int, states: bool) -> str:
        """A trade is submitted, and nine of ten are completed five minutes later; the rest with the next batch."""
        first, last, second = self._rows(batch, self._number(100_000, 500))
        before = f"range({first - (last - first)}, {first})"
        late = f"{(DAYS + batch - 2) * 86_400} + CAST(id % 60 AS INT)"
        came = f"SELECT id, {second} AS second, false AS late FROM range({first}, {last})"
        if batch > 1:
            came += f" UNION ALL SELECT id, {late}, true FROM {before} WHERE id % 10 = 9"
        steps = "(0, 'PNDG', true), (60, 'SBMT', true), (300, 'CMPT', false)"
        shown = "" if states else "AND wait > 0"
        rows = f"""
            SELECT id, {FIRST} + make_dt_interval(0, 0, 0, second + wait) AS dts, st_id
            FROM ({came}) CROSS JOIN VALUES {steps} AS s(wait, st_id, early)
            WHERE if(late, NOT early, early OR id % 10 < 9) {shown}"""
        if states:
            return f"SELECT id AS t_id, dts, st_id FROM ({rows})"
        return f"""
            SELECT id AS t_id, dts, st_id, {picked("type", "TMB", "TMS", "TLB", "TLS", "TSL")} AS tt_id,
                   {rolled("cash", 5)} = 0 AS is_cash, concat('S', {rolled("symbol", self.symbols)}) AS symbol,
                   CAST(1 + {rolled("quantity", 800)} AS INT) AS quantity, {rolled("bid", 9_000)} / 100D + 10 AS bid,
                   CAST({rolled("account", 2 * self.customers)} AS BIGINT) AS ca_id,
                   CAST({rolled("broker", self.brokers)} AS BIGINT) AS executor_id,
                   {rolled("bid", 9_000)} / 100D + 10.5 AS price, 5D AS charge, 2.5D AS commission, 1.25D AS tax
            FROM ({rows})"""

    def _by_time(self, batch: int) -> Iterator[tuple[str, str]]:
        """What comes with every batch."""
        yield "customer_events", self._events(batch)
        yield "trades", self._trades(batch, states=False)
        yield "trade_states", self._trades(batch, states=True)
        first, last, second = self._rows(batch, self._number(150_000, 750))
        yield (
            "cash",
            f"""SELECT CAST({rolled("of", 2 * self.customers)} AS BIGINT) AS ca_id,
                       {FIRST} + make_dt_interval(0, 0, 0, {second}) AS dts,
                       {rolled("amount", 200_000)} / 100D - 900 AS amount,
                       concat('Cash', id) AS name FROM range({first}, {last})""",
        )
        yield (
            "watches",
            f"""SELECT CAST(pmod(xxhash64(id - id % 3), {self.customers}) AS BIGINT) AS c_id,
                       concat('S', pmod(xxhash64(id - id % 3, 's'), {self.symbols})) AS symbol,
                       {FIRST} + make_dt_interval(0, 0, 0, {second}) AS dts, if(id % 3 = 1, 'CNCL', 'ACTV') AS action
                FROM range({first}, {last})""",
        )
        first, last, _ = self._rows(batch, self._number(100_000, 500))
        yield (
            "holdings",
            f"""SELECT id - id % 5 AS first_t_id, id AS t_id, CAST({rolled("before", 500)} AS INT) AS before_quantity,
                       CAST({rolled("after", 500)} AS INT) AS after_quantity
                FROM range({first}, {last}) WHERE id % 10 < 9""",
        )
        days = f"range({DAYS})" if batch == 1 else f"range({DAYS + batch - 2}, {DAYS + batch - 1})"
        yield (
            "market",
            f"""SELECT day, symbol, close, close + {rolled("up", 300)} / 100D AS high,
                close - {rolled("down", 300)} / 100D AS low,
                       CAST(1000 + {rolled("volume", 100_000)} AS BIGINT) AS volume
                FROM (SELECT d.id * 100000 + s.id AS id, DATE'2024-02-01' + CAST(d.id AS INT) AS day,
                             concat('S', s.id) AS symbol, 50 + 30 * sin(d.id / 60D + s.id) + pmod(s.id, 40) AS close
                      FROM {days} d CROSS JOIN range({self.symbols}) s)""",
        )
        first, last, second = self._rows(batch, 3 * self.companies)
        yield (
            "company_filings",
            f"""SELECT CAST(id % {self.companies} AS BIGINT) AS cik,
                {FIRST} + make_dt_interval(0, 0, 0, if(id < {self.companies}, id, {second})) AS pts,
                       concat(' Company', id % {self.companies}) AS company_name,
                       {picked("st", "ACTV", "ACTV", "INAC")} AS status,
                       CAST(id % {self.companies} % 20 AS INT) AS industry_id,
                       {picked("sp", "AAA", "A", "BB", "CCC")} AS sp_rating,
                       DATE'1980-01-01' + CAST(id % {self.companies} AS INT) AS founded,
                       concat('City', {rolled("c", 40)}) AS city,
                       {picked("co", "US", "CA")} AS country, concat('Chief', id) AS ceo FROM range({first}, {last})""",
        )
        first, last, second = self._rows(batch, 2 * self.symbols)
        yield (
            "security_filings",
            f"""SELECT concat('S', id % {self.symbols}) AS symbol,
                       {FIRST} + make_dt_interval(0, 0, 0, if(id < {self.symbols}, id, {second})) AS pts,
                       {picked("issue", "COMMON", "PREF")} AS issue_type, 'ACTV' AS status,
                       concat('Security', id % {self.symbols}) AS name,
                       {picked("ex", "NYSE", "NASDAQ", "AMEX")} AS exchange,
                       CAST(1000 + {rolled("sh", 9_000)} AS BIGINT) AS shares, DATE'2000-01-01' AS first_trade,
                       {rolled("dividend", 400)} / 100D AS dividend,
                       CAST(id % {self.symbols} % {self.companies} AS BIGINT) AS cik
                FROM range({first}, {last})""",
        )

    def _first(self) -> Iterator[tuple[str, str]]:
        yield from self._by_time(1)
        yield (
            "financial_filings",
            f"""SELECT CAST(id % {self.companies} AS BIGINT) AS cik,
                       {FIRST} + make_dt_interval(CAST(90 * (id DIV {self.companies}) AS INT), 0, 0, 60) AS pts,
                       CAST(2024 + id DIV {self.companies} DIV 4 AS INT) AS year,
                       CAST(1 + id DIV {self.companies} % 4 AS INT) AS quarter,
                       {rolled("revenue", 1_000_000)} / 10D AS revenue,
                       {rolled("earnings", 90_000)} / 10D AS earnings, 0.5 + {rolled("eps", 300)} / 100D AS eps,
                       {rolled("margin", 100)} / 100D AS margin, {rolled("assets", 1_000_000)} / 1D AS assets,
                       {rolled("debt", 1_000_000)} / 1D AS liabilities, CAST(1000 AS BIGINT) AS shares
                FROM range({8 * self.companies})""",
        )
        yield (
            "employees",
            f"""SELECT id AS employee_id, id DIV 10 AS manager_id, concat('First', {rolled("f", 300)}) AS first_name,
                       concat('Last', {rolled("l", 500)}) AS last_name, if(id % 5 < 4, 314, 100) AS job_code,
                       concat('Branch', {rolled("b", 30)}) AS branch, concat('Office', {rolled("o", 90)}) AS office
                FROM range({self.brokers})""",
        )
        yield (
            "prospects",
            f"""SELECT id AS agency_id, concat('Last', {rolled("l", 500)}) AS last_name,
                       concat('First', {rolled("f", 300)}) AS first_name, concat('City', {rolled("c", 40)}) AS city,
                       {picked("country", "US", "CA")} AS country, CAST({rolled("income", 400_000)} AS INT) AS income,
                       CAST({rolled("cars", 6)} AS INT) AS cars, CAST({rolled("children", 6)} AS INT) AS children,
                       CAST(300 + {rolled("rating", 550)} AS INT) AS credit_rating,
                       CAST({rolled("worth", 2_000_000)} AS INT) AS net_worth FROM range({self._number(5_000, 100)})""",
        )
        yield "dates", f"SELECT DATE'2024-02-01' + CAST(id AS INT) AS day FROM range({DAYS + 30})"
        yield (
            "industries",
            "SELECT CAST(id AS INT) AS industry_id, concat('Industry', id) AS name, concat('Sector', id % 5) AS sector "
            "FROM range(20)",
        )
        yield "tax_rates", "SELECT id AS tax_id, concat('Tax', id) AS name, id / 100D AS rate FROM range(20)"
        yield (
            "status_types",
            "SELECT * FROM VALUES ('ACTV', 'Active'), ('INAC', 'Inactive'), ('PNDG', 'Pending'), "
            "('SBMT', 'Submitted'), ('CMPT', 'Completed'), ('CNCL', 'Canceled') AS s(st_id, name)",
        )
        yield (
            "trade_types",
            "SELECT * FROM VALUES ('TMB', 'Market Buy', false, true), ('TMS', 'Market Sell', true, true), "
            "('TLB', 'Limit Buy', false, false), ('TLS', 'Limit Sell', true, false), ('TSL', 'Stop Loss', true, false) "
            "AS t(tt_id, name, is_sell, is_market)",
        )

    def _later(self, batch: int) -> Iterator[tuple[str, str]]:
        yield from self._by_time(batch)

    def _in_place(self, batch: int) -> Iterator[str]:
        yield f"UPDATE raw.employees SET branch = 'Branch{batch}' WHERE employee_id % 100 = {batch}"
        yield f"UPDATE raw.prospects SET income = income + 1000 WHERE agency_id % 100 = {batch}"
        yield f"DELETE FROM raw.prospects WHERE agency_id % 500 = {100 + batch}"
