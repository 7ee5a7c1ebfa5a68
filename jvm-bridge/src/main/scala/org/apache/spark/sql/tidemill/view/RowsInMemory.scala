package org.apache.spark.sql.tidemill.view

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.{LongType, StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String

/** All rows of one file of a step; `schema` is the file's. */
final case class FewRows(schema: StructType, rows: Seq[InternalRow]) {
  def bytes: Long = rows.collect { case row: UnsafeRow => row.getSizeInBytes.toLong }.sum

  /** Whether the file stores these columns with their types. */
  def has(asked: StructType): Boolean = {
    val stored = schema.asNullable.map(field => field.name -> field.dataType).toSet
    asked.asNullable.forall(field => stored(field.name -> field.dataType))
  }
}

object FewRows {

  /** The rows of files of one schema, with these columns of it. */
  def relation(files: Seq[FewRows], asked: StructType): LogicalPlan = {
    val stored = attributes(files)
    Project(picked(stored, asked): Seq[Attribute], LocalRelation(stored, files.flatMap(_.rows)))
  }

  /** The same with two columns more: the path of the row's file, and the number of the row in it, from 0 on. */
  def placed(paths: Seq[String], files: Seq[FewRows], asked: StructType): (LogicalPlan, Attribute, Attribute) = {
    val stored = attributes(files)
    val columns = picked(stored, asked)
    val read = columns.map(a => stored.indexOf(a) -> a.dataType)
    val rows = paths.zip(files).flatMap { case (path, file) =>
      val told = UTF8String.fromString(path)
      file.rows.zipWithIndex.map { case (row, number) =>
        InternalRow.fromSeq(read.map { case (i, dataType) => row.get(i, dataType) } :+ told :+ number.toLong)
      }
    }
    val (path, row) = (AttributeReference("path", StringType)(), AttributeReference("row", LongType)())
    (LocalRelation(columns :+ path :+ row, rows), path, row)
  }

  private def attributes(files: Seq[FewRows]): Seq[AttributeReference] =
    DataTypeUtils.toAttributes(files.head.schema.asNullable)

  private def picked(stored: Seq[AttributeReference], asked: StructType): Seq[AttributeReference] =
    asked.asNullable.map { field =>
      stored.find(a => a.name == field.name && a.dataType == field.dataType)
        .getOrElse(throw new IllegalArgumentException(s"no step wrote ${field.sql}"))
    }
}

/**
 * What steps wrote, by file: later steps read few rows from here, also those of later runs and of views above. Of rows
 * that only their own run reads there is no other copy; they are known as long as its query is. All other files are
 * written once and never again under the same name; of these the latest are known.
 */
object RowsInMemory {

  /** The most bytes of rows of files that are known beyond their run. */
  private val MostBytes = 32L << 20

  private val ofRuns = new ConcurrentHashMap[Long, ConcurrentHashMap[String, FewRows]]
  private val ofFiles = mutable.LinkedHashMap.empty[String, FewRows]
  private var bytes = 0L

  /** Keeps rows for their run only; `path` need not exist. */
  def keep(query: Long, path: String, rows: FewRows): Unit =
    ofRuns.computeIfAbsent(query, _ => new ConcurrentHashMap[String, FewRows]).put(path, rows)

  /** Keeps the rows of a file that was written. */
  def keep(path: String, rows: FewRows): Unit = synchronized {
    drop(path)
    ofFiles.put(path, rows)
    bytes += rows.bytes
    while (bytes > MostBytes && ofFiles.size > 1) drop(ofFiles.head._1)
  }

  /** A file has another name now. */
  def moved(from: String, to: String): Unit = synchronized {
    ofFiles.remove(from).foreach(ofFiles.put(to, _))
  }

  private def drop(path: String): Unit = ofFiles.remove(path).foreach(bytes -= _.bytes)

  /** The rows of these files, of which each is in memory; None if one is not, or has not all columns `asked` for. */
  def of(query: Long, paths: Seq[String], asked: StructType): Option[Seq[FewRows]] = {
    val own = Option(ofRuns.get(query))
    all(paths)(path => own.flatMap(known => Option(known.get(path))).orElse(file(path).filter(_.has(asked))))
  }

  /** The same, whatever run wrote them. */
  def of(paths: Seq[String], asked: StructType): Option[Seq[FewRows]] = all(paths)(file(_).filter(_.has(asked)))

  private def all(paths: Seq[String])(find: String => Option[FewRows]): Option[Seq[FewRows]] = {
    val found = paths.iterator.map(find).takeWhile(_.isDefined).flatten.toSeq
    val alike = found.map(_.schema.asNullable).distinct.length == 1
    Option.when(alike && found.length == paths.length)(found)
  }

  /** The latest that were asked for stay longest. */
  private def file(path: String): Option[FewRows] = synchronized {
    val found = ofFiles.remove(path)
    found.foreach(ofFiles.put(path, _))
    found
  }

  def release(query: Long): Unit = ofRuns.remove(query)

  /** Forgets the rows of files, as a new process has forgotten them. */
  def forget(): Unit = synchronized {
    ofFiles.clear()
    bytes = 0
  }
}
