package org.apache.spark.sql.tidemill.bridge

import java.net.URI

import scala.util.control.NonFatal

import org.json4s._

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTable, CatalogTableType, CatalogUtils}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.CatalogManager.SESSION_CATALOG_NAME
import org.apache.spark.sql.errors.QueryCompilationErrors
import org.apache.spark.sql.tidemill.base.{Json, TidemillException}
import org.apache.spark.sql.tidemill.view.PublishedRuns
import org.apache.spark.sql.types.StructType

/**
 * Operations on the session catalog, asked for by Python as {"do": name, ...}. Names of tables are lists of parts as
 * the user wrote them, or as `qualify` answers: [catalog, database, table].
 */
private[tidemill] object CatalogOps {
  def run(session: SparkSession, request: JValue): JValue = {
    lazy val table = identifier(session, Json.texts(request, "name"))
    val catalog = session.sessionState.catalog
    Json.text(request, "do") match {
      case "qualify" => qualify(session, Json.texts(request, "name"))
      case "find" =>
        val name = qualify(session, Json.texts(request, "name"))
        val entry = if (Json.flag(name, "supported")) lookup(session, table) else JNull
        name.merge(JObject("entry" -> entry): JValue)
      case "check_name" =>
        // Spark checks when the entry is made: too late for a name that is a path (`../../x`).
        if (!table.table.matches("\\w+")) throw QueryCompilationErrors.invalidNameForTableOrDatabaseError(table.table)
        JBool(true)
      case "lookup" => lookup(session, table)
      case "create_table" =>
        catalog.createTable(described(request, table), Json.flag(request, "ignore_if_exists"), false)
        JBool(true)
      case "alter_table" =>
        alter(session, table, request)
        JBool(true)
      case "rename_table" =>
        catalog.renameTable(table, identifier(session, Json.texts(request, "to")))
        JBool(true)
      case "drop_table" =>
        session.sharedState.cacheManager.uncacheTableOrView(session, table.nameParts, cascade = true)
        // As DROP TABLE does: else another table of that name would be read through this one's cached relation.
        catalog.refreshTable(table)
        catalog.dropTable(table, true, false)
        JBool(true)
      case "refresh" =>
        // Spark's own resolves the table, to look for what is cached of it.
        try
          if (session.sharedState.cacheManager.isEmpty) catalog.refreshTable(table)
          else session.catalog.refreshTable(table.quotedString)
        catch { // a switch to another query has come since: whatever is cached of the table is of no use
          case changed: TidemillException if changed.getCondition == PublishedRuns.Changed =>
            session.sharedState.cacheManager.uncacheTableOrView(session, table.nameParts, cascade = true)
            catalog.refreshTable(table)
        }
        JBool(true)
      case "list" => list(session, request)
      case "databases" => Json.ofTexts(catalog.listDatabases())
      case "implementation" => JString(session.sharedState.externalCatalog.unwrapped.getClass.getSimpleName)
      case "default_path" => JString(CatalogUtils.URIToString(catalog.defaultTablePath(table)))
      case other => throw new IllegalArgumentException(s"Unknown catalog operation '$other'")
    }
  }

  /**
   * {"name": [catalog, database, table], "supported": bool}: as Spark would resolve the name. Catalogs other than the
   * session's are not supported.
   */
  private def qualify(session: SparkSession, parts: Seq[String]): JValue = {
    val manager = session.sessionState.catalogManager
    def isCatalog(name: String): Boolean =
      name.equalsIgnoreCase(SESSION_CATALOG_NAME) || manager.isCatalogRegistered(name)
    val (catalog, rest) =
      if (parts.size > 1 && isCatalog(parts.head)) (parts.head, parts.tail)
      else (manager.currentCatalog.name(), parts)
    val ours = catalog.equalsIgnoreCase(SESSION_CATALOG_NAME)
    val full = if (rest.size == 1) manager.currentNamespace.toSeq ++ rest else rest
    val cased =
      if (session.sessionState.conf.caseSensitiveAnalysis) full else full.map(_.toLowerCase(java.util.Locale.ROOT))
    JObject(
      "name" -> Json.ofTexts((if (ours) SESSION_CATALOG_NAME else catalog) +: (if (ours) cased else full)),
      "supported" -> JBool(ours && full.size == 2))
  }

  private def lookup(session: SparkSession, table: TableIdentifier): JValue = {
    val catalog = session.sessionState.catalog
    if (catalog.databaseExists(table.database.get) && catalog.tableExists(table))
      describe(catalog.getTableMetadata(table))
    else JNull
  }

  private def identifier(session: SparkSession, parts: Seq[String]): TableIdentifier = {
    val answer = qualify(session, parts)
    if (!Json.flag(answer, "supported"))
      throw new IllegalArgumentException(s"${parts.mkString(".")} does not name a table of the session catalog")
    val Seq(_, database, name) = Json.texts(answer, "name"): @unchecked
    TableIdentifier(name, Some(database), Some(SESSION_CATALOG_NAME))
  }

  private def describe(table: CatalogTable): JValue = JObject(
    "name" -> Json.ofTexts(table.identifier.nameParts),
    "type" -> JString(table.tableType.name),
    "location" -> Json.of(table.storage.locationUri.map(CatalogUtils.URIToString)),
    "properties" -> Json.ofMap(table.properties),
    "schema" -> Json.of(table.schema),
    "comment" -> Json.of(table.comment))

  /** An external table, or a managed one without "location". */
  private def described(request: JValue, table: TableIdentifier): CatalogTable = {
    val location: Option[URI] = Json.textOption(request, "location").map(CatalogUtils.stringToURI)
    CatalogTable(
      identifier = table,
      tableType = if (location.isDefined) CatalogTableType.EXTERNAL else CatalogTableType.MANAGED,
      storage = CatalogStorageFormat.empty.copy(locationUri = location, properties = Json.textMap(request, "options")),
      schema = Json.dataType(request \ "schema").asInstanceOf[StructType],
      provider = Some(Json.text(request, "provider")),
      properties = Json.textMap(request, "properties"),
      comment = Json.textOption(request, "comment"))
  }

  /** Replaces what the request names of "properties", "comment", "schema" and "location". */
  private def alter(session: SparkSession, name: TableIdentifier, request: JValue): Unit = {
    val catalog = session.sessionState.catalog
    val old = catalog.getTableMetadata(name)
    catalog.alterTable(old.copy(
        properties = if (Json.present(request \ "properties")) Json.textMap(request, "properties") else old.properties,
        comment = if (request \ "comment" == JNothing) old.comment else Json.textOption(request, "comment"),
        storage = Json.textOption(request, "location")
          .map(l => old.storage.copy(locationUri = Some(CatalogUtils.stringToURI(l)))).getOrElse(old.storage)))
    if (Json.present(request \ "schema")) {
      val columns = Json.dataType(request \ "schema").asInstanceOf[StructType]
      try catalog.alterTableSchema(name, columns)
      catch {
        case NonFatal(_) if HiveEntry.holds(catalog.externalCatalog) =>
          HiveEntry.setColumns(catalog.externalCatalog, name, columns)
      }
    }
  }

  /**
   * Tables of "database" (default: the current one), or with "everywhere" of all databases, whose names match "pattern"
   * and that have the property "property".
   */
  private def list(session: SparkSession, request: JValue): JValue = {
    val catalog = session.sessionState.catalog
    val databases =
      if (Json.flag(request, "everywhere")) catalog.listDatabases()
      else Seq(Json.textOption(request, "database").getOrElse(catalog.getCurrentDatabase))
    val pattern = Json.textOption(request, "pattern").getOrElse("*")
    val property = Json.textOption(request, "property")
    val found = databases
      .flatMap(name => catalog.getTablesByName(catalog.listTables(name, pattern, includeLocalTempViews = false)))
      .filter(t => property.forall(t.properties.contains))
    JArray(found.map(describe).toList)
  }
}
