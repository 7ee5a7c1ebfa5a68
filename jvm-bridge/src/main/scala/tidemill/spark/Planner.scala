package tidemill.spark

import scala.util.control.NonFatal

import org.json4s._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.tidemill.base.{Errors, TidemillException}
import org.apache.spark.sql.tidemill.bridge.Failures

/** The planner of this JVM: the driver's own Python process where there is one, else a process that is started. */
object Planner {
  @volatile private var attached: Option[PlannerEndpoint] = None

  /** Makes `endpoint` the planner; called by `tidemill.configure` in a PySpark driver. The last one wins. */
  def attach(endpoint: PlannerEndpoint): Unit = synchronized {
    attached = Some(endpoint)
    PlannerProcess.stop()
  }

  private[spark] def isAttached: Boolean = attached.isDefined

  /** Forgets the attached planner; the next statement starts a process. */
  def detach(): Unit = attached = None

  /**
   * Calls the planner.
   *
   * @param sql text of the statement, for the pointer in its errors
   * @return what stands under `ok`
   * @throws org.apache.spark.sql.AnalysisException the planner's own error; Spark's errors are thrown as they were
   */
  private[spark] def call(session: SparkSession, method: String, request: JValue, sql: String): JValue = {
    def ask(): JValue =
      parse(attached.getOrElse(PlannerProcess.endpoint(session)).call(session, method, compact(render(request))))
    def failed(e: Throwable) = throw Errors.plannerFailed(s"its process does not answer: ${e.getMessage}", Some(e))
    val answer =
      try ask()
      catch {
        case e: TidemillException => throw e // it could not be started
        // It may have died since the last statement without anybody noticing. To parse changes nothing.
        case NonFatal(_) if method == "parse" && attached.isEmpty && PlannerProcess.hasEnded =>
          try ask()
          catch { case NonFatal(e) => failed(e) }
        case NonFatal(e) => failed(e)
      }
    answer match {
      case JObject(List(("ok", ok))) => ok
      case JObject(List(("error", error))) => throw Errors.fromPlanner(error, sql)
      case JObject(List(("failure", JInt(number)))) => throw Failures.take(number.toLong)
      case other => throw Errors.plannerFailed(s"unknown answer ${compact(render(other)).take(200)}")
    }
  }
}
