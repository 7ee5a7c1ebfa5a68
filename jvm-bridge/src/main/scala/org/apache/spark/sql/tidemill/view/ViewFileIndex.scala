package org.apache.spark.sql.tidemill.view

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.{classic, SparkSession}
import org.apache.spark.sql.execution.datasources.PartitionSpec
import org.apache.spark.sql.tidemill.base.ExactFileIndex
import org.apache.spark.sql.types.StructType

/**
 * The files of one published run. Equal for the same run of the same view, so that Spark recognises a cached or a
 * repeated scan.
 *
 * @param manifest run and modification time (a view dropped and made anew at the place starts over with run 0)
 * @param schema the view's columns, which give partition columns their types
 */
private[tidemill] class ViewFileIndex(
    session: SparkSession, val path: Path, val manifest: (Long, Long), files: Seq[FileStatus], val schema: StructType)
  extends ExactFileIndex(
    session.asInstanceOf[classic.SparkSession], Seq(path), files, Map.empty, PartitionSpec.emptySpec, Some(schema)) {

  private lazy val partitions = inferPartitioning()

  override def partitionSpec(): PartitionSpec = partitions

  override def equals(other: Any): Boolean = other match {
    case that: ViewFileIndex => path == that.path && manifest == that.manifest
    case _ => false
  }
  override def hashCode: Int = (path, manifest).hashCode
}
