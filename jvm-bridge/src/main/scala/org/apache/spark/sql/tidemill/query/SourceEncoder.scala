package org.apache.spark.sql.tidemill.query

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{Attribute, FileSourceMetadataAttribute}
import org.apache.spark.sql.catalyst.plans.logical.{CTERelationRef, LeafNode, LogicalPlan, OneRowRelation, UnionLoopRef}
import org.apache.spark.sql.tidemill.base.Json
import org.apache.spark.sql.tidemill.source.{Kind, Sources}

import org.json4s._
import org.json4s.JsonDSL._

/** Numbers the source relations of a query; equal relations share a number. What a source is, [[Sources]] says. */
final class SourceEncoder {
  private val table = mutable.ArrayBuffer.empty[SourceInfo]
  private val known = mutable.HashMap.empty[Any, Int]

  def sources: IndexedSeq[SourceInfo] = table.toIndexedSeq

  /** Adds a source without rows. */
  def add(document: JObject): Unit =
    table += SourceInfo(OneRowRelation(), document, Nil, JObject("source" -> JInt(table.length)) ~ document)

  /** The number of the relation that a leaf reads. */
  def number(leaf: LogicalPlan): Int = {
    val entry = SourceEncoder.entry(leaf)
    val key = SourceEncoder.keyOf(leaf, entry)
    known.getOrElseUpdate(key, {
        val number = table.length
        val fields = SourceEncoder.fieldNames(leaf.output)
        val described = JArray(fields.zip(leaf.output).toList.map { case (name, a) =>
          JArray(List(JString(name), ExpressionEncoder.typeDocument(a.dataType), JBool(a.nullable)))
        })
        val document = JObject(entry.obj.filterNot(f => Set("fields", "source")(f._1))) ~ ("fields" -> described)
        table += SourceInfo(leaf, key, fields, JObject("source" -> JInt(number)) ~ document)
        number
      })
  }
}

object SourceEncoder {

  /** Whether a leaf reads something from outside the query. */
  def isSource(leaf: LeafNode): Boolean = leaf match {
    case _: CTERelationRef | _: UnionLoopRef => false
    case _ => true
  }

  /** Equal for leaves that read the same. */
  def keyOf(leaf: LogicalPlan): Any = keyOf(leaf, entry(leaf))

  private def keyOf(leaf: LogicalPlan, entry: JObject): Any = {
    val kind = Kind.of(entry)
    if (kind == Kind.Static) leaf.canonicalized
    else (kind, entry \ "name", entry \ "id", entry \ "path", leaf.output.map(_.name))
  }

  /** Field names are unique within a source: VALUES and local relations may repeat a name. */
  private def fieldNames(output: Seq[Attribute]): Seq[String] = {
    val repeated = output.groupBy(_.name).collect { case (name, all) if all.size > 1 => name }.toSet
    output.zipWithIndex.map { case (a, i) => if (repeated(a.name)) s"${a.name}#$i" else a.name }
  }

  private def entry(leaf: LogicalPlan): JObject = {
    val described = Sources.describe(leaf).asInstanceOf[JObject]
    val readsMetadata = leaf.output.exists { case FileSourceMetadataAttribute(_) => true; case _ => false }
    if (!readsMetadata) withId(described)
    else withId(described).merge(
      JObject("kind" -> Kind.Static.json, "reason" -> JString("the query reads metadata columns of its files")))
  }

  private def withId(entry: JObject): JObject =
    if (Json.present(entry \ "id")) entry else entry.merge(JObject("id" -> (entry \ "name")))
}
