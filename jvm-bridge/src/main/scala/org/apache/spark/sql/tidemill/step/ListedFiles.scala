package org.apache.spark.sql.tidemill.step

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, FileSourceConstantMetadataStructField}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.tidemill.base.{HadoopSettings, Json}
import org.apache.spark.sql.tidemill.view.{DeletionVector, FewRows, LiveRows, RowsInMemory}
import org.apache.spark.sql.types.{StringType, StructField, StructType}

import org.json4s.JValue

/**
 * One file by path, length in bytes and modification time in epoch milliseconds, with the rows in it that have left.
 */
final case class ListedFile(path: String, bytes: Long, modified: Long, vector: Option[DeletionVector] = None)

object ListedFile {
  /** Of {"path", "bytes", "modified", "dv": see [[DeletionVector]], may be absent}. */
  def of(file: JValue): ListedFile =
    ListedFile(Json.text(file, "path"), Json.long(file, "bytes"), Json.long(file, "modified"), DeletionVector.of(file))
}

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

  /**
   * The rows of these files that have not left, from memory if a run with this query, or any, has left them all there;
   * and for each row the columns of `schema`, then what `told` names: [[ListedPath]], or the row's number in its file.
   */
  def read(session: SparkSession, query: Long, files: Seq[ListedFile], schema: StructType, told: Seq[String])
      : (LogicalPlan, Seq[Expression]) = {
    // What is in memory are all rows of a file, those that have left since among them.
    val whole = files.forall(_.vector.isEmpty)
    val known = if (whole) RowsInMemory.of(query, files.map(_.path), schema) else None
    known match {
      case Some(found) if told.isEmpty =>
        val plan = FewRows.relation(found, schema)
        (plan, plan.output)
      case Some(found) =>
        val (plan, path, row) = FewRows.placed(files.map(_.path), found, schema)
        val places = Map(ListedPath -> path, ParquetFileFormat.ROW_INDEX -> row)
        (plan, plan.output.take(schema.length) ++ told.map(places))
      case None =>
        val plan = rows(session, files, schema, told.nonEmpty)
        (plan, plan.output.take(schema.length) ++ told.map(LiveRows.field(LiveRows.metadataOf(plan), _)))
    }
  }

  /** The rows of exactly these files that have not left; the schema is taken as given. */
  def rows(
      session: SparkSession, files: Seq[ListedFile], schema: StructType, withMetadata: Boolean): LogicalPlan = {
    val format = if (withMetadata) new ListedParquet else new ParquetFileFormat
    val relation = HadoopFsRelation(
      new ListedFileIndex(files), new StructType, schema.asNullable, None, format, Map.empty)(session)
    val (plain, vectors) = (LogicalRelation(relation), files.map(f => f.path -> f.vector))
    val conf = HadoopSettings.of(session)
    if (withMetadata) LiveRows.withMetadata(plain, vectors, conf) else LiveRows.of(plain, vectors, conf)
  }
}
