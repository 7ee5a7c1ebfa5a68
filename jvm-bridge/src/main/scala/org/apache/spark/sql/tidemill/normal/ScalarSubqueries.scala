package org.apache.spark.sql.tidemill.normal

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{Count, First, Max}
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.types.{MapType, StringType}

/**
 * Uncorrelated scalar and EXISTS subqueries as cross joins with a relation of exactly one row.
 *
 * Spark evaluates them before the query runs; a change of their value would then be invisible to whoever looks at the
 * plan's operators. As a join the value is a column like any other. No row is NULL, more than one is Spark's error.
 */
object ScalarSubqueries extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformUp {
    case p if p.children.nonEmpty && asks(p) => joined(p)
  }

  private def isUncorrelated(e: Expression): Boolean = e match {
    case s: ScalarSubquery => s.outerAttrs.isEmpty && s.joinCond.isEmpty
    case s: Exists => s.outerAttrs.isEmpty && s.joinCond.isEmpty
    case _ => false
  }

  private def joined(plan: LogicalPlan): LogicalPlan = plan match {
    case a: Aggregate if AboveGroups.has(a)(isUncorrelated) =>
      // the groups first: a value that is no column of the rows stands beside them
      val results = AboveGroups.apart(a)
      besides(results.copy(child = if (asks(results.child)) besides(results.child) else results.child))
    case other => besides(other)
  }

  private def asks(plan: LogicalPlan): Boolean = plan.expressions.exists(_.exists(isUncorrelated))

  /** The values beside the rows of the operator's (first) input. */
  private def besides(plan: LogicalPlan): LogicalPlan = {
    val values = mutable.LinkedHashMap.empty[Expression, (Attribute, LogicalPlan)]
    val rewritten = plan.transformExpressions {
      case s: SubqueryExpression if isUncorrelated(s) =>
        values.getOrElseUpdate(s.canonicalized, {
            val row = oneRow(s)
            (row.output.head, row)
          })._1
    }
    val child = values.values.foldLeft(plan.children.head) { case (below, (_, row)) =>
      Join(below, row, Inner, None, JoinHint.NONE)
    }
    val placed = rewritten.withNewChildren(child +: plan.children.tail)
    if (placed.output.map(_.exprId) == plan.output.map(_.exprId)) placed else Project(plan.output, placed)
  }

  /** A relation of one row and one column, whose attribute is its own. */
  private def oneRow(subquery: SubqueryExpression): LogicalPlan = {
    val below = apply(subquery.plan)
    subquery match {
      case _: Exists =>
        val rows = Count(Literal(1)).toAggregateExpression()
        Aggregate(Nil, Seq(Alias(GreaterThan(rows, Literal(0L)), "exists")()), below)
      case _ if isOneRow(below) => Project(Seq(Alias(below.output.head, "value")()), below)
      case _ =>
        val value = below.output.head
        val only = if (RowOrdering.isOrderable(value.dataType)) Max(value) else First(value, ignoreNulls = false)
        val rows = Count(Literal(1)).toAggregateExpression()
        val nothing = Literal.create(Map.empty[String, String], MapType(StringType, StringType))
        val tooMany = RaiseError(Literal("SCALAR_SUBQUERY_TOO_MANY_ROWS"), nothing, value.dataType)
        val checked = If(GreaterThan(rows, Literal(1L)), tooMany, only.toAggregateExpression())
        Aggregate(Nil, Seq(Alias(checked, "value")()), below)
    }
  }

  private def isOneRow(plan: LogicalPlan): Boolean = plan match {
    case a: Aggregate => a.groupingExpressions.isEmpty
    case p: Project => isOneRow(p.child)
    case _ => false
  }
}
