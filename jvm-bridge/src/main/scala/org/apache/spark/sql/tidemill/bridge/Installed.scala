package org.apache.spark.sql.tidemill.bridge

import java.util.{Collections, WeakHashMap}

import org.apache.spark.sql.SparkSessionExtensions

/** The extensions that Tidemill was added to: sessions with them understand its statements. */
object Installed {
  /** Weak, and by identity (the class defines no equality): extensions live as long as their sessions. */
  private val known = Collections.synchronizedSet(
    Collections.newSetFromMap(new WeakHashMap[SparkSessionExtensions, java.lang.Boolean]))

  /** Remembers `extensions`; false if they were known. */
  def add(extensions: SparkSessionExtensions): Boolean = known.add(extensions)

  def contains(extensions: SparkSessionExtensions): Boolean = known.contains(extensions)
}
