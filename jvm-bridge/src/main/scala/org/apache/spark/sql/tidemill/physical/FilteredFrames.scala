package org.apache.spark.sql.tidemill.physical

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.PhysicalWindow
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan}
import org.apache.spark.sql.execution.{ExternalAppendOnlyUnsafeRowArray, FilterExec, SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.metric.SQLMetrics
import org.apache.spark.sql.execution.window._
import org.apache.spark.sql.internal.SQLConf

/**
 * Plans a window below a filter: moving frames of rows that the filter drops are not computed. Of the rows that a
 * change makes a window read, few are more than neighbours.
 */
object FilteredFrames extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case Filter(condition, PhysicalWindow(WindowFunctionType.SQL, functions, partition, order, child))
        if MovingFrames.canAsk(condition, child) && functions.exists(MovingFrames.of(_).nonEmpty) =>
      Seq(FilterExec(condition, FilteredFramesExec(functions, partition, order, condition, planLater(child))))
    case _ => Nil
  }
}

/** Spark's window operator; values from moving frames mean nothing in rows that are not `wanted`. */
case class FilteredFramesExec(
    windowExpression: Seq[NamedExpression],
    partitionSpec: Seq[Expression],
    orderSpec: Seq[SortOrder],
    wanted: Expression,
    child: SparkPlan)
  extends WindowExecBase {

  override lazy val metrics = Map(
    "spillSize" -> SQLMetrics.createSizeMetric(sparkContext, "spill size"),
    "inTrees" -> SQLMetrics.createMetric(sparkContext, "frames from trees"),
    "notInTrees" -> SQLMetrics.createMetric(sparkContext, "frames too small for trees"))

  override protected def doExecute(): RDD[InternalRow] = {
    val factory = new FilteredFramesFactory(this)
    child.execute().mapPartitionsWithIndex((i, rows) => factory.createEvaluator().eval(i, rows))
  }

  override protected def withNewChildInternal(newChild: SparkPlan): FilteredFramesExec = copy(child = newChild)
}

private class Frames(of: FilteredFramesExec)
  extends WindowEvaluatorFactory(
    of.windowExpression,
    of.partitionSpec,
    of.orderSpec,
    of.child.output,
    of.longMetric("spillSize"),
    of.longMetric("inTrees"),
    of.longMetric("notInTrees")) {
  type Made = InternalRow => WindowFunctionFrame
  def made: Seq[(mutable.Buffer[Expression], Made)] = windowFrameExpressionFactoryPairs.toSeq
}

/** Spark's frames, with the moving ones asked only about rows that are wanted. */
private final class FilteredFramesFactory(of: FilteredFramesExec) extends Frames(of) {
  private val wanted = of.wanted
  private val spark = new Frames(of)

  override protected lazy val windowFrameExpressionFactoryPairs = spark.made.map { case (functions, frame) =>
    val filtered = functions.exists(MovingFrames.of(_).nonEmpty) && !SQLConf.get.windowSegmentTreeEnabled
    (functions, if (filtered) (target: InternalRow) => new FilteredFrame(frame(target), predicate()) else frame)
  }

  private def predicate() = Predicate.create(wanted, childOutput)
}

/**
 * A frame that moves on only to rows that are wanted: it reads rows up to its bounds whenever it is asked. The first row
 * counts always: there a frame forgets the partition before.
 */
private final class FilteredFrame(frame: WindowFunctionFrame, wanted: BasePredicate) extends WindowFunctionFrame {
  override def prepare(rows: ExternalAppendOnlyUnsafeRowArray): Unit = frame.prepare(rows)
  override def write(index: Int, current: InternalRow): Unit =
    if (index == 0 || wanted.eval(current)) frame.write(index, current)
  override def currentLowerBound(): Int = frame.currentLowerBound()
  override def currentUpperBound(): Int = frame.currentUpperBound()
}
