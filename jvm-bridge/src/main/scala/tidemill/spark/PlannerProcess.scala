package tidemill.spark

import java.io.{BufferedReader, File, IOException, InputStreamReader}
import java.net.InetAddress
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.security.SecureRandom
import java.util.{Base64, LinkedList}
import java.util.concurrent.{CompletableFuture, ExecutionException, TimeoutException, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.Using

import py4j.JavaServer

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.tidemill.base.Errors
import org.apache.spark.sql.tidemill.bridge.Bridge

/**
 * The planner's process, for JVMs that no Python driver stands behind: spark-sql, Thrift server, Connect server.
 *
 * One per JVM, started by the first statement. The child connects back over the loopback. Port and token are the first
 * line of its standard input, and stand nowhere else. It ends when its standard input closes, so that it cannot outlive
 * this JVM. If it has died, the next statement starts another one; a statement that it died in fails.
 *
 * The child runs in Python's isolated mode: what lies in the working directory is never imported.
 */
private[spark] object PlannerProcess extends Logging {

  private val StartSeconds = 60L
  private var running: Option[Running] = None

  /** The endpoint of the living process, started if need be. */
  def endpoint(session: SparkSession): PlannerEndpoint = synchronized {
    if (!running.exists(_.process.isAlive)) {
      stop()
      running = Some(start(interpreter(session)))
    }
    running.get.endpoint
  }

  /** Whether the process has ended, or is about to. */
  def hasEnded: Boolean = synchronized(running).forall(_.process.waitFor(1, TimeUnit.SECONDS))

  def stop(): Unit = synchronized {
    running.foreach(_.close())
    running = None
  }

  sys.addShutdownHook(running.foreach(_.close())) // no lock: a start may hang in it

  /** What the child calls: its endpoint, and its version to compare. */
  class Door {
    val arrived = new CompletableFuture[PlannerEndpoint]

    def attach(endpoint: PlannerEndpoint, version: String): Unit =
      if (version == Bridge.version) arrived.complete(endpoint)
      else arrived.completeExceptionally(
        new IOException(s"the jar is Tidemill ${Bridge.version}, the interpreter's package is Tidemill $version"))
  }

  private case class Running(process: Process, server: JavaServer, endpoint: PlannerEndpoint) {
    def close(): Unit = {
      process.getOutputStream.close() // end of file: the child ends by itself ...
      if (!process.waitFor(2, TimeUnit.SECONDS)) process.destroyForcibly() // ... unless it hangs
      server.shutdown()
    }
  }

  private def start(python: String): Running = {
    val token = newToken()
    val door = new Door
    val server = listen(door, token)
    try {
      val command = Seq(python, "-I", "-u", "-X", "utf8", "-c", isolated, "tidemill.driver.process")
      val process = new ProcessBuilder(command.asJava).redirectErrorStream(true).start()
      val (tail, draining) = drain(process)
      tell(process, s"${server.getListeningPort} $token\n")
      process.onExit().thenRun(() => door.arrived.completeExceptionally(new IOException("it ended at once")))
      try Running(process, server, door.arrived.get(StartSeconds, TimeUnit.SECONDS))
      catch {
        case e @ (_: ExecutionException | _: TimeoutException) =>
          // To destroy a process that has ended would close its output before it is read.
          if (process.isAlive) process.destroyForcibly()
          process.waitFor(1, TimeUnit.SECONDS)
          draining.join(1000)
          val cause = Option(e.getCause).map(_.getMessage).getOrElse(s"no answer within $StartSeconds seconds")
          val said = tail.synchronized(tail.asScala.toList)
          throw new IOException((cause +: said).mkString("\n"), e)
      }
    } catch {
      case e: IOException =>
        server.shutdown()
        throw Errors.plannerFailed(
          s"its process cannot be started with $python (set spark.tidemill.python to an interpreter that has tidemill): " +
            e.getMessage, Some(e))
    }
  }

  /** What starts a module in isolated mode; Python's side has the same file. */
  private lazy val isolated: String =
    Using.resource(getClass.getResourceAsStream("/tidemill/isolated.py"))(in => new String(in.readAllBytes(), UTF_8))

  private def tell(process: Process, line: String): Unit =
    try {
      process.getOutputStream.write(line.getBytes(UTF_8))
      process.getOutputStream.flush()
    } catch { case _: IOException => } // it has ended, which is noticed elsewhere

  /**
   * py4j's server, on a free port of the loopback (its default address). In its client-server form a call from Python
   * runs in the thread that called Python: job group, active session and all else of the thread stay in place.
   */
  private def listen(door: Door, token: String): JavaServer = {
    val client = new TokenClient(0, InetAddress.getLoopbackAddress, token)
    val server = new GuardedServer(door, client, token)
    client.setGateway(server.getGateway)
    client.setJavaServer(server)
    val callers = Thread.currentThread.getContextClassLoader
    // py4j finds the endpoint's interface through the context loader, which its threads inherit from this one.
    Thread.currentThread.setContextClassLoader(getClass.getClassLoader)
    try server.start(true)
    finally Thread.currentThread.setContextClassLoader(callers)
    server
  }

  /** Copies what the child prints to Spark's log (never to our standard output) and keeps its last lines. */
  private def drain(process: Process): (LinkedList[String], Thread) = {
    val tail = new LinkedList[String]
    val thread = new Thread(() => {
        val lines = new BufferedReader(new InputStreamReader(process.getInputStream, UTF_8)).lines()
        try {
          lines.forEach { line =>
            logWarning(s"planner: $line")
            tail.synchronized { tail.add(line); if (tail.size > 5) tail.removeFirst() }
          }
        } catch { case _: java.io.UncheckedIOException => } // the stream closes when the process is destroyed
      }, "tidemill-planner-log")
    thread.setDaemon(true)
    thread.start()
    (tail, thread)
  }

  private def newToken(): String = {
    val bytes = new Array[Byte](32)
    new SecureRandom().nextBytes(bytes)
    Base64.getUrlEncoder.withoutPadding.encodeToString(bytes)
  }

  /** The planner's interpreter: as Kyuubi looks it up, then the one whose environment this Spark was installed in. */
  private[spark] def interpreter(session: SparkSession): String = {
    val conf = session.sparkContext.getConf
    val settings = Seq("spark.tidemill.python", "spark.pyspark.driver.python", "spark.pyspark.python")
    val variables = Seq("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
    settings.flatMap(conf.getOption).headOption
      .orElse(variables.flatMap(sys.env.get).headOption)
      .orElse(sys.env.get("SPARK_HOME").flatMap(besidePackage))
      .getOrElse("python3")
  }

  /** `<prefix>/bin/python3` for `<prefix>/lib/python3.x/site-packages/pyspark`. */
  private def besidePackage(sparkHome: String): Option[String] =
    Iterator.iterate(new File(sparkHome).toPath.toAbsolutePath: Path)(_.getParent).takeWhile(_ != null)
      .map(_.resolve("bin").resolve("python3"))
      .drop(4)
      .take(1)
      .find(Files.isExecutable(_))
      .map(_.toString)
}
