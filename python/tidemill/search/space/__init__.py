"""The space of all plans: the memo seeded with a query and explored by the rules, with what earlier runs left."""
