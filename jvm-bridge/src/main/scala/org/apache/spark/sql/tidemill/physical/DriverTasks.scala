package org.apache.spark.sql.tidemill.physical

import java.lang.management.ManagementFactory
import java.util.concurrent.atomic.AtomicLong

import scala.reflect.ClassTag

import org.apache.spark.{NarrowDependency, Partition, SparkEnv, TaskContext, TaskContextImpl}
import org.apache.spark.executor.TaskMetrics
import org.apache.spark.memory.{MemoryMode, TaskMemoryManager}
import org.apache.spark.rdd.{EmptyRDD, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression
import org.apache.spark.sql.catalyst.expressions.aggregate.TypedImperativeAggregate
import org.apache.spark.sql.execution.{CollectMetricsExec, SparkPlan}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, AdaptiveSparkPlanHelper}

/**
 * Tasks in the thread of the driver that asks for them, where all that they read is a few rows in its memory
 * ([[FewRowsExec]]) or has been broadcast: a job takes longer to begin and to end than such tasks take.
 */
object DriverTasks extends AdaptiveSparkPlanHelper {

  /** The most rows in memory of which the tasks may make theirs. */
  private val Most = 5000

  /** Numbers that no task of a job has. */
  private val attempts = new AtomicLong(Long.MinValue)

  private val threads = ManagementFactory.getThreadMXBean

  private val spent = ThreadLocal.withInitial[java.lang.Long](() => 0L)

  /** Nanoseconds of CPU that tasks in this thread have taken so far. */
  def nanos: Long = spent.get

  /** What `task` makes of each partition of rows that `plan` gives, by a job or without one. */
  def run[T: ClassTag](
      plan: SparkPlan, rows: RDD[InternalRow], task: (TaskContext, Iterator[InternalRow]) => T): Seq[T] =
    if (isShared(plan) || callsPython(plan) || addsUpObjects(plan, rows) || !inMemory(rows).exists(_ <= Most)) {
      rows.sparkContext.runJob(rows, task).toSeq
    } else here(rows, task)

  /**
   * An adaptive plan belongs to threads of its own, too: where a stage of it is done, one of them frees what the
   * operators hold. Tasks of executors have copies of the operators; these here have not.
   */
  private def isShared(plan: SparkPlan): Boolean = plan.isInstanceOf[AdaptiveSparkPlanExec]

  /** Only executors are sure to have what the functions of a user in Python need. */
  private def callsPython(plan: SparkPlan): Boolean =
    exists(plan)(_.expressions.exists(_.exists(_.isInstanceOf[PythonFuncExpression])))

  /** Spark adds up what several tasks observe. Of objects it expects the bytes that only a job makes of them. */
  private def addsUpObjects(plan: SparkPlan, rows: RDD[_]): Boolean = rows.getNumPartitions > 1 && exists(plan) {
    case observed: CollectMetricsExec =>
      observed.metricExpressions.exists(_.exists(_.isInstanceOf[TypedImperativeAggregate[_]]))
    case _ => false
  }

  /** The number of rows in memory that these are made of; None if something else is read or moved. */
  private def inMemory(rows: RDD[_]): Option[Long] = rows match {
    case few: FewRowsRDD => Some(few.length)
    case _: EmptyRDD[_] => Some(0L)
    case _ =>
      val below = rows.dependencies.map {
        case narrow: NarrowDependency[_] => inMemory(narrow.rdd)
        case _ => None
      }
      Option.when(below.nonEmpty && below.forall(_.isDefined))(below.flatten.sum)
  }

  private def here[T](rows: RDD[InternalRow], task: (TaskContext, Iterator[InternalRow]) => T): Seq[T] = {
    val began = cpuTime
    try rows.partitions.toSeq.map(one(rows, _, task))
    finally spent.set(spent.get + (cpuTime - began))
  }

  private def cpuTime: Long = if (threads.isCurrentThreadCpuTimeSupported) threads.getCurrentThreadCpuTime else 0L

  /** As Spark's executor carries out a task: with memory and locks of its own, which end with it. */
  private def one[T](
      rows: RDD[InternalRow], partition: Partition, task: (TaskContext, Iterator[InternalRow]) => T): T = {
    val env = SparkEnv.get
    val attempt = attempts.incrementAndGet()
    val memory = new TaskMemoryManager(env.memoryManager, attempt)
    val context = new TaskContextImpl(
      stageId = 0, // writers take no number below it
      stageAttemptNumber = 0,
      partitionId = partition.index,
      numPartitions = rows.getNumPartitions,
      taskAttemptId = attempt,
      attemptNumber = 0,
      taskMemoryManager = memory,
      localProperties = rows.sparkContext.getLocalProperties,
      metricsSystem = env.metricsSystem,
      taskMetrics = TaskMetrics.empty)
    env.blockManager.registerTask(attempt)
    TaskContext.setTaskContext(context)
    try {
      val made =
        try task(context, rows.iterator(partition, context))
        catch {
          case e: Throwable =>
            context.markTaskFailed(e)
            context.markTaskCompleted(Some(e))
            throw e
        }
      context.markTaskCompleted(None)
      made
    } finally {
      // "This task" is the one that the thread has.
      MemoryMode.values.foreach(env.blockManager.memoryStore.releaseUnrollMemoryForThisTask(_))
      TaskContext.unset()
      env.blockManager.releaseAllLocksForTask(attempt)
      memory.cleanUpAllAllocatedMemory()
    }
  }
}
