"""The JSON of the bridge, here and nowhere else: the query document that comes, the plans that go."""
