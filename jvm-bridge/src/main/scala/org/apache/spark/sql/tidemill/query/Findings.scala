package org.apache.spark.sql.tidemill.query

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable
import scala.util.Try

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.{UnresolvedFunction, UnresolvedTableValuedFunction}
import org.apache.spark.sql.catalyst.catalog.SQLFunction
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.tidemill.base.Json
import org.apache.spark.sql.tidemill.normal.MovingBounds

import org.json4s._
import org.json4s.JsonDSL._

/** What in a query keeps it from being stored or maintained: session objects, chance, the clock. */
object Findings {

  /**
   * @param parsed   the query as parsed
   * @param analyzed as analysed, before normalisation drops views and aliases
   * @param normal   its normal form
   */
  def document(session: SparkSession, parsed: LogicalPlan, analyzed: LogicalPlan, normal: LogicalPlan): JObject = {
    val nodes = analyzed.collectWithSubqueries { case p => p }
    val expressions = nodes.flatMap(_.expressions)
    val samples = nodes.collect { case s: Sample => s"TABLESAMPLE (${s.simpleString(40)})" }
    ("temporary" -> (temporaryViews(nodes) ++ variables(expressions)).distinct.toList) ~
      ("nondeterministic" -> (expressions.flatMap(nondeterministic) ++ samples).distinct.toList) ~
      ("time_dependent" -> MovingBounds.unmaintained(normal).toList) ~
      ("session_functions" -> sessionFunctions(session, parsed).toList) ~
      ("sql_functions" -> Json.ofMap(sqlFunctions(nodes).map(f => f.name.unquotedString -> fingerprint(f))))
  }

  /** The SQL functions that were called, whose bodies the analyser has put in their places. */
  private def sqlFunctions(nodes: Seq[LogicalPlan]): List[SQLFunction] = {
    val calls = nodes.iterator ++ nodes.iterator.flatMap(_.expressions).flatMap(_.collect { case e => e })
    calls.collect { case call: Product => call.productIterator.collect { case f: SQLFunction => f } }
      .flatten.distinctBy(_.name).toList
  }

  /** Of what a function does, not of when and by whom it was made. */
  private def fingerprint(f: SQLFunction): String = {
    val meaning = Seq(f.inputParam, f.returnType, f.exprText, f.queryText, f.collation, f.getSQLConfigs.toSeq.sorted)
    Json.digest(meaning.mkString("\n").getBytes(UTF_8))
  }

  /**
   * Draws on chance or on where a row happens to lie. Aggregates that depend on the order of rows (first, collect_list)
   * are not meant: any answer that Spark may give is right for them.
   */
  def isNondeterministic(e: Expression): Boolean = nondeterministic(e).nonEmpty

  private def nondeterministic(e: Expression): Seq[String] = e.collect {
    case n: Expression
        if !n.deterministic && n.children.forall(_.deterministic) && !isOrderDependent(n) &&
          !n.isInstanceOf[SubqueryExpression] =>
      n.sql
  }

  private def isOrderDependent(e: Expression): Boolean = e match {
    case _: UserDefinedExpression => false
    case _: AggregateFunction => true
    case _ => false
  }

  private def temporaryViews(nodes: Seq[LogicalPlan]): Seq[String] = nodes.collect {
    case v: View if v.isTempView => v.desc.identifier.unquotedString
  }

  private def variables(expressions: Seq[Expression]): Seq[String] = expressions.flatMap(_.collect {
    case v: VariableReference => v.originalNameParts.mkString(".")
  })

  private def sessionFunctions(session: SparkSession, parsed: LogicalPlan): Seq[String] = {
    val found = mutable.LinkedHashSet.empty[String]
    def note(parts: Seq[String]): Unit = if (parts.length == 1) {
      val name = parts.head
      val catalog = session.sessionState.catalog
      if (Try(catalog.isTemporaryFunction(FunctionIdentifier(name))).getOrElse(false)) found += name
    }
    for (node <- Parsed.nodes(parsed)) {
      node match {
        case f: UnresolvedTableValuedFunction => note(f.name)
        case _ =>
      }
      node.expressions.foreach(_.foreach {
        case f: UnresolvedFunction => note(f.nameParts)
        case _ =>
      })
    }
    found.toSeq
  }
}
