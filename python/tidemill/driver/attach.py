"""`tidemill.configure`: sets up a PySpark session whose planner is the driver's own Python process."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.driver.callbacks import guard_callbacks
from tidemill.driver.jar import SCALA, jar_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.bridge.jvm import Jvm
    from tidemill.driver.endpoint import Endpoint

EXTENSION = "tidemill.spark.TidemillExtensions"
DELTA_VERSION = "4.4.0"
DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
CATALOG = "spark.sql.catalog.spark_catalog"
SCHEDULER = "spark.tidemill.scheduler.enabled"
CODE_CACHE = "spark.sql.codegen.cache.maxEntries"
# Spark keeps 100 generated classes. The plans of a dozen views have more, and would compile them anew at each refresh:
# half of a small refresh's CPU.
CODE_CACHE_ENTRIES = "2000"


def configure(builder: SparkSession.Builder, formats: Iterable[str] = ()) -> SparkSession.Builder:
    """Adds Tidemill to a session that is about to be built, and returns the builder.

    Jars, packages and extensions that the builder or `spark-defaults.conf` names are kept. `formats` names table
    formats whose packages Spark fetches from Maven: "delta". A builder for a Spark Connect server elsewhere
    (`sc://...`) is left alone, because the server's own settings count.

    `getOrCreate` raises RuntimeError if a session is already running that was started without Tidemill.
    """
    formats = set(formats)
    if unknown := formats - {"delta"}:
        raise ValueError(f"Tidemill cannot set up the format {', '.join(sorted(unknown))}; it knows: delta")
    if _remote(builder).startswith("sc://"):
        return builder
    _append(builder, "spark.jars", str(jar_path()))
    if "delta" in formats:
        _configure_delta(builder)
    _append(builder, "spark.sql.extensions", EXTENSION)
    if not _present(builder, CODE_CACHE):
        builder.config(CODE_CACHE, CODE_CACHE_ENTRIES)
    if not _remote(builder):
        _attach_on_create(builder)
    return builder


def attach(session: SparkSession) -> None:
    """Makes this Python process the planner of the session's JVM. Further calls for the same JVM change nothing."""
    from py4j.java_gateway import JavaClass
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    from tidemill.bridge.jvm import BRIDGE, check_version
    from tidemill.driver.endpoint import Endpoint

    gateway = SparkContext._gateway
    assert gateway is not None
    client = gateway._gateway_client
    try:
        installed = JavaClass(BRIDGE, client).installed(session._jsparkSession)
    except Py4JError:  # the class is not there
        installed = False
    if not installed:
        raise RuntimeError(
            "the running Spark session was started without Tidemill. Stop it and its JVM (start Python anew) before"
            " tidemill.configure(...).getOrCreate(), or start it with"
            f" --jars {jar_path()} --conf spark.sql.extensions={EXTENSION}"
        )
    if (attached := gateway.__dict__.get("_tidemill_endpoint")) is not None:
        attached.interrupts.install()  # another SparkContext has put PySpark's handler in its place
        _schedule(attached, session)
        return
    check_version(client)
    _start_callbacks(gateway)
    endpoint = Endpoint(client, "the standard error of the driver's Python")
    JavaClass("tidemill.spark.Planner", client).attach(endpoint)
    gateway.__dict__["_tidemill_endpoint"] = endpoint
    endpoint.interrupts.install()
    _schedule(endpoint, session)


def own_session(
    builder: SparkSession.Builder, settings: Mapping[str, str], formats: Iterable[str] = ()
) -> SparkSession:
    """Starts the session of a program of Tidemill's own, with Tidemill and these settings. Spark logs only errors."""
    import pyspark

    for name, value in settings.items():
        builder.config(name, value)
    configure(builder, formats)
    # The jar is for exactly this Spark, whatever other one SPARK_HOME may name.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def watch(session: SparkSession) -> None:
    """Serves health and metrics of this process from now on, if the session's settings ask for that.

    Raises TIDEMILL_INVALID_SETTING.
    """
    from pyspark import SparkContext

    jvm = jvm_of(session)
    endpoint: Endpoint = SparkContext._gateway.__dict__["_tidemill_endpoint"]
    endpoint.watch(jvm)


