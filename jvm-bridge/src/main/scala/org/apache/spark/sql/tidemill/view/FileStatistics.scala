package org.apache.spark.sql.tidemill.view

import scala.util.{Try, Using}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.ParquetMetadata
import org.apache.parquet.hadoop.util.HadoopInputFile

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.delta.NoMapping
import org.apache.spark.sql.delta.actions.{AddFile, Metadata}
import org.apache.spark.sql.delta.stats.{SkippingEligibleDataType, StatsCollector}
import org.apache.spark.sql.delta.stats.DeltaStatistics.{MAX, MIN, NULL_COUNT, NUM_RECORDS, TIGHT_BOUNDS}
import org.apache.spark.sql.delta.util.JsonUtils
import org.apache.spark.sql.internal.LegacyBehaviorPolicy
import org.apache.spark.sql.tidemill.base.HadoopSettings
import org.apache.spark.sql.types.{AtomicType, DataType, DoubleType, FloatType, LongType, StringType, StructType}
import org.apache.spark.util.ThreadUtils

/**
 * Delta's statistics of result files (rows; minimum, maximum and NULLs of the first columns), as their footers tell
 * them to Delta's own collector. The driver reads the footers; no Spark job runs.
 */
private[tidemill] object FileStatistics {
  private val Threads = 8
  /** A transaction that adds more files than these leaves them without statistics: reading footers costs waiting. */
  private val MostFiles = 100
  /** Columns and characters with statistics, as Delta has them by default. */
  private val Columns = 32
  private val Characters = 32

  /**
   * These files with statistics; a file whose footer cannot be read stays as it is. Files with a deletion vector are
   * read in any number: Delta wants to know their rows.
   */
  def added(session: SparkSession, files: Seq[AddFile], root: Path, metadata: Metadata): Seq[AddFile] = {
    val (read, left) = files.partition(_.deletionVector != null || files.lengthIs <= MostFiles)
    left ++ (if (read.isEmpty) Nil else told(session, read, root, metadata))
  }

  private def told(session: SparkSession, files: Seq[AddFile], root: Path, metadata: Metadata): Seq[AddFile] = {
    val conf = HadoopSettings.of(session)
    val columns = metadata.dataSchema.take(Columns).filter(_.dataType.isInstanceOf[AtomicType])
    val bounded = StructType(columns.filter(c => bounds(c.dataType)))
    val wanted = new StructType().add(NUM_RECORDS, LongType).add(MIN, bounded).add(MAX, bounded)
      .add(NULL_COUNT, StructType(columns.map(_.copy(dataType = LongType))))
    val collector = StatsCollector(NoMapping, metadata.dataSchema, wanted, LegacyBehaviorPolicy.CORRECTED.toString,
      ignoreMissingStats = true, stringTruncateLength = Some(Characters))
    def statistics(found: ParquetMetadata, file: AddFile): Map[String, Any] =
      // Rows that are gone may be the least or the greatest.
      collector.collect(found)._1 + (TIGHT_BOUNDS -> (file.deletionVector == null))
    def one(file: AddFile): AddFile = Try(footer(new Path(root, file.toPath), file.size, conf))
      .map(found => file.copy(stats = JsonUtils.toJson(statistics(found, file)))).getOrElse(file)
    if (files.lengthIs == 1) files.map(one)
    else ThreadUtils.parmap(files, "tidemill-footers", math.min(Threads, files.length))(one)
  }

  /** Whether a footer tells the least and the greatest value: of floats it leaves out NaN, of texts it knows bytes. */
  private def bounds(kind: DataType): Boolean = kind match {
    case FloatType | DoubleType => false
    case s: StringType => s.supportsBinaryOrdering
    case other => SkippingEligibleDataType(other)
  }

  private def footer(path: Path, bytes: Long, conf: Configuration): ParquetMetadata = {
    val file = HadoopInputFile.fromStatus(new FileStatus(bytes, false, 1, bytes, 0, path), conf)
    Using.resource(ParquetFileReader.open(file))(_.getFooter)
  }
}
