"""The difference of two full computations: always there, so the best plan is never worse than batch."""

from tidemill.rule.pack import Pack

PACK = Pack("recompute", "batch", "the difference of two full computations", place=7, basic=True)
