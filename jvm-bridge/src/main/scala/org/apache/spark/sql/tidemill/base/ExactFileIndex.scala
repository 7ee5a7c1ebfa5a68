package org.apache.spark.sql.tidemill.base

import scala.collection.mutable

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.{NoopCache, PartitioningAwareFileIndex, PartitionSpec}
import org.apache.spark.sql.types.StructType

/**
 * A file index over a fixed list: it never lists, runs no job, and two of the same files are equal (so that a source
 * used twice in one plan is read once).
 */
private[tidemill] class ExactFileIndex(
    session: SparkSession,
    override val rootPaths: Seq[Path],
    files: Seq[FileStatus],
    options: Map[String, String],
    spec: => PartitionSpec,
    partitionColumns: Option[StructType] = None)
  extends PartitioningAwareFileIndex(session, options, partitionColumns, NoopCache) {

  override protected val leafFiles: mutable.LinkedHashMap[Path, FileStatus] =
    mutable.LinkedHashMap.from(files.map(f => f.getPath -> f))

  override protected val leafDirToChildrenFiles: Map[Path, Array[FileStatus]] =
    files.toArray.groupBy(_.getPath.getParent)

  private lazy val partitions: PartitionSpec = spec

  override def partitionSpec(): PartitionSpec = partitions

  override def allFiles(): Seq[FileStatus] = files

  override def refresh(): Unit = ()

  /** Whether folders below the roots are read although they are no partitions. */
  def deep: Boolean = recursiveFileLookup

  /** Whether Spark would read this file: neither empty nor hidden, and as the options on paths and times want it. */
  def reads(file: FileStatus): Boolean = {
    val name = file.getPath.getName
    val hidden = (name.startsWith("_") && !name.contains("=")) || name.startsWith(".")
    file.getLen > 0 && !hidden && matchPathPattern(file)
  }

  /** Partition values as the folders' names below the roots tell them. */
  private def inferred(): PartitionSpec = inferPartitioning()

  private val content: Set[(String, Long, Long)] =
    files.iterator.map(f => (f.getPath.toString, f.getLen, f.getModificationTime)).toSet

  override def equals(other: Any): Boolean = other match {
    case that: ExactFileIndex => content == that.content && partitionSpec() == that.partitionSpec()
    case _ => false
  }

  override def hashCode(): Int = content.hashCode()
}

private[tidemill] object ExactFileIndex {
  /** Over `files`, with partition columns as the folders below `roots` alone tell them. */
  def guessing(
      session: SparkSession, roots: Seq[Path], files: Seq[FileStatus], options: Map[String, String]): ExactFileIndex = {
    lazy val index: ExactFileIndex = new ExactFileIndex(session, roots, files, options, index.inferred())
    index
  }

  /** Over `files`, with values for the partition columns `schema` read from the folders below `roots`. */
  def inferring(
      session: SparkSession, roots: Seq[Path], files: Seq[FileStatus], options: Map[String, String],
      schema: StructType): ExactFileIndex = {
    lazy val index: ExactFileIndex = new ExactFileIndex(session, roots, files, options,
      if (schema.isEmpty) PartitionSpec.emptySpec
      else if (files.isEmpty) PartitionSpec(schema, Nil)
      else index.inferred(), Some(schema))
    index
  }
}
