package org.apache.spark.sql.tidemill.leaving

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.util.HadoopInputFile

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray
import org.apache.spark.sql.tidemill.base.{HadoopSettings, Json}
import org.apache.spark.sql.tidemill.step.ListedFile
import org.apache.spark.sql.tidemill.view.DeletionVectors

import org.json4s._

/**
 * Marks rows of result files as gone: {"path": of the new file of deletion vectors, "files": [a listed file with
 * "gone": numbers of rows...]} to {"vectors": [that of each file]}. A new vector has what the one before had. No job
 * runs.
 */
object Marks {
  def run(session: SparkSession, request: JValue): JValue = {
    val conf = HadoopSettings.of(session)
    val marked = Json.items(request, "files").map { wire =>
      val file = ListedFile.of(wire)
      val bitmap = file.vector.fold(new RoaringBitmapArray)(DeletionVectors.read(_, conf))
      Json.longs(wire, "gone").foreach(bitmap.add)
      (bitmap, file.vector.fold(rowsOf(file, conf))(_.of))
    }
    val vectors = DeletionVectors.write(new Path(Json.text(request, "path")), marked, conf)
    JObject("vectors" -> JArray(vectors.map(_.json).toList))
  }

  private def rowsOf(file: ListedFile, conf: Configuration): Long = {
    val status = new FileStatus(file.bytes, false, 1, file.bytes, file.modified, new Path(file.path))
    Using.resource(ParquetFileReader.open(HadoopInputFile.fromStatus(status, conf)))(_.getRecordCount)
  }
}
