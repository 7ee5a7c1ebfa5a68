"""The JSON of the bridge, here and nowhere else: query documents that come in, plans that go out."""
