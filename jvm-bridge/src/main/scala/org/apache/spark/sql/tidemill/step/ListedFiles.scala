package org.apache.spark.sql.tidemill.step

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Expression, FileSourceConstantMetadataStructField, FileSourceMetadataAttribute
}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.types.{StringType, StructField, StructType}

/** One file by path, length in bytes and modification time in epoch milliseconds. */
final case class ListedFile(path: String, bytes: Long, modified: Long)

/** Unpartitioned files given one by one: nothing is listed and no Spark job runs to know them. */
final class ListedFileIndex(files: Seq[ListedFile]) extends FileIndex {

  private val statuses: Seq[FileStatusWithMetadata] = files.map { f =>
    val status = new FileStatus(f.bytes, false, 1, ListedFileIndex.BlockBytes, f.modified, new Path(f.path))
    FileStatusWithMetadata(status, Map(ListedParquet.ListedPath -> f.path))
  }

  override def rootPaths: Seq[Path] = statuses.map(_.getPath)

  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] =
    if (statuses.isEmpty) Nil else Seq(PartitionDirectory(InternalRow.empty, statuses))

  override def inputFiles: Array[String] = files.map(_.path).toArray

  override def refresh(): Unit = ()

  override def sizeInBytes: Long = files.map(_.bytes).sum

  override def partitionSchema: StructType = new StructType

  // Spark compares scans by their index when it looks for exchanges to reuse.
  private val listing = files.toSet

  override def equals(other: Any): Boolean = other match {
    case that: ListedFileIndex => that.listing == listing
    case _ => false
  }

  override def hashCode: Int = listing.hashCode
}

object ListedFileIndex {
  /** Only a hint for locality, which a listing without block locations cannot have. */
  private val BlockBytes = 128L << 20
}

/** Parquet whose `_metadata` also tells the path exactly as it was listed (file_path is a URI in Spark's own form). */
final class ListedParquet extends ParquetFileFormat {
  override def metadataSchemaFields: Seq[StructField] =
    super.metadataSchemaFields :+
      FileSourceConstantMetadataStructField(ListedParquet.ListedPath, StringType)
}

object ListedParquet {
  val ListedPath = "listed_path"

  /** A relation over exactly these files; the schema is taken as given. */
  def relation(
      session: SparkSession, files: Seq[ListedFile], schema: StructType, withPath: Boolean): LogicalRelation = {
    val format = if (withPath) new ListedParquet else new ParquetFileFormat
    val relation = HadoopFsRelation(
      new ListedFileIndex(files), new StructType, schema.asNullable, None, format, Map.empty)(session)
    val plain = LogicalRelation(relation)
    if (withPath) plain.withMetadataColumns() else plain
  }

  def isMetadata(e: Expression): Boolean = e match {
    case FileSourceMetadataAttribute(_) => true
    case _ => false
  }
}
