package org.apache.spark.sql.tidemill.step

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule

/**
 * What a run writes for one output of a view, before the rule below puts the planned subtree in its place.
 *
 * @param view   qualified name of the view
 * @param run    number of the run
 * @param label  which output: the result, a delta, a state
 * @param ticket the registration of the subtree; never shown
 */
final case class IncrementalOutput(view: String, run: Long, label: String)(val ticket: Long) extends LeafNode {
  override def output: Seq[Attribute] = Nil
  override lazy val resolved: Boolean = false
  override protected def otherCopyArgs: Seq[AnyRef] = java.lang.Long.valueOf(ticket) :: Nil
  override def simpleString(maxFields: Int): String = s"IncrementalOutput $view, run $run, $label"
}

object IncrementalOutput {
  // Tickets are unique over all sessions, so two refreshes never see each other's plans.
  private val tickets = new java.util.concurrent.atomic.AtomicLong(0)
  private val plans = new ConcurrentHashMap[Long, LogicalPlan]

  /** Runs `body` with a leaf that stands for `plan`; the registration ends with it. */
  def using[T](view: String, run: Long, label: String, plan: LogicalPlan)(body: IncrementalOutput => T): T = {
    val ticket = tickets.incrementAndGet()
    plans.put(ticket, plan)
    try body(IncrementalOutput(view, run, label)(ticket))
    finally plans.remove(ticket)
  }

  private[tidemill] def plan(leaf: IncrementalOutput): Option[LogicalPlan] = Option(plans.get(leaf.ticket))
}

/** Resolution rule: each output leaf becomes the subtree that its run was planned with. No call leaves the JVM. */
final case class ReplaceIncrementalOutput(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case leaf: IncrementalOutput => IncrementalOutput.plan(leaf).getOrElse(leaf)
  }
}
