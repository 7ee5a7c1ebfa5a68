package org.apache.spark.sql.tidemill.query

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Last}
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

  /** What the planner asks about the functions of such an operator; `encode`: the operator's expressions. */
  def calls(plan: LogicalPlan, encode: Expression => JValue): Seq[JObject] = plan match {
    case w: Window => w.windowExpressions.flatMap(windowCall(_, encode))
    case a: Aggregate => a.aggregateExpressions.flatMap(_.collect { case e: AggregateExpression =>
        call(e.aggregateFunction, "partition")
      })
    case _ => Nil
  }

  /** The order of the rows in a partition, if each function reads a bounded number of rows behind its own. */
  def order(plan: LogicalPlan): Seq[SortOrder] = plan match {
    case w: Window
        if w.windowExpressions.forall(_.collectFirst { case e: WindowExpression => e }.exists(reach(_).nonEmpty)) =>
      w.orderSpec
    case _ => Nil
  }

  /**
   * The rows that a function's value is made from: at most so many before and behind its own (before: None for all of
   * them), and the last one before in which `since` is not NULL.
   */
  private final case class Reach(before: Option[Int], behind: Int, since: Option[Expression] = None)

  /** None if a function may read any row behind its own. */
  private def reach(e: WindowExpression): Option[Reach] = e match {
    case WindowExpression(_: SizeBasedWindowFunction, _) => None
    case WindowExpression(function: FrameLessOffsetWindowFunction, _) if function.ignoreNulls =>
      offset(function.offset).collect {
        case -1 => Reach(Some(0), 0, Some(function.input))
        case steps if steps <= 0 => Reach(None, 0)
      }
    case WindowExpression(function, WindowSpecDefinition(_, order, frame: SpecifiedWindowFrame)) if order.nonEmpty =>
      (frame.lower, behind(frame)) match {
        case (_, None) => None
        case (UnboundedPreceding, Some(last)) => lastKnown(function) match {
            case None => Some(Reach(None, last))
            case value => Some(Reach(Some(0), last, value))
          }
        case (CurrentRow, Some(last)) => Some(Reach(Some(0), last))
        case (lower, Some(last)) if frame.frameType == RowFrame =>
          offset(lower).map(first => Reach(Some(math.max(0, -first)), last))
        case (_, Some(last)) => Some(Reach(None, last))
      }
    case _ => None
  }

  /**
   * How many rows behind its own a frame ends. A frame from the beginning that leaves out rows right before its own is
   * not told: it may end between rows that tie.
   */
  private def behind(frame: SpecifiedWindowFrame): Option[Int] = (frame.frameType, frame.upper) match {
    case (_, CurrentRow) => Some(0)
    case (RowFrame, upper) =>
      offset(upper).collect { case last if last >= 0 || frame.lower != UnboundedPreceding => math.max(0, last) }
    case _ => None
  }

  /** What a function gives out the last known value of. */
  private def lastKnown(function: Expression): Option[Expression] = function match {
    case AggregateExpression(Last(value, true), _, _, None, _) => Some(value)
    case _ => None
  }

  private def offset(bound: Expression): Option[Int] = bound match {
    case CurrentRow => Some(0)
    case UnboundedPreceding | UnboundedFollowing => None
    case rows if rows.foldable => Option(rows.eval()).collect { case n: Int if n.abs < farthest => n }
    case _ => None
  }

  private def windowCall(e: NamedExpression, encode: Expression => JValue): Option[JObject] = e.collectFirst {
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
      val reached = reach(window)
      val rows = reached.map(r => JArray(List(r.before.fold[JValue](JNull)(JInt(_)), JInt(r.behind))))
      call(called, read) ~ ("rows" -> rows) ~ ("since" -> reached.flatMap(_.since).map(encode))
  }

  /** A function: its name, what of its frame the planner asks about, and whether it adds up floats. */
  private def call(function: Expression, frame: String): JObject = {
    val floating = function.children.exists(c => c.dataType == DoubleType || c.dataType == FloatType)
    ("function" -> function.prettyName) ~ ("frame" -> frame) ~ ("floating" -> floating)
  }
}
