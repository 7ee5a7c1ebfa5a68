package org.apache.spark.sql.tidemill.query

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, Expression, ExprId}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.tidemill.base.Json
import org.apache.spark.sql.types.DataType

import org.json4s.{JLong, JObject, JString}

/** A column of the query document; nullable if it is anywhere in the plan. */
final case class Column(id: Int, name: String, dataType: DataType, nullable: Boolean)

/** A scalar or aggregate expression kept for the planner, and the column id of each attribute in it. */
final case class Handle(expression: Expression, columns: Map[ExprId, Int])

/**
 * An operator that only Spark understands.
 *
 * @param plan     the operator as normalised; its children are replaced when it is rebuilt
 * @param columns  column ids of all attributes that it reads or gives out
 * @param inputs   per child, the columns it was given in the child's order
 * @param subqueries per subquery, the columns of its plan in order
 */
final case class OpaqueNode(
    plan: LogicalPlan, columns: Map[ExprId, Int], inputs: Seq[Seq[Int]], subqueries: Seq[Seq[Int]])

/**
 * One source relation; every scan of it in the query shares this entry, `key` and all. `fields` runs parallel to
 * `leaf.output`.
 */
final case class SourceInfo(leaf: LogicalPlan, key: Any, fields: Seq[String], document: JObject) {

  private lazy val positions: Map[String, Int] = fields.zipWithIndex.toMap

  def position(field: String): Int =
    positions.getOrElse(field, throw new IllegalArgumentException(s"source has no field '$field'"))

  def attributes: Seq[AttributeReference] = leaf.output.collect { case a: AttributeReference => a }
}

/**
 * An analysed query: its document for the planner and what the document's handles stand for.
 *
 * @param asked when it was asked for, in milliseconds since 1970: its tables were looked at later
 */
final case class Query(
    id: Long,
    asked: Long,
    analyzed: LogicalPlan,
    columns: IndexedSeq[Column],
    expressions: IndexedSeq[Handle],
    nodes: IndexedSeq[OpaqueNode],
    sources: IndexedSeq[SourceInfo],
    document: JObject) {

  /** Its name, if it is one that may be used again. */
  def name: Option[String] = Json.textOption(document, "name")

  def named(name: String): Query = copy(document = document.merge(JObject("name" -> JString(name))))

  /** The same under another number, asked for at another time. */
  def again(number: Long, at: Long): Query =
    copy(id = number, asked = at, document = document.merge(JObject("query" -> JLong(number))))
}
