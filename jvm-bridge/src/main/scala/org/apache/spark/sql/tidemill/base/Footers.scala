package org.apache.spark.sql.tidemill.base

import scala.util.{Try, Using}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.FileStatus
import org.apache.orc.OrcFile
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.util.HadoopInputFile

/** How many rows files have, as their footers tell. The driver reads the footers; no Spark job runs. */
private[tidemill] object Footers {
  /** Of more files some are read, spread evenly over them, and the others are as dense. */
  private val Most = 64

  /** About how many rows these files have; None if their format has no footers, or one of them cannot be read. */
  def rows(format: String, files: Seq[FileStatus], conf: Configuration): Option[Long] =
    counter(format).flatMap { count =>
      val read = if (files.sizeIs <= Most) files else spread(files.toIndexedSeq)
      val counted = Files.eachInThreads(read)(file => Try(count(file, conf)).toOption)
      val (all, part) = (files.map(_.getLen).sum, read.map(_.getLen).sum)
      Option.when(counted.forall(_.isDefined)) {
        val found = counted.flatten.sum
        if (all == part || part == 0) found else math.round(found.toDouble * all / part)
      }
    }

  private def spread(files: IndexedSeq[FileStatus]): Seq[FileStatus] =
    (0 until Most).map(n => files((n.toLong * files.size / Most).toInt))

  private def counter(format: String): Option[(FileStatus, Configuration) => Long] = format match {
    case "parquet" =>
      Some((file, conf) =>
        Using.resource(ParquetFileReader.open(HadoopInputFile.fromStatus(file, conf)))(_.getRecordCount))
    case "orc" =>
      Some((file, conf) =>
        Using.resource(OrcFile.createReader(file.getPath, OrcFile.readerOptions(conf)))(_.getNumberOfRows))
    case _ => None
  }
}
