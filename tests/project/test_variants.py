"""Of slow tests' variants CI runs some: what is left out is no test as a whole, and the same each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import without


@pytest.fixture
def items(request: pytest.FixtureRequest, tmp_path: Path) -> list[pytest.Item]:
    """Three variants each of a slow, a quick and a whole slow test, and a slow one without any."""
    file = tmp_path / "test_it.py"
    variants = "@pytest.mark.parametrize('n', [1, 2, 3])"
    file.write_text(
        f"import pytest\n{variants}\n@pytest.mark.slow\ndef test_slow(n): pass\n{variants}\ndef test_quick(n): pass\n"
        f"{variants}\n@pytest.mark.slow\n@pytest.mark.whole\ndef test_whole(n): pass\n"
        "@pytest.mark.slow\ndef test_alone(): pass\n"
    )
    module = pytest.Module.from_parent(request.session, path=file)
    return [item for item in module.collect() if isinstance(item, pytest.Item)]


@pytest.mark.parametrize(("one_of", "left"), [(1, 0), (2, 1), (3, 2), (9, 2)])
def test_variants_of_slow_tests_are_left_out(items: list[pytest.Item], one_of: int, left: int) -> None:
    assert len(items) == 10
    found = without(items, one_of)
    assert len(found) == left
    assert {item.nodeid.partition("[")[0].rpartition("::")[2] for item in found} <= {"test_slow"}
    assert without(items, one_of) == found
