package org.apache.spark.sql.tidemill.base

import java.util.WeakHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration

import org.apache.spark.SparkContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic
import org.apache.spark.util.SerializableConfiguration

/**
 * Hadoop's settings in a session. Spark copies them all each time that it is asked, which takes one to three
 * milliseconds; a small refresh asks some thirty times.
 */
object HadoopSettings {
  private final case class Known(statement: Long, own: Map[String, String], settings: Configuration)

  private val statements = new AtomicLong
  private val known = new WeakHashMap[SparkSession, Known]

  /** A statement begins: what was set in the application's own settings since the last one counts. */
  def anew(): Unit = statements.incrementAndGet()

  /** The settings in a session as it is now, to be read only. */
  def of(session: SparkSession): Configuration = {
    val state = session.asInstanceOf[classic.SparkSession].sessionState
    val (statement, own) = (statements.get, state.conf.getAllConfs)
    known.synchronized {
      Option(known.get(session)).filter(k => k.statement == statement && k.own == own).getOrElse {
        val made = Known(statement, own, state.newHadoopConf())
        known.put(session, made)
        made
      }.settings
    }
  }

  private final case class Sent(raw: Map[String, String], broadcast: Broadcast[SerializableConfiguration])

  private val sent = new WeakHashMap[SparkContext, Sent]

  /**
   * These settings for tasks: the application's are sent to the executors once, and what differs from them goes with the
   * task.
   */
  def forTasks(context: SparkContext, settings: Configuration): SettingsForTasks = {
    val base = sent.synchronized {
      sent.computeIfAbsent(
        context,
        of => {
          val all = new Configuration(of.hadoopConfiguration)
          Sent(raw(all), of.broadcast(new SerializableConfiguration(all)))
        })
    }
    val own = raw(settings)
    val differing = own.filter { case (name, value) => !base.raw.get(name).contains(value) }
    SettingsForTasks(base.broadcast, differing, base.raw.keySet.diff(own.keySet))
  }

  private def raw(settings: Configuration): Map[String, String] =
    settings.iterator.asScala.map(entry => entry.getKey -> entry.getValue).toMap
}

/** Settings that a task makes again from those of the application. */
final case class SettingsForTasks(
    shared: Broadcast[SerializableConfiguration], differing: Map[String, String], absent: Set[String]) {

  def settings: Configuration = {
    val made = new Configuration(shared.value.value)
    absent.foreach(made.unset)
    differing.foreach { case (name, value) => made.set(name, value) }
    made
  }
}
