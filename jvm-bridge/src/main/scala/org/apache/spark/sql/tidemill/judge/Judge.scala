package org.apache.spark.sql.tidemill.judge

import java.util.Base64

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateFunction, First, Sum}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.tidemill.base.Json
import org.apache.spark.sql.tidemill.query.Query
import org.apache.spark.sql.tidemill.step.{ListedFile, ListedParquet}
import org.apache.spark.sql.types._

import org.json4s._
import org.json4s.JsonDSL._

/**
 * Compares stored files with the query at given positions, as bags.
 *
 * The request: {"query", "positions": see [[QueryAtPositions]], "output": [name of the query's column...], "columns":
 * [[name, type]...] of the files, "files": [{"path", "bytes", "modified"}...], "folded": see [[QueryAtPositions]],
 * [[name of a column, [text...]]...], "ties": bool, "spellings":
 * bool, "description"}.
 *
 * "spellings": strings that their collation has equal count as the same.
 *
 * The answer without "ties": {"missing", "unexpected"}, or if the rows hold floats {"differing": [[count, rest,
 * numbers]...]}, rows whose counts on both sides differ (count > 0: the query has more of them), and {"spelled_freely": see
 * [[FreeSpellings]]}. With "ties": see
 * [[TiedRows]]. Keys are those of [[ComparableRow]], as base64.
 */
final class Judge(session: SparkSession, query: Query, request: JValue) {

  private val columns: Seq[(String, DataType)] = Json.items(request, "columns").collect {
    case JArray(List(JString(name), kind)) => name -> Judge.dataType(kind)
  }
  private val names: Seq[String] = Json.texts(request, "output")
  private val folded: Map[String, Seq[String]] = Json.items(request, "folded").collect {
    case JArray(List(JString(name), JArray(texts))) => name -> texts.collect { case JString(text) => text }
  }.toMap

  def run(): JValue = {
    val plan = new QueryAtPositions(session, query, request).plan
    if (Json.flag(request, "ties")) tied(plan) else differences(plan)
  }

  private def differences(plan: LogicalPlan): JObject = {
    val count = AttributeReference("count", LongType, nullable = false)()
    val (wanted, held) = (row(plan, Literal(1L)), row(stored, Literal(-1L)))
    val both = Union(wanted, held)
    val Seq(key, rest, numbers, sign) = both.output
    val sum = Alias(aggregate(Sum(sign)), "count")(count.exprId)
    val told = Seq(rest, numbers).map(a => Alias(aggregate(First(a, ignoreNulls = false)), a.name)())
    val groups = Filter(Not(EqualTo(count, Literal(0L))), Aggregate(Seq(key), sum +: told, both))
    val free = JObject("spelled_freely" -> JBool(FreeSpellings.in(query.analyzed)))
    if (!columns.exists(c => ComparableRow.hasFloats(c._2))) totals(groups, count) ~ free
    else {
      val found = collect(groups).map { r =>
        val numbers = r.getArray(2).toDoubleArray().toList.map(n => JString(n.toString): JValue)
        JArray(List(JLong(r.getLong(0)), text(r.getBinary(1)), JArray(numbers))): JValue
      }
      JObject("differing" -> JArray(found.toList)) ~ free
    }
  }

  private def totals(groups: LogicalPlan, count: Attribute): JObject = {
    def total(side: Expression, name: String): Alias =
      Alias(Coalesce(Seq(aggregate(Sum(side)), Literal(0L))), name)()
    val missing = total(Greatest(Seq(count, Literal(0L))), "missing")
    val unexpected = total(Greatest(Seq(UnaryMinus(count), Literal(0L))), "unexpected")
    val row = collect(Aggregate(Nil, Seq(missing, unexpected), groups)).head
    JObject("missing" -> JLong(row.getLong(0)), "unexpected" -> JLong(row.getLong(1)))
  }

  private def tied(plan: LogicalPlan): JObject = TiedRows.of(plan) match {
    case None => JObject("expected" -> JNull)
    case Some(cut) =>
      val expected = keyed(cut.answer, cut.ranks)
      // Of the rows tied at either end of the answer, Spark may give any.
      val ends = if (cut.cutsBefore) Seq(expected.head, expected.last) else Seq(expected.last)
      val ranks = if (expected.isEmpty) Nil else ends.map(_.rank).distinctBy(_.toSeq)
      val candidates = if (cut.ranks.isEmpty) keyed(cut.all, Nil) else keyed(cut.having(ranks), cut.ranks)
      def told(rows: Seq[Judge.Keyed]): JArray =
        JArray(rows.toList.map(r => JArray(List(text(r.rank), text(r.key)))))
      val held = collect(Project(Seq(key(stored.output)), stored)).map(r => text(r.getBinary(0)): JValue)
      ("expected" -> told(expected)) ~ ("ends" -> ranks.toList.map(text)) ~ ("candidates" -> told(candidates)) ~
        ("stored" -> JArray(held.toList))
  }

  private def keyed(plan: LogicalPlan, ranks: Seq[Attribute]): Seq[Judge.Keyed] =
    collect(Project(Seq(key(ranks), key(output(plan))), plan)).toSeq.map(r =>
      Judge.Keyed(r.getBinary(0), r.getBinary(1)))

  private def key(columns: Seq[Expression]): Alias =
    Alias(GetStructField(ComparableRow(struct(columns)), 0), "key")()

  /** Rows of `plan` as key, rest, numbers and sign. */
  private def row(plan: LogicalPlan, sign: Expression): LogicalPlan = {
    val values = (if (plan eq stored) plan.output else output(plan)).map(spelled)
    val told = Alias(ComparableRow(struct(values)), "row")()
    val fields = ComparableRow.Answer.fieldNames.toSeq.zipWithIndex.map { case (name, i) =>
      Alias(GetStructField(told.toAttribute, i), name)()
    }
    Project(fields :+ Alias(sign, "sign")(), Project(Seq(told), plan))
  }

  private def struct(columns: Seq[Expression]): Expression =
    CreateNamedStruct(columns.zipWithIndex.flatMap { case (c, i) => Seq(Literal(s"c$i"), c) })

  private def spelled(value: Expression): Expression = value.dataType match {
    case s: StringType if Json.flag(request, "spellings") && !s.supportsBinaryEquality => CollationKey(value)
    case _ => value
  }

  /** The view's columns of the query, in its order. */
  private def output(plan: LogicalPlan): Seq[Expression] =
    QueryAtPositions.output(plan, names).zip(columns).map { case (a, (name, _)) =>
      QueryAtPositions.folded(a, folded.getOrElse(name, Nil))
    }

  private lazy val stored: LogicalPlan = {
    val listed = Json.items(request, "files").map(ListedFile.of)
    val schema = StructType(columns.map { case (name, kind) => StructField(name, kind) })
    ListedParquet.rows(session, listed, schema, withMetadata = false)
  }

  private def aggregate(function: AggregateFunction): Expression = function.toAggregateExpression()

  private def collect(plan: LogicalPlan): Array[InternalRow] = {
    val execution = session.sessionState.executePlan(plan)
    SQLExecution.withNewExecutionId(execution, Some("tidemill verify"))(execution.executedPlan.executeCollect())
  }

  private def text(bytes: Array[Byte]): JString = JString(Base64.getEncoder.encodeToString(bytes))
}

object Judge {
  private final case class Keyed(rank: Array[Byte], key: Array[Byte])

  private def dataType(kind: JValue): DataType = kind match {
    case JString(json) if json.startsWith("{") => DataType.fromJson(json)
    case other => Json.dataType(other)
  }
}
