package org.apache.spark.sql.tidemill.normal

import org.apache.spark.sql.catalyst.expressions.{Alias, AttributeSet, Expression, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.types.MapType

/**
 * Keys of groups that hold maps in a fixed order. Spark sorts such maps in a projection below the groups, and lists what
 * it sorted in the order of a hash table, another one at each analysis.
 */
private[normal] object KeysInOrder extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformUpWithSubqueries {
    case a @ Aggregate(keys, _, Project(list, child), _) if keys.exists(holdsMaps) =>
      val keysAsked = AttributeSet(keys)
      val (sorted, others) = list.partition(n => n.isInstanceOf[Alias] && keysAsked.contains(n.toAttribute))
      val columns = others ++ sorted.sortBy(textOf)
      val places = columns.map(_.exprId).zipWithIndex.toMap
      a.copy(
        groupingExpressions = keys.sortBy {
          case k: NamedExpression => places.getOrElse(k.exprId, columns.size)
          case _ => columns.size
        },
        child = Project(columns, child))
  }

  private def holdsMaps(e: Expression): Boolean = e.dataType.existsRecursively(_.isInstanceOf[MapType])

  private def textOf(named: NamedExpression): String = named match {
    case Alias(child, _) => child.sql
    case other => other.sql
  }
}
