"""The JSON of the bridge in both directions: the query document that comes, the plans that go."""
