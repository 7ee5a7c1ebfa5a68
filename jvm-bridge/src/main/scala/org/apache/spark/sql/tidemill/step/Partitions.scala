package org.apache.spark.sql.tidemill.step

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.catalyst.expressions.{Cast, Concat, EvalMode, Expression, Literal, StringReplace}
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero
import org.apache.spark.sql.types.{DoubleType, FloatType, StringType, TimestampType}

/**
 * Values of partition columns as text, as folder names and Delta's log hold them. Points in time are written in UTC and
 * say so: read in whatever time zone, they stay what they were.
 */
private[tidemill] object Partitions {
  def lookup(name: String, arguments: Seq[Expression]): Option[Expression] = (name, arguments) match {
    case ("tidemill_partition_text", Seq(value)) => Some(text(value))
    case _ => None
  }

  private def text(value: Expression): Expression = value.dataType match {
    case _: StringType => value
    case TimestampType =>
      Concat(Seq(StringReplace(cast(value), Literal(" "), Literal("T")), Literal("Z")))
    case DoubleType | FloatType => cast(NormalizeNaNAndZero(value)) // equal values lie in one folder
    case _ => cast(value)
  }

  private def cast(value: Expression): Expression = Cast(value, StringType, Some("UTC"), EvalMode.LEGACY)

  /** The values that a folder below `root` stands for, outermost first; None is NULL. */
  def valuesOf(root: Path, folder: Path): Seq[Option[String]] =
    segments(root, folder).map { name =>
      val text = ExternalCatalogUtils.unescapePathName(name.drop(name.indexOf('=') + 1))
      Option.when(text != ExternalCatalogUtils.DEFAULT_PARTITION_NAME)(text)
    }

  /** The path below a table of the partition with these values, as Spark itself names its folders. */
  def folder(columns: Seq[String], values: Seq[Option[String]]): String =
    columns.zip(values).map { case (column, value) =>
      ExternalCatalogUtils.getPartitionPathString(column, value.orNull)
    }.mkString("/")

  private def segments(root: Path, folder: Path): Seq[String] = {
    val depth = folder.depth - root.depth
    Iterator.iterate(folder)(_.getParent).take(depth).map(_.getName).toSeq.reverse
  }
}
