"""Parts kept at the grain of lineage keys, and an answer function above them (Fegaras, MRQL)."""
