package org.apache.spark.sql.tidemill.bridge

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.catalyst.QueryPlanningTracker
import org.apache.spark.sql.catalyst.plans.logical.{Command, LogicalPlan}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.command.ViewHelper
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.tidemill.base.Json
import org.apache.spark.sql.tidemill.judge.Judge
import org.apache.spark.sql.tidemill.leaving.{Marks, WithoutRows}
import org.apache.spark.sql.tidemill.normal.Normalizer
import org.apache.spark.sql.tidemill.query.{AnalysedBefore, Encoder, Findings, Known, Query, Text}
import org.apache.spark.sql.tidemill.step.{Decoder, Execution}
import org.apache.spark.sql.tidemill.view.RowsInMemory

import org.json4s._
import org.json4s.JsonDSL._

/** The calls of the planner that concern plans. Queries stay known by number from `analyze` to `release`. */
object Plans {

  /**
   * Settings that say nothing about an analysed text: how a front door prints values (the Thrift server sets that in
   * some sessions), and `${...}`, which was replaced when the statement was read.
   */
  private val Foreign = Set(SQLConf.BINARY_OUTPUT_STYLE.key, SQLConf.VARIABLE_SUBSTITUTE_ENABLED.key)

  private val numbers = new AtomicLong(0)
  private val queries = new ConcurrentHashMap[Long, Query]

  /**
   * {"sql", "catalog", "namespace", "known", "columns": see [[Known]], may be absent} to a query document; the session
   * must be a clone, since its catalog is set.
   *
   * With "again": true, and nothing known, the query may be one that was analysed before; its document has a "name"
   * then. With "has", the name of one that the caller knows, the answer may be {"query"} alone: all else is the same.
   */
  def analyze(session: SparkSession, request: JValue): JValue = {
    val asked = System.currentTimeMillis()
    val id = numbers.incrementAndGet()
    place(session, request)
    val query = session.withActive {
      if (!Json.flag(request, "again")) analysed(session, request, id, asked)._2
      else {
        val manager = session.sessionState.catalogManager
        val text = Text(Decoder.text(request \ "sql"), manager.currentCatalog.name, manager.currentNamespace.toSeq)
        AnalysedBefore.find(session, text, asked).map(_.again(id, asked)).getOrElse {
          val (parsed, anew) = analysed(session, request, id, asked)
          AnalysedBefore.keep(session, text, parsed, anew)
        }
      }
    }
    queries.put(id, query)
    val known = Json.textOption(request, "has")
    if (known.isDefined && known == query.name) JObject("query" -> JLong(id)) else query.document
  }

  /** As parsed and as analysed. */
  private def analysed(session: SparkSession, request: JValue, id: Long, asked: Long): (LogicalPlan, Query) = {
    val parsed = session.sessionState.sqlParser.parsePlan(Decoder.text(request \ "sql"))
    val known = Known.resolve(session, parsed, request)
    val analyzed = session.sessionState.analyzer.executeAndCheck(known, new QueryPlanningTracker)
    require(!analyzed.isInstanceOf[Command], "only queries can be analysed")
    val normal = new Normalizer(session).execute(analyzed)
    val findings = Findings.document(session, parsed, analyzed, normal)
    parsed -> new Encoder(id, asked).encode(analyzed, normal, findings)
  }

  private def place(session: SparkSession, request: JValue): Unit = {
    val manager = session.sessionState.catalogManager
    request \ "catalog" match {
      case JString(name) => manager.setCurrentCatalog(name)
      case _ =>
    }
    request \ "namespace" match {
      case JArray(parts) if parts.nonEmpty => manager.setCurrentNamespace(parts.map(Decoder.text).toArray)
      case _ =>
    }
  }

  /** {"query": id}; unknown numbers are no error, so that clean-up may be repeated. */
  def release(session: SparkSession, request: JValue): JValue = {
    val id = Decoder.long(request \ "query")
    queries.remove(id)
    RowsInMemory.release(id)
    JNull
  }

  /** See [[Execution]]; "confs": settings that the session, a clone, gets first. */
  def run(session: SparkSession, request: JValue): JValue = {
    set(session, request)
    new Execution(session, known(request), request).run()
  }

  private def set(session: SparkSession, request: JValue): Unit = request \ "confs" match {
    case JObject(fields) =>
      for ((key, JString(value)) <- fields) session.sessionState.conf.setConfString(key, value)
    case _ =>
  }

  /** See [[Marks]]. */
  def mark(session: SparkSession, request: JValue): JValue = Marks.run(session, request)

  /** See [[WithoutRows]]. */
  def cut(session: SparkSession, request: JValue): JValue = WithoutRows.run(session, request)

  /** See [[Judge]]. */
  def judge(session: SparkSession, request: JValue): JValue = new Judge(session, known(request), request).run()

  /** When the "query" of a request was asked for, if it has one that is known; see [[Query]]. */
  def asked(request: JValue): Option[Long] =
    Json.longOption(request, "query").flatMap(id => Option(queries.get(id))).map(_.asked)

  private def known(request: JValue): Query = {
    val id = Decoder.long(request \ "query")
    Option(queries.get(id)).getOrElse(throw new IllegalArgumentException(s"query $id is not known"))
  }

  /** {"prefix"} to {"session", "application"}: the settings whose names begin so, in the session and as Spark started. */
  def prefixed(session: SparkSession, request: JValue): JValue = {
    val prefix = Decoder.text(request \ "prefix")
    def named(all: Iterable[(String, String)]): JObject =
      JObject(all.collect { case (key, value) if key.startsWith(prefix) => key -> (JString(value): JValue) }.toList)
    ("session" -> named(session.sessionState.conf.getAllConfs)) ~
      ("application" -> named(session.sparkContext.getConf.getAll))
  }

  /**
   * What fixes the meaning of a query's text: {"confs": the settings that Spark's views capture, "catalog",
   * "namespace": where names are looked up}.
   */
  def settings(session: SparkSession, request: JValue): JValue = {
    val conf = session.sessionState.conf
    val manager = session.sessionState.catalogManager
    val prefix = "p."
    val captured = ViewHelper.sqlConfigsToProps(conf, prefix).map { case (k, v) => k.stripPrefix(prefix) -> v }
      // Settings of connectors say how they work, not what a query means: another session may have others.
      .filter { case (k, _) => k.startsWith("spark.sql.") && !Foreign.contains(k) }
    // These count even where the user left them alone: defaults may differ where the view is refreshed.
    val always = Seq(
      SQLConf.SESSION_LOCAL_TIMEZONE.key -> conf.sessionLocalTimeZone,
      SQLConf.ANSI_ENABLED.key -> conf.ansiEnabled.toString,
      SQLConf.CASE_SENSITIVE.key -> conf.caseSensitiveAnalysis.toString)
    ("confs" -> JObject((always.toMap ++ captured).toList.sorted.map { case (k, v) => k -> (JString(v): JValue) })) ~
      ("catalog" -> manager.currentCatalog.name) ~
      ("namespace" -> manager.currentNamespace.toList)
  }
}
