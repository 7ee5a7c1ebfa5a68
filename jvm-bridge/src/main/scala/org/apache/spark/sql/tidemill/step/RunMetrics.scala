package org.apache.spark.sql.tidemill.step

import java.util.UUID

import scala.collection.mutable
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.{JobExecutionStatus, SparkContext, SparkThrowable, Success}
import org.apache.spark.scheduler._
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart
import org.apache.spark.sql.tidemill.physical.DriverTasks
import org.apache.spark.util.CallSite

/**
 * What one call cost. CPU in milliseconds, all attempts of all tasks, those in the driver's threads among them.
 * `rowsRead`: rows that steps of runs read from files, after what files leave out by their statistics; each task once,
 * however often it was tried.
 */
final case class RunCost(jobs: Int, cpuMillis: Long, rowsRead: Long) {
  def isNothing: Boolean = jobs == 0 && cpuMillis == 0L
}

/** Sums up the tasks of the jobs that carry one tag, and knows which of them run. */
private final class CostListener(tag: String) extends SparkListener {
  private val stages = mutable.HashSet.empty[Int]
  private val running = mutable.HashSet.empty[Long]
  private val executions = mutable.HashMap.empty[Int, Long]
  private val counted = mutable.HashSet.empty[(Int, Int)]
  private val rows = mutable.HashMap.empty[Long, Long].withDefaultValue(0L)
  private val steps = mutable.HashMap.empty[String, Long]
  private var jobs = 0
  private var nanos = 0L

  override def onJobStart(start: SparkListenerJobStart): Unit = synchronized {
    def property(name: String): Option[String] = Option(start.properties).flatMap(p => Option(p.getProperty(name)))
    val tags = property(SparkContext.SPARK_JOB_TAGS).toSeq.flatMap(_.split(SparkContext.SPARK_JOB_TAGS_SEP))
    if (tags.contains(tag)) {
      jobs += 1
      stages ++= start.stageIds
      if (tags.exists(_.startsWith(RunMetrics.StepTag))) {
        val execution = property(SQLExecution.EXECUTION_ID_KEY).fold(-1L)(_.toLong)
        start.stageIds.foreach(executions(_) = execution)
      }
    }
  }

  /**
   * A step's own execution is the first under its tag; what it finds first has a tag of its own. Those below it are of Delta, which reads its logs; they get
   * later numbers, though they may start earlier. A step that is no query has none: its jobs run in its caller's.
   */
  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case start: SparkListenerSQLExecutionStart =>
      synchronized {
        if (start.jobTags.contains(tag))
          for (own <- start.jobTags if own.startsWith(RunMetrics.StepTag))
            steps(own) = steps.get(own).fold(start.executionId)(math.min(_, start.executionId))
      }
    case _ =>
  }

  override def onTaskStart(start: SparkListenerTaskStart): Unit = synchronized {
    if (stages.contains(start.stageId)) running += start.taskInfo.taskId
  }

  override def onTaskEnd(end: SparkListenerTaskEnd): Unit = synchronized {
    running -= end.taskInfo.taskId
    if (stages.contains(end.stageId) && end.taskMetrics != null) {
      nanos += end.taskMetrics.executorCpuTime + end.taskMetrics.executorDeserializeCpuTime
      val task = (end.stageId, end.taskInfo.partitionId)
      if (end.reason == Success && counted.add(task))
        executions.get(end.stageId).foreach(rows(_) += end.taskMetrics.inputMetrics.recordsRead)
    }
  }

  def idle: Boolean = synchronized(running.isEmpty)

  def cost: RunCost = synchronized(RunCost(jobs, nanos / 1000000L, rowsRead))

  private def rowsRead: Long = if (steps.isEmpty) rows.values.sum else steps.values.map(rows).sum
}

object RunMetrics {

  /** Milliseconds. */
  private val BusPatience = 5000L
  private val EndPatience = 10000L

  /** How the tags of jobs begin that a step of a run starts. */
  private[step] val StepTag = "tidemill-step-"

  /**
   * Runs the step `body`, and after a failure, also of its thread's being interrupted, ends what still runs of it: no
   * late task may write into a place cleaned up. A job ends at once when it is cancelled, its tasks when they come to
   * notice.
   */
  def untilEnd[T](context: SparkContext)(body: => T): T = tagged(context, StepTag) { (tag, listener) =>
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
   * back. So is the place in the program that jobs and stages are named by: Spark looks for it in the stack of the
   * thread at each RDD.
   */
  def measured[T](context: SparkContext, description: Option[String])(body: => T): (Either[Throwable, T], RunCost) =
    tagged(context, "tidemill-call-") { (_, listener) =>
      val replaced = Seq(SparkContext.SPARK_JOB_DESCRIPTION, CallSite.SHORT_FORM, CallSite.LONG_FORM)
      val before = replaced.map(name => name -> context.getLocalProperty(name))
      val (jobs, nanos) = (jobsSoFar(context), DriverTasks.nanos)
      for (text <- description; name <- replaced) context.setLocalProperty(name, text)
      val outcome =
        try Right(body)
        catch { case NonFatal(e) => Left(e); case e: InterruptedException => Left(e) }
        finally if (description.isDefined) before.foreach { case (name, text) => context.setLocalProperty(name, text) }
      val here = (DriverTasks.nanos - nanos) / 1000000L
      if (jobsSoFar(context) == jobs) (outcome, RunCost(0, here, 0L))
      else {
        // The bus is asynchronous: the last task's end may still be on its way. Behind a stuck listener of someone
        // else's the cost may come out too low; that is no reason to fail.
        val interrupted = Thread.interrupted()
        Try(context.listenerBus.waitUntilEmpty(BusPatience))
        if (interrupted) Thread.currentThread.interrupt()
        val cost = listener.cost
        (outcome, cost.copy(cpuMillis = cost.cpuMillis + here))
      }
    }

  /** Whether somebody ended the work, which is not to begin again then. */
  def isCancelled(thrown: Throwable): Boolean =
    Iterator.iterate(thrown)(_.getCause).takeWhile(_ != null).exists {
      case _: InterruptedException | _: VirtualMachineError => true
      case known: SparkThrowable => known.getCondition == "SPARK_JOB_CANCELLED"
      case _ => false
    }

  /** Jobs of the application, without waiting for the bus; the JVM knows the method as public, Scala does not. */
  private def jobsSoFar(context: SparkContext): Int =
    Option(context.dagScheduler).fold(0)(jobsMethod.invoke(_).asInstanceOf[Int])

  private val jobsMethod = classOf[DAGScheduler].getMethod("numTotalJobs")

  /** Runs `body` under a job tag of its own, which begins as told, with a listener to the jobs that carry it. */
  private def tagged[T](context: SparkContext, prefix: String)(body: (String, CostListener) => T): T = {
    val tag = s"$prefix${UUID.randomUUID()}"
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
