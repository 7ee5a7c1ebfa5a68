package org.apache.spark.sql.tidemill

import org.json4s._

import org.apache.spark.sql.catalyst.expressions.{Abs, Alias, Attribute, Cast, GreaterThan, If, Literal, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{Generate, LeafNode, LocalRelation, LogicalPlan, OneRowRelation, Project, Range}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.streaming.runtime.MetadataLogFileIndex
import org.apache.spark.sql.types.LongType

/**
 * Leaves of queries as sources: what they are, how far they have got, their content at a position, their changes between two.
 *
 * Kinds: "files" (tables and paths of a file format), "delta", "view" (an upstream incremental view) and "static" (all
 * others: they have no position and are read as they are). Classes of Delta are loaded only for Delta's relations.
 */
object Sources {
  /** The column of signed counts in change sets. */
  val Count = "_n"

  /** Its name in the files of a view with these columns, as `count_field` has it in the planner. */
  def countOf(columns: Seq[String]): String =
    Iterator.iterate(Count)("_" + _).find(name => !columns.exists(_.equalsIgnoreCase(name))).get

  /** The source entry of the query document for the leaf `relation`. */
  def describe(relation: LogicalPlan): JValue = relation match {
    case leaf @ LogicalRelation(files: HadoopFsRelation, _, _, _, _) => kind(leaf, files) match {
      case "delta" => DeltaSource.describe(leaf, files)
      case "view" => ViewSource.describe(leaf, files)
      case "files" => FileSource.describe(leaf, files)
      case reason => static(leaf, reason)
    }
    case leaf => static(leaf, s"${leaf.nodeName} cannot tell changes")
  }

  /** The leaf at `position`: output = `fields` in this order. Null as position: as the leaf itself reads. */
  def snapshot(session: SparkSession, relation: LogicalPlan, fields: Seq[String], position: JValue): LogicalPlan = {
    val plan = relation match {
      case leaf @ LogicalRelation(files: HadoopFsRelation, _, _, _, _) if Json.present(position) => kind(leaf, files) match {
        case "delta" => DeltaSource.snapshot(session, leaf, files, position)
        case "view" => ViewSource.snapshot(session, leaf, files, position)
        case "files" => FileSource.snapshot(session, leaf, files, position)
        case _ => fresh(leaf)
      }
      case leaf => fresh(leaf)
    }
    Project(pick(plan, fields), plan)
  }

  /** What changed after `from` up to `to`: output = `fields`, then `_n`, a bigint of 1 or -1. Rows may cancel each other. */
  def changes(session: SparkSession, relation: LogicalPlan, fields: Seq[String], from: JValue, to: JValue): LogicalPlan =
    relation match {
      case leaf @ LogicalRelation(files: HadoopFsRelation, _, _, _, _) => kind(leaf, files) match {
        case "delta" => DeltaSource.changes(session, leaf, files, fields, from, to)
        case "view" => ViewSource.changes(session, leaf, files, fields, from, to)
        case "files" => FileSource.changes(session, leaf, files, fields, from, to)
        case reason => throw new UnsupportedOperationException(reason)
      }
      case leaf => throw new UnsupportedOperationException(s"${leaf.nodeName} cannot tell changes")
    }

  /** The present position of the source that `describe` gave; null for static ones. */
  def pin(session: SparkSession, source: JValue): JValue = Json.text(source, "kind") match {
    case "delta" => DeltaSource.pin(session, source)
    case "view" => ViewSource.pin(session, source)
    case "files" => FileSource.pin(session, source)
    case _ => JNull
  }

  /** What metadata knows of the changes between two positions; null where Python sees it from the positions alone. */
  def summary(session: SparkSession, source: JValue, from: JValue, to: JValue): JValue = Json.text(source, "kind") match {
    case "delta" => DeltaSource.summary(session, source, from, to)
    case "view" => ViewSource.summary(session, source, from, to)
    case _ => JNull
  }

  private[tidemill] def isDelta(files: HadoopFsRelation): Boolean =
    files.location.getClass.getName.startsWith("org.apache.spark.sql.delta.")

  /** "delta", "view" or "files", else the reason why the leaf cannot be followed. */
  private def kind(leaf: LogicalRelation, files: HadoopFsRelation): String = {
    val index = files.location
    if (leaf.isStreaming) "a stream has no snapshots"
    else if (isDelta(files)) DeltaSource.kind(files) match {
      case "delta" if ViewSource.isView(files, index.rootPaths.head) => "view"
      case "delta" => DeltaSource.untold(files.dataSchema.fieldNames.toSeq ++ files.partitionSchema.fieldNames).getOrElse("delta")
      case other => other
    }
    else index match {
      case _: ViewFileIndex => "view"
      case sink: MetadataLogFileIndex if ViewSource.isView(files, sink.rootPaths.head) => "view"
      case _ => "files"
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
      "kind" -> JString("static"), "format" -> JString(leaf.nodeName), "name" -> JString(table.getOrElse(leaf.nodeName)),
      "id" -> JNull, "path" -> JNull, "fields" -> fieldsOf(leaf), "bytes" -> JNull, "rows" -> JNull,
      "partitions" -> JArray(Nil), "location" -> JNull, "constant" -> JBool(constant),
      "reason" -> JString(if (constant) "a constant never changes" else reason))
  }

  /** [[name, type, nullable]...] of a leaf's output. */
  private[tidemill] def fieldsOf(leaf: LogicalPlan): JValue =
    JArray(leaf.output.map(a => JArray(List(JString(a.name), Json.of(a.dataType), JBool(a.nullable)))).toList)

  private[tidemill] def fresh(leaf: LogicalPlan): LogicalPlan = leaf match {
    case relation: LogicalRelation => relation.newInstance()
    case other: LeafNode with org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation => other.newInstance()
    case other => other
  }

  /** The output attributes of `plan` with the names `fields`: an exact match first, else by the session's rules. */
  private[tidemill] def pick(plan: LogicalPlan, fields: Seq[String]): Seq[Attribute] = fields.map { name =>
    plan.output.find(_.name == name).orElse(plan.output.find(a => plan.conf.resolver(a.name, name))).getOrElse {
      throw new NoSuchElementException(s"Column '$name' is not among ${plan.output.map(_.name).mkString(", ")}")
    }
  }

  /** `plan`'s rows as insertions. */
  private[tidemill] def inserted(plan: LogicalPlan, fields: Seq[String]): LogicalPlan =
    Project(pick(plan, fields) :+ Alias(Literal(1L), Count)(), plan)

  /** Rows with any count as rows with counts of 1 and -1; `count` is the attribute of the counts. */
  private[tidemill] def unit(plan: LogicalPlan, columns: Seq[Attribute], count: Attribute): LogicalPlan = {
    val sign = Alias(If(GreaterThan(count, Literal(0L)), Literal(1L), Literal(-1L)), Count)()
    val signed = Project((columns: Seq[NamedExpression]) :+ sign :+ count, plan)
    Copies(signed, columns :+ sign.toAttribute, Abs(Cast(count, LongType)))
  }

  /** No rows: `fields` as in `plan`, and the count. */
  private[tidemill] def nothing(plan: LogicalPlan, fields: Seq[String]): LogicalPlan = {
    val columns = pick(plan, fields).map(_.newInstance())
    LocalRelation(columns :+ org.apache.spark.sql.catalyst.expressions.AttributeReference(Count, LongType, nullable = false)())
  }
}
