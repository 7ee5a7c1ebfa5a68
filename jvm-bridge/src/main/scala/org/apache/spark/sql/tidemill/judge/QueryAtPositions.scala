package org.apache.spark.sql.tidemill.judge

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeMap, Expression, If, In, Literal}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.tidemill.base.Json
import org.apache.spark.sql.tidemill.query.{Query, SourceEncoder}
import org.apache.spark.sql.tidemill.source.{Clock, Sources}
import org.apache.spark.sql.types.StringType

import org.json4s._

/**
 * The analysed query over its sources as they were at the positions of the request, "positions": [[number of the
 * source, position]...]. All above the sources is what Spark's analyser made of the query's text.
 */
final class QueryAtPositions(session: SparkSession, query: Query, request: JValue) {

  private val positions: Map[Int, JValue] = Json.items(request, "positions").collect {
    case JArray(List(JInt(number), position)) => number.toInt -> position
  }.toMap

  /** One reading of each source, so that equal sub-queries stay equal. */
  private val readings = mutable.HashMap.empty[Int, LogicalPlan]

  /**
   * A source that the normal form does not read, since no row of it can count, is read as it is now; the clock stands
   * as it stood.
   */
  def plan: LogicalPlan = {
    val shown = positions.values.flatMap(Json.longOption(_, "clock")).headOption
    read(shown.fold(query.analyzed)(Clock.at(query.analyzed, _)))
  }

  private def read(plan: LogicalPlan): LogicalPlan = plan.transformUpWithSubqueries {
    case leaf: LeafNode if SourceEncoder.isSource(leaf) =>
      val number = query.sources.indexWhere(_.key == SourceEncoder.keyOf(leaf))
      positions.get(number).filter(Json.present).fold[LogicalPlan](leaf)(at(leaf, number, _))
  }

  /** The content at a position, under the names that the query has for the leaf's columns. */
  private def at(leaf: LeafNode, number: Int, position: JValue): LogicalPlan = {
    val read = readings.getOrElseUpdate(number, {
        val snapshot = Sources.snapshot(session, leaf, query.sources(number).fields, position, memory = false)
        if (snapshot.resolved) snapshot else session.sessionState.analyzer.execute(snapshot)
      })
    val (list, below) = read match {
      case Project(columns, relation: LogicalRelation) =>
        val own = relation.newInstance()
        val now = AttributeMap(relation.output.zip(own.output))
        (columns.map(c => now(c.toAttribute)), own)
      case other => (other.output, other)
    }
    val columns = leaf.output.zip(list).map { case (known, now) =>
      Alias(now, known.name)(known.exprId, known.qualifier, Some(known.metadata))
    }
    Project(columns, below)
  }
}

object QueryAtPositions {

  /** The columns of the view in its order: those of the same names if the query gives others besides. */
  def output(query: LogicalPlan, names: Seq[String]): Seq[Attribute] =
    if (query.output.map(_.name) == names) query.output
    else names.map { name =>
      query.output.filter(_.name == name) match {
        case Seq(one) => one
        case found => throw new IllegalArgumentException(s"${found.size} columns of the query are called '$name'")
      }
    }

  /** The value of a column by which files are partitioned: the name of a folder cannot tell these texts from NULL. */
  def folded(column: Attribute, texts: Seq[String]): Expression = column.dataType match {
    case _: StringType if texts.nonEmpty =>
      If(In(column, texts.map(Literal(_))), Literal(null, column.dataType), column)
    case _ => column
  }
}
