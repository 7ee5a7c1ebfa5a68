package org.apache.spark.sql.tidemill.bridge

import org.apache.spark.sql.internal.SQLConf

/**
 * Settings of Tidemill that are fixed when the application starts: what they name is run in the driver. Spark refuses
 * to set them in a session, as it does with static settings of its own.
 */
object FixedSettings {
  private val names = Seq("python", "rules.paths", "scheduler.enabled", "monitor.port").map("spark.tidemill." + _)

  def register(): Unit = names.filterNot(SQLConf.isStaticConfigKey).foreach(SQLConf.registerStaticConfigKey)
}
