-- The views of the pipeline, after TPC-DI's public specification: bronze (what came, typed), silver (histories and cleaned
-- facts), gold (dimensions, facts, marts). Each begins with a line "-- layer name", after the views that it reads.

-- bronze customer_events
SELECT c_id, action, ts, tax_id, last_name, first_name, upper(gender) AS gender, tier, dob, city, country, email,
       ca_id, broker_id, account_name, tax_status
FROM raw.customer_events

-- bronze company_filings
SELECT cik, pts, trim(company_name) AS company_name, status, industry_id, sp_rating, founded, city, country, ceo
FROM raw.company_filings

-- bronze security_filings
SELECT symbol, pts, issue_type, status, name, exchange, shares, first_trade, dividend, cik FROM raw.security_filings

-- bronze financial_filings
SELECT cik, pts, year, quarter, revenue, earnings, eps, margin, assets, liabilities, shares FROM raw.financial_filings

-- bronze employees
SELECT employee_id, manager_id, first_name, last_name, job_code, branch, office FROM raw.employees

-- bronze prospects
SELECT agency_id, upper(last_name) AS last_name, upper(first_name) AS first_name, city, country, income, cars, children,
       credit_rating, net_worth
FROM raw.prospects

-- bronze dates
SELECT day, year(day) AS year, quarter(day) AS quarter, month(day) AS month, dayofweek(day) AS weekday FROM raw.dates

-- bronze industries
SELECT industry_id, name, sector FROM raw.industries

-- bronze status_types
SELECT st_id, name FROM raw.status_types

-- bronze trade_types
SELECT tt_id, name, is_sell, is_market FROM raw.trade_types

-- bronze tax_rates
SELECT tax_id, name, rate FROM raw.tax_rates

-- bronze trade_rows
SELECT t_id, dts, st_id, tt_id, is_cash, symbol, quantity, bid, ca_id, executor_id, price, charge, commission, tax
FROM raw.trades

-- bronze trade_states
SELECT t_id, dts, st_id FROM raw.trade_states

-- bronze cash_rows
SELECT ca_id, dts, CAST(dts AS DATE) AS day, amount, name FROM raw.cash

-- bronze holding_rows
SELECT first_t_id, t_id, before_quantity, after_quantity FROM raw.holdings

-- bronze market_rows
SELECT day, symbol, close, high, low, volume FROM raw.market

-- bronze watch_events
SELECT c_id, symbol, dts, action FROM raw.watches

-- silver customers
SELECT c_id, xxhash64(c_id, ts) AS sk_customer,
       last_value(tax_id, true) OVER filled AS tax_id, last_value(last_name, true) OVER filled AS last_name,
       last_value(first_name, true) OVER filled AS first_name, last_value(gender, true) OVER filled AS gender,
       last_value(tier, true) OVER filled AS tier, last_value(dob, true) OVER filled AS dob,
       last_value(city, true) OVER filled AS city, last_value(country, true) OVER filled AS country,
       last_value(email, true) OVER filled AS email,
       if(action = 'INACT', 'Inactive', 'Active') AS status,
       ts AS valid_from,
       coalesce(lead(ts) OVER ordered, TIMESTAMP'9999-12-31') AS valid_to,
       lead(ts) OVER ordered IS NULL AS is_current
FROM customer_events
WHERE action IN ('NEW', 'UPDCUST', 'INACT')
WINDOW ordered AS (PARTITION BY c_id ORDER BY ts),
       filled AS (PARTITION BY c_id ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)

-- silver accounts
SELECT ca_id, c_id, xxhash64(ca_id, ts) AS sk_account,
       last_value(broker_id, true) OVER filled AS broker_id, last_value(account_name, true) OVER filled AS account_name,
       last_value(tax_status, true) OVER filled AS tax_status,
       if(action = 'CLOSEACCT', 'Closed', 'Active') AS status,
       ts AS valid_from,
       coalesce(lead(ts) OVER ordered, TIMESTAMP'9999-12-31') AS valid_to,
       row_number() OVER (PARTITION BY ca_id ORDER BY ts DESC) = 1 AS is_current
FROM customer_events
WHERE ca_id IS NOT NULL
WINDOW ordered AS (PARTITION BY ca_id ORDER BY ts),
       filled AS (PARTITION BY ca_id ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)

