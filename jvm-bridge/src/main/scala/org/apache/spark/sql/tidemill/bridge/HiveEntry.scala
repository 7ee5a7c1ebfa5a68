package org.apache.spark.sql.tidemill.bridge

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, ExternalCatalog, ExternalCatalogWithListener}
import org.apache.spark.sql.hive.HiveExternalCatalog
import org.apache.spark.sql.internal.{SQLConf, StaticSQLConf}
import org.apache.spark.sql.types.StructType

/**
 * Columns of a table in a Hive metastore; loaded only where a session has one.
 *
 * Spark keeps the columns of a table of its own formats in properties, and writes them as columns of Hive too where
 * Hive can have them. Metastores refuse a column whose type at its place cannot be converted from the one before, which
 * would keep a view from getting other columns for ever. Spark reads the properties only. So these get the new columns
 * in one call, and those of Hive stay what they were.
 */
private[tidemill] object HiveEntry {
  private val Schema = "spark.sql.sources.schema"
  private val Statistics = "spark.sql.statistics."

  /** Whether tables of a catalog lie in a Hive metastore; asked by name, since Hive's classes need not be there. */
  def holds(catalog: ExternalCatalog): Boolean =
    unwrapped(catalog).getClass.getName == "org.apache.spark.sql.hive.HiveExternalCatalog"

  def setColumns(catalog: ExternalCatalog, name: TableIdentifier, columns: StructType): Unit = {
    val hive = unwrapped(catalog).asInstanceOf[HiveExternalCatalog]
    val (database, table) = (name.database.get, name.table)
    hive.synchronized { // as its own operations do
      val raw = hive.client.getTable(database, table)
      val kept = raw.properties.filterNot { case (key, _) => key.startsWith(Schema) || key.startsWith(Statistics) }
      val properties = Map.newBuilder[String, String]
      val threshold = SQLConf.get.getConf(StaticSQLConf.SCHEMA_STRING_LENGTH_THRESHOLD)
      CatalogTable.splitLargeTableProp(Schema, columns.json, (k, v) => properties += k -> v, threshold)
      hive.client.alterTable(database, table, raw.copy(properties = kept ++ properties.result()))
    }
  }

  private def unwrapped(catalog: ExternalCatalog): ExternalCatalog = catalog match {
    case listening: ExternalCatalogWithListener => unwrapped(listening.unwrapped)
    case other => other
  }
}
