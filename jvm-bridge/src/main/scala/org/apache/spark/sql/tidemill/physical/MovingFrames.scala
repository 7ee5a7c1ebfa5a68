package org.apache.spark.sql.tidemill.physical

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project, SubqueryAlias, Window}
import org.apache.spark.sql.types._

/**
 * Whether Spark should compute moving frames from a tree over each partition (`spark.sql.window.segmentTree.enabled`,
 * off by default) instead of reading every frame row by row.
 *
 * A tree adds up in another order. So it must not be used if a function in the plan might tell: sums of doubles, or
 * sums that can overflow on the way. And it costs more than it saves on short frames.
 */
object MovingFrames extends AliasHelper {

  /** From so many rows in a frame on a tree is cheaper: measured at 4, 20 and 364 rows with three functions. */
  private val LeastRows = 100L

  /** A double adds up integers of 31 bits exactly up to so many. */
  private val MostAveraged = 1L << 22

  def wantTree(plan: LogicalPlan): Boolean = {
    val filtered = plan.collect { case Filter(condition, below) => filteredBy(condition, below) }.flatten
    val moving = plan.collect { case w: Window if !filtered.exists(_ eq w) => w.windowExpressions.flatMap(of) }.flatten
    moving.exists { case (_, frame) => rows(frame).forall(_ >= LeastRows) } &&
    moving.forall { case (function, frame) => isAnyOrder(function, rows(frame)) }
  }

  /** Functions with moving frames in an expression. */
  def of(e: Expression): Seq[(AggregateFunction, SpecifiedWindowFrame)] = e.collect {
    case WindowExpression(AggregateExpression(f, _, _, _, _), WindowSpecDefinition(_, _, s: SpecifiedWindowFrame))
        if s.lower != UnboundedPreceding => (f, s)
  }

  /** The window of which [[FilteredFrames]] computes frames of some rows only. */
  private def filteredBy(condition: Expression, below: LogicalPlan): Option[Window] = below match {
    case window: Window if canAsk(condition, window.child) => Some(window)
    case SubqueryAlias(_, child) => filteredBy(condition, child)
    case project: Project => filteredBy(replaceAlias(condition, getAliasMap(project)), project.child)
    case _ => None
  }

  /** Whether a filter above a window can be asked about its input's rows. */
  def canAsk(condition: Expression, child: LogicalPlan): Boolean =
    condition.deterministic && condition.references.subsetOf(child.outputSet) &&
      !SubqueryExpression.hasSubquery(condition)

  /** The rows of a frame, if its definition tells. */
  private def rows(frame: SpecifiedWindowFrame): Option[Long] = (frame.frameType, frame.lower, frame.upper) match {
    case (RowFrame, lower, upper) => for (from <- place(lower); to <- place(upper)) yield to - from + 1
    case _ => None
  }

  private def place(bound: Expression): Option[Long] = bound match {
    case CurrentRow => Some(0L)
    case e if e.foldable => Option(e.eval()).collect { case n: Number => n.longValue }
    case _ => None
  }

  /** Whether the function has the same value in whichever order and groups its frame is added up. */
  private def isAnyOrder(function: AggregateFunction, frame: Option[Long]): Boolean = function match {
    case _: Min | _: Max | _: Count => true
    case sum: Sum => neverOverflows(sum.child.dataType)
    case average: Average =>
      average.child.dataType match {
        case _: DecimalType => neverOverflows(average.child.dataType)
        case ByteType | ShortType | IntegerType => frame.exists(_ <= MostAveraged)
        case _ => false
      }
    case _ => false
  }

  /** Whether Spark's buffer of a sum holds all sums of ten thousand million such values. */
  private def neverOverflows(dataType: DataType): Boolean = dataType match {
    case ByteType | ShortType | IntegerType => true
    case decimal: DecimalType => decimal.precision + 10 <= DecimalType.MAX_PRECISION
    case _ => false
  }
}
