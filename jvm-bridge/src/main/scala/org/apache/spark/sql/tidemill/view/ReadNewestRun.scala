package org.apache.spark.sql.tidemill.view

import scala.annotation.tailrec
import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.{classic, SparkSession}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.tidemill.base.{Errors, Files}
import org.apache.spark.sql.types.StructType

/**
 * Binds each reference to an incremental view to columns and run that belong together: the columns are those of the
 * catalog's entry, the run is the newest published one whose definition has these columns. OR REPLACE and ALTER ... AS
 * publish first and alter the entry then: until it is altered, also where they died before, the old run is read.
 *
 * Spark caches a table's relation, and with it columns and file list, per session; what another session did would stay
 * unseen. So a relation gets its columns as soon as Spark has found it, before any reference to it is resolved.
 */
class ReadPresentColumns(session: SparkSession) extends Rule[LogicalPlan] {
  private val Known = 64
  private val indexes = new java.util.LinkedHashMap[Path, ViewFileIndex](16, 0.75f, true) {
    override def removeEldestEntry(eldest: java.util.Map.Entry[Path, ViewFileIndex]): Boolean = size > Known
  }

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case relation @ LogicalRelation(files: HadoopFsRelation, _, Some(table), false, _)
        if ViewGuard.isView(table) && !Files.ofDelta(files) && !files.location.isInstanceOf[ViewFileIndex] =>
      bound(relation, files, table, PublishedRuns.Attempts)
  }

  @tailrec private def bound(
      relation: LogicalRelation, files: HadoopFsRelation, table: CatalogTable, attempts: Int): LogicalPlan = {
    val now = present(table)
    val path = new Path(now.location)
    PublishedRuns.newest(session, now, indexes.synchronized(Option(indexes.get(path)))) match {
      case PublishedRuns.Fitting(index) =>
        indexes.synchronized(indexes.put(path, index))
        val read = ReadNewestRun.over(files, index)
        if (PublishedRuns.same(now.schema, table.schema)) relation.copy(relation = read, catalogTable = Some(now))
        else LogicalRelation(read.copy(dataSchema = now.schema)(files.sparkSession), now)
      case PublishedRuns.Unfilled => relation
      case PublishedRuns.Others if attempts > 0 => bound(relation, files, table, attempts - 1)
      case PublishedRuns.Others => throw PublishedRuns.changed(now)
    }
  }

  /** What the catalog says now of a table that may have been looked up long ago. */
  private def present(table: CatalogTable): CatalogTable =
    try {
      Some(session.asInstanceOf[classic.SparkSession].sessionState.catalog.getTableMetadata(table.identifier))
        .filter(now => ViewGuard.isView(now) && now.provider == table.provider).getOrElse(table)
    } catch { case NonFatal(_) => table }
}

/**
 * Binds all references of one statement to one run, the newest one that has their columns. A DataFrame that was
 * resolved before keeps its run.
 */
class ReadNewestRun(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val found = mutable.Map.empty[Path, (StructType, PublishedRuns.Newest)]
    def newest(files: HadoopFsRelation, table: CatalogTable): PublishedRuns.Newest = {
      val known = Some(files.location).collect { case index: ViewFileIndex => index }
      val (columns, run) =
        found.getOrElseUpdate(new Path(table.location), table.schema -> PublishedRuns.newest(session, table, known))
      if (PublishedRuns.same(columns, table.schema)) run else throw PublishedRuns.changed(table)
    }
    def rebind(relation: LogicalRelation): LogicalPlan = relation match {
      case LogicalRelation(files: HadoopFsRelation, _, Some(table), _, _)
          if ViewGuard.isView(table) && Files.ofDelta(files) =>
        // Delta itself reads one version in one statement
        if (DeltaResult.shows(files)) relation else unfilled(relation, table)
      case LogicalRelation(files: HadoopFsRelation, _, Some(table), false, _) if ViewGuard.isView(table) =>
        newest(files, table) match {
          case PublishedRuns.Fitting(index) if index == files.location => relation
          case PublishedRuns.Fitting(index) => relation.copy(relation = ReadNewestRun.over(files, index))
          case PublishedRuns.Unfilled => unfilled(relation, table)
          case PublishedRuns.Others if files.location.isInstanceOf[ViewFileIndex] => relation
          case PublishedRuns.Others => throw PublishedRuns.changed(table)
        }
      case other => other
    }
    val outer = plan.resolveOperators { case relation: LogicalRelation => rebind(relation) }
    // Subqueries were analysed, and bound, on their own: bind them to the same run.
    outer.resolveExpressions { case subquery: SubqueryExpression =>
      AnalysisHelper.allowInvokingTransformsInAnalyzer {
        subquery.withNewPlan(subquery.plan.transformWithSubqueries { case relation: LogicalRelation =>
          rebind(relation)
        })
      }
    }
  }

  private def unfilled(relation: LogicalRelation, table: CatalogTable): LogicalPlan =
    if (conf.getConfString(ViewGuard.ReadUnfilled, "false") == "true")
      LocalRelation(relation.output, isStreaming = false)
    else throw Errors.of("TIDEMILL_NOT_FILLED", Map("view" -> ViewGuard.nameOf(table)))
}

private[tidemill] object ReadNewestRun {
  def over(files: HadoopFsRelation, index: ViewFileIndex): HadoopFsRelation =
    files.copy(location = index, partitionSchema = index.partitionSchema)(files.sparkSession)
}