-- silver companies
SELECT cik, xxhash64(cik, pts) AS sk_company, company_name, s.name AS status, i.name AS industry, i.sector, sp_rating,
       sp_rating IN ('BB', 'B', 'CCC', 'D') AS is_low_grade, founded, city, country, ceo,
       pts AS valid_from,
       coalesce(lead(pts) OVER (PARTITION BY cik ORDER BY pts), TIMESTAMP'9999-12-31') AS valid_to,
       lead(pts) OVER (PARTITION BY cik ORDER BY pts) IS NULL AS is_current
FROM company_filings c JOIN industries i ON c.industry_id = i.industry_id JOIN status_types s ON c.status = s.st_id

-- silver security_versions
SELECT symbol, pts, issue_type, status, name, exchange, shares, first_trade, dividend, cik,
       coalesce(lead(pts) OVER (PARTITION BY symbol ORDER BY pts), TIMESTAMP'9999-12-31') AS next_pts
FROM security_filings

-- silver securities
SELECT v.symbol, xxhash64(v.symbol, v.pts, c.sk_company) AS sk_security, v.issue_type, s.name AS status, v.name, v.exchange,
       v.shares, v.first_trade, v.dividend, c.sk_company, c.cik,
       greatest(v.pts, c.valid_from) AS valid_from, least(v.next_pts, c.valid_to) AS valid_to,
       least(v.next_pts, c.valid_to) = TIMESTAMP'9999-12-31' AS is_current
FROM security_versions v
JOIN companies c ON v.cik = c.cik AND v.pts < c.valid_to AND v.next_pts > c.valid_from
JOIN status_types s ON v.status = s.st_id

-- silver financials
SELECT f.cik, c.sk_company, f.year, f.quarter, f.revenue, f.earnings, f.eps, f.margin, f.assets, f.liabilities, f.shares
FROM financial_filings f JOIN companies c ON f.cik = c.cik AND f.pts BETWEEN c.valid_from AND c.valid_to

