"""The search: seeding the memo, costing, extraction, lowering, and the plan of a run."""
