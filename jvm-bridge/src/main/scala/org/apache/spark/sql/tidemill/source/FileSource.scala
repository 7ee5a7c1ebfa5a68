package org.apache.spark.sql.tidemill.source

import org.apache.hadoop.fs.{FileStatus, Path}
import org.json4s._

import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTablePartition, CatalogStorageFormat}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.{
  CatalogFileIndex, HadoopFsRelation, LogicalRelation, PartitioningUtils, PartitionPath, PartitionSpec
}
import org.apache.spark.sql.execution.streaming.runtime.MetadataLogFileIndex
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.sources.DataSourceRegister
import org.apache.spark.sql.tidemill.base.{ExactFileIndex, Files, Footers, HadoopSettings, Json}
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.HadoopFSUtils

/**
 * Tables and paths of a file format. Position: what [[Listing]] says of the files, and {"id": text,
 * "partitions": [[folder, {column: value}]...]}: those of folders whose name does not tell the values of the one
 * partition that lies there.
 */
private[tidemill] object FileSource extends Source {
  def describe(leaf: LogicalRelation, files: HadoopFsRelation): JValue = {
    val table = leaf.catalogTable
    val roots = files.location.rootPaths.map(_.toString)
    val format = formatOf(files)
    JObject(
      "kind" -> Kind.Files.json,
      "format" -> JString(format),
      "name" -> JString(Source.nameOf(leaf, s"$format.`${roots.mkString(",")}`")),
      "id" -> JString(idOf(table, roots)),
      "path" -> Json.of(roots.headOption),
      "fields" -> Source.fieldsOf(leaf),
      "bytes" -> Json.ofLong(bytesOf(leaf, files)),
      "rows" -> Json.ofLong(table.flatMap(_.stats).flatMap(_.rowCount).map(_.toLong)),
      "partitions" -> Json.ofTexts(files.partitionSchema.fieldNames.toSeq),
      "location" -> JObject(
        "roots" -> Json.ofTexts(roots),
        "options" -> Json.ofMap(told(files.options, files.sparkSession.sessionState.conf)),
        "table" -> Source.tableOf(table),
        "partitioned" -> JBool(files.partitionSchema.nonEmpty),
        "catalog" -> JBool(files.location.isInstanceOf[CatalogFileIndex]),
        "sink" -> JBool(files.location.isInstanceOf[MetadataLogFileIndex])))
  }

  /** Options without the path, and without what Spark itself would not show: a view's files keep no secrets. */
  private def told(options: Map[String, String], conf: SQLConf): Map[String, String] = {
    val shown = conf.redactOptions(options)
    options.filter { case (key, value) => !key.equalsIgnoreCase("path") && shown.get(key).contains(value) }
  }

  /** What is stored of a table's options, and from the catalog those that are not. */
  private def optionsOf(
      session: SparkSession, stored: Map[String, String], table: Option[CatalogTable]): Map[String, String] = {
    val own = table.map(_.storage.properties).getOrElse(Map.empty)
    own.removedAll(told(own, session.sessionState.conf).keys).filterNot(_._1.equalsIgnoreCase("path")) ++ stored
  }

  private def formatOf(files: HadoopFsRelation): String = files.fileFormat match {
    case named: DataSourceRegister => named.shortName()
    case other => other.toString
  }

  /** A table made anew is another source even where its files are the same: location and time of creation. */
  private def idOf(table: Option[CatalogTable], roots: Seq[String]): String =
    table.map(t => s"${t.location}|${t.createTime}").getOrElse(roots.sorted.mkString("|"))

  private def bytesOf(leaf: LogicalRelation, files: HadoopFsRelation): Option[Long] =
    leaf.catalogTable.flatMap(_.stats).map(_.sizeInBytes.toLong).orElse(files.location match {
      case _: CatalogFileIndex => None // its number is a setting, not a size
      case index => Some(index.sizeInBytes)
    })

  /** All that counts is in the catalog's entry. */
  def holds(
      session: SparkSession, leaf: LogicalRelation, files: HadoopFsRelation, described: JValue, since: Long): Boolean =
    files.location match {
      case _: MetadataLogFileIndex => false
      case _ => leaf.catalogTable.isDefined
    }

  def pin(session: SparkSession, source: JValue, since: Option[Long]): JValue = {
    val location = source \ "location"
    val table = Source.tableIn(session, source)
    val options = optionsOf(session, Json.textMap(location, "options"), table)
    val roots = table.map(t => Seq(new Path(t.location))).getOrElse(Json.texts(location, "roots").map(new Path(_)))
    val (listed, partitions) =
      if (Json.flag(location, "catalog")) inCatalog(session, table.get, options)
      else if (Json.flag(location, "sink"))
        (new MetadataLogFileIndex(session, roots.head, options, None).allFiles(), Nil)
      else (inFolders(session, roots, options, Json.flag(location, "partitioned")), Nil)
    Listing.position(listed).merge(JObject(
        "id" -> JString(idOf(table, roots.map(_.toString))),
        "rows" -> JNull,
        "partitions" -> JArray(partitions.toList)))
  }

  /** Where files only came, these are counted; else all are. */
  override def counted(session: SparkSession, source: JValue, from: JValue, position: JValue): JValue = {
    def rows = Json.longOption(from, "rows").filter(_ => Listing.added(position, from).isEmpty) match {
      case Some(before) => rowsOf(session, source, Listing.added(from, position)).map(before + _)
      case None => rowsOf(session, source, Listing.of(position))
    }
    if (Json.present(position \ "rows")) position
    else position.merge(JObject("rows" -> Json.ofLong(rows)): JValue)
  }

  def summary(session: SparkSession, source: JValue, from: JValue, to: JValue): JValue = JNull

  private def rowsOf(session: SparkSession, source: JValue, files: Seq[Listing.Listed]): Option[Long] =
    Footers.rows(Json.text(source, "format"), files.map(Listing.status), HadoopSettings.of(session))

  /** The files that Spark would read below `roots`: its rules for hidden files, empty files, depth and path options. */
  def inFolders(
      session: SparkSession, roots: Seq[Path], options: Map[String, String], partitioned: Boolean): Seq[FileStatus] = {
    val conf = session.sessionState.newHadoopConfWithOptions(options)
    val rules = new ExactFileIndex(session, roots, Nil, options, PartitionSpec.emptySpec)
    val deep = partitioned || rules.deep
    val qualified = roots.map(Files.qualified(_, conf))
    val found =
      if (deep) Files.walk(qualified, conf, !HadoopFSUtils.shouldFilterOutPathName(_))
      else qualified.flatMap(Files.list(_, conf))
        .filterNot(s => s.isDirectory || HadoopFSUtils.shouldFilterOutPathName(s.getPath.getName))
    found.filter(rules.reads)
  }

  /** The files in the folders of the partitions that the catalog lists. */
  private def inCatalog(
      session: SparkSession, table: CatalogTable, options: Map[String, String]): (Seq[FileStatus], Seq[JValue]) = {
    val conf = session.sessionState.newHadoopConfWithOptions(options)
    val rules = new ExactFileIndex(session, Nil, Nil, options, PartitionSpec.emptySpec)
    val partitions = session.sessionState.catalog.listPartitions(table.identifier).map { p =>
      Files.qualified(new Path(p.location), conf) -> p.spec
    }
    // several partitions may lie in one folder: each has all of its rows
    val folders = partitions.groupMap(_._1)(_._2).toSeq.sortBy(_._1.toString)
    val named = folders.flatMap { case (folder, specs) =>
      if (valuesOf(folder, table.partitionSchema).toSeq == specs) Nil
      else specs.map(spec => JArray(List(JString(folder.toString), Json.ofMap(spec))))
    }
    val files = Files.eachFolder(folders.map(_._1), conf)
      .filterNot(s => s.isDirectory || HadoopFSUtils.shouldFilterOutPathName(s.getPath.getName))
    (files.filter(rules.reads), named)
  }

  /** The partition values that a folder's path spells out, None if it does not spell all columns. */
  private def valuesOf(folder: Path, schema: StructType): Option[Map[String, String]] = {
    val names =
      Iterator.iterate(folder)(_.getParent).takeWhile(_ != null).take(schema.length).map(_.getName).toSeq.reverse
    if (!names.forall(_.contains("="))) None
    else {
      val values = CaseInsensitiveMap(PartitioningUtils.parsePathFragment(names.mkString("/")))
      if (schema.forall(f => values.contains(f.name))) Some(schema.map(f => f.name -> values(f.name)).toMap) else None
    }
  }

  def snapshot(session: SparkSession, leaf: LogicalRelation, files: HadoopFsRelation, position: JValue): LogicalPlan =
    reading(session, leaf, files, position, Listing.of(position)).newInstance()

  def changes(
      session: SparkSession, leaf: LogicalRelation, files: HadoopFsRelation, fields: Seq[String],
      from: JValue, to: JValue): LogicalPlan = {
    // the table's statistics say nothing about a part of its files
    val added = reading(session, leaf, files, to, Listing.added(from, to)).copy(catalogTable = None)
    SignedRows.inserted(added.newInstance(), fields)
  }

  /** The original relation over exactly `listed`, with partition values as the original has them. */
  private def reading(
      session: SparkSession, leaf: LogicalRelation, files: HadoopFsRelation, position: JValue,
      listed: Seq[Listing.Listed]): LogicalRelation = {
    val statuses = listed.map(Listing.status)
    val index = files.location match {
      case _: CatalogFileIndex =>
        val named = Json.items(position, "partitions").collect {
          case JArray(List(JString(folder), spec: JObject)) => folder -> Json.textMap(JObject("v" -> spec), "v")
        }.groupMap(_._1)(_._2)
        new ExactFileIndex(session, files.location.rootPaths, statuses, files.options,
          specOf(session, files.partitionSchema, statuses, named))
      case original =>
        ExactFileIndex.inferring(session, original.rootPaths, statuses, files.options, files.partitionSchema)
    }
    leaf.copy(relation = files.copy(location = index)(session))
  }

  private def specOf(
      session: SparkSession, schema: StructType, files: Seq[FileStatus],
      named: Map[String, Seq[Map[String, String]]]): PartitionSpec = {
    val zone = session.sessionState.conf.sessionLocalTimeZone
    val folders = files.map(_.getPath.getParent).distinct
    val paths = folders.flatMap { folder =>
      val specs = named.getOrElse(folder.toString, valuesOf(folder, schema).toSeq)
      if (specs.isEmpty) throw new IllegalStateException(s"The partition of '$folder' is not known")
      specs.map { values =>
        PartitionPath(CatalogTablePartition(values, CatalogStorageFormat.empty).toRow(schema, zone), folder)
      }
    }
    PartitionSpec(schema, paths)
  }
}
