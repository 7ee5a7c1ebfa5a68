package org.apache.spark.sql.tidemill.normal

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.tidemill.source.Clock
import org.apache.spark.sql.types.BooleanType

/**
 * Conditions on the clock where the planner can maintain them: in filters, and as columns of projections.
 *
 * As a filter or a projection treats each row alone, rows whose answer changes can be told from the bounds. So what
 * another operator asks of the clock (a key, an argument, a condition of an outer join) becomes a column of a projection
 * below it; of an inner join, a filter above it. What is no condition stays: see [[unmaintained]].
 */
object MovingBounds extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.exists(_.expressions.exists(Clock.reads))) plan
    else plan.transformUp {
      case f: Filter => f
      case p: Project if p.projectList.exists(e => Clock.reads(e) && !isAnswer(e)) => pulled(p)
      case p: Project => p
      case j @ Join(left, right, Inner, Some(condition), _) if Clock.reads(condition) =>
        val (moving, still) = split(condition).partition(Clock.reads)
        Filter(moving.reduce(And), j.copy(condition = still.reduceOption(And)))
      case a: Aggregate if a.expressions.exists(Clock.reads) => pulled(answersAbove(a))
      case other if other.children.nonEmpty && other.expressions.exists(Clock.reads) => pulled(other)
    }

  /** The texts of what reads the clock in a normal form and is no condition of a filter or projection. */
  def unmaintained(normal: LogicalPlan): Seq[String] =
    normal.collectWithSubqueries {
      case f: Filter => split(f.condition).filter(SubqueryExpression.hasSubquery)
      case p: Project if !p.expressions.exists(SubqueryExpression.hasSubquery) => p.projectList.filterNot(isAnswer)
      case p => p.expressions
    }.flatten.flatMap(Clock.readings).map(_.sql).distinct

  private def split(condition: Expression): Seq[Expression] = condition match {
    case And(left, right) => split(left) ++ split(right)
    case other => Seq(other)
  }

  private def isAnswer(named: Expression): Boolean = named match {
    case Alias(child, _) => child.dataType == BooleanType
    case _ => false
  }

  private def pulled(plan: LogicalPlan): LogicalPlan = plan match {
    case p: Project => below(p, (e, asked) => if (isAnswer(e)) e else asked.replaced(e))
    case other => below(other, (e, asked) => asked.replaced(e))
  }

  /** `plan` over projections with the conditions on the clock that it asks for; its output stays as it is. */
  private def below(plan: LogicalPlan, change: (Expression, Asked) => Expression): LogicalPlan = {
    val asked = new Asked(plan.children)
    val changed = plan.mapExpressions(change(_, asked)).withNewChildren(asked.children)
    if (changed.output.map(_.exprId) == plan.output.map(_.exprId)) changed else Project(plan.output, changed)
  }

  /** Conditions on the clock as columns of children, each once. */
  private final class Asked(plans: Seq[LogicalPlan]) {
    private val found = plans.map(_ => mutable.ArrayBuffer.empty[Alias])

    def children: Seq[LogicalPlan] = plans.zip(found).map { case (plan, added) =>
      if (added.isEmpty) plan else Project(plan.output ++ added, plan)
    }

    def replaced(e: Expression): Expression = e.transformDown {
      case c if c.dataType == BooleanType && Clock.reads(c) && isPlain(c) && place(c) >= 0 =>
        val added = found(place(c))
        added.find(_.child.semanticEquals(c)).getOrElse {
          val alias = Alias(c, "answer")()
          added += alias
          alias
        }.toAttribute
    }

    private def place(c: Expression): Int = plans.indexWhere(p => c.references.subsetOf(p.outputSet))

    private def isPlain(c: Expression): Boolean = c.deterministic && !c.exists {
      case _: AggregateExpression | _: WindowExpression | _: SubqueryExpression | _: Generator => true
      case _: NamedLambdaVariable | _: Alias => true
      case _ => false
    }
  }

  /** An aggregate whose results read the clock as a projection over its keys and plain calls. */
  private def answersAbove(a: Aggregate): LogicalPlan =
    if (!AboveGroups.has(a)(Clock.isReading)) a
    else {
      val results = AboveGroups.apart(a)
      pulled(results.copy(child = pulled(results.child)))
    }
}
