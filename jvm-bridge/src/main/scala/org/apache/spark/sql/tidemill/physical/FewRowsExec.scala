package org.apache.spark.sql.tidemill.physical

import org.apache.spark.{Partition, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition}
import org.apache.spark.sql.execution.{LeafExecNode, SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

/**
 * Few rows in memory, in one partition: what is made of them alone needs no exchange, and no job ([[DriverTasks]]). To
 * broadcast them needs none either. Spark's own scan of them makes as many partitions as there are cores. It is no part
 * of compiled code, as that would take a task where these rows are all that is asked for.
 */
case class FewRowsExec(output: Seq[Attribute], @transient rows: Seq[InternalRow])
  extends LeafExecNode {

  override lazy val metrics = Map("numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"))

  @transient private lazy val unsafeRows: Array[UnsafeRow] = {
    val unsafe = UnsafeProjection.create(output, output)
    rows.map(unsafe(_).copy()).toArray
  }

  def bytes: Long = unsafeRows.iterator.map(_.getSizeInBytes.toLong).sum

  @transient private lazy val rdd: RDD[InternalRow] =
    new FewRowsRDD(sparkContext, unsafeRows, longMetric("numOutputRows"))

  override def outputPartitioning: Partitioning = SinglePartition

  override protected def doExecute(): RDD[InternalRow] = rdd

  override def executeCollect(): Array[InternalRow] = {
    longMetric("numOutputRows") += unsafeRows.length
    unsafeRows.toArray[InternalRow]
  }

  /** What a broadcast asks for. */
  override private[spark] def executeCollectIterator(): (Long, Iterator[InternalRow]) =
    (unsafeRows.length.toLong, executeCollect().iterator)

  override protected def stringArgs: Iterator[Any] = Iterator(if (rows.isEmpty) "<empty>" else "in memory", output)
}

object FewRowsExec extends SparkStrategy {

  /** A task that carries more rows than this is better off as several. */
  private val Most = 20000

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case LocalRelation(output, rows, false, None) if rows.length <= Most => Seq(FewRowsExec(output, rows))
    case _ => Nil
  }
}

final private case class FewRowsPartition(rows: Array[UnsafeRow]) extends Partition {
  override def index: Int = 0
}

/** Rows in one partition, which carries them to the task that asks for them. */
final private class FewRowsRDD(context: SparkContext, @transient known: Array[UnsafeRow], counted: SQLMetric)
  extends RDD[InternalRow](context, Nil) {

  /** How many there are; for the driver, which has them. */
  def length: Int = known.length

  override protected def getPartitions: Array[Partition] = Array(FewRowsPartition(known))

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] =
    split.asInstanceOf[FewRowsPartition].rows.iterator.map { row =>
      counted += 1
      row
    }
}
