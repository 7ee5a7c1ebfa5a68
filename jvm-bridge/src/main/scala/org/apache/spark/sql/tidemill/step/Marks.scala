package org.apache.spark.sql.tidemill.step

import scala.collection.mutable
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.util.HadoopInputFile

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray
import org.apache.spark.sql.tidemill.view.{DeletionVector, DeletionVectors}

/**
 * Gathers the places of rows that leave, and writes them as deletion vectors. A new vector has what the one before had.
 *
 * @param path of the new file of vectors
 * @param files that may hold the rows
 */
final private class Marks(path: Path, files: Seq[ListedFile], conf: Configuration) {
  private val byPath = files.map(f => f.path -> f).toMap
  private val bitmaps = mutable.LinkedHashMap.empty[String, RoaringBitmapArray]
  private var marked = 0L

  /** Adds a row of one column: an array of places (path of a file, position in it). */
  def add(row: InternalRow): Unit = {
    val places = row.getArray(0)
    for (i <- 0 until places.numElements()) {
      val place = places.getStruct(i, 2)
      val (file, position) = (place.getUTF8String(0).toString, place.getLong(1))
      val bitmap = bitmaps.getOrElseUpdate(
        file, byPath(file).vector.fold(new RoaringBitmapArray)(DeletionVectors.read(_, conf)))
      if (!bitmap.contains(position)) {
        bitmap.add(position)
        marked += 1
      }
    }
  }

  /** Rows that were marked, each counted once. */
  def rows: Long = marked

  /** The new vectors of the files that have one. */
  def write(): Seq[(String, DeletionVector)] =
    if (bitmaps.isEmpty) Nil
    else DeletionVectors.write(path, bitmaps.toSeq.map { case (file, b) => (file, b, rowsOf(byPath(file))) }, conf)

  private def rowsOf(file: ListedFile): Long = file.vector.map(_.of).getOrElse {
    val status = new FileStatus(file.bytes, false, 1, file.bytes, file.modified, new Path(file.path))
    Using.resource(ParquetFileReader.open(HadoopInputFile.fromStatus(status, conf)))(_.getRecordCount)
  }
}
