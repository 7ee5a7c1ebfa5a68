package org.apache.spark.sql.tidemill.view

import java.util.Locale

import scala.annotation.tailrec

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.tidemill.base.Files

/**
 * The log of an incremental view, for reading: entries `_tidemill/log/<run>.json`, checkpoints
 * `_tidemill/checkpoints/<n>.json`, each in place of `Span` entries, and the hint `_tidemill/log/newest`; numbers have
 * 20 digits. What they mean and who writes them: `tidemill.runtime.storage.log`.
 */
private[tidemill] final class ViewLog(location: Path, conf: Configuration) {
  import ViewLog._

  private val folder = new Path(location, "_tidemill/log")
  private val checkpoints = new Path(location, "_tidemill/checkpoints")
  private val fs = location.getFileSystem(conf)

  /** The last committed run and the text of its entry; None if nothing was committed. */
  def newest(): Option[(Long, String)] = search(hinted.orElse(listed), Attempts)

  /** The text of an entry, None if there is no such file. */
  def entry(run: Long): Option[String] = Files.read(path(run), conf)

  def path(run: Long): Path = numbered(folder, run)

  /** Whether a checkpoint stands for the run: whatever lies under its number counts no more. */
  def covered(run: Long): Boolean = fs.exists(numbered(checkpoints, run / Span))

  /**
   * Upwards from `start` to the last entry. An entry that is not there was never written, or it was removed, and then
   * the checkpoint that covers it was there before: so it is looked for afterwards.
   */
  @tailrec private def search(start: Option[Long], attempts: Int): Option[(Long, String)] = start match {
    case None => None
    case Some(run) =>
      val last = Iterator.iterate(run)(_ + 1).find(n => !fs.exists(path(n + 1))).get
      val text = entry(last)
      if (text.isDefined && !covered(last + 1)) text.map(last -> _)
      else if (attempts == 0) throw new IllegalStateException(s"the log at '$folder' changes too fast, or is damaged")
      else search(listed, attempts - 1)
  }

  private def hinted: Option[Long] =
    Files.read(new Path(folder, "newest"), conf).filter(_.matches("\\d{1,18}")).map(_.toLong)

  private def listed: Option[Long] =
    Files.list(folder, conf).map(_.getPath.getName).collect { case Entry(run) =>
      run.toLong
    }.maxOption
}

private[tidemill] object ViewLog {
  /** Runs that one checkpoint covers. */
  val Span = 1000L

  private val Attempts = 100
  private val Entry = raw"(\d{20})\.json".r

  /** The file of a number in a folder of numbered files. */
  def numbered(folder: Path, number: Long): Path = new Path(folder, s"${"%020d".formatLocal(Locale.ROOT, number)}.json")
}
