package org.apache.spark.sql.tidemill.source

import java.util.{LinkedHashMap => JLinkedHashMap, Map => JMap}

import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.delta.actions.{Action, AddCDCFile, AddFile, CommitInfo, FileAction, RemoveFile}
import org.apache.spark.sql.delta.commands.cdc.CDCReader

/** The file actions of one commit that change data. Commits that only lay data out anew (OPTIMIZE) have none. */
private[tidemill] final case class DeltaCommit(version: Long, actions: Seq[Action]) {
  val added: Seq[AddFile] = actions.collect { case a: AddFile if a.dataChange => a }
  val removed: Seq[RemoveFile] = actions.collect { case r: RemoveFile if r.dataChange => r }
  val feed: Seq[AddCDCFile] = actions.collect { case c: AddCDCFile => c }
  val info: Option[CommitInfo] = actions.collectFirst { case c: CommitInfo => c }

  /** A MERGE may rewrite files without changing a row, and marks them as changed data all the same. */
  val changes: Boolean =
    (added.nonEmpty || removed.nonEmpty || feed.nonEmpty) && !info.exists(CDCReader.shouldSkipFileActionsInCommit)

  /** Whether rows were carried over into new files, so that most of what is removed comes back. */
  val rewrites: Boolean = {
    val paths = added.map(_.path).toSet
    val gone = removed.filterNot(r => paths(r.path)) // same path: only the deletion vector differs
    gone.nonEmpty && added.exists(a => !removed.exists(_.path == a.path))
  }

  /** Whether the commit does nothing but add files of which all rows count. */
  val appends: Boolean = removed.isEmpty && feed.isEmpty && added.forall(_.deletionVector == null)

  private def metric(name: String): Option[Long] =
    info.flatMap(_.operationMetrics).flatMap(_.get(name)).flatMap(_.toLongOption)

  /** Rows inserted and deleted, as far as the commit's own records tell. */
  def counts: (Option[Long], Option[Long]) = info.map(_.operation) match {
    case Some("DELETE") if metric("numDeletedRows").isDefined => (Some(0L), metric("numDeletedRows"))
    case Some("UPDATE") if metric("numUpdatedRows").isDefined => (metric("numUpdatedRows"), metric("numUpdatedRows"))
    case Some("MERGE") if metric("numTargetRowsUpdated").isDefined =>
      def sum(name: String): Option[Long] = for (a <- metric("numTargetRowsUpdated"); b <- metric(name)) yield a + b
      (sum("numTargetRowsInserted"), sum("numTargetRowsDeleted"))
    case _ =>
      def total(known: Seq[Option[Long]]): Option[Long] =
        if (known.forall(_.isDefined)) Some(known.flatten.sum) else None
      def logical(a: FileAction): Option[Long] = a match {
        case add: AddFile => add.numLogicalRecords
        case remove: RemoveFile => remove.numLogicalRecords
        case _ => None
      }
      (total(added.map(logical)), total(removed.map(logical)))
  }

  def bytes: Long = if (feed.nonEmpty) feed.map(_.size).sum else added.map(_.size).sum + removed.flatMap(_.size).sum
}

/** Commits that were read lately, by table and version: a commit that is there never changes. */
private[source] final class CommitsLately {
  private type Key = (String, String, Long)

  private val kept = new JLinkedHashMap[Key, DeltaCommit](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[Key, DeltaCommit]): Boolean = size > CommitsLately.Most
  }

  def add(log: DeltaLog, table: String, commits: Seq[DeltaCommit]): Unit = kept.synchronized {
    for (c <- commits if c.actions.lengthIs <= CommitsLately.MostActions) kept.put(key(log, table, c.version), c)
  }

  /** The commits of these versions, if all are known. */
  def all(log: DeltaLog, table: String, versions: Seq[Long]): Option[Seq[DeltaCommit]] = kept.synchronized {
    val found = versions.map(v => Option(kept.get(key(log, table, v))))
    Option.when(found.forall(_.isDefined))(found.flatten)
  }

  private def key(log: DeltaLog, table: String, version: Long): Key = (log.dataPath.toString, table, version)
}

private object CommitsLately {
  private val Most = 256
  private val MostActions = 1000
}
