package org.apache.spark.sql.tidemill.view

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.expressions.{
  Attribute, Expression, FileSourceMetadataAttribute, GetStructField, Literal
}
import org.apache.spark.sql.catalyst.expressions.objects.Invoke
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project}
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray
import org.apache.spark.sql.execution.datasources.{FileFormat, LogicalRelation}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.types.{BooleanType, StructType}
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.SerializableConfiguration

/**
 * Tells the rows of result files that are the view's from those that have left it. A task reads the vector of each file
 * that it reads.
 *
 * @param vectors by the path of the file as `_metadata.file_path` has it; None for a file without one
 */
final private[tidemill] case class LiveRows(vectors: Map[String, Option[DeletionVector]])(
    conf: SerializableConfiguration) {
  @transient private var path: UTF8String = _
  @transient private var marked: RoaringBitmapArray = _

  /** Whether the row of this file at this position is the view's. */
  def live(file: UTF8String, position: Long): Boolean = {
    if (file != path) {
      // A file that was not expected is no file without a vector.
      marked = vectors(file.toString).map(DeletionVectors.read(_, conf.value)).orNull
      path = file.clone()
    }
    marked == null || !marked.contains(position)
  }
}

private[tidemill] object LiveRows {
  /** The rows of `relation` that are the view's, with its columns and `_metadata`. */
  def withMetadata(
      relation: LogicalRelation, files: Seq[(String, Option[DeletionVector])], conf: Configuration): LogicalPlan = {
    val told = relation.withMetadataColumns()
    if (files.forall(_._2.isEmpty)) told
    else {
      val metadata = metadataOf(told)
      val vectors = files.map { case (path, vector) => new Path(path).toUri.toString -> vector }.toMap
      val rows = Literal.fromObject(LiveRows(vectors)(new SerializableConfiguration(conf)))
      val place = Seq(FileFormat.FILE_PATH, ParquetFileFormat.ROW_INDEX).map(field(metadata, _))
      Filter(Invoke(rows, "live", BooleanType, place, returnNullable = false), told)
    }
  }

  /** The rows of `relation` that are the view's. */
  def of(
      relation: LogicalRelation, files: Seq[(String, Option[DeletionVector])], conf: Configuration): LogicalPlan =
    if (files.forall(_._2.isEmpty)) relation else Project(relation.output, withMetadata(relation, files, conf))

  def metadataOf(plan: LogicalPlan): Attribute =
    plan.output.collectFirst { case FileSourceMetadataAttribute(a) => a }.get

  def field(metadata: Attribute, name: String): Expression =
    GetStructField(metadata, metadata.dataType.asInstanceOf[StructType].fieldIndex(name), Some(name))
}
