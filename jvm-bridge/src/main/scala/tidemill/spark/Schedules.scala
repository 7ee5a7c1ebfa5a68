package tidemill.spark

import scala.util.control.NonFatal

import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, render}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession

/**
 * Has the planner fire the schedules of views, where `spark.tidemill.scheduler.enabled` says so.
 *
 * A Python driver that was set up by `tidemill.configure` does so by itself. Elsewhere nobody may ever send one of
 * Tidemill's statements, so a thread starts the planner's process, and starts it again if it has died. It asks for the
 * schedules to be fired again and again, so that they are if something has ended that.
 */
private[spark] object Schedules extends Logging {

  private val Enabled = "spark.tidemill.scheduler.enabled"
  private val LookMillis = 200L
  private val AgainMillis = 10000L

  /** Milliseconds in which a Python driver surely attaches itself, if it does at all. */
  private val AttachMillis = 15000L

  private var watching = false

  /** Called when the extensions are applied, which is before there is a session. */
  def begin(): Unit = synchronized {
    if (!watching) {
      watching = true
      val thread = new Thread(() => watch(), "tidemill-schedules")
      thread.setDaemon(true)
      thread.start()
    }
  }

  private def watch(): Unit =
    try {
      var waited = 0L
      while (SparkSession.getDefaultSession.isEmpty && waited < AttachMillis) {
        Thread.sleep(LookMillis)
        waited += LookMillis
      }
      val session = SparkSession.getDefaultSession
      if (session.exists(enabled)) {
        val python = underPython
        val began = System.currentTimeMillis
        while (python && !Planner.isAttached && System.currentTimeMillis - began < AttachMillis)
          Thread.sleep(LookMillis)
        keep(session.get)
      }
    } finally synchronized { watching = false }

  /**
   * Keeps the planner's process alive as long as the application is, unless a driver is the planner, and has it fire
   * schedules. To be asked for what it does already changes nothing.
   */
  private def keep(session: SparkSession): Unit = {
    var told = Option.empty[String]
    while (!Planner.isAttached && !session.sparkContext.isStopped) {
      val reason =
        try {
          val answer = PlannerProcess.endpoint(session).call(session, "schedule", compact(render("sql" -> "")))
          if (answer.startsWith("{\"ok\"")) None else Some(answer)
        } catch { case NonFatal(e) => Some(String.valueOf(e.getMessage)) }
      if (reason != told) reason.foreach(text => logWarning(s"schedules are not fired: $text"))
      told = reason
      Thread.sleep(AgainMillis)
    }
  }

  private def enabled(session: SparkSession): Boolean =
    !session.sparkContext.isStopped && session.sparkContext.getConf.get(Enabled, "false").trim != "false"

  /** Whether this JVM was started by PySpark, or runs a Python program. */
  private def underPython: Boolean = {
    val command = sys.props.getOrElse("sun.java.command", "").split("\\s+")
    command.exists(word => word.endsWith("PythonGatewayServer") || word == "pyspark-shell" || word.endsWith(".py"))
  }
}
