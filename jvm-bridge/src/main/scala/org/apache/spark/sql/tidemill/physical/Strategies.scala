package org.apache.spark.sql.tidemill.physical

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.tidemill.sum.LongSum

/** How sessions that carry steps out plan what Spark plans in another way. */
object Strategies {
  private val ours = Seq(FewRowsExec, FilteredFrames)

  def enable(session: SparkSession): Unit = {
    val others = session.experimental.extraStrategies
    if (!others.contains(FilteredFrames)) session.experimental.extraStrategies = others ++ ours
    val rules = session.experimental.extraOptimizations
    if (!rules.contains(LongSum)) session.experimental.extraOptimizations = rules :+ LongSum :+ WithoutDictionaries
  }
}
