"""Which values stand for themselves when they are compared, by type."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.plan.datatype import DataType, type_to_text
from tidemill.plan.expr import Cast, Col, fn
from tidemill.plan.grouping import exactly, identity, identity_type, is_comparable, is_plain, key

LCASE = "string collate UTF8_LCASE"


def array(element: DataType) -> DataType:
    return {"type": "array", "elementType": element, "containsNull": True}


def entries(k: DataType, value: DataType) -> DataType:
    return {"type": "map", "keyType": k, "valueType": value, "valueContainsNull": True}


def struct(*kinds: DataType, **metadata: Any) -> DataType:
    fields = [{"name": f"f {i}", "type": t, "nullable": True, "metadata": metadata} for i, t in enumerate(kinds)]
    return {"type": "struct", "fields": fields}


PLAIN: list[DataType] = [
    "long", "double", "decimal(10,2)", "string", "binary", "timestamp", "time(6)", "interval day to second",
    "interval year to month", "string collate UTF8_BINARY", array("double"), struct("string", array("binary")),
]  # fmt: skip
INCOMPARABLE: list[DataType] = ["variant", "interval", "geometry(4326)", entries("string", "long")]


@pytest.mark.parametrize("kind", [*map(type_to_text, PLAIN)])
def test_plain_values_are_compared_as_they_are(kind: str) -> None:
    assert identity(1, kind) == key(Col(1), kind) == Col(1)
    assert identity_type(kind) == kind
    assert is_plain(kind)
    assert is_comparable(kind)


@pytest.mark.parametrize("inner", INCOMPARABLE)
def test_what_spark_cannot_compare_goes_by_its_bytes(inner: DataType) -> None:
    for kind in map(type_to_text, (inner, array(inner), struct("long", array(inner)), entries("long", inner))):
        assert identity(1, kind) == fn("tidemill_identity", Col(1))
        assert identity_type(kind) == "binary"
        assert key(Col(1), kind) == fn("tidemill_key", Col(1))
        assert exactly(1, kind) is None
        assert not is_comparable(kind)


def test_texts_under_a_collation_are_the_same_by_their_bytes_and_equal_by_the_collation() -> None:
    assert identity(1, LCASE) == exactly(1, LCASE) == Cast(Col(1), "string")
    assert identity_type(LCASE) == "string"
    assert key(Col(1), LCASE) == Col(1)
    # Spark names collations within a struct in the metadata of its fields alone.
    within = [array(LCASE), struct("long", "string", __COLLATIONS={"f 1": "spark.UTF8_LCASE"}), struct(array(LCASE))]
    for kind in map(type_to_text, within):
        assert identity(1, kind) == fn("tidemill_identity", Col(1))
        assert key(Col(1), kind) == Col(1)
        assert is_comparable(kind)
        assert not is_plain(kind)
