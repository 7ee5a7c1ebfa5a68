package org.apache.spark.sql.tidemill.source

import org.json4s._

import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.plans.logical.{
  LeafNode, LocalRelation, LogicalPlan, OneRowRelation, Project, Range
}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.streaming.runtime.MetadataLogFileIndex
import org.apache.spark.sql.tidemill.base.{Files, Json}
import org.apache.spark.sql.tidemill.view.ViewFileIndex

/**
 * Leaves of queries as sources: what they are, how far they have got, their content at a position, and their changes
 * between two.
 *
 * The kinds are given here by name, so that classes of Delta are loaded only for Delta's relations.
 */
object Sources {
  /** The source entry of the query document for the leaf `relation`. */
  def describe(relation: LogicalPlan): JValue = relation match {
    case leaf @ LogicalRelation(files: HadoopFsRelation, _, _, _, _) =>
      of(leaf, files).fold(static(leaf, _), _.describe(leaf, files))
    case leaf => static(leaf, s"${leaf.nodeName} cannot tell changes")
  }

  /**
   * The leaf at `position`: output = `fields` in this order. Null as position: as the leaf itself reads. `memory`: rows
   * that are known in memory need not be read from files.
   */
  def snapshot(
      session: SparkSession, relation: LogicalPlan, fields: Seq[String], position: JValue, memory: Boolean)
      : LogicalPlan = {
    def at(source: Source, leaf: LogicalRelation, files: HadoopFsRelation): LogicalPlan =
      Option.when(memory)(source.inMemory(session, leaf, files, position)).flatten
        .getOrElse(source.snapshot(session, leaf, files, position))
    val plan = relation match {
      case leaf @ LogicalRelation(files: HadoopFsRelation, _, _, _, _) if Json.present(position) =>
        of(leaf, files).fold(_ => fresh(leaf), at(_, leaf, files))
      case leaf => fresh(leaf)
    }
    Project(SignedRows.pick(plan, fields), plan)
  }

  /**
   * What changed after `from` up to `to`: output = `fields`, then `_n`, a bigint of 1 or -1. Rows may cancel each
   * other.
   */
  def changes(
      session: SparkSession, relation: LogicalPlan, fields: Seq[String], from: JValue, to: JValue): LogicalPlan =
    relation match {
      case leaf @ LogicalRelation(files: HadoopFsRelation, _, _, _, _) => of(leaf, files) match {
          case Right(source) => source.changes(session, leaf, files, fields, from, to)
          case Left(reason) => throw new UnsupportedOperationException(reason)
        }
      case leaf => throw new UnsupportedOperationException(s"${leaf.nodeName} cannot tell changes")
    }

  /** Whether an analysis would make the same of a leaf that `describe` gave; see [[Source.holds]]. */
  def holds(session: SparkSession, leaf: LogicalRelation, described: JValue, since: Long): Boolean =
    leaf.relation match {
      case files: HadoopFsRelation => of(leaf, files).exists(_.holds(session, leaf, files, described, since))
      case _ => false
    }

  /**
   * The present position of the source that `describe` gave, or one of `since` or later; null for static ones. `now`:
   * what the clock shows.
   */
  def pin(session: SparkSession, source: JValue, now: Long, since: Option[Long]): JValue = Kind.of(source) match {
    case Kind.Clock => ClockSource.pin(source, now)
    case kind => of(kind).fold[JValue](JNull)(_.pin(session, source, since))
  }

  /** See [[Source.counted]]. */
  def counted(session: SparkSession, source: JValue, from: JValue, position: JValue): JValue =
    of(Kind.of(source)).fold(position)(_.counted(session, source, from, position))

  /** See [[Source.summary]]; null for static ones. */
  def summary(session: SparkSession, source: JValue, from: JValue, to: JValue): JValue =
    of(Kind.of(source)).fold[JValue](JNull)(_.summary(session, source, from, to))

  private def of(kind: Kind): Option[Source] = kind match {
    case Kind.Files => Some(FileSource)
    case Kind.Delta => Some(DeltaSource)
    case Kind.View => Some(ViewSource)
    case Kind.Static | Kind.Clock => None
  }

  /** What answers for the leaf, else the reason why it cannot be followed. */
  private def of(leaf: LogicalRelation, files: HadoopFsRelation): Either[String, Source] = {
    val index = files.location
    if (leaf.isStreaming) Left("a stream has no snapshots")
    else if (Files.ofDelta(files)) DeltaSource.fixed(files) match {
      case Some(reason) => Left(reason)
      case None if ViewSource.isView(files, index.rootPaths.head) => Right(ViewSource)
      case None =>
        val columns = files.dataSchema.fieldNames.toSeq ++ files.partitionSchema.fieldNames
        DeltaSource.untold(columns).toLeft(DeltaSource)
    }
    else index match {
      case _: ViewFileIndex => Right(ViewSource)
      case sink: MetadataLogFileIndex if ViewSource.isView(files, sink.rootPaths.head) => Right(ViewSource)
      case _ => Right(FileSource)
    }
  }

  private def static(leaf: LogicalPlan, reason: String): JValue = {
    val constant = leaf match {
      case _: LocalRelation | _: Range | _: OneRowRelation => true
      case _ => false
    }
    val table = leaf match {
      case relation: LogicalRelation => relation.catalogTable.map(_.identifier.unquotedString)
      case _ => None
    }
    JObject(
      "kind" -> Kind.Static.json, "format" -> JString(leaf.nodeName), "name" -> JString(table.getOrElse(leaf.nodeName)),
      "id" -> JNull, "path" -> JNull, "fields" -> Source.fieldsOf(leaf), "bytes" -> JNull, "rows" -> JNull,
      "partitions" -> JArray(Nil), "location" -> JNull, "constant" -> JBool(constant),
      "reason" -> JString(if (constant) "a constant never changes" else reason))
  }

  private def fresh(leaf: LogicalPlan): LogicalPlan = leaf match {
    case relation: LogicalRelation => relation.newInstance()
    case other: LeafNode with MultiInstanceRelation => other.newInstance()
    case other => other
  }
}