-- silver earnings_of_year
SELECT cik, year, quarter, eps,
       sum(eps) OVER (PARTITION BY cik ORDER BY year, quarter ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS eps_year,
       lag(eps) OVER (PARTITION BY cik ORDER BY year, quarter) AS eps_before
FROM financials

-- silver brokers
SELECT employee_id AS broker_id, manager_id, first_name, last_name, branch, office FROM employees WHERE job_code = 314

-- silver trades
SELECT r.t_id, r.dts, r.st_id, r.tt_id, r.is_cash, r.symbol, r.quantity, r.bid, r.ca_id, r.executor_id, r.price, r.charge,
       r.commission, r.tax
FROM trade_rows r JOIN (SELECT t_id, max(dts) AS dts FROM trade_rows GROUP BY t_id) l ON r.t_id = l.t_id AND r.dts = l.dts

-- silver trade_steps
SELECT h.t_id, h.dts, s.name AS status, t.tt_id, t.symbol, t.ca_id, t.quantity, t.price,
       lag(s.name) OVER (PARTITION BY h.t_id ORDER BY h.dts) AS status_before,
       lead(h.dts) OVER (PARTITION BY h.t_id ORDER BY h.dts) AS next_dts,
       row_number() OVER (PARTITION BY h.t_id ORDER BY h.dts DESC) AS newest
FROM trade_states h JOIN trades t ON h.t_id = t.t_id JOIN status_types s ON h.st_id = s.st_id

-- silver trade_times
SELECT t_id, min(if(status = 'Pending', dts, NULL)) AS placed, min(if(status = 'Submitted', dts, NULL)) AS submitted,
       max(if(status = 'Completed', dts, NULL)) AS completed, max(if(status = 'Canceled', dts, NULL)) AS canceled
FROM trade_steps GROUP BY t_id

-- silver market_year
SELECT day, symbol, close, high, low, volume,
       min(low) OVER year AS low_year, max(high) OVER year AS high_year
FROM market_rows
WINDOW year AS (PARTITION BY symbol ORDER BY day ROWS BETWEEN 364 PRECEDING AND CURRENT ROW)

-- silver market_days
SELECT y.day, y.symbol, y.close, y.high, y.low, y.volume, y.low_year, y.high_year, min(l.day) AS low_day,
       min(h.day) AS high_day
FROM market_year y
JOIN market_rows l ON l.symbol = y.symbol AND l.low = y.low_year AND l.day BETWEEN y.day - INTERVAL 364 DAYS AND y.day
JOIN market_rows h ON h.symbol = y.symbol AND h.high = y.high_year AND h.day BETWEEN y.day - INTERVAL 364 DAYS AND y.day
GROUP BY y.day, y.symbol, y.close, y.high, y.low, y.volume, y.low_year, y.high_year

-- silver newest_prices
SELECT m.symbol, m.day, m.close, m.volume
FROM market_rows m JOIN (SELECT symbol, max(day) AS day FROM market_rows GROUP BY symbol) l
  ON m.symbol = l.symbol AND m.day = l.day

-- silver holdings
SELECT h.first_t_id, h.t_id, t.ca_id, t.symbol, t.dts, h.before_quantity, h.after_quantity, t.price
FROM holding_rows h JOIN trades t ON h.t_id = t.t_id

-- silver cash_days
SELECT ca_id, day, sum(amount) AS amount, count(*) AS transactions FROM cash_rows GROUP BY ca_id, day

-- silver watches
SELECT c_id, symbol, min(if(action = 'ACTV', dts, NULL)) AS placed, max(if(action = 'CNCL', dts, NULL)) AS removed
FROM watch_events GROUP BY c_id, symbol

-- silver account_events
SELECT ca_id, dts, 'trade' AS kind, quantity * price AS amount FROM trades
UNION ALL SELECT ca_id, dts, 'cash', amount FROM cash_rows
UNION ALL SELECT ca_id, ts, lower(action), CAST(NULL AS DOUBLE) FROM customer_events WHERE ca_id IS NOT NULL

-- silver known_prospects
SELECT p.agency_id, p.last_name, p.first_name, p.city, p.country, p.income, p.net_worth, p.credit_rating,
       c.c_id IS NOT NULL AS is_customer,
       concat_ws('+', if(p.net_worth > 1000000 OR p.income > 200000, 'HighValue', NULL), if(p.children > 3, 'Expenses', NULL),
                 if(p.credit_rating < 600, 'Rating', NULL), if(p.cars > 3, 'Boomer', NULL)) AS tags
FROM prospects p
LEFT JOIN (SELECT c_id, upper(last_name) AS last_name, upper(first_name) AS first_name, city FROM customers WHERE is_current) c
  ON p.last_name = c.last_name AND p.first_name = c.first_name AND p.city = c.city

-- gold dim_customer
SELECT c.sk_customer, c.c_id, c.tax_id, c.last_name, c.first_name, c.gender, c.tier, c.dob, c.city, c.country, c.email,
       c.status, r.name AS tax_name, r.rate AS tax_rate, c.valid_from, c.valid_to, c.is_current
FROM customers c JOIN tax_rates r ON c.tax_id % 20 = r.tax_id

-- gold dim_account
SELECT a.sk_account, a.ca_id, c.sk_customer, b.broker_id, concat(b.first_name, ' ', b.last_name) AS broker, a.account_name,
       a.tax_status, a.status, greatest(a.valid_from, c.valid_from) AS valid_from, least(a.valid_to, c.valid_to) AS valid_to
FROM accounts a
JOIN customers c ON a.c_id = c.c_id AND a.valid_from < c.valid_to AND a.valid_to > c.valid_from
LEFT JOIN brokers b ON a.broker_id = b.broker_id

-- gold dim_company
SELECT sk_company, cik, company_name, status, industry, sector, sp_rating, is_low_grade, founded, city, country, ceo,
       valid_from, valid_to, is_current
FROM companies

-- gold dim_security
SELECT sk_security, symbol, issue_type, status, name, exchange, sk_company, shares, dividend, valid_from, valid_to, is_current
FROM securities

-- gold dim_broker
SELECT b.broker_id, b.first_name, b.last_name, b.branch, b.office, m.first_name AS manager_first_name,
       m.last_name AS manager_last_name
FROM brokers b LEFT JOIN employees m ON b.manager_id = m.employee_id

-- gold dim_trade
SELECT t.t_id, y.name AS type, y.is_sell, s.name AS status, t.is_cash, x.placed, x.completed, x.canceled
FROM trades t JOIN trade_types y ON t.tt_id = y.tt_id JOIN status_types s ON t.st_id = s.st_id
JOIN trade_times x ON t.t_id = x.t_id

-- gold fact_trade
SELECT t.t_id, a.sk_account, a.ca_id, s.sk_security, s.sk_company, CAST(t.dts AS DATE) AS day, t.dts, t.quantity, t.price,
       t.charge, t.commission, t.tax, t.executor_id
FROM trades t
JOIN accounts a ON t.ca_id = a.ca_id AND t.dts BETWEEN a.valid_from AND a.valid_to
JOIN securities s ON t.symbol = s.symbol AND t.dts BETWEEN s.valid_from AND s.valid_to

-- gold fact_holdings
SELECT h.first_t_id, h.t_id, a.sk_account, s.sk_security, CAST(h.dts AS DATE) AS day, h.price, h.before_quantity,
       h.after_quantity
FROM holdings h
JOIN accounts a ON h.ca_id = a.ca_id AND h.dts BETWEEN a.valid_from AND a.valid_to
JOIN securities s ON h.symbol = s.symbol AND h.dts BETWEEN s.valid_from AND s.valid_to

-- gold fact_cash_balances
SELECT d.ca_id, a.sk_account, d.day, d.transactions,
       sum(d.amount) OVER (PARTITION BY d.ca_id ORDER BY d.day ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS balance
FROM cash_days d JOIN accounts a ON d.ca_id = a.ca_id AND a.is_current

-- gold fact_market_history
SELECT m.day, m.symbol, s.sk_security, s.sk_company, m.close, m.high, m.low, m.volume, m.low_year, m.low_day, m.high_year,
       m.high_day, s.dividend / m.close * 100 AS yield, m.close / e.eps_year AS pe_ratio
FROM market_days m
JOIN securities s ON m.symbol = s.symbol AND CAST(m.day AS TIMESTAMP) BETWEEN s.valid_from AND s.valid_to
LEFT JOIN earnings_of_year e ON s.cik = e.cik AND e.year = year(m.day) AND e.quarter = quarter(m.day)

-- gold fact_watches
SELECT w.c_id, c.sk_customer, s.sk_security, CAST(w.placed AS DATE) AS placed_on, CAST(w.removed AS DATE) AS removed_on
FROM watches w
JOIN customers c ON w.c_id = c.c_id AND w.placed BETWEEN c.valid_from AND c.valid_to
JOIN securities s ON w.symbol = s.symbol AND w.placed BETWEEN s.valid_from AND s.valid_to

-- gold fact_prospects
SELECT p.agency_id, p.is_customer, p.tags, p.income, p.net_worth, r.name AS tax_name
FROM known_prospects p LEFT JOIN tax_rates r ON pmod(p.credit_rating, 20) = r.tax_id

-- gold broker_performance
SELECT b.broker_id, b.branch, y.is_sell, count(*) AS trades, sum(t.quantity * t.price) AS volume,
       sum(t.commission) AS commission, avg(t.price) AS price
FROM trades t JOIN brokers b ON t.executor_id = b.broker_id JOIN trade_types y ON t.tt_id = y.tt_id
GROUP BY b.broker_id, b.branch, y.is_sell

-- gold customer_concentration
SELECT c.country, c.tier, s.industry, count(DISTINCT c.c_id) AS customers, sum(f.quantity * f.price) AS volume
FROM fact_trade f
JOIN accounts a ON f.sk_account = a.sk_account
JOIN customers c ON a.c_id = c.c_id AND c.is_current
JOIN companies s ON f.sk_company = s.sk_company
GROUP BY c.country, c.tier, s.industry

-- gold account_months
SELECT ca_id, date_trunc('MONTH', dts) AS month, count(*) AS events, count_if(kind = 'trade') AS trades, sum(amount) AS amount
FROM account_events GROUP BY ca_id, date_trunc('MONTH', dts)

-- gold sector_days
SELECT f.day, c.sector, sum(f.volume) AS volume, avg(f.close) AS close, count(*) AS securities
FROM fact_market_history f JOIN companies c ON f.sk_company = c.sk_company
GROUP BY f.day, c.sector

-- gold portfolio_values
SELECT h.ca_id, h.symbol, sum(h.after_quantity - h.before_quantity) AS quantity,
       sum((h.after_quantity - h.before_quantity) * p.close) AS value
FROM holdings h JOIN newest_prices p ON h.symbol = p.symbol
GROUP BY h.ca_id, h.symbol

-- gold top_customers
SELECT c_id, country, balance, place
FROM (SELECT a.c_id, c.country, b.balance, row_number() OVER (PARTITION BY c.country ORDER BY b.balance DESC, a.c_id) AS place
      FROM (SELECT ca_id, sum(amount) AS balance FROM cash_days GROUP BY ca_id) b
      JOIN accounts a ON b.ca_id = a.ca_id AND a.is_current
      JOIN customers c ON a.c_id = c.c_id AND c.is_current)
WHERE place <= 10
