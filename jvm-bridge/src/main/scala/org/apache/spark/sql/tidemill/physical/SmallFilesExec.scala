package org.apache.spark.sql.tidemill.physical

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.{CoalesceExec, PlanLater, SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.execution.datasources.{CatalogFileIndex, HadoopFsRelation, LogicalRelationWithTable}

/** Rows of small files, in one partition: what is made of them alone needs no exchange. */
case class SmallFilesExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = SinglePartition
  override def outputOrdering: Seq[SortOrder] = Nil

  /** One partition even of no files: sums over nothing are a row. */
  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    if (rows.getNumPartitions == 0) new CoalesceExec.EmptyRDDWithPartitions(sparkContext, 1) else rows.coalesce(1)
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SmallFilesExec = copy(child = newChild)
}

object SmallFilesExec extends SparkStrategy {

  /** The most bytes of files that one task reads, the driver's if nothing else is to be read; 0: there are none. */
  def mostBytes: Long = SQLConf.get.getConfString("tidemill.driver.bytes", "0").toLong

  /** Planned as others plan it: a table format may have strategies of its own for its files. */
  override def apply(plan: LogicalPlan): Seq[SparkPlan] =
    if (isSmall(plan, mostBytes)) {
      val others = SparkSession.active.sessionState.planner.strategies.iterator.filter(_ ne this)
      others.map(_(plan)).find(_.nonEmpty).toSeq.flatten.filterNot(_.exists(_.isInstanceOf[PlanLater]))
        .map(SmallFilesExec(_))
    } else Nil

  private def isSmall(plan: LogicalPlan, most: Long): Boolean = most > 0 && (plan match {
    case Project(_, child) => isSmall(child, most)
    case Filter(_, child) => isSmall(child, most)
    case LogicalRelationWithTable(files: HadoopFsRelation, _) => files.location match {
        case _: CatalogFileIndex => false // its size is what somebody once analysed
        case listed => listed.sizeInBytes <= most
      }
    case _ => false
  })
}
