package org.apache.spark.sql.tidemill.step

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.parquet.HadoopReadOptions
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.ParquetMetadata
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.parquet.io.api.Binary
import org.apache.parquet.schema.LogicalTypeAnnotation._
import org.apache.parquet.schema.PrimitiveType
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName._

import org.json4s._
import org.json4s.JsonDSL._

/** The least and the greatest values in a Parquet file, as its footer knows them. */
private[tidemill] object Bounds {
  /** The columns whose bounds are told: enough for keys and what stands first, and short in the log. */
  private val Columns = 8
  private val Text = 64
  /** 1582-10-15: later dates are the same number of days in both calendars. */
  private val Gregorian = -141427L

  /** {"rows", "bounds"} of a file that was written just now. */
  def of(file: Path, conf: Configuration): JObject = {
    val input = HadoopInputFile.fromPath(file, conf)
    val footer =
      Using.resource(ParquetFileReader.open(input, HadoopReadOptions.builder(conf).build()))(_.getFooter)
    of(footer)
  }

  /** {"rows", "bounds"} of a file with this footer. */
  def of(footer: ParquetMetadata): JObject =
    ("rows" -> footer.getBlocks.asScala.map(_.getRowCount).sum) ~ ("bounds" -> boundsOf(footer))

  /**
   * {column: [least, greatest]} for the first columns of whole numbers, dates (as days since 1970) and strings that have
   * bounds in each row group. NULLs do not count; a column that has nothing else is left out.
   */
  private def boundsOf(footer: ParquetMetadata): JObject = {
    val blocks = footer.getBlocks.asScala.toSeq
    val known = footer.getFileMetaData.getSchema.getColumns.asScala.toSeq.filter(_.getPath.length == 1)
    JObject(known.iterator.flatMap { column =>
      val found =
        blocks.map(_.getColumns.asScala.find(_.getPath.toArray.sameElements(column.getPath)).map(_.getStatistics))
      val told = found.flatten.filter(_ != null)
      if (told.isEmpty || told.length < blocks.length || !told.forall(_.hasNonNullValue)) None
      else bounds(column.getPrimitiveType, told.map(_.genericGetMin), told.map(_.genericGetMax))
        .map(column.getPath.head -> _)
    }.take(Columns).toList)
  }

  private def bounds(kind: PrimitiveType, least: Seq[Any], greatest: Seq[Any]): Option[JValue] =
    (kind.getPrimitiveTypeName, kind.getLogicalTypeAnnotation) match {
      case (INT32 | INT64, null) => Some(numbers(least, greatest))
      case (INT32 | INT64, whole: IntLogicalTypeAnnotation) if whole.isSigned => Some(numbers(least, greatest))
      case (INT32, _: DateLogicalTypeAnnotation) if least.forall(number(_) >= Gregorian) =>
        Some(numbers(least, greatest))
      case (BINARY, _: StringLogicalTypeAnnotation) =>
        val (from, to) = (least.map(binary).min(bytewise), greatest.map(binary).max(bytewise))
        Option.when(from.length <= Text && to.length <= Text) {
          JArray(List(JString(from.toStringUsingUTF8), JString(to.toStringUsingUTF8)))
        }
      case _ => None
    }

  /** As code points compare, and Parquet's bounds of strings; not as UTF-16 does. */
  private val bytewise: Ordering[Binary] = (a, b) =>
    java.util.Arrays.compareUnsigned(a.getBytesUnsafe, b.getBytesUnsafe)

  private def number(value: Any): Long = value.asInstanceOf[Number].longValue

  private def numbers(least: Seq[Any], greatest: Seq[Any]): JValue =
    JArray(List(JInt(least.map(number).min), JInt(greatest.map(number).max)))

  private def binary(value: Any): Binary = value.asInstanceOf[Binary]
}
