package org.apache.spark.sql.tidemill.source

import org.json4s._

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.tidemill.base.Json

/** The kinds of sources, by their names in the query document. */
private[tidemill] sealed abstract class Kind(val name: String) {
  def json: JValue = JString(name)
}

private[tidemill] object Kind {
  /** Tables and paths of a file format. */
  case object Files extends Kind("files")
  case object Delta extends Kind("delta")
  /** An upstream incremental view. */
  case object View extends Kind("view")
  /** All others: they have no position and are read as they are. */
  case object Static extends Kind("static")

  /** The clock of a query that reads it; see [[ClockSource]]. */
  case object Clock extends Kind("clock")

  /** The kind of a source entry. */
  def of(source: JValue): Kind = {
    val name = Json.text(source, "kind")
    Seq(Files, Delta, View, Static, Clock).find(_.name == name)
      .getOrElse(throw new IllegalArgumentException(s"unknown kind of source '$name'"))
  }
}

/** What is asked of a kind of source that has positions. A `leaf` reads `files`; a `source` is what `describe` gave. */
private[tidemill] trait Source {
  /** The source entry of the query document. */
  def describe(leaf: LogicalRelation, files: HadoopFsRelation): JValue

  /** The content at `position`. */
  def snapshot(session: SparkSession, leaf: LogicalRelation, files: HadoopFsRelation, position: JValue): LogicalPlan

  /** The same rows, if all of them are in this process's memory: for steps, never for whoever judges files. */
  def inMemory(
      session: SparkSession, leaf: LogicalRelation, files: HadoopFsRelation, position: JValue): Option[LogicalPlan] =
    None

  /** What changed after `from` up to `to`: output = `fields`, then the count. */
  def changes(
      session: SparkSession, leaf: LogicalRelation, files: HadoopFsRelation, fields: Seq[String],
      from: JValue, to: JValue): LogicalPlan

  /**
   * Whether the leaf, whose catalog entry is what it was, would be analysed as it was: into the same columns and the
   * same `described`. `since`: as for `pin`.
   */
  def holds(
      session: SparkSession, leaf: LogicalRelation, files: HadoopFsRelation, described: JValue, since: Long): Boolean

  /** The present position, or one of `since` or later, in milliseconds since 1970. */
  def pin(session: SparkSession, source: JValue, since: Option[Long]): JValue

  /** A present position with the rows there, if these can be told; what is known of them at `from` helps. */
  def counted(session: SparkSession, source: JValue, from: JValue, position: JValue): JValue = position

  /**
   * What metadata knows of the changes between two positions: {"changed", "changes_readable", "old_readable", "direct":
   * bool, "inserts", "deletes", "bytes", "files": number or null, "reason": code with text or null}. "direct": no row
   * came and went in between, or was taken out and put back. "files": those that came; sources without files have none.
   * Null where Python sees all of this from the positions alone.
   */
  def summary(session: SparkSession, source: JValue, from: JValue, to: JValue): JValue
}

private[tidemill] object Source {
  /** [[name, type, nullable]...] of a leaf's output. */
  def fieldsOf(leaf: LogicalPlan): JValue =
    JArray(leaf.output.map(a => JArray(List(JString(a.name), Json.of(a.dataType), JBool(a.nullable)))).toList)

  /** The name of the table that is read, else `otherwise`. */
  def nameOf(leaf: LogicalRelation, otherwise: => String): String =
    leaf.catalogTable.map(_.identifier.unquotedString).getOrElse(otherwise)

  /** [database, table] or null. */
  def tableOf(table: Option[CatalogTable]): JValue =
    table.map(t => JArray(t.identifier.nameParts.takeRight(2).map(JString(_)).toList)).getOrElse(JNull)

  /** The catalog's entry of a source that is read by its name. */
  def tableIn(session: SparkSession, source: JValue): Option[CatalogTable] =
    Json.items(source \ "location", "table") match {
      case List(JString(database), JString(name)) =>
        Some(session.sessionState.catalog.getTableMetadata(TableIdentifier(name, Some(database))))
      case _ => None
    }

  /** The summary of changes that cannot be read, for the `reason` given. */
  def gone(reason: String): JValue = JObject(
    "changed" -> JBool(true), "changes_readable" -> JBool(false), "old_readable" -> JBool(false),
    "direct" -> JBool(false), "inserts" -> JNull, "deletes" -> JNull, "bytes" -> JNull, "reason" -> JString(reason))
}
