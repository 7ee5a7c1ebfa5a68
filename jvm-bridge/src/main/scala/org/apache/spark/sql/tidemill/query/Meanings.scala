package org.apache.spark.sql.tidemill.query

import scala.util.control.NonFatal

import org.json4s.JValue

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.{
  ExpressionWithUnresolvedIdentifier, FunctionRegistry, PlanWithUnresolvedIdentifier, UnresolvedFunction,
  UnresolvedGenerator, UnresolvedRelation, UnresolvedTableValuedFunction
}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LocalRelation, LogicalPlan, OneRowRelation, Range, View}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.CatalogManager.SESSION_CATALOG_NAME
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.internal.SharedState
import org.apache.spark.sql.tidemill.base.Json
import org.apache.spark.sql.tidemill.source.Sources

/**
 * What the names in a query stood for when it was analysed: tables of the session catalog and Spark's own functions.
 *
 * @param relations names of one part, which a temporary view would take
 * @param tables    each with its catalog entry and its entry in the query document
 */
private[query] final class Meanings private (
    shared: SharedState, confs: Map[String, String], relations: Set[String], functions: Set[String],
    tables: Seq[(LogicalRelation, CatalogTable, JValue)]) {

  /**
   * Whether Spark would find the same under all of them, so that an analysis would come to the same. Looks at tables
   * again unless this process has done so at `since` or later, in milliseconds since 1970.
   */
  def hold(session: SparkSession, since: Long): Boolean = {
    val catalog = session.sessionState.catalog
    def sameSession = (session.sharedState eq shared) && Meanings.settings(session) == confs
    def sameNames = !Meanings.hasPath(session) && relations.forall(catalog.getRawTempView(_).isEmpty) &&
      functions.forall(Meanings.isOfSpark(session, _))
    def sameTables = tables.forall { case (leaf, entry, described) =>
      catalog.getTableMetadata(entry.identifier) == entry && Sources.holds(session, leaf, described, since)
    }
    try sameSession && sameNames && sameTables
    catch { case NonFatal(_) => false } // whoever analyses it then says what is wrong
  }
}

private[query] object Meanings {
  /**
   * None if the query reads something else, which might change unseen: plain views, whose texts have names of their
   * own, paths, other catalogs, functions of users, the clock, chance.
   */
  def of(session: SparkSession, parsed: LogicalPlan, query: Query): Option[Meanings] = {
    val nodes = Parsed.nodes(parsed)
    val expressions = nodes.flatMap(_.expressions).flatMap(_.collect { case e => e })
    val relations = nodes.collect { case u: UnresolvedRelation => u.multipartIdentifier }
    val functions = expressions.collect {
      case f: UnresolvedFunction => f.nameParts
      case g: UnresolvedGenerator => g.name.nameParts
    }
    val hidden = expressions.exists(_.isInstanceOf[ExpressionWithUnresolvedIdentifier]) || nodes.exists {
      case _: PlanWithUnresolvedIdentifier | _: UnresolvedTableValuedFunction => true
      case _ => false
    }
    val read = query.analyzed.collectWithSubqueries { case p @ (_: LeafNode | _: View) => p }
    val leaves = read.map(standing(_, query))
    val known = !hidden && !chancy(query.document \ "findings") && leaves.forall(_.isDefined) &&
      functions.forall(_.size == 1) &&
      Json.items(query.document, "sources").forall(s => Json.text(s, "kind") != "clock")
    Option.when(known) {
      val names = relations.collect { case Seq(name) => name }.toSet
      new Meanings(session.sharedState, settings(session), names, functions.flatten.toSet,
        leaves.flatten.flatten)
    }.filter(_.hold(session, query.asked))
  }

  /** Without the one in which Delta notes each commit of a session. */
  private def settings(session: SparkSession): Map[String, String] =
    session.sessionState.conf.getAllConfs - "spark.databricks.delta.lastCommitVersionInSession"

  /** A temporary function may have the name of one of Spark's. */
  private def isOfSpark(session: SparkSession, name: String): Boolean = {
    val spark = FunctionRegistry.builtin.functionExists(FunctionRegistry.builtinFunctionIdentifier(name))
    spark && !session.sessionState.catalog.isTemporaryFunction(FunctionIdentifier(name))
  }

  /** Whether names are looked up as they always were: among Spark's own and the session's, then in one namespace. */
  private def hasPath(session: SparkSession): Boolean = {
    val manager = session.sessionState.catalogManager
    manager.sessionPathEntries.isDefined || manager.confDefaultPathEntries.isDefined
  }

  private def chancy(findings: JValue): Boolean =
    Seq("temporary", "nondeterministic", "time_dependent", "session_functions").exists(Json.items(findings, _).nonEmpty)

  /** The table that a leaf reads; an inner None for one that reads nothing, None for what is none of the catalog's. */
  private def standing(leaf: LogicalPlan, query: Query): Option[Option[(LogicalRelation, CatalogTable, JValue)]] =
    leaf match {
      case _: LocalRelation | _: OneRowRelation | _: Range => Some(None)
      case relation: LogicalRelation =>
        for {
          entry <- relation.catalogTable
          if entry.identifier.catalog.contains(SESSION_CATALOG_NAME)
          source <- query.sources.find(_.leaf.canonicalized == relation.canonicalized)
        } yield Some((relation, entry, source.document))
      case inner: LeafNode if !SourceEncoder.isSource(inner) => Some(None)
      case _ => None
    }
}
