package org.apache.spark.sql.tidemill.query

import org.apache.spark.sql.catalyst.expressions.SubqueryExpression
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnresolvedWith}

/** Queries as they were parsed. */
private[query] object Parsed {
  /** All nodes, with those of common table expressions and subqueries. */
  def nodes(plan: LogicalPlan): Seq[LogicalPlan] = {
    val named = plan match {
      case w: UnresolvedWith => w.cteRelations.map(_._2)
      case _ => Nil
    }
    val subqueries = plan.expressions.flatMap(_.collect { case s: SubqueryExpression => s.plan })
    plan +: (named ++ subqueries ++ plan.children).flatMap(nodes)
  }
}
