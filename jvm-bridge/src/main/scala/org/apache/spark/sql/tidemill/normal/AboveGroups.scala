package org.apache.spark.sql.tidemill.normal

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{Alias, Expression, NamedExpression}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Project}

/** What an aggregate makes of its groups, told apart from what it computes of their rows. */
private[normal] object AboveGroups {

  /** Whether something stands in the results of an aggregate, neither in a grouping expression nor in a call. */
  def has(a: Aggregate)(wanted: Expression => Boolean): Boolean = {
    def found(e: Expression): Boolean = e match {
      case _: AggregateExpression => false
      case key if a.groupingExpressions.exists(_.semanticEquals(key)) => false
      case other => wanted(other) || other.children.exists(found)
    }
    a.aggregateExpressions.exists(found)
  }

  /** The aggregate as a projection over an aggregate of keys and plain calls. */
  def apart(a: Aggregate): Project = {
    val keys = a.groupingExpressions.map { case n: NamedExpression => n; case k => Alias(k, "key")() }
    val calls = mutable.LinkedHashMap.empty[Expression, Alias]
    val results = a.aggregateExpressions.map(_.transformDown {
      case k if a.groupingExpressions.exists(_.semanticEquals(k)) =>
        keys(a.groupingExpressions.indexWhere(_.semanticEquals(k))).toAttribute
      case e: AggregateExpression =>
        calls.getOrElseUpdate(e.canonicalized, Alias(e, e.aggregateFunction.prettyName)()).toAttribute
    }.asInstanceOf[NamedExpression])
    Project(results, a.copy(aggregateExpressions = keys ++ calls.values))
  }
}
