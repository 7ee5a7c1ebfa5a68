"""Runs the planner as a process of its own, started by a JVM without a Python driver (spark-sql, servers).

The JVM starts it in isolated mode (`tidemill.isolated`), and writes its port and token as the first line of the
standard input: they stand nowhere else. All output goes to Spark's log. The process ends when its standard input does.
"""

from __future__ import annotations

import logging
import os
import signal
import sys

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters

from tidemill.driver.callbacks import guard_callbacks
from tidemill.driver.endpoint import Endpoint
from tidemill.version import __version__

GRACE = 0.5
"""Seconds within which a shell surely handles a Ctrl-C that its planner has received."""


def main(endpoint: type[Endpoint] = Endpoint) -> None:
    """Attaches to the JVM and serves until it goes away."""
    port, token = sys.stdin.buffer.readline().decode().split()
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gateway = ClientServer(
        java_parameters=JavaParameters(port=int(port), auth_token=token, auto_convert=True),
        python_parameters=PythonParameters(
            port=0, auth_token=token, daemonize=True, daemonize_connections=True, eager_load=False
        ),
    )
    guard_callbacks(gateway)
    gateway.start_callback_server()
    java = gateway.java_gateway_server
    java.resetCallbackClient(java.getCallbackClient().getAddress(), gateway.get_callback_server().get_listening_port())
    planner = endpoint(gateway._gateway_client, "that of the Spark driver")
    # The terminal sends Ctrl-C to the whole group. The shell cancels its jobs and lives on. So does the planner: it
    # begins nothing more for the statement, and ends the call only after the shell has handled Ctrl-C.
    planner.interrupts.grace = GRACE
    signal.signal(signal.SIGINT, lambda *_: planner.interrupts.press())
    gateway.entry_point.attach(planner, __version__)
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(0)  # py4j's threads may wait for the JVM, which has gone


if __name__ == "__main__":
    main()
