from tests.system.test_tpch import *
def test_q01(tpch):
    maintained(tpch, (1,), "STRICT", ("inserts",))
