"""Parts kept at the grain of lineage keys, and an answer function above them (Fegaras, MRQL)."""

from tidemill.rule.pack import Pack

PACK = Pack("lineage", "Fegaras, MRQL", "a homomorphism merged by lineage keys, and an answer function", place=5)
