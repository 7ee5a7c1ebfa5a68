package org.apache.spark.sql.tidemill.physical

import java.lang.management.ManagementFactory
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.{NarrowDependency, SparkContext, SparkEnv, TaskContext, TaskContextImpl}
import org.apache.spark.executor.TaskMetrics
import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.rdd.{InputFileBlockHolder, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  ApplyFunctionExpression, CallMethodViaReflection, UserDefinedExpression
}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanHelper
import org.apache.spark.sql.execution.datasources.FileScanRDD
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.util.{AccumulatorContext, AccumulatorV2, Utils}

/**
 * The only task of a plan over few rows, run in the driver: as a job it would cost tens of milliseconds before it does
 * anything. It has all that Spark gives a task on an executor. It cannot be cancelled, so it must be short.
 */
object DriverTask extends AdaptiveSparkPlanHelper {

  /** Gets the CPU nanoseconds of a task, and the rows that it read from files. */
  type Counter = (Long, Long) => Unit

  private val counters = new ConcurrentHashMap[String, Counter]

  /** Has tasks counted that carry a job tag. */
  def count(tag: String, counter: Counter): Unit = counters.put(tag, counter)

  def countNoMore(tag: String): Unit = counters.remove(tag)

  /** Whether a plan has one task only, over few rows; `rdd` is what executes it. */
  def possible(plan: SparkPlan, rdd: RDD[_]): Boolean =
    rdd.getNumPartitions == 1 && isOfFewRows(plan) && isSmall(rdd, SmallFilesExec.mostBytes)

  /** Whether a plan is made of few rows alone, within a task. */
  def isOfFewRows(plan: SparkPlan): Boolean = {
    val most = SmallFilesExec.mostBytes
    most > 0 && collectLeaves(plan).forall(isSmall(_, most)) && find(plan)(!isKnown(_)).isEmpty
  }

  private def isSmall(leaf: SparkPlan, most: Long): Boolean = leaf match {
    case _: FewRowsExec => true
    case scan: FileSourceScanExec => scan.relation.location.sizeInBytes <= most
    case _ => false
  }

  /**
   * Spark's own operators and functions, which run in a task wherever it is. Code of users may take its time, and workers
   * of other languages belong to executors.
   */
  private def isKnown(plan: SparkPlan): Boolean = plan match {
    case _: ShuffleExchangeLike => false
    case _ =>
      val name = plan.getClass.getName
      name.startsWith("org.apache.spark.sql.") && !name.startsWith("org.apache.spark.sql.execution.python") &&
      !plan.expressions.exists(_.exists {
        case _: UserDefinedExpression | _: CallMethodViaReflection | _: ApplyFunctionExpression => true
        case _ => false
      })
  }

  /** Whether all that it is computed from is in the driver, or in small files. */
  private def isSmall(rdd: RDD[_], most: Long): Boolean = rdd match {
    case files: FileScanRDD => files.filePartitions.iterator.flatMap(_.files).map(_.length).sum <= most
    case _ => rdd.dependencies.forall {
        case narrow: NarrowDependency[_] => isSmall(narrow.rdd, most)
        case _ => false
      }
  }

  /** Tasks of jobs count upwards from 0, and -1024 is nobody's. Locks and memory go by these numbers. */
  private val ids = new AtomicLong(Long.MinValue)
  private val threads = ManagementFactory.getThreadMXBean

  /** Runs the task, under the job tags of the thread. */
  def run[T](rdd: RDD[InternalRow])(body: (TaskContext, Iterator[InternalRow]) => T): T = {
    val env = SparkEnv.get
    val id = ids.incrementAndGet()
    val metrics = TaskMetrics.empty
    val memory = new TaskMemoryManager(env.memoryManager, id)
    val properties = rdd.sparkContext.getLocalProperties
    val context =
      new TaskContextImpl(0, 0, 0, id, 0, 1, memory, properties, env.metricsSystem, metrics, 1, Map.empty)
    val began = threads.getCurrentThreadCpuTime
    // As an executor has it: what a task leaves in operators is not in the plan, of which other tasks are made.
    val serializer = env.closureSerializer.newInstance()
    val sent = serializer.serialize(rdd)
    env.blockManager.registerTask(id)
    InputFileBlockHolder.initialize()
    try {
      val (outcome, counted) = TaskContext.withTaskContext(context) {
        val own = serializer.deserialize[RDD[InternalRow]](sent, Utils.getContextOrSparkClassLoader)
        val outcome = completed(context)(body(context, own.iterator(rdd.partitions.head, context)))
        (outcome, serializer.serialize(metrics.withExternalAccums(_.toArray[AccumulatorV2[_, _]])))
      }
      for (update <- serializer.deserialize[Array[AccumulatorV2[_, _]]](counted)) merge(update)
      outcome
    } finally {
      InputFileBlockHolder.unset()
      env.blockManager.releaseAllLocksForTask(id)
      memory.cleanUpAllAllocatedMemory()
      val cpu = threads.getCurrentThreadCpuTime - began
      val tags = Option(properties.getProperty(SparkContext.SPARK_JOB_TAGS)).toSeq
      for (tag <- tags.flatMap(_.split(SparkContext.SPARK_JOB_TAGS_SEP)); counter <- Option(counters.get(tag)))
        counter(cpu, metrics.inputMetrics.recordsRead)
    }
  }

  /** Adds what a task counted to the plan's counter. */
  private def merge(update: AccumulatorV2[_, _]): Unit =
    for (counter <- AccumulatorContext.get(update.id))
      counter.asInstanceOf[AccumulatorV2[Any, Any]].merge(update.asInstanceOf[AccumulatorV2[Any, Any]])

  /** Runs what was registered for the end of the task, in its context. */
  private def completed[T](context: TaskContextImpl)(body: => T): T = {
    val outcome =
      try body
      catch {
        case failure: Throwable =>
          context.markTaskFailed(failure)
          context.markTaskCompleted(Some(failure))
          throw failure
      }
    context.markTaskCompleted(None)
    outcome
  }
}
