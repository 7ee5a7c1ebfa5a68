package org.apache.spark.sql.tidemill.physical

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.{PlanLater, SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelationWithTable}

/** Rows of small files, in one partition: what is made of them alone needs no exchange. */
case class SmallFilesExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = SinglePartition
  override def outputOrdering: Seq[SortOrder] = Nil
  override protected def doExecute(): RDD[InternalRow] = child.execute().coalesce(1)
  override protected def withNewChildInternal(newChild: SparkPlan): SmallFilesExec = copy(child = newChild)
}

object SmallFilesExec extends SparkStrategy {

  /** The most bytes of files that one task reads, and the driver if nothing else is to be read. */
  val MostBytes: Long = 256L << 10

  /** Planned as others plan it: a table format may have strategies of its own for its files. */
  override def apply(plan: LogicalPlan): Seq[SparkPlan] =
    if (isSmall(plan)) {
      val others = SparkSession.active.sessionState.planner.strategies.iterator.filter(_ ne this)
      others.map(_(plan)).find(_.nonEmpty).toSeq.flatten.filterNot(_.exists(_.isInstanceOf[PlanLater]))
        .map(SmallFilesExec(_))
    } else Nil

  private def isSmall(plan: LogicalPlan): Boolean = plan match {
    case Project(_, child) => isSmall(child)
    case Filter(_, child) => isSmall(child)
    case LogicalRelationWithTable(files: HadoopFsRelation, _) => files.location.sizeInBytes <= MostBytes
    case _ => false
  }
}
