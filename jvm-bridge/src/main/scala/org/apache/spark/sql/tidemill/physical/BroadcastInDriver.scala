package org.apache.spark.sql.tidemill.physical

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.exchange.BroadcastExchangeExec

/** Rows that are broadcast; if they are made of few rows alone, by a task in the driver, where a broadcast begins. */
case class InDriverExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def doExecute(): RDD[InternalRow] = child.execute()

  /** What a broadcast asks for. */
  override private[spark] def executeCollectIterator(): (Long, Iterator[InternalRow]) = {
    val rdd = executeQuery(child.execute())
    if (DriverTask.possible(child, rdd)) {
      val rows = DriverTask.run(rdd)((_, found) => found.map(_.copy()).toArray)
      (rows.length.toLong, rows.iterator)
    } else child.executeCollectIterator()
  }

  override protected def withNewChildInternal(newChild: SparkPlan): InDriverExec = copy(child = newChild)
}

/** Broadcasts of steps; plans of users have none of these leaves. */
object BroadcastInDriver extends ColumnarRule {
  override def postColumnarTransitions: Rule[SparkPlan] = rule

  private object rule extends Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan = plan.transform {
      case broadcast: BroadcastExchangeExec if ofFewRows(broadcast.child) =>
        broadcast.copy(child = InDriverExec(broadcast.child))
    }
  }

  private def ofFewRows(plan: SparkPlan): Boolean = {
    val leaves = plan.collect { case _: SmallFilesExec | _: FewRowsExec => () }
    leaves.nonEmpty && DriverTask.isOfFewRows(plan)
  }
}
