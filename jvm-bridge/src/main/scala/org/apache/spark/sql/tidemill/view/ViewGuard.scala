package org.apache.spark.sql.tidemill.view

import scala.util.control.NonFatal

import org.apache.spark.sql.{classic, AnalysisException, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{
  ResolvedIdentifier, ResolvedTable, UnresolvedIdentifier, UnresolvedRelation, UnresolvedTable, UnresolvedTableOrView,
  UnresolvedView
}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.QuotingUtils
import org.apache.spark.sql.connector.catalog.{CatalogManager, CatalogV2Util, LookupCatalog}
import org.apache.spark.sql.execution.command._
import org.apache.spark.sql.execution.datasources.{CreateTable => CreateV1Table, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.tidemill.base.Errors

/** What the rules below know about the tables of incremental views. */
object ViewGuard {

  /** Table property that marks the table of an incremental view. */
  val Property = "tidemill.view"

  /** Session setting, for Tidemill's own sessions: a view that was never filled reads as empty. */
  val ReadUnfilled = "spark.tidemill.internal.readUnfilled"

  /** Begins of the names of commands on a table that may change it; the last four are Delta's. */
  private[tidemill] val Changing =
    Seq("ALTER", "TRUNCATE", "LOAD", "MSCK", "DROP", "REPLACE", "OPTIMIZE", "VACUUM", "RESTORE", "REORG")

  private val bypassed = new ThreadLocal[Boolean] { override def initialValue: Boolean = false }

  /** Runs `body` with writes to views allowed in this thread: for Tidemill's own catalog operations. */
  def bypass[T](body: => T): T = {
    val before = bypassed.get
    bypassed.set(true)
    try body
    finally bypassed.set(before)
  }

  private[tidemill] def isBypassed: Boolean = bypassed.get

  def isView(table: CatalogTable): Boolean = table.properties.contains(Property)

  /** The table of the incremental view of that name, if it is one; temporary views shadow it, as everywhere. */
  def find(session: classic.SparkSession, name: Seq[String]): Option[CatalogTable] =
    new Names(session).identifier(name).flatMap(find(session, _))

  private[tidemill] def find(session: classic.SparkSession, name: TableIdentifier): Option[CatalogTable] = {
    val catalog = session.sessionState.catalog
    // A database that does not exist is Spark's to report.
    try if (catalog.tableExists(name)) Some(catalog.getTableMetadata(name)).filter(isView) else None
    catch { case NonFatal(_) => None }
  }

  private class Names(session: classic.SparkSession) extends LookupCatalog {
    override protected val catalogManager: CatalogManager = session.sessionState.catalogManager

    def identifier(name: Seq[String]): Option[TableIdentifier] =
      if (session.sessionState.catalog.isTempView(name)) None
      else name match {
        case CatalogAndIdentifier(catalog, found)
            if CatalogV2Util.isSessionCatalog(catalog) && found.namespace.length == 1 =>
          Some(TableIdentifier(found.name, found.namespace.headOption))
        case _ => None
      }
  }

  /** Qualified, with back quotes where they are needed. */
  private[tidemill] def nameOf(table: CatalogTable): String =
    table.identifier.nameParts.map(QuotingUtils.quoteIfNeeded).mkString(".")

  /** The refusal of `statement`, naming the one to use. */
  private[tidemill] def refusal(table: CatalogTable, statement: String): AnalysisException = {
    val name = nameOf(table)
    val use = statement.split(' ').head match {
      case "DROP" => s"DROP INCREMENTAL VIEW $name"
      case "ALTER" => s"ALTER INCREMENTAL VIEW $name"
      case "VACUUM" => s"VACUUM INCREMENTAL VIEW $name"
      case "REPLACE" | "CREATE" => s"CREATE OR REPLACE INCREMENTAL VIEW $name"
      case _ => s"REFRESH INCREMENTAL VIEW $name"
    }
    Errors.of("TIDEMILL_USE_OTHER_STATEMENT", Map("operation" -> statement, "view" -> name, "statement" -> use))
  }
}

/**
 * Refuses statements that would change the table of an incremental view behind Tidemill's back. Looks at names before
 * they are resolved, so that SQL and DataFrame writers meet it alike, whatever Spark itself would do with them.
 *
 * As a hint rule it comes before all of Spark's. With Hive support Spark forgets the hint rules of extensions: there it
 * sees, as a resolution rule, what Spark has just resolved.
 */
case class RefuseWrites(session: SparkSession) extends Rule[LogicalPlan] {
  private def state = session.asInstanceOf[classic.SparkSession]

  override def apply(plan: LogicalPlan): LogicalPlan = {
    if (!plan.analyzed && !ViewGuard.isBypassed) plan.foreach(check)
    plan
  }

  /** What Delta's own rules make of a DML statement, where they come before this one; the first child is its target. */
  private val deltas = Map("DeltaDelete" -> "DELETE", "DeltaUpdateTable" -> "UPDATE", "DeltaMergeInto" -> "MERGE")

  /**
   * Begins of the names of nodes over a table that was resolved before this rule came, and the statements they are of.
   */
  private val resolved = Seq(
    "Optimize" -> "OPTIMIZE", "Vacuum" -> "VACUUM", "DeltaReorg" -> "REORG", "Truncate" -> "TRUNCATE TABLE") ++
    Seq("Add", "Alter", "Drop", "Rename", "Replace", "Set", "Unset").map(_ -> "ALTER TABLE")

  private def check(node: LogicalPlan): Unit = node match {
    case insert: InsertIntoStatement => target(insert.table, if (insert.overwrite) "INSERT OVERWRITE" else "INSERT")
    case write: V2WriteCommand =>
      target(write.table, if (write.isInstanceOf[AppendData]) "INSERT" else "INSERT OVERWRITE")
    case DeleteFromTable(table, _) => target(table, "DELETE")
    case update: UpdateTable => target(update.table, "UPDATE")
    case merge: MergeIntoTable => target(merge.targetTable, "MERGE")
    case drop: DropTable => target(drop.child, "DROP TABLE")
    case drop: DropView => target(drop.child, "DROP VIEW")
    case replace: ReplaceTable => target(replace.name, "REPLACE TABLE")
    case replace: ReplaceTableAsSelect => target(replace.name, "REPLACE TABLE")
    case create: CreateView if create.replace => target(create.child, "CREATE OR REPLACE VIEW")
    case save: SaveAsV1TableCommand => v1(save.tableDesc.identifier, save.mode.toString)
    // Delta's statement holds its table in a node that is no plan over it
    case restore if restore.nodeName == "RestoreTableStatement" =>
      restore.children.flatMap(_.productIterator).foreach {
        case table: LogicalPlan => target(table, "RESTORE"); case _ =>
      }
    case create: CreateV1Table if create.query.isDefined => v1(create.tableDesc.identifier, create.mode.toString)
    case write if deltas.contains(write.nodeName) => target(write.children.head, deltas(write.nodeName))
    case other => other.children.foreach {
        case table: ResolvedTable if CatalogV2Util.isSessionCatalog(table.catalog) =>
          resolved.collectFirst { case (begin, statement) if other.nodeName.startsWith(begin) => statement }
            .foreach(refuse((table.catalog.name +: table.identifier.namespace :+ table.identifier.name).toSeq, _))
        case table: UnresolvedTable => changing(table.multipartIdentifier, table.commandName)
        case table: UnresolvedTableOrView => changing(table.multipartIdentifier, table.commandName)
        case view: UnresolvedView => changing(view.multipartIdentifier, view.commandName)
        case _ =>
      }
  }

  private def target(plan: LogicalPlan, statement: String): Unit = plan match {
    case SubqueryAlias(_, child) => target(child, statement)
    case relation: UnresolvedRelation => refuse(relation.multipartIdentifier, statement)
    case identifier: UnresolvedIdentifier => refuse(identifier.nameParts, statement)
    case ResolvedIdentifier(catalog, name) if CatalogV2Util.isSessionCatalog(catalog) =>
      refuse((catalog.name +: name.namespace :+ name.name).toSeq, statement)
    case relation: LogicalRelation =>
      relation.catalogTable.filter(ViewGuard.isView).foreach(t => throw ViewGuard.refusal(t, statement))
    case relation: DataSourceV2Relation =>
      for (catalog <- relation.catalog if CatalogV2Util.isSessionCatalog(catalog); name <- relation.identifier)
        refuse((catalog.name +: name.namespace :+ name.name).toSeq, statement)
    case _ =>
  }

  /** Spark names the command in the node that stands for its table; the ones not listed read or maintain metadata. */
  private def changing(name: Seq[String], command: String): Unit =
    if (ViewGuard.Changing.exists(command.startsWith)) refuse(name, command)

  private def v1(name: TableIdentifier, mode: String): Unit = mode match {
    case "Overwrite" => refuse(name.nameParts, "INSERT OVERWRITE")
    case "Append" => refuse(name.nameParts, "INSERT")
    case _ => // creates, or finds that the table exists
  }

  private def refuse(name: Seq[String], statement: String): Unit =
    ViewGuard.find(state, name).foreach(table => throw ViewGuard.refusal(table, statement))
}

/**
 * The same for names that became known only while Spark resolved the statement (`IDENTIFIER('v')`, a view's relation
 * in a plan): looks at the commands that Spark made of it. No check rule, because Spark leaves the SQLSTATE out of what
 * these throw.
 */
case class RefuseWritesResolved(session: SparkSession) extends Rule[LogicalPlan] {
  private val changing = Map(
    "InsertInto" -> "INSERT", "CreateDataSourceTableAsSelect" -> "INSERT", "AlterTable" -> "ALTER TABLE",
    "AlterView" -> "ALTER VIEW", "DropTable" -> "DROP TABLE", "TruncateTable" -> "TRUNCATE TABLE",
    "LoadData" -> "LOAD DATA", "RepairTable" -> "MSCK REPAIR TABLE")

  override def apply(plan: LogicalPlan): LogicalPlan = {
    if (!ViewGuard.isBypassed) plan.foreach(check)
    plan
  }

  private def check(node: LogicalPlan): Unit = node match {
    case command: Command =>
      changing.collectFirst { case (prefix, verb) if command.nodeName.startsWith(prefix) => verb }.foreach {
        statement =>
          tables(command).foreach(table => throw ViewGuard.refusal(table, statement))
      }
    case _ =>
  }

  private def tables(command: LogicalPlan): Iterator[CatalogTable] = command.productIterator.flatMap {
    case Some(table: CatalogTable) => Some(table)
    case table: CatalogTable => ViewGuard.find(state, table.identifier)
    case name: TableIdentifier => ViewGuard.find(state, name)
    case relation: LogicalRelation => relation.catalogTable
    case _ => None
  }.filter(ViewGuard.isView)

  private def state = session.asInstanceOf[classic.SparkSession]
}
