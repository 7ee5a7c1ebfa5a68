package org.apache.spark.sql.tidemill.bridge

import java.util.concurrent.TimeUnit

import org.apache.spark.SparkContext
import org.apache.spark.util.ThreadUtils

/**
 * Says in the terminal which step of a run takes so long: on a line of its own, above Spark's progress bar, which knows
 * only numbers of stages. Where Spark shows no bar, nothing is said.
 */
object Progress {

  /** Milliseconds that a step may take before it is named; Spark's bar waits as long. */
  private val Patience = 500L

  private lazy val timer = ThreadUtils.newDaemonSingleThreadScheduledExecutor("tidemill-progress")

  /** Does `body`, and names it if it takes long. */
  def during[T](context: SparkContext, description: Option[String])(body: => T): T =
    description.filter(_ => context.progressBar.isDefined).fold(body) { text =>
      val named = timer.schedule((() => say(text)): Runnable, Patience, TimeUnit.MILLISECONDS)
      try body
      finally named.cancel(false)
    }

  /** The bar may stand in the line where the cursor is. */
  private def say(text: String): Unit = {
    val width = sys.env.getOrElse("COLUMNS", "80").toIntOption.getOrElse(80)
    System.err.println("\r" + text.padTo(width, ' '))
  }
}
