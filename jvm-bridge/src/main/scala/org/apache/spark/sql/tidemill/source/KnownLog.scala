package org.apache.spark.sql.tidemill.source

import java.io.FileNotFoundException

import org.apache.hadoop.fs.FileStatus

import org.apache.spark.sql.delta.{DeltaLog, Snapshot}
import org.apache.spark.sql.delta.actions.Action
import org.apache.spark.sql.delta.util.FileNames
import org.apache.spark.sql.tidemill.base.Files

/**
 * What the present snapshot of a Delta table tells about its log without a listing. Delta lists all of the log wherever
 * it looks for commits by version, and a log grows with each commit. The log may have been cleaned since the snapshot
 * was made, so each file that it names is looked at before it counts.
 */
private[source] class KnownLog(log: DeltaLog, snapshot: Snapshot) {
  private val base = snapshot.logSegment.checkpointProvider

  /** Commits after the checkpoint `base`; where Delta has put several into one file, that file does not count. */
  private val commits: Map[Long, FileStatus] =
    snapshot.logSegment.deltas.filter(FileNames.isDeltaFile(_)).map(f => FileNames.deltaVersion(f) -> f).toMap

  private def files(versions: Seq[Long]): Option[Seq[FileStatus]] =
    Option.when(versions.forall(commits.contains))(versions.map(commits))

  /** The actions of these commits; None if one of them is older than the checkpoint, or gone. */
  def read(versions: Seq[Long]): Option[Seq[(Long, Seq[Action])]] =
    files(versions).flatMap { found =>
      val conf = log.newDeltaHadoopConf()
      try Some(versions.zip(found.map(log.store.read(_, conf).map(Action.fromJson))))
      catch { case _: FileNotFoundException => None }
    }

  /** Whether the table as of `version` can surely be made again. */
  def recreatable(version: Long): Boolean =
    base.version <= version && files(base.version + 1 to version).exists { after =>
      Files.missing((base.topLevelFiles ++ after).map(_.getPath.toString), log.newDeltaHadoopConf()).isEmpty
    }
}
