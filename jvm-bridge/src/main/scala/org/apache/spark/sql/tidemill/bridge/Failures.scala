package org.apache.spark.sql.tidemill.bridge

import java.util.LinkedHashMap

/**
 * Throwables that crossed to Python as a number and may come back to be thrown on.
 *
 * Python may also handle one and drop its number: the table keeps the last `Bound` only.
 */
object Failures {
  private val Bound = 256
  private val kept = new LinkedHashMap[Long, Throwable]
  private var last = 0L

  /** Keeps `t` and answers its number. */
  def keep(t: Throwable): Long = synchronized {
    last += 1
    kept.put(last, t)
    if (kept.size > Bound) kept.remove(kept.keySet.iterator.next())
    last
  }

  /** The throwable of that number, which is forgotten here. */
  def take(number: Long): Throwable = synchronized {
    Option(kept.remove(number)).getOrElse(new IllegalStateException(s"Tidemill: failure $number is no longer kept"))
  }
}
