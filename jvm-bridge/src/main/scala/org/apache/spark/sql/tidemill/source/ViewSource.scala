package org.apache.spark.sql.tidemill.source

import java.util.Locale

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.json4s._

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation, PartitionSpec}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.tidemill.base.{Errors, ExactFileIndex, Files, HadoopSettings, Json}
import org.apache.spark.sql.tidemill.view.{DeletionVector, FewRows, LiveRows, PublishedRuns, RowsInMemory, ViewLog}
import org.apache.spark.sql.types.{LongType, StructType}

/**
 * An incremental view that feeds another one. Position: {"run": n, "id": text}, the last run with output, read from the
 * view's log: what counts is the commit, not what plain readers see already.
 *
 * Of a log entry this reads: "output" (bool), "files" (live ones) and "delta" (null if the run knows no difference),
 * both lists of {"path", "bytes", "modified"}, of live files with "dv" (rows that have left, see [[DeletionVector]]),
 * "rows" (of the content, null if unknown), and "metrics"."rows_out". A value {"$in": name} lies in the file of that
 * name beside the entry.
 */
private[tidemill] object ViewSource extends Source {
  private val Definition = "_tidemill/view.json"
  private val Log = "_tidemill/log"

  def isView(files: HadoopFsRelation, root: Path): Boolean = {
    val conf = HadoopSettings.of(files.sparkSession)
    root.getFileSystem(conf).exists(new Path(root, Definition))
  }

  def describe(leaf: LogicalRelation, files: HadoopFsRelation): JValue = {
    val root = files.location.rootPaths.head
    val conf = HadoopSettings.of(files.sparkSession)
    JObject(
      "kind" -> Kind.View.json,
      "format" -> JString("parquet"),
      "name" -> JString(Source.nameOf(leaf, s"parquet.`$root`")),
      "id" -> JString(idOf(root, conf)),
      "path" -> JString(root.toString),
      "fields" -> Source.fieldsOf(leaf),
      "bytes" -> JLong(files.location.sizeInBytes),
      "rows" -> JNull,
      "partitions" -> Json.ofTexts(files.partitionSchema.fieldNames.toSeq),
      "location" -> JObject("root" -> JString(root.toString), "table" -> Source.tableOf(leaf.catalogTable)))
  }

  private def idOf(root: Path, conf: Configuration): String =
    Files.read(new Path(root, Definition), conf).map(Json.inFile(new Path(root, Definition), _)(Json.text(_, "id")))
      .getOrElse(root.toString)

  /**
   * Whether two entries' files have the same columns; their definitions tell, and one that VACUUM removed tells
   * nothing.
   */
  private def sameColumns(root: Path, one: JValue, other: JValue, conf: Configuration): Boolean =
    one \ "definition" == other \ "definition" || {
      val known = PublishedRuns.columns(root, one, conf)
      known.isDefined && known == PublishedRuns.columns(root, other, conf)
    }

  private def rootOf(session: SparkSession, source: JValue): Path =
    Source.tableIn(session, source).map(table => new Path(table.location))
      .getOrElse(new Path(Json.text(source \ "location", "root")))

  /** Its columns are those of the catalog's entry; `described` has the size of its content. */
  def holds(
      session: SparkSession, leaf: LogicalRelation, files: HadoopFsRelation, described: JValue, since: Long): Boolean =
    leaf.catalogTable.isDefined && {
      val (root, conf) = (files.location.rootPaths.head, HadoopSettings.of(session))
      val log = new ViewLog(root, conf)
      def size(entry: JValue): Long = filesOf(entry \ "files", root, conf).map(_.getLen).sum
      Json.text(described, "id") == idOf(root, conf) &&
      log.newest().exists { case (run, text) =>
        size(Json.inFile(log.path(run), text)(complete)) == Json.long(described, "bytes")
      }
    }

  /** A run with other columns than the catalog has is not read yet: see [[ReadPresentColumns]]. */
  def pin(session: SparkSession, source: JValue, since: Option[Long]): JValue = {
    val conf = HadoopSettings.of(session)
    val root = rootOf(session, source)
    val columns = Source.tableIn(session, source).filterNot(_.provider.contains("delta")).map(_.schema)
    val log = new ViewLog(root, conf)
    val newest = log.newest().map { case (run, text) => run -> Json.inFile(log.path(run), text)(complete) }
    if (newest.flatMap { case (_, entry) => Json.longOption(entry, "output_run") }.isEmpty)
      throw Errors.of("TIDEMILL_NOT_FILLED", Map("view" -> Json.text(source, "name")))
    val earlier = newest.iterator.flatMap { case (run, _) => Iterator.iterate(run - 1)(_ - 1).takeWhile(_ >= 0) }
      .map(run => log.entry(run).map(Json.inFile(log.path(run), _)(complete))).takeWhile(_.isDefined).flatten
    def fits(entry: JValue): Boolean =
      columns.forall(wanted => PublishedRuns.columns(root, entry, conf).exists(PublishedRuns.same(_, wanted)))
    (newest.iterator.map(_._2) ++ earlier).find(fits)
      .flatMap(entry => Json.longOption(entry, "output_run").map(_ -> Json.longOption(entry, "rows"))) match {
      case Some((run, rows)) =>
        JObject("run" -> JLong(run), "id" -> JString(idOf(root, conf)), "rows" -> Json.ofLong(rows))
      case None => throw PublishedRuns.changed(Json.text(source, "name"))
    }
  }

  /**
   * What is read of `entry` by a relation with the columns `schema` must have them: else they would come out as NULL.
   */
  private def check(
      leaf: LogicalRelation, files: HadoopFsRelation, root: Path, entry: JValue, conf: Configuration): Unit =
    for (has <- PublishedRuns.columns(root, entry, conf)) {
      val names = has.fieldNames.map(_.toLowerCase(Locale.ROOT)).toSet
      if (!files.schema.fieldNames.forall(name => names(name.toLowerCase(Locale.ROOT))))
        throw PublishedRuns.changed(Source.nameOf(leaf, s"parquet.`$root`"))
    }

  /** An entry of a log that has what is read of it. */
  private def complete(entry: JValue): JValue = {
    for (name <- Seq("output_run", "files", "metrics"))
      require((entry \ name) != JNothing, s"it does not tell '$name'")
    entry
  }

  private def entry(root: Path, run: Long, conf: Configuration): JValue = {
    val log = new ViewLog(root, conf)
    val text = log.entry(run).getOrElse(throw new java.io.FileNotFoundException(log.path(run).toString))
    Json.inFile(log.path(run), text)(complete)
  }

  /** `value`, or what the file beside the log's entries holds for it. */
  private def resolved(value: JValue, root: Path, conf: Configuration): JValue = value match {
    case JObject(List(("$in", JString(name)))) =>
      val path = new Path(root, s"$Log/$name")
      val text = Files.read(path, conf).getOrElse(throw new java.io.FileNotFoundException(path.toString))
      try Json.parse(text)
      catch { case NonFatal(wrong) => throw Errors.damaged(path, wrong) }
    case other => other
  }

  private def filesOf(value: JValue, root: Path, conf: Configuration): Seq[FileStatus] =
    itemsOf(value, root, conf).map { f =>
      new FileStatus(Json.long(f, "bytes"), false, 0, 0, Json.long(f, "modified"), new Path(Json.text(f, "path")))
    }

  private def itemsOf(value: JValue, root: Path, conf: Configuration): Seq[JValue] =
    resolved(value, root, conf) match {
      case JArray(items) => items
      case _ => Nil
    }

  /** The paths of live files, and of the files that tell which of their rows have left. */
  private def pathsOf(value: JValue, root: Path, conf: Configuration): Seq[String] =
    itemsOf(value, root, conf).flatMap { f =>
      new Path(Json.text(f, "path")).toString +: DeletionVector.of(f).map(v => new Path(v.path).toString).toSeq
    }.distinct

  /** Entries of the runs with output in (from, to]. */
  private def between(root: Path, from: JValue, to: JValue, conf: Configuration): Seq[JValue] = {
    val (first, last) = (Json.long(from, "run"), Json.long(to, "run"))
    ((first + 1) to last).map(entry(root, _, conf)).filter(Json.flag(_, "output"))
  }

  def summary(session: SparkSession, source: JValue, from: JValue, to: JValue): JValue = {
    val conf = HadoopSettings.of(session)
    val root = rootOf(session, source)
    if (from \ "id" != to \ "id") return Source.gone("SOURCE_REPLACED: another view under this name")
    val (first, last) = (Json.long(from, "run"), Json.long(to, "run"))
    if (last < first) return Source.gone(s"SOURCE_REPLACED: run $last after run $first")
    val log = new ViewLog(root, conf)
    if (Files.missing((first to last).map(log.path(_).toString), conf).nonEmpty || log.covered(first)) {
      return Source.gone("HISTORY_GONE: the view's log does not reach back that far")
    }
    val runs = between(root, from, to, conf)
    val full = runs.find(e => !Json.present(e \ "delta"))
    val deltas = runs.flatMap(e => filesOf(e \ "delta", root, conf))
    val (before, after) = (entry(root, first, conf), entry(root, last, conf))
    val old = pathsOf(before \ "files", root, conf)
    val now = pathsOf(after \ "files", root, conf).toSet
    val lostOld = Files.missing(old.filterNot(now), conf)
    val lostDelta = Files.missing(deltas.map(_.getPath.toString), conf)
    val reason = full.map(e => s"SOURCE_REWRITTEN: run ${Json.long(e, "run")} of the view was full")
      .orElse(lostDelta.headOption.map(p => s"HISTORY_GONE: '$p' is gone"))
      .orElse(runs.find(e => !sameColumns(root, e, after, conf))
          .map(e => s"SCHEMA_CHANGED: run ${Json.long(e, "run")} of the view has other columns"))
    def total(name: String): Option[Long] = {
      val known = runs.map(e => Json.longOption(e \ "metrics" \ "rows_out", name))
      if (known.forall(_.isDefined)) Some(known.flatten.sum) else None
    }
    val (inserts, deletes) = (total("inserts"), total("deletes"))
    JObject(
      "changed" -> JBool(full.isDefined || (deltas.nonEmpty && !(inserts.contains(0L) && deletes.contains(0L)))),
      "changes_readable" -> JBool(reason.isEmpty),
      // the columns of today do not read the content of yesterday's
      "old_readable" -> JBool(lostOld.isEmpty && sameColumns(root, before, after, conf)),
      "inserts" -> Json.ofLong(inserts),
      "deletes" -> Json.ofLong(deletes),
      "direct" -> JBool(runs.sizeIs <= 1),
      "bytes" -> JLong(deltas.map(_.getLen).sum),
      "reason" -> Json.of(reason))
  }

  def snapshot(session: SparkSession, leaf: LogicalRelation, files: HadoopFsRelation, position: JValue): LogicalPlan = {
    val conf = HadoopSettings.of(session)
    val (listed, vectors) = content(leaf, files, position, conf)
    // what still had the table's name would be bound to its newest run: see ReadNewestRun
    val relation =
      leaf.copy(relation = reading(session, files, listed, files.schema), catalogTable = None).newInstance()
    LiveRows.of(relation, vectors, conf)
  }

  override def inMemory(
      session: SparkSession, leaf: LogicalRelation, files: HadoopFsRelation, position: JValue): Option[LogicalPlan] = {
    val (listed, vectors) = content(leaf, files, position, HadoopSettings.of(session))
    Option.when(vectors.forall(_._2.isEmpty))(listed.map(_.getPath.toString))
      .flatMap(RowsInMemory.of(_, files.schema))
      .map(FewRows.relation(_, files.schema))
  }

  /** The files of the content at a position; by path the rows of each that have left. */
  private def content(leaf: LogicalRelation, files: HadoopFsRelation, position: JValue, conf: Configuration)
      : (Seq[FileStatus], Seq[(String, Option[DeletionVector])]) = {
    val root = files.location.rootPaths.head
    val run = entry(root, Json.long(position, "run"), conf)
    check(leaf, files, root, run, conf)
    val vectors = itemsOf(run \ "files", root, conf).map(f => Json.text(f, "path") -> DeletionVector.of(f))
    (filesOf(run \ "files", root, conf), vectors)
  }

  def changes(
      session: SparkSession, leaf: LogicalRelation, files: HadoopFsRelation, fields: Seq[String],
      from: JValue, to: JValue): LogicalPlan = {
    val conf = HadoopSettings.of(session)
    val root = files.location.rootPaths.head
    val runs = between(root, from, to, conf)
    runs.lastOption.foreach(check(leaf, files, root, _, conf))
    val listed = runs.flatMap(e => filesOf(e \ "delta", root, conf))
    val count = SignedRows.countOf(files.schema.fieldNames.toSeq)
    val relation = reading(session, files, listed, files.schema.add(count, LongType, nullable = false))
    val plan = LogicalRelation(relation)
    if (listed.isEmpty) SignedRows.nothing(plan, fields)
    else
      RowsInMemory.of(listed.map(_.getPath.toString), relation.schema).map(SignedRows.unit(_, fields, count)).getOrElse(
        SignedRows.unit(plan, SignedRows.pick(plan, fields), SignedRows.pick(plan, Seq(count)).head))
  }

  private def reading(
      session: SparkSession, files: HadoopFsRelation, listed: Seq[FileStatus], schema: StructType): HadoopFsRelation = {
    // A view's files hold its partition columns too, so that one reading fits content and changes.
    val index = new ExactFileIndex(session, files.location.rootPaths, listed, Map.empty, PartitionSpec.emptySpec)
    HadoopFsRelation(index, new StructType, schema, None, new ParquetFileFormat, Map.empty)(session)
  }
}