def _schedule(endpoint: Endpoint, session: SparkSession) -> None:
    """Fires the schedules of the application if its settings say so: nothing is loaded for it if they do not."""
    if session.conf.get(SCHEDULER, "false") != "false":
        endpoint.schedule(session._jsparkSession)


def jvm_of(session: SparkSession) -> Jvm:
    """Returns the session for calls of the runtime by this process, which becomes its planner if it was not.

    Raises RuntimeError for a session of a Spark Connect client, and for one without Tidemill.
    """
    from pyspark import SparkContext

    from tidemill.bridge.jvm import Jvm

    if not hasattr(session, "_jsparkSession"):
        raise RuntimeError("this needs a session of the driver; a Spark Connect client has none")
    attach(session)
    gateway = SparkContext._gateway
    assert gateway is not None
    return Jvm(gateway._gateway_client, session._jsparkSession)


def _start_callbacks(gateway: Any) -> None:
    """Starts PySpark's callback server, which asks for a token: any local process could connect otherwise."""
    from py4j.java_gateway import JavaClass, JavaObject
    from pyspark.java_gateway import ensure_callback_server_started

    client = gateway._gateway_client
    token = secrets.token_urlsafe(32)
    JavaClass("tidemill.spark.CallbackGuard", client).install(JavaObject("GATEWAY_SERVER", client), token)
    gateway.callback_server_parameters.auth_token = token
    guard_callbacks(gateway)
    ensure_callback_server_started(gateway)


def _attach_on_create(builder: SparkSession.Builder) -> None:
    if "getOrCreate" in builder.__dict__:
        return
    create = builder.getOrCreate

    def create_and_attach() -> SparkSession:
        session = create()
        attach(session)
        return session

    builder.getOrCreate = create_and_attach  # type: ignore[method-assign]  # of this builder only


def _configure_delta(builder: SparkSession.Builder) -> None:
    import pyspark

    minor = ".".join(pyspark.__version__.split(".")[:2])
    # delta's own helper may have named it, then in a version of its choice
    if "io.delta:delta-spark_" not in _present(builder, "spark.jars.packages"):
        _append(builder, "spark.jars.packages", f"io.delta:delta-spark_{minor}_{SCALA}:{DELTA_VERSION}")
    _append(builder, "spark.sql.extensions", DELTA_EXTENSION)
    if not _present(builder, CATALOG):
        builder.config(CATALOG, DELTA_CATALOG)


def _append(builder: SparkSession.Builder, key: str, value: str) -> None:
    """Adds to a setting that is a comma-separated list."""
    values = [part.strip() for part in _present(builder, key).split(",") if part.strip()]
    if value not in values:
        builder.config(key, ",".join([*values, value]))


def _present(builder: SparkSession.Builder, key: str) -> str:
    """Returns the present value of a setting: the builder's, else the default that the builder's would hide."""
    options: dict[str, Any] = builder._options
    return str(options[key]) if key in options else _defaults().get(key, "")


def _remote(builder: SparkSession.Builder) -> str:
    """Returns the Spark Connect server that the builder leads to; empty for a classic session."""
    remote = builder._options.get("spark.remote") or os.environ.get("SPARK_REMOTE") or ""
    mode = builder._options.get("spark.api.mode") or os.environ.get("SPARK_API_MODE") or "classic"
    return str(remote) or ("local" if mode == "connect" else "")


def _defaults() -> dict[str, str]:
    """Returns the settings that a session starts from: the running JVM's, else those of `spark-defaults.conf`."""
    from pyspark import SparkConf, SparkContext

    if "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None:
        SparkContext._ensure_initialized()
        return dict(SparkConf().getAll())
    home = os.environ.get("SPARK_HOME", "")
    folder = os.environ.get("SPARK_CONF_DIR") or (os.path.join(home, "conf") if home else "")
    path = Path(folder, "spark-defaults.conf")
    if not folder or not path.exists():
        return {}
    # Java's properties as Spark users write them: key, white space or "=" or ":", value
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [line.replace("=", " ", 1).split(None, 1) for line in lines if line and not line.startswith(("#", "!"))]
    return {key: value.strip() for key, value in (pair for pair in pairs if len(pair) == 2)}
