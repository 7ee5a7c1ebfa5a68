package org.apache.spark.sql.tidemill.source

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.delta.{DeltaLog, Snapshot}
import org.apache.spark.sql.delta.actions.{AddCDCFile, AddFile}
import org.apache.spark.sql.delta.commands.cdc.CDCReader.{CDC_COMMIT_TIMESTAMP, CDC_COMMIT_VERSION, CDCDataSpec}
import org.apache.spark.sql.delta.files.{TahoeBatchFileIndex, TahoeChangeFileIndex}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}

/**
 * Scans of files of a Delta table that are known already. Delta's own indices ask a Dataset of them at each scan, which
 * takes some 15 to 30 milliseconds, also where nothing is to be filtered.
 */
private object KnownFiles {

  /** All rows of files that versions `from` to `to` added, with the columns of the table at `at`. */
  def relation(
      session: SparkSession, files: Seq[AddFile], log: DeltaLog, at: Snapshot, from: Long, to: Long): HadoopFsRelation =
    log.buildHadoopFsRelationWithFileIndex(at, new Index(session, files, log, at, from, to), bucketSpec = None)

  /** A plan that reads a change data feed, with such indices. They do not tell the times of commits. */
  def ofFeed(session: SparkSession, plan: LogicalPlan, log: DeltaLog, at: Snapshot): LogicalPlan = plan.transform {
    case leaf @ LogicalRelation(files: HadoopFsRelation, _, _, _, _) => files.location match {
        case index: TahoeChangeFileIndex =>
          val known = new Feed(session, index.filesByVersion, log, at)
          leaf.copy(relation = files.copy(location = known)(files.sparkSession))
        case _ => leaf
      }
  }

  /**
   * Two of the same versions are equal, so that a table that a plan reads twice is broadcast or shuffled once: sixty
   * broadcasts of a small table take gigabytes.
   */
  final private class Index(
      session: SparkSession, files: Seq[AddFile], log: DeltaLog, at: Snapshot, from: Long, to: Long)
    extends TahoeBatchFileIndex(session, "batch", files, log, log.dataPath, at) {

    private val identity = (log.dataPath, at.metadata.id, at.version, from, to)

    override def matchingFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[AddFile] =
      if (partitionFilters.isEmpty) files else super.matchingFiles(partitionFilters, dataFilters)

    override def equals(other: Any): Boolean = other match {
      case that: Index => that.identity == identity
      case _ => false
    }

    override def hashCode: Int = identity.hashCode
  }

  /** Files whose rows say themselves what happened to them. */
  final private class Feed(session: SparkSession, commits: Seq[CDCDataSpec[AddCDCFile]], log: DeltaLog, at: Snapshot)
    extends TahoeChangeFileIndex(session, commits, log, log.dataPath, at) {

    override def matchingFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[AddFile] =
      if (partitionFilters.nonEmpty) super.matchingFiles(partitionFilters, dataFilters)
      else
        for (commit <- commits; file <- commit.actions) yield {
          val values = Map(CDC_COMMIT_VERSION -> commit.version.toString, CDC_COMMIT_TIMESTAMP -> null)
          AddFile(file.path, file.partitionValues ++ values, file.size, 0, dataChange = false, tags = file.tags)
        }
  }
}
