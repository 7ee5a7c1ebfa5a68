package org.apache.spark.sql.tidemill.source

import org.json4s._

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.{Alias, EqualTo, If, In, Literal, NamedExpression, Not, RowOrdering}
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Filter, LogicalPlan, Project, Union}
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.classic.ClassicConversions._
import org.apache.spark.sql.delta.{DeltaLog, Snapshot}
import org.apache.spark.sql.delta.actions.{Action, CommitInfo, FileAction, Metadata, RemoveFile}
import org.apache.spark.sql.delta.commands.cdc.CDCReader
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.tidemill.base.{Files, HadoopSettings, Json}
import org.apache.spark.sql.types.StructType

/**
 * The changes of a Delta table after version `from` up to `to`, read commit by commit with Delta's own reader of change
 * data: from the change data feed where a commit wrote one, else from the files it added and removed, where of a file
 * whose deletion vector alone changed only the rows in the difference are read.
 */
private[tidemill] class DeltaChanges(
    session: SparkSession, log: DeltaLog, table: Option[CatalogTable], at: Snapshot, from: Long, to: Long) {

  private val feedOn = CDCReader.isCDCEnabledOnTable(at.metadata, session)
  private val commits = DeltaChanges.again(log, table, at.metadata.id, from, to).filter(_.changes)

  /** Columns `fields`, then the count; None if nothing changed. */
  def plan(fields: Seq[String]): Option[LogicalPlan] = {
    // a table whose feed was switched off again refuses to read the old one: take the files then
    val (fed, others) = commits.partition(c => c.feed.nonEmpty && feedOn)
    val (rewritten, rest) = others.partition(c => c.rewrites && !feedOn)
    val (appends, plain) = rest.partition(_.appends)
    val parts =
      appended(appends).map(SignedRows.inserted(_, fields)) ++
        read(fed, fromFiles = false).map(signed(_, fields)) ++
        read(plain, fromFiles = true).map(signed(_, fields)) ++
        read(rewritten, fromFiles = true).map(netted(_, fields))
    parts.toSeq match {
      case Seq() => None
      case Seq(one) => Some(one)
      case several => Some(Union(several))
    }
  }

  /** Delta's own reader takes some 20 milliseconds to plan what it reads. */
  private def appended(part: Seq[DeltaCommit]): Option[LogicalPlan] =
    Option.when(part.nonEmpty) {
      val (first, last) = (part.head.version, part.last.version)
      LogicalRelation(KnownFiles.relation(session, part.flatMap(_.added), log, at, first, last))
    }

  private def read(part: Seq[DeltaCommit], fromFiles: Boolean): Option[LogicalPlan] =
    if (part.isEmpty) None
    else {
      val changes = part.iterator.map { c =>
        // changes of schema and protocol are judged by what the query uses, not by Delta's rules for whole tables
        (c.version, c.actions.collect { case a @ (_: FileAction | _: CommitInfo) => a: Action })
      }
      val read = CDCReader.changesToDF(
        at, part.head.version, part.last.version, changes, session, table,
        useCoarseGrainedCDC = fromFiles, startVersionSnapshot = Some(at))
      Some(KnownFiles.ofFeed(session, read.fileChangeDf.queryExecution.analyzed, log, at))
    }

  private def sign(plan: LogicalPlan): If = {
    val kind = SignedRows.pick(plan, Seq(CDCReader.CDC_TYPE_COLUMN_NAME)).head
    val plus = Seq(CDCReader.CDC_TYPE_INSERT, CDCReader.CDC_TYPE_UPDATE_POSTIMAGE).map(Literal(_))
    If(In(kind, plus), Literal(1L), Literal(-1L))
  }

  private def signed(plan: LogicalPlan, fields: Seq[String]): LogicalPlan =
    Project(SignedRows.pick(plan, fields) :+ Alias(sign(plan), SignedRows.Count)(), plan)

  /** As `signed`, without the rows that a commit took out and put back, where Spark can group by the columns. */
  private def netted(plan: LogicalPlan, fields: Seq[String]): LogicalPlan = {
    val columns = SignedRows.pick(plan, fields)
    if (!columns.forall(c => RowOrdering.isOrderable(c.dataType) && UnsafeRowUtils.isBinaryStable(c.dataType)))
      signed(plan, fields)
    else {
      val version = SignedRows.pick(plan, Seq(CDCReader.CDC_COMMIT_VERSION)).head
      val one = Alias(sign(plan), SignedRows.Count)()
      val rows = Project((columns: Seq[NamedExpression]) :+ version :+ one, plan)
      val total = Alias(Sum(one.toAttribute).toAggregateExpression(), SignedRows.Count)()
      val groups = Aggregate(columns :+ version, (columns: Seq[NamedExpression]) :+ total, rows)
      val net = Filter(Not(EqualTo(total.toAttribute, Literal(0L))), groups)
      SignedRows.unit(net, columns, total.toAttribute)
    }
  }
}

