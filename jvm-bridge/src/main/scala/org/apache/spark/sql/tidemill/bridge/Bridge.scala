package org.apache.spark.sql.tidemill.bridge

import java.util.concurrent.ExecutionException

import scala.annotation.tailrec
import scala.io.{Codec, Source}
import scala.util.Using
import scala.util.control.ControlThrowable

import org.json4s._
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.tidemill.step.RunMetrics

/**
 * What Python calls. Each method takes a session and a JSON request, and answers `{"ok": ...}` or
 * `{"failure": number, "class", "condition", "message", "causes": [text]}`; it throws nothing, because an exception would
 * cross py4j as text only. Both have "jobs" and "cpu_ms" if Spark jobs ran, whoever started them, or tasks in the
 * driver: Delta reads its logs with jobs where a query is analysed or a source is pinned.
 */
object Bridge {

  def analyze(session: SparkSession, request: String): String = answer(session, request, Plans.analyze)
  def release(session: SparkSession, request: String): String = answer(session, request, Plans.release)
  def run(session: SparkSession, request: String): String = answer(session, request, Plans.run)
  def cut(session: SparkSession, request: String): String = answer(session, request, Plans.cut)
  def judge(session: SparkSession, request: String): String = answer(session, request, Plans.judge)
  def settings(session: SparkSession, request: String): String = answer(session, request, Plans.settings)
  def prefixed(session: SparkSession, request: String): String = answer(session, request, Plans.prefixed)
  def mark(session: SparkSession, request: String): String = answer(session, request, Plans.mark)
  def files(session: SparkSession, request: String): String = answer(session, request, Store.files)
  def pin(session: SparkSession, request: String): String = answer(session, request, Store.pin)
  def delta(session: SparkSession, request: String): String = answer(session, request, Store.delta)
  def catalog(session: SparkSession, request: String): String = answer(session, request, Store.catalog)

  /** A clone of the session (temporary views, functions and settings included) with `confs` set; the original stays. */
  def cloneSession(session: SparkSession, confs: String): SparkSession = {
    val clone = session.cloneSession()
    parse(confs) match {
      case JObject(fields) => fields.foreach {
          case (key, JString(value)) => clone.sessionState.conf.setConfString(key, value)
          case (key, JNull) => clone.sessionState.conf.unsetConf(key)
          case (key, value) => clone.sessionState.conf.setConfString(key, compact(render(value)))
        }
      case other => throw new IllegalArgumentException(s"not an object: ${compact(render(other))}")
    }
    clone
  }

  /** Whether the session understands Tidemill's statements. */
  def installed(session: SparkSession): Boolean = Installed.contains(session.extensions)

  /** Version of this jar; the Python package must be of the same. */
  lazy val version: String =
    Using.resource(getClass.getResourceAsStream("/tidemill/version"))(
      Source.fromInputStream(_)(Codec.UTF8).mkString.trim)

  private def failed(thrown: Throwable): JObject = {
    val e = unwrapped(thrown)
    val condition = e match {
      case known: SparkThrowable => Option(known.getCondition)
      case _ => None
    }
    ("failure" -> Failures.keep(e)) ~ ("class" -> e.getClass.getName) ~
      ("condition" -> condition) ~ ("message" -> String.valueOf(e.getMessage)) ~ ("causes" -> causes(e))
  }

  /**
   * Spark waits for a broadcast in another thread; what failed there comes back in a wrapping that PySpark cannot read.
   */
  @tailrec private def unwrapped(e: Throwable): Throwable = e match {
    case wrapping: ExecutionException if wrapping.getCause != null => unwrapped(wrapping.getCause)
    case other => other
  }

  /** What the causes of a Throwable say, from the outermost on. */
  private def causes(e: Throwable): List[String] =
    Iterator.iterate(e.getCause)(_.getCause).takeWhile(_ != null).take(MostCauses)
      .map(c => String.valueOf(c.getMessage)).toList

  private val MostCauses = 20

  private def answer(session: SparkSession, request: String, f: (SparkSession, JValue) => JValue): String =
    try {
      val asked = parse(request)
      val description = Some(asked \ "description").collect { case JString(text) => text }
      val (outcome, cost) = RunMetrics.measured(session.sparkContext, description) {
        Progress.during(session.sparkContext, description)(session.withActive(f(session, asked)))
      }
      val answer: JObject = outcome.fold(failed, answered => JObject("ok" -> answered))
      val told = ("jobs" -> cost.jobs) ~ ("cpu_ms" -> cost.cpuMillis) ~ ("rows_read" -> cost.rowsRead)
      compact(render(if (cost.isNothing) answer else answer ~ told))
    } catch {
      case e: ControlThrowable => throw e
      case e: VirtualMachineError => throw e
      case e: Throwable => compact(render(failed(e)))
    }
}
