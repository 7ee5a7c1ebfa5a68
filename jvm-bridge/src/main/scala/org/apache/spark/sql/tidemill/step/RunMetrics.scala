package org.apache.spark.sql.tidemill.step

import java.util.UUID

import scala.collection.mutable
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.{JobExecutionStatus, SparkContext}
import org.apache.spark.scheduler._

/** What the jobs of one call cost. CPU in milliseconds, all attempts of all tasks. */
final case class RunCost(jobs: Int, cpuMillis: Long)

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
   * Runs `body`, and after a failure, also of its thread's being interrupted, ends what still runs of it: no late task
   * may write into a place cleaned up. A job ends at once when it is cancelled, its tasks when they come to notice.
   */
  def untilEnd[T](context: SparkContext)(body: => T): T = tagged(context) { (tag, listener) =>
    try body
    catch {
      case e: Throwable =>
        end(context, tag, listener)
        throw e
    }
  }

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
   * Runs `body` and tells how it ended and what its jobs cost.
   *
   * The caller's job group stays in force, so cancelling it ends these jobs too; the description is replaced and put
   * back.
   */
  def measured[T](context: SparkContext, description: Option[String])(body: => T): (Either[Throwable, T], RunCost) =
    tagged(context) { (_, listener) =>
      val before = context.getLocalProperty(SparkContext.SPARK_JOB_DESCRIPTION)
      val jobs = jobsSoFar(context)
      description.foreach(context.setJobDescription)
      val outcome =
        try Right(body)
        catch { case NonFatal(e) => Left(e); case e: InterruptedException => Left(e) }
        finally if (description.isDefined) context.setJobDescription(before)
      if (jobsSoFar(context) == jobs) (outcome, RunCost(0, 0L))
      else {
        // The bus is asynchronous: the last task's end may still be on its way. Behind a stuck listener of someone
        // else's the cost may come out too low; that is no reason to fail.
        val interrupted = Thread.interrupted()
        Try(context.listenerBus.waitUntilEmpty(BusPatience))
        if (interrupted) Thread.currentThread.interrupt()
        (outcome, listener.cost)
      }
    }

  /** Jobs of the application, without waiting for the bus; the JVM knows the method as public, Scala does not. */
  private def jobsSoFar(context: SparkContext): Int =
    Option(context.dagScheduler).fold(0)(jobsMethod.invoke(_).asInstanceOf[Int])

  private val jobsMethod = classOf[DAGScheduler].getMethod("numTotalJobs")

  /** Runs `body` under a job tag of its own, with a listener to the jobs that carry it. */
  private def tagged[T](context: SparkContext)(body: (String, CostListener) => T): T = {
    val tag = s"tidemill-${UUID.randomUUID()}"
    val listener = new CostListener(tag)
    context.addSparkListener(listener)
    context.addJobTag(tag)
    try body(tag, listener)
    finally {
      context.removeJobTag(tag)
      context.removeSparkListener(listener)
    }
  }
}
