package org.apache.spark.sql.tidemill.query

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.JoinType
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.types.{DoubleType, FloatType}

import org.json4s._
import org.json4s.JsonDSL._

/** Operators that the planner sees only from outside, taken apart for it. */
object Opaque {

  /** Frames that reach farther count as unbounded: the rows on both sides of a row are added up as an Int. */
  private val farthest = 1000000

  /** The inputs of an operator; a CTE's definitions are seen through, since only WITH may hold them. */
  def children(plan: LogicalPlan): Seq[LogicalPlan] = plan match {
    case WithCTE(body, definitions) => body +: definitions.map(_.child)
    case other => other.children
  }

  /** The outermost subqueries within an operator's expressions, in a fixed order. */
  def subqueries(plan: LogicalPlan): Seq[SubqueryExpression] =
    plan.expressions.flatMap(_.collect { case s: SubqueryExpression => s })

  /** What an operator computes, columns of its inputs as `#id`: equal texts over equal inputs mean equal rows. */
  def text(plan: LogicalPlan, below: Scope.Columns): String = {
    val computed = plan.expressions.map {
      case Alias(child, _) => ExpressionEncoder.text(child, below)
      case a: AttributeReference if !below.contains(a.exprId) => a.name
      case other => ExpressionEncoder.text(other, below)
    }
    val settings = plan match {
      case _: UnionLoop | _: UnionLoopRef | _: CTERelationRef => Nil // numbered anew by each analysis
      case other => other.productIterator.collect {
          case n: Number => n.toString
          case b: Boolean => b.toString
          case t: JoinType => t.sql
        }.toSeq
    }
    (plan.nodeName +: (settings ++ computed)).mkString(" ")
  }

  /**
   * The grouping columns that are sessions. Spark knows them by a mark on the column alone, and merges the sessions of a
   * group when it runs: their rows are no groups of equal values.
   */
  def sessions(a: Aggregate): Seq[Expression] = a.groupingExpressions.filter {
    case named: NamedExpression => named.metadata.contains(SessionWindow.marker)
    case _ => false
  }

  /** An aggregate that gives out all of its grouping columns. */
  def withKeys(a: Aggregate): Aggregate = {
    val missing = a.groupingExpressions.collect { case k: Attribute if !a.outputSet.contains(k) => k }
    a.copy(aggregateExpressions = a.aggregateExpressions ++ missing)
  }

  /**
   * What rows that are computed together have in common: nothing without PARTITION BY. None for other operators than
   * window functions and sessions.
   */
  def partition(plan: LogicalPlan): Option[Seq[Expression]] = plan match {
    case w: Window => Some(w.partitionSpec)
    case a: Aggregate if sessions(a).nonEmpty => Some(a.groupingExpressions.diff(sessions(a)))
    case _ => None
  }

  /** What the planner asks about the functions of such an operator. */
  def calls(plan: LogicalPlan): Seq[JObject] = plan match {
    case w: Window => w.windowExpressions.flatMap(windowCall)
    case a: Aggregate => a.aggregateExpressions.flatMap(_.collect { case e: AggregateExpression =>
        call(e.aggregateFunction, "partition")
      })
    case _ => Nil
  }

  /** The order of the rows in a partition, if each function reads a bounded number of rows around its own. */
  def order(plan: LogicalPlan): Seq[SortOrder] = plan match {
    case w: Window
        if w.windowExpressions.forall(_.collectFirst { case e: WindowExpression => e }.exists(reach(_).nonEmpty)) =>
      w.orderSpec
    case _ => Nil
  }

  /** The most rows before a row, and behind it, that a function's value is made from; None if nothing bounds them. */
  private def reach(e: WindowExpression): Option[(Int, Int)] = e match {
    case WindowExpression(function: FrameLessOffsetWindowFunction, _) if function.ignoreNulls => None
    case WindowExpression(_, WindowSpecDefinition(_, order, SpecifiedWindowFrame(RowFrame, lower, upper)))
        if order.nonEmpty =>
      for (first <- offset(lower); last <- offset(upper)) yield (math.max(0, -first), math.max(0, last))
    case _ => None
  }

  private def offset(bound: Expression): Option[Int] = bound match {
    case CurrentRow => Some(0)
    case UnboundedPreceding | UnboundedFollowing => None
    case rows if rows.foldable => Option(rows.eval()).collect { case n: Int if n.abs < farthest => n }
    case _ => None
  }

  private def windowCall(e: NamedExpression): Option[JObject] = e.collectFirst {
    case window @ WindowExpression(function, WindowSpecDefinition(_, order, frame)) =>
      val called = function match {
        case a: AggregateExpression => a.aggregateFunction
        case other => other
      }
      val read = frame match {
        case SpecifiedWindowFrame(_, UnboundedPreceding, UnboundedFollowing) => "partition"
        case SpecifiedWindowFrame(RangeFrame, _, _) => "range"
        case _ if order.isEmpty => "partition"
        case _ => "rows"
      }
      call(called, read) ~ ("rows" -> reach(window).map { case (before, behind) => List(before, behind) })
  }

  /** A function: its name, what of its frame the planner asks about, and whether it adds up floats. */
  private def call(function: Expression, frame: String): JObject = {
    val floating = function.children.exists(c => c.dataType == DoubleType || c.dataType == FloatType)
    ("function" -> function.prettyName) ~ ("frame" -> frame) ~ ("floating" -> floating)
  }
}
