package org.apache.spark.sql.tidemill.view

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.delta.actions.DeletionVectorDescriptor
import org.apache.spark.sql.delta.deletionvectors.{RoaringBitmapArray, RoaringBitmapArrayFormat}
import org.apache.spark.sql.delta.storage.dv.HadoopFileSystemDVStore
import org.apache.spark.sql.delta.util.PathWithFileSystem
import org.apache.spark.sql.errors.QueryExecutionErrors

/**
 * Delta's deletion vectors in its own files: written with the run whose rows they mark, and read wherever the result
 * file is. Loaded only where there are such vectors, or where one is to be written.
 */
private[tidemill] object DeletionVectors {
  def read(vector: DeletionVector, conf: Configuration): RoaringBitmapArray =
    try new HadoopFileSystemDVStore(conf).read(new Path(vector.path), vector.offset, vector.size)
    catch { case NonFatal(wrong) => throw QueryExecutionErrors.cannotReadFilesError(wrong, vector.path) }

  /**
   * Writes one file with the vectors of all these result files.
   *
   * @param path of the new file, by whose name Delta finds it below the table's location
   * @param bitmaps for each result file the positions of marked rows and the number of all its rows
   * @return the vector of each result file
   */
  def write(path: Path, bitmaps: Seq[(RoaringBitmapArray, Long)], conf: Configuration): Seq[DeletionVector] = {
    val target = PathWithFileSystem.withConf(path, conf).makeQualified()
    val ranges = Using.resource(new HadoopFileSystemDVStore(conf).createWriter(target)) { writer =>
      bitmaps.map { case (bitmap, _) =>
        bitmap.runOptimize()
        writer.write(bitmap.serializeAsByteArray(RoaringBitmapArrayFormat.Portable))
      }
    }
    val bytes = target.fs.getFileStatus(target.path).getLen
    bitmaps.zip(ranges).map { case ((bitmap, rows), range) =>
      DeletionVector(path.toString, bytes, range.offset, range.length, bitmap.cardinality, rows)
    }
  }

  /** As a Delta table's log names it; the file lies at the table's location, wherever that is moved. */
  def descriptor(vector: DeletionVector): DeletionVectorDescriptor = {
    val id = DeletionVectorDescriptor.getUUIDFromDeletionVectorFileName(new Path(vector.path).getName)
    DeletionVectorDescriptor.onDiskWithRelativePath(
      id, "", vector.size, vector.rows, Some(vector.offset), None)
  }
}
