package org.apache.spark.sql.tidemill.normal

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, AggregateFunction, Max, Min, MinBy}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan, Project, Window}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.tidemill.value.CanonicalForm
import org.apache.spark.sql.types._

/**
 * Which of several spellings Spark gives that are equal under a collation is left to chance: in a group's key, in min and
 * in max. Here it is the first of them by its bytes, of max the last, so that equal rows give equal answers.
 *
 * A group then goes by the key of its collation, and its spelling is an aggregate over its rows: it goes when the last
 * row of that spelling goes.
 */
object Spellings extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformUp {
    case a: Aggregate if a.groupingExpressions.exists(isCollated) || a.aggregateExpressions.exists(hasChoice) =>
      groups(a.copy(aggregateExpressions = a.aggregateExpressions.map(named(_)(_.transform(choice)))))
    case w: Window if w.windowExpressions.exists(hasChoice) => window(w)
  }

  private def isCollated(e: Expression): Boolean = isCollated(e.dataType)

  private def isCollated(t: DataType): Boolean = t.existsRecursively {
    case s: StringType => !s.supportsBinaryEquality
    case _ => false
  }

  /** What is computed now in place of a column of the output, under the column's own id. */
  private def named(e: NamedExpression)(change: Expression => Expression): NamedExpression = e match {
    case Alias(child, name) => Alias(change(child), name)(e.exprId)
    case attribute =>
      val other = change(attribute)
      if (other eq attribute) attribute else Alias(other, attribute.name)(attribute.exprId)
  }

  private def groups(a: Aggregate): LogicalPlan = {
    val keys = a.groupingExpressions.filter(isCollated).map { e =>
      (e, Alias(key(e), "key")(), Alias(spelled(e), "spelling")())
    }
    // A key's own id goes to the spelling above; calls read it under another one.
    val renamed = AttributeMap(keys.collect { case (k: Attribute, _, _) => k -> Alias(k, k.name)() })
    def replaced(e: Expression): Expression = e match {
      case call: AggregateExpression => call.transform { case k: Attribute => renamed.get(k).fold(k)(_.toAttribute) }
      case _ => keys.find(_._1.semanticEquals(e)) match {
          case Some((_, _, spelling)) => Cast(first(spelling.toAttribute).toAggregateExpression(), e.dataType)
          case None => e.mapChildren(replaced)
        }
    }
    if (keys.isEmpty) a
    else {
      val passed = a.child.output.map(c => renamed.getOrElse(c, c))
      Aggregate(
        a.groupingExpressions.map(e => keys.find(_._1 eq e).fold(e)(_._2.toAttribute)),
        a.aggregateExpressions.map(named(_)(replaced)),
        Project(passed ++ keys.flatMap { case (_, key, spelling) => Seq(key, spelling) }, a.child),
        a.hint)
    }
  }

  private def window(w: Window): LogicalPlan = {
    val (computed, shown) = w.windowExpressions.map { e =>
      val found = e.collectFirst { case WindowExpression(AggregateExpression(Ordered(call), _, _, _, _), _) => call }
      found.fold((e, e.toAttribute: NamedExpression)) { call =>
        val inner = Alias(e.asInstanceOf[Alias].child.transform { case x @ Ordered(_) => pairs(x) }, e.name)()
        (inner, Alias(second(inner.toAttribute, call.children.head), e.name)(e.exprId))
      }
    }.unzip
    Project(w.child.output ++ shown, w.copy(windowExpressions = computed))
  }

  private def hasChoice(e: Expression): Boolean = e.exists {
    case Ordered(_) => true
    case _ => false
  }

  private val choice: PartialFunction[Expression, Expression] = {
    case call @ AggregateExpression(function @ Ordered(_), _, _, _, _) =>
      second(call.copy(aggregateFunction = pairs(function)), function.children.head)
  }

  /** Min or max of values that may differ though they are equal. */
  private object Ordered {
    def unapply(e: Expression): Option[AggregateFunction] = e match {
      case function @ (_: Min | _: Max) if isCollated(function) => Some(function.asInstanceOf[AggregateFunction])
      case _ => None
    }
  }

  /** The same of pairs of a value's key and its spelling. */
  private def pairs(function: Expression): AggregateFunction = {
    val value = function.children.head
    val pair = CreateNamedStruct(Seq(Literal("key"), key(value), Literal("spelling"), spelled(value)))
    val known = If(IsNull(value), Literal(null, pair.dataType), pair)
    function.withNewChildren(Seq(known)).asInstanceOf[AggregateFunction]
  }

  private def second(pair: Expression, value: Expression): Expression =
    Cast(GetStructField(pair, 1, Some("spelling")), value.dataType)

  /** What is the same, and comes in the same order, for values that are equal. */
  private def key(e: Expression): Expression =
    if (e.dataType.existsRecursively(_.isInstanceOf[MapType])) CanonicalForm(e, collated = true)
    else CollationKey.injectCollationKey(e)

  private def spelled(e: Expression): Expression = Cast(e, plain(e.dataType))

  private def first(e: Expression): AggregateFunction =
    if (e.dataType.existsRecursively(_.isInstanceOf[MapType])) MinBy(e, CanonicalForm(e, collated = false)) else Min(e)

  private def plain(t: DataType): DataType = t match {
    case _: StringType => StringType
    case ArrayType(element, nulls) => ArrayType(plain(element), nulls)
    case MapType(key, value, nulls) => MapType(plain(key), plain(value), nulls)
    case StructType(fields) => StructType(fields.map(f => f.copy(dataType = plain(f.dataType))))
    case other => other
  }
}
