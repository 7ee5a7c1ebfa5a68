package org.apache.spark.sql.tidemill.step

import scala.collection.mutable

import org.json4s._

/** Wall time by part, of parts that follow each other. */
private[step] final class Stopwatch {
  private val parts = mutable.LinkedHashMap.empty[String, Long]
  private var since = System.nanoTime()

  /** The time since the last part ended, or since the beginning, is of this part. */
  def end(part: String): Unit = {
    val now = System.nanoTime()
    parts(part) = parts.getOrElse(part, 0L) + now - since
    since = now
  }

  /** Milliseconds by part. */
  def told: JObject = JObject(parts.toList.map { case (part, nanos) => part -> JDouble(nanos / 1e6) })
}
