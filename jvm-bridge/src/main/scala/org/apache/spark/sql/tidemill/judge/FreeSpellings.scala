package org.apache.spark.sql.tidemill.judge

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateFunction, Count}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.types.{DataType, StringType}

/**
 * Whether a query lets Spark choose among strings that their collation has equal: a group by 'a' and 'A' under
 * UTF8_LCASE shows either of them, and so does max().
 */
private[judge] object FreeSpellings {

  def in(plan: LogicalPlan): Boolean = plan.collectWithSubqueries { case p => p }.exists {
    case a: Aggregate => a.groupingExpressions.exists(isCollated) || chooses(a.aggregateExpressions)
    case w: Window => chooses(w.windowExpressions)
    case p @ (_: Distinct | _: Deduplicate | _: SetOperation) => p.output.exists((a: Attribute) => isCollated(a))
    case _ => false
  }

  private def chooses(expressions: Seq[Expression]): Boolean = expressions.exists(_.exists {
    case _: Count => false
    case f: AggregateFunction => f.children.exists(isCollated)
    case _ => false
  })

  private def isCollated(e: Expression): Boolean = e.dataType.existsRecursively((kind: DataType) =>
    kind match {
      case s: StringType => !s.supportsBinaryEquality
      case _ => false
    })
}
