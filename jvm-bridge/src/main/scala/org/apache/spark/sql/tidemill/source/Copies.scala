package org.apache.spark.sql.tidemill.source

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Generate, LogicalPlan, Project}
import org.apache.spark.sql.types.{ByteType, IntegerType, LongType}

/**
 * Rows as often as a count of theirs says.
 *
 * Their columns pass through, so that Spark selects columns and rows below; through `ReplicateRows` it does not, and
 * that is interpreted row by row. A row's copies are an array of one byte for each, or if they are many several such
 * arrays, whose lengths are in another.
 */
private[tidemill] object Copies {
  private val Bound = 1 << 16

  /** The columns of `plan`, each row `times` (a number; NULL and less than 1: never). */
  def apply(plan: LogicalPlan, columns: Seq[Attribute], times: Expression): LogicalPlan = {
    val named = Alias(Greatest(Seq(Cast(times, LongType), Literal(0L))), "_times")()
    val count = AttributeReference(named.name, LongType, nullable = false)(named.exprId)
    val length = AttributeReference("_length", IntegerType, nullable = false)()
    val copy = AttributeReference("_copy", ByteType, nullable = false)()
    val bounded = explode(Project(columns :+ named, plan), lengths(count), length)
    Project(columns, explode(bounded, ArrayRepeat(Literal(0.toByte), length), copy))
  }

  /** A count as numbers up to the bound that add up to it. */
  private def lengths(count: Attribute): Expression = {
    def int(number: Expression): Expression = Cast(number, IntegerType)
    val bound = Literal(Bound.toLong)
    val whole = ArrayRepeat(Literal(Bound), int(IntegralDivide(count, bound)))
    val all = Concat(Seq(whole, CreateArray(Seq(int(Remainder(count, bound))))))
    If(LessThanOrEqual(count, bound), CreateArray(Seq(int(count))), all)
  }

  private def explode(plan: LogicalPlan, array: Expression, element: Attribute): Generate =
    Generate(Explode(array), Nil, outer = false, None, Seq(element), plan)
}
