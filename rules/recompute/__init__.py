"""The difference of two full computations: always there, so the best plan is never worse than batch."""
