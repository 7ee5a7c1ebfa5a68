"""TPC-H under change F and change R."""

from benchmarks import changes
from benchmarks.data import load_delta, tpch_files, tpch_numbers, tpch_query
from benchmarks.harness import Suite, ViewBench, parametrized

pytest_generate_tests = parametrized


class TestTpch(ViewBench):
    suite = Suite(
        name="tpch",
        files=tpch_files,
        load=load_delta,
        queries={number: tpch_query(number) for number in tpch_numbers()},
        changes={"F": lambda _, seed: changes.change_f(seed), "R": lambda _, seed: changes.change_r(seed)},
    )
