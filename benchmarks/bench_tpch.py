"""TPC-H under change F and change R."""

from benchmarks import changes, texts
from benchmarks.data import load_delta, tpch_files
from benchmarks.harness import Suite, ViewBench, parametrized

pytest_generate_tests = parametrized


class TestTpch(ViewBench):
    suite = Suite(
        name="tpch",
        files=tpch_files,
        load=load_delta,
        queries=texts.by_number(texts.standard("tpch")),
        changes={"F": lambda _, seed: changes.change_f(seed), "R": lambda _, seed: changes.change_r(seed)},
    )
