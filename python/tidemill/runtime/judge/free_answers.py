"""VERIFY of a query that ends in LIMIT: rows that tie at the cut are free.

Any rows of a tie complete the answer. So the stored content is right if it holds every row ranked between the ties at
the ends of the cut, and for the rest nothing but rows tied there, in the right number.
"""

from __future__ import annotations

from collections import Counter

from tidemill.runtime.judge.compare import Case, Verdict


def compare_cut(case: Case) -> Verdict | None:
    """Compares as `compare` does, for a query ending in LIMIT or OFFSET. Returns None for any other query."""
    answer = case.ask(ties=True)
    if answer["expected"] is None:
        return None
    ends = set(answer["ends"])
    expected = [(rank, row) for rank, row in answer["expected"]]
    actual = Counter(answer["stored"])
    certain = Counter(row for rank, row in expected if rank not in ends)
    candidates = Counter(row for _, row in answer["candidates"])
    rest = actual - certain
    missing = (certain - actual).total()
    unexpected = (rest - candidates).total()
    short = len(expected) - actual.total()
    return Verdict(max(missing, short), max(unexpected, -short))
