package org.apache.spark.sql.tidemill.source

import java.util.Locale

import org.apache.hadoop.fs.Path
import org.json4s._

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.delta.{DeltaColumnMapping, DeltaConfigs, DeltaLog, Snapshot}
import org.apache.spark.sql.delta.actions.AddFile
import org.apache.spark.sql.delta.commands.cdc.CDCReader
import org.apache.spark.sql.delta.files.TahoeLogFileIndex
import org.apache.spark.sql.delta.sources.DeltaSQLConf
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.tidemill.base.Json
import org.apache.spark.sql.types.StructType

/**
 * Delta tables. Position: {"version": n, "id": table id, "bytes", "rows" and "file_count": number or null, "columns":
 * {field: physical name and type}}; a column that was dropped and added again has its old name and type, but another
 * physical name. Loaded only where a relation is Delta's.
 */
private[tidemill] object DeltaSource extends Source {
  /** Files of a table for each task of a replay of its log. */
  private val FilesPerTask = 10000

  /** The number of tasks that Delta takes for any table. */
  private val MostTasks = 50L

  /** Why this relation of Delta cannot be followed. */
  def fixed(files: HadoopFsRelation): Option[String] = files.location match {
    case index: TahoeLogFileIndex if index.isTimeTravelQuery => Some("a fixed version of a Delta table")
    case index: TahoeLogFileIndex if index.partitionFilters.nonEmpty =>
      Some("a path to some partitions of a Delta table")
    case _: TahoeLogFileIndex => None
    case other => Some(s"a Delta relation over ${other.getClass.getSimpleName}")
  }

  private val ofChanges = CDCReader.cdcReadSchema(new StructType()).fieldNames

  /** Why Delta's reader cannot tell the changes of a table of such columns. */
  def untold(columns: Seq[String]): Option[String] =
    columns.find(name => ofChanges.exists(_.equalsIgnoreCase(name))).map(name =>
      s"a Delta table whose column $name has a name that Delta's reader of changes gives to one of its own")

  def describe(leaf: LogicalRelation, files: HadoopFsRelation): JValue = {
    val index = files.location.asInstanceOf[TahoeLogFileIndex]
    val snapshot = index.snapshotAtAnalysis // the present one would take a listing of the log, and `pin` takes that
    JObject(
      "kind" -> Kind.Delta.json,
      "format" -> JString("delta"),
      "name" -> JString(Source.nameOf(leaf, s"delta.`${index.path}`")),
      "id" -> JString(snapshot.metadata.id),
      "path" -> JString(index.path.toString),
      "fields" -> Source.fieldsOf(leaf),
      "bytes" -> Json.ofLong(sizeOf(snapshot)),
      "rows" -> Json.ofLong(leaf.catalogTable.flatMap(_.stats).flatMap(_.rowCount).map(_.toLong)),
      "partitions" -> Json.ofTexts(snapshot.metadata.partitionColumns),
      "feed" -> JBool(CDCReader.isCDCEnabledOnTable(snapshot.metadata, files.sparkSession)),
      "retention_ms" -> JLong(Seq(DeltaConfigs.TOMBSTONE_RETENTION, DeltaConfigs.LOG_RETENTION)
          .map(c => DeltaConfigs.getMilliSeconds(c.fromMetaData(snapshot.metadata))).min),
      "location" -> JObject("root" -> JString(index.path.toString), "table" -> Source.tableOf(leaf.catalogTable)))
  }

  private def sizeOf(snapshot: Any): Option[Long] = snapshot match {
    case s: Snapshot => s.checksumOpt.map(_.tableSizeBytes) // else it would take a job over the whole log
    case _ => None
  }

  /** The files of a snapshot where the version's checksum lists them, as it does up to some dozens; a job otherwise. */
  private def listed(snapshot: Snapshot): Option[Seq[AddFile]] = snapshot.checksumOpt.flatMap(_.allFiles)

  private def rowsOf(snapshot: Snapshot): Option[Long] =
    listed(snapshot).map(_.map(_.numLogicalRecords)).filter(_.forall(_.isDefined)).map(_.flatten.sum)

  private def logOf(session: SparkSession, source: JValue, table: Option[CatalogTable]): DeltaLog = table match {
    case Some(found) => DeltaLog.forTable(session, found)
    case None => DeltaLog.forTable(session, new Path(Json.text(source \ "location", "root")))
  }

  def holds(session: SparkSession, leaf: LogicalRelation, files: HadoopFsRelation, described: JValue, since: Long)
      : Boolean = {
    val before = files.location.asInstanceOf[TahoeLogFileIndex].snapshotAtAnalysis
    val now = logOf(files).update(checkIfUpdatedSinceTs = Some(since), catalogTableOpt = leaf.catalogTable)
    now.metadata == before.metadata && now.protocol == before.protocol
  }

  def pin(session: SparkSession, source: JValue, since: Option[Long]): JValue = {
    val table = Source.tableIn(session, source)
    val snapshot = logOf(session, source, table).update(checkIfUpdatedSinceTs = since, catalogTableOpt = table)
    JObject(
      "version" -> JLong(snapshot.version),
      "id" -> JString(snapshot.metadata.id),
      "bytes" -> Json.ofLong(sizeOf(snapshot)),
      "rows" -> Json.ofLong(rowsOf(snapshot)),
      "file_count" -> Json.ofLong(snapshot.checksumOpt.map(_.numFiles)),
      "columns" -> Json.ofMap(columnsOf(snapshot.metadata.schema, namesOf(Json.items(source, "fields")))))
  }

  private def columnsOf(schema: StructType, used: Set[String]): Map[String, String] =
    schema.zip(DeltaColumnMapping.renameColumns(schema)).collect {
      case (field, stored) if used(field.name.toLowerCase(Locale.ROOT)) =>
        field.name -> s"${stored.name} ${stored.dataType.catalogString}"
    }.toMap

  private def namesOf(fields: Seq[JValue]): Set[String] =
    fields.collect { case JArray(JString(name) :: _) => name.toLowerCase(Locale.ROOT) }.toSet

  /** As for all; `inserts` and `deletes` count rows where file statistics or commit metrics tell them all. */
  def summary(session: SparkSession, source: JValue, from: JValue, to: JValue): JValue = {
    lazy val table = Source.tableIn(session, source)
    lazy val log = logOf(session, source, table)
    val (first, last) = (Json.long(from, "version"), Json.long(to, "version"))
    // a column that the present table lacks is not used, or analysis had failed
    val used = namesOf(Json.items(source, "fields"))
    val (before, now) = (Json.textMap(from, "columns"), Json.textMap(to, "columns"))
    val asked = before.keys.filter(name => used(name.toLowerCase(Locale.ROOT)))
    def other(columns: Map[String, String]): Option[String] =
      asked.filter(name => before(name) != columns.getOrElse(name, "")).minOption
    // where names are mapped, a column that goes by another name for a while is stored as it was
    def gone(schema: StructType): Option[String] = {
      val stored = columnsOf(schema, schema.fieldNames.map(_.toLowerCase(Locale.ROOT)).toSet).values.toSet
      asked.filter(name => !stored(before(name))).minOption
    }
    if (from \ "id" != to \ "id" || last < first) Source.gone("SOURCE_REPLACED: another table under this name")
    else other(now) match {
      case Some(name) => Source.gone(s"SCHEMA_CHANGED: column $name is not what it was")
      case None if first == last => DeltaChanges.nothing
      case None => DeltaChanges.summary(session, log, table, Json.text(to, "id"), first, last, gone)
    }
  }

  def snapshot(session: SparkSession, leaf: LogicalRelation, files: HadoopFsRelation, position: JValue): LogicalPlan = {
    val log = logOf(files)
    val at = log.getSnapshotAt(Json.long(position, "version"), catalogTableOpt = leaf.catalogTable)
    val relation = listed(at) match {
      // Delta's own index asks the log for the files with a job or two, at each scan.
      case Some(present) =>
        KnownFiles.relation(session, present, log, at, 0, at.version)
      case None =>
        fitReplay(session, at)
        log.createRelation(snapshotToUseOpt = Some(at), catalogTableOpt = leaf.catalogTable, isTimeTravelQuery = true)
    }
    LogicalRelation(relation)
  }

  /**
   * Makes Delta plan the replay of its log up to this version with few tasks, if the table has few files: its usual
   * number costs seconds. Delta keeps that plan with the version. A number that the user has set stays.
   */
  private def fitReplay(session: SparkSession, at: Snapshot): Unit = {
    val conf = session.sessionState.conf
    val tasks = DeltaSQLConf.DELTA_SNAPSHOT_PARTITIONS
    for (known <- at.checksumOpt if !conf.contains(tasks.key)) {
      val fitting = math.min(1 + known.numFiles / FilesPerTask, MostTasks)
      conf.setConfString(tasks.key, fitting.toString)
      try at.stateDF
      finally conf.unsetConf(tasks.key)
    }
  }

  def changes(
      session: SparkSession, leaf: LogicalRelation, files: HadoopFsRelation, fields: Seq[String],
      from: JValue, to: JValue): LogicalPlan = {
    val log = logOf(files)
    val (first, last) = (Json.long(from, "version"), Json.long(to, "version"))
    val at = log.getSnapshotAt(last, catalogTableOpt = leaf.catalogTable)
    new DeltaChanges(session, log, leaf.catalogTable, at, first, last).plan(fields)
      .getOrElse(SignedRows.nothing(leaf, fields))
  }

  private def logOf(files: HadoopFsRelation): DeltaLog = files.location.asInstanceOf[TahoeLogFileIndex].deltaLog
}
