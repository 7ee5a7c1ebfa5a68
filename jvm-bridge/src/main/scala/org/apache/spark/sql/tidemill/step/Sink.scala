package org.apache.spark.sql.tidemill.step

/** Where the rows of a step go. */
sealed trait Sink

object Sink {
  /** Into Parquet files. */
  case object Parquet extends Sink
  /** Back to Python, within the answer. */
  case object Rows extends Sink
  /** Nowhere: the answer is the physical plan as a text. */
  case object Explain extends Sink

  /** The sink of that name in a step's request. */
  def of(kind: String): Sink = kind match {
    case "parquet" => Parquet
    case "rows" => Rows
    case "explain" => Explain
    case other => throw new IllegalArgumentException(s"unknown sink '$other'")
  }
}
