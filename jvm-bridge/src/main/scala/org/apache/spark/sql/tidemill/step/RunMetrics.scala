package org.apache.spark.sql.tidemill.step

import java.util.UUID

import scala.collection.mutable
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.{JobExecutionStatus, SparkContext}
import org.apache.spark.scheduler._

/** What the jobs of one call cost. CPU in milliseconds, all attempts of all tasks. */
final case class RunCost(jobs: Int, cpuMillis: Long)

/** A failure of measured work, and what its jobs had cost by then. */
final class MeasuredFailure(val failure: Throwable, val cost: RunCost) extends Exception(failure)

/** Sums up the tasks of the jobs that carry one tag, and knows which of them run. */
private final class CostListener(tag: String) extends SparkListener {
  private val stages = mutable.HashSet.empty[Int]
  private val running = mutable.HashSet.empty[Long]
  private var jobs = 0
  private var nanos = 0L

  override def onJobStart(start: SparkListenerJobStart): Unit = synchronized {
    val tags = Option(start.properties).flatMap(p => Option(p.getProperty(SparkContext.SPARK_JOB_TAGS)))
    if (tags.exists(_.split(SparkContext.SPARK_JOB_TAGS_SEP).contains(tag))) {
      jobs += 1
      stages ++= start.stageIds
    }
  }

  override def onTaskStart(start: SparkListenerTaskStart): Unit = synchronized {
    if (stages.contains(start.stageId)) running += start.taskInfo.taskId
  }

  override def onTaskEnd(end: SparkListenerTaskEnd): Unit = synchronized {
    running -= end.taskInfo.taskId
    if (stages.contains(end.stageId) && end.taskMetrics != null) {
      nanos += end.taskMetrics.executorCpuTime + end.taskMetrics.executorDeserializeCpuTime
    }
  }

  def idle: Boolean = synchronized(running.isEmpty)

  def cost: RunCost = synchronized(RunCost(jobs, nanos / 1000000L))
}

object RunMetrics {

  /** Milliseconds. */
  private val BusPatience = 5000L
  private val EndPatience = 10000L

  /**
   * Cancels what runs under the tag and waits for its end, so that no late task writes into a place cleaned up: a job
   * ends at once when it is cancelled, its tasks when they come to notice.
   */
  private def end(context: SparkContext, tag: String, listener: CostListener): Unit = if (!context.isStopped) {
    // An interrupted thread could not wait; the flag goes up again afterwards.
    val interrupted = Thread.interrupted()
    context.cancelJobsWithTag(tag, "the run of an incremental view ended")
    val deadline = System.currentTimeMillis + EndPatience
    def running: Boolean = context.statusTracker.getJobIdsForTag(tag).exists { job =>
      context.statusTracker.getJobInfo(job).exists(_.status == JobExecutionStatus.RUNNING)
    }
    def busy: Boolean = running || Try(context.listenerBus.waitUntilEmpty(BusPatience)).isFailure || !listener.idle
    while (busy && System.currentTimeMillis < deadline) Thread.sleep(10)
    if (interrupted) Thread.currentThread.interrupt()
  }

  /**
   * Runs `body` under a job tag of its own and tells what its jobs cost.
   *
   * The caller's job group stays in force, so cancelling it ends these jobs too; the description is replaced and put
   * back. If the body fails, or its thread is interrupted, what still runs under the tag is cancelled.
   */
  def measured[T](context: SparkContext, description: Option[String])(body: => T): (T, RunCost) = {
    val tag = s"tidemill-${UUID.randomUUID()}"
    val before = context.getLocalProperty(SparkContext.SPARK_JOB_DESCRIPTION)
    val listener = new CostListener(tag)
    context.addSparkListener(listener)
    context.addJobTag(tag)
    description.foreach(context.setJobDescription)
    try {
      val result = body
      // The bus is asynchronous: the last task's end may still be on its way. Behind a stuck listener of someone
      // else's the cost may come out too low; that is no reason to fail.
      Try(context.listenerBus.waitUntilEmpty(BusPatience))
      (result, listener.cost)
    } catch {
      case e: Throwable =>
        end(context, tag, listener)
        Try(context.listenerBus.waitUntilEmpty(BusPatience))
        throw (if (NonFatal(e)) new MeasuredFailure(e, listener.cost) else e)
    } finally {
      context.removeJobTag(tag)
      if (description.isDefined) context.setJobDescription(before)
      context.removeSparkListener(listener)
    }
  }
}
