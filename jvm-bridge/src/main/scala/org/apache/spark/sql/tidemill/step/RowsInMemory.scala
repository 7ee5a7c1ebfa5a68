package org.apache.spark.sql.tidemill.step

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.StructType

/** All rows of one file of a step; `schema` is the file's. */
final case class FewRows(schema: StructType, rows: Seq[InternalRow]) {
  def bytes: Long = rows.collect { case row: UnsafeRow => row.getSizeInBytes.toLong }.sum
}

object FewRows {

  /** The rows of files of one schema, with these columns of it. */
  def relation(files: Seq[FewRows], asked: StructType): LogicalPlan = {
    val stored = files.head.schema.asNullable
    require(files.forall(_.schema.asNullable == stored), "pieces of one relation have one schema")
    val attributes = DataTypeUtils.toAttributes(stored)
    val columns = asked.asNullable.map { field =>
      attributes.find(_.name == field.name).filter(_.dataType == field.dataType)
        .getOrElse(throw new IllegalArgumentException(s"no step wrote ${field.sql}"))
    }
    Project(columns, LocalRelation(attributes, files.flatMap(_.rows)))
  }
}

/**
 * What steps wrote, by file, as long as the query of their run is known: later steps read few rows from here. Of rows
 * that only the run itself reads there is no other copy.
 */
object RowsInMemory {
  private val known = new ConcurrentHashMap[Long, ConcurrentHashMap[String, FewRows]]

  def keep(query: Long, path: String, rows: FewRows): Unit =
    known.computeIfAbsent(query, _ => new ConcurrentHashMap[String, FewRows]).put(path, rows)

  /** The rows of these files, of which each is in memory; None if one is not. */
  def of(query: Long, paths: Seq[String]): Option[Seq[FewRows]] = {
    val found = Option(known.get(query)).fold(Seq.empty[FewRows])(own => paths.flatMap(p => Option(own.get(p))))
    Option.when(found.nonEmpty && found.length == paths.length)(found)
  }

  def release(query: Long): Unit = known.remove(query)
}
