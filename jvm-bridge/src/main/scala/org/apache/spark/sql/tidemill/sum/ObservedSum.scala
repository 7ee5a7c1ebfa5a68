package org.apache.spark.sql.tidemill.sum

import java.nio.ByteBuffer

import scala.collection.mutable

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{ImperativeAggregate, TypedImperativeAggregate}
import org.apache.spark.sql.catalyst.trees.UnaryLike
import org.apache.spark.sql.types._

/** What each task, by stage and partition, has summed up so far, and in which attempt. */
final class TaskSums {
  private val sums = mutable.HashMap.empty[(Int, Int), (Long, Long)]
  // What the task that reports has summed up, apart: it comes row by row, and so must cost next to nothing.
  private var reporting = false
  private var stage, partition = -1
  private var attempt, sum = -1L

  def add(stage: Int, partition: Int, attempt: Long, value: Long): Unit = {
    if (!reporting || attempt != this.attempt || partition != this.partition || stage != this.stage) {
      if (reporting) sums((this.stage, this.partition)) = (this.attempt, reported)
      reporting = true
      this.stage = stage
      this.partition = partition
      this.attempt = attempt
      sum = 0L
    }
    sum += value
  }

  /** Of the task that reports, with what it reported before another one came in between. */
  private def reported: Long = sums.get((stage, partition)).filter(_._1 == attempt).fold(0L)(_._2) + sum

  /** All sums. It changes nothing: who looks may be another thread than the task's. */
  private def all: Map[(Int, Int), (Long, Long)] =
    if (reporting) sums.toMap + ((stage, partition) -> ((attempt, reported))) else sums.toMap

  def merge(other: TaskSums): TaskSums = {
    other.all.foreach { case ((stage, partition), (attempt, sum)) => add(stage, partition, attempt, sum) }
    this
  }

  def total: Long = all.valuesIterator.map(_._2).sum

  def toBytes: Array[Byte] = {
    val sums = all
    val bytes = ByteBuffer.allocate(24 * sums.size)
    sums.foreach { case ((stage, partition), (attempt, sum)) =>
      bytes.putInt(stage).putInt(partition).putLong(attempt).putLong(sum)
    }
    bytes.array
  }
}

object TaskSums {
  def fromBytes(bytes: Array[Byte]): TaskSums = {
    val buffer = ByteBuffer.wrap(bytes)
    val read = new TaskSums
    while (buffer.hasRemaining) read.add(buffer.getInt, buffer.getInt, buffer.getLong, buffer.getLong)
    read
  }
}

/**
 * A sum of an observation that counts each task once. Spark adds up what every attempt reports, so rows of a task that
 * is done again, since its output was lost with an executor, would count twice.
 */
final case class ObservedSum(child: Expression, mutableAggBufferOffset: Int = 0, inputAggBufferOffset: Int = 0)
  extends TypedImperativeAggregate[TaskSums] with UnaryLike[Expression] with ImplicitCastInputTypes {

  override def prettyName: String = "tidemill_observed_sum"
  override def inputTypes: Seq[AbstractDataType] = Seq(LongType)
  override def dataType: DataType = LongType
  override def nullable: Boolean = false
  override def createAggregationBuffer(): TaskSums = new TaskSums

  override def update(buffer: TaskSums, input: InternalRow): TaskSums = {
    val value = child.eval(input)
    if (value != null) {
      val task = TaskContext.get()
      val sum = value.asInstanceOf[Long]
      if (task == null) buffer.add(-1, -1, -1L, sum)
      else buffer.add(task.stageId(), task.partitionId(), task.taskAttemptId(), sum)
    }
    buffer
  }

  override def merge(buffer: TaskSums, input: TaskSums): TaskSums = buffer.merge(input)
  override def eval(buffer: TaskSums): Any = buffer.total
  override def serialize(buffer: TaskSums): Array[Byte] = buffer.toBytes
  override def deserialize(bytes: Array[Byte]): TaskSums = TaskSums.fromBytes(bytes)
  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)
  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}
