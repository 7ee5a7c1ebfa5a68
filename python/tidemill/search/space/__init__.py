"""Every plan there is: the memo seeded with a query, explored by the rules, with what is kept."""