private[tidemill] object DeltaChanges {
  /** Commits after `from` up to `to`, oldest first, read from the log by the driver. */
  private def commits(
      log: DeltaLog, table: Option[CatalogTable], id: String, from: Long, to: Long): Seq[DeltaCommit] =
    if (from >= to) Nil
    else
      known(log, id).flatMap(_.read((from + 1) to to)).getOrElse(log.getChanges(from + 1, to, table, true).toSeq)
        .map((DeltaCommit.apply _).tupled)

  /** The same; those that the summary of a run has read are not read again by each of its steps. */
  private def again(log: DeltaLog, table: Option[CatalogTable], id: String, from: Long, to: Long): Seq[DeltaCommit] =
    lately.all(log, id, (from + 1) to to).getOrElse(commits(log, table, id, from, to))

  /** What is known of the log; None if another table has taken the place of the one with this id. */
  private def known(log: DeltaLog, id: String): Option[KnownLog] = {
    val present = log.unsafeVolatileSnapshot
    Option.when(present.metadata.id == id)(new KnownLog(log, present))
  }

  private val lately = new CommitsLately

  /** The summary of a table that stands where it stood. */
  val nothing: JValue = JObject(
    "changed" -> JBool(false), "changes_readable" -> JBool(true), "old_readable" -> JBool(true),
    "inserts" -> JLong(0L), "deletes" -> JLong(0L), "direct" -> JBool(true), "bytes" -> JLong(0L), "files" -> JLong(0L),
    "reason" -> JNull)

  /** `id`: of the table. `other`: the column of a schema that is not what it is before and after, if there is one. */
  def summary(
      session: SparkSession, log: DeltaLog, table: Option[CatalogTable], id: String, from: Long, to: Long,
      other: StructType => Option[String]): JValue = {
    val found =
      try {
        val read = commits(log, table, id, from, to)
        lately.add(log, id, read)
        read
      } catch { case e: Exception if !e.isInstanceOf[InterruptedException] => return Source.gone(lost(e.getMessage)) }
    if (found.map(_.version) != ((from + 1) to to))
      return Source.gone(lost(s"not all commits after version $from are there"))
    val conf = HadoopSettings.of(session)
    val changing = found.filter(_.changes)
    // what lives on in the new snapshot is there; only what the range itself removed may have been vacuumed
    val removed = found.flatMap(_.actions.collect { case r: RemoveFile => r.absolutePath(log).toString })
    val feed = changing.flatMap(_.feed.map(f => f.absolutePath(log).toString))
    val missing = Files.missing((removed ++ feed).distinct, conf).toSet
    val read = changing.flatMap { c =>
      if (c.feed.nonEmpty) c.feed.map(f => f.absolutePath(log).toString)
      else c.added.map(_.absolutePath(log).toString) ++ c.removed.map(_.absolutePath(log).toString)
    }
    val unreadable = read.find(missing)
    // Commits in between wrote and removed files with other columns: what they changed cannot be told in these.
    val meanwhile = found.flatMap(_.actions.collect { case m: Metadata => m.schema }).flatMap(other(_)).headOption
    val reason = meanwhile.map(name => s"SCHEMA_CHANGED: column $name was another one in between")
      .orElse(unreadable.map(path => lost(s"'$path' is gone")))
    val counts = changing.map(_.counts)
    def total(known: Seq[Option[Long]]): Option[Long] = if (known.forall(_.isDefined)) Some(known.flatten.sum) else None
    JObject(
      "changed" -> JBool(changing.nonEmpty),
      "changes_readable" -> JBool(reason.isEmpty),
      "old_readable" -> JBool(!removed.exists(missing) && recreatable(log, table, id, from)),
      "inserts" -> Json.ofLong(total(counts.map(_._1))),
      "deletes" -> Json.ofLong(total(counts.map(_._2))),
      "direct" -> JBool(direct(changing)),
      "bytes" -> JLong(changing.map(_.bytes).sum),
      "files" -> JLong(changing.map(_.added.size).sum.toLong),
      "reason" -> Json.of(reason))
  }

  /**
   * Whether no commit deletes rows after an earlier one has inserted some, and none carries rows over into new files.
   */
  private def direct(changing: Seq[DeltaCommit]): Boolean = {
    val afterInsert = changing.dropWhile(_.counts._1.contains(0L)).drop(1)
    changing.forall(c => c.feed.nonEmpty || !c.rewrites) && afterInsert.forall(_.counts._2.contains(0L))
  }

  private def lost(text: String): String = s"HISTORY_GONE: $text"

  private def recreatable(log: DeltaLog, table: Option[CatalogTable], id: String, version: Long): Boolean =
    known(log, id).exists(_.recreatable(version)) || listed(log, table, version)

  private def listed(log: DeltaLog, table: Option[CatalogTable], version: Long): Boolean =
    try {
      log.history.checkVersionExists(version, table, true, false)
      true
    } catch { case e: Exception if !e.isInstanceOf[InterruptedException] => false }
}
