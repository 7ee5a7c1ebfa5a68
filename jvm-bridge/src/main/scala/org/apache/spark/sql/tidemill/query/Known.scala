package org.apache.spark.sql.tidemill.query

import java.util.Locale

import org.apache.hadoop.fs.Path
import org.json4s._

import org.apache.spark.sql.catalyst.analysis.{UnresolvedAttribute, UnresolvedRelation}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, SubqueryAlias, UnresolvedWith}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.{
  DataSource, FileFormat, HadoopFsRelation, LogicalRelation, PartitionSpec
}
import org.apache.spark.sql.tidemill.base.{ExactFileIndex, Files, Json}
import org.apache.spark.sql.tidemill.source.{FileSource, Kind, Listing}
import org.apache.spark.sql.types.{DataType, StructField, StructType}

/**
 * What an earlier analysis of a query found out about its sources, put into the parsed query in place of their names.
 *
 * "known", [{"source": entry, "position": position or null}]: paths of files. Spark finds out their columns anew at
 * each analysis, with a job that for JSON reads all files; they stay known as long as the files that came since have
 * the same.
 *
 * "columns", {table: [name...]}: of a table that has other columns now, those that `*` stands for, as far as it has
 * them.
 */
private[tidemill] object Known {
  def resolve(session: SparkSession, parsed: LogicalPlan, request: JValue): LogicalPlan = {
    val paths =
      Json.items(request, "known").flatMap(k => KnownPath.of(session, k \ "source").filter(_.holds(k \ "position")))
    val columns = request \ "columns" match {
      case known @ JObject(tables) =>
        tables.map { case (table, _) => table.toLowerCase(Locale.ROOT) -> Json.texts(known, table) }.toMap
      case _ => Map.empty[String, Seq[String]]
    }
    if (paths.isEmpty && columns.isEmpty) parsed else new Known(session, paths, columns).visit(parsed, Set.empty)
  }
}

private final class Known(session: SparkSession, paths: Seq[KnownPath], columns: Map[String, Seq[String]]) {

  /** `ctes`: names that are none of the catalog's. */
  def visit(plan: LogicalPlan, ctes: Set[String]): LogicalPlan = plan.transformUpWithSubqueries {
    case w: UnresolvedWith =>
      val inner = ctes ++ w.cteRelations.map(_._1.toLowerCase(Locale.ROOT))
      val relations = w.cteRelations.map(r => r.copy(_2 = visit(r._2, inner).asInstanceOf[SubqueryAlias]))
      w.copy(cteRelations = relations)
    case u @ UnresolvedRelation(Seq(format, path), options, false)
        if options.isEmpty && paths.exists(_.isMeant(format, path)) =>
      paths.find(_.isMeant(format, path)).get.relation
    case u: UnresolvedRelation if !u.isStreaming && columns.contains(qualified(u)) && !isCte(plan, u, ctes) =>
      val present = session.sessionState.analyzer.execute(u).output.map(_.name)
      val resolver = session.sessionState.conf.resolver
      val kept = columns(qualified(u)).filter(name => present.exists(resolver(_, name)))
      Project(kept.map(UnresolvedAttribute.quoted), u)
  }

  private def isCte(plan: LogicalPlan, u: UnresolvedRelation, ctes: Set[String]): Boolean =
    u.multipartIdentifier.size == 1 && {
      val name = u.multipartIdentifier.head.toLowerCase(Locale.ROOT)
      ctes(name) || plan.collectWithSubqueries { case w: UnresolvedWith => w.cteRelations.map(_._1) }
        .flatten.exists(_.equalsIgnoreCase(name))
    }

  private def qualified(u: UnresolvedRelation): String = {
    val manager = session.sessionState.catalogManager
    val prefix = manager.currentCatalog.name +: manager.currentNamespace.toSeq
    val parts = u.multipartIdentifier
    (prefix.take(math.max(0, 3 - parts.size)) ++ parts).mkString(".").toLowerCase(Locale.ROOT)
  }
}

/** A path of files with the columns that it had; `data` and `partitions` as in Spark's relation over it. */
private final class KnownPath(
    session: SparkSession, format: String, root: Path, options: Map[String, String], data: StructType,
    partitions: StructType) {

  private val reader = DataSource(session, className = format).providingInstance() match {
    case files: FileFormat => Some(files)
    case _ => None
  }

  def isMeant(otherFormat: String, path: String): Boolean =
    otherFormat.toLowerCase(Locale.ROOT) == format &&
      Files.qualified(path, session.sessionState.newHadoopConf()) == root

  /** Nothing is listed for it: whoever reads it puts the files of a position in. */
  def relation: LogicalPlan = {
    val index = new ExactFileIndex(session, Seq(root), Nil, options, PartitionSpec.emptySpec, Some(partitions))
    LogicalRelation(HadoopFsRelation(index, partitions, data, None, reader.get, options)(session))
  }

  /** Whether the files that came since `position` have these columns. Only they are asked. */
  def holds(position: JValue): Boolean = reader.exists { format =>
    val found = FileSource.inFolders(session, Seq(root), options, partitioned = true)
    val present = Listing.position(found)
    val added = Listing.added(position, present).map(Listing.status)
    added.isEmpty || {
      val folders = ExactFileIndex.guessing(session, Seq(root), added, options)
      lazy val columns = format.inferSchema(session, options, added)
      sameTypes(folders.partitionSpec().partitionColumns, partitions) && columns.exists(sameData)
    }
  }

  private def sameTypes(a: StructType, b: StructType): Boolean = DataType.equalsIgnoreNullability(a, b)

  private def sameData(columns: StructType): Boolean = {
    val names = partitions.fieldNames.toSet
    val own = StructType(columns.filterNot(f => names(f.name)))
    // a JSON file need not have every column, and they come in the order of their names
    if (format == "json")
      own.forall(f => data.fields.exists(d => d.name == f.name && sameTypes(StructType(Seq(f)), StructType(Seq(d)))))
    else sameTypes(own, data)
  }
}

private object KnownPath {
  /** None for what is not a single path of files, or is better left to Spark. */
  def of(session: SparkSession, source: JValue): Option[KnownPath] = {
    val location = source \ "location"
    val roots = Json.texts(location, "roots")
    val isPath = Kind.of(source) == Kind.Files && !Json.present(location \ "table") && !Json.flag(location, "sink")
    if (!isPath || roots.size != 1) None
    else {
      val names = Json.texts(source, "partitions").toSet
      val fields = Json.items(source, "fields").collect { case JArray(List(JString(name), kind, JBool(nullable))) =>
        StructField(name, DataType.fromJson(Json.print(kind)), nullable)
      }
      val (partitions, data) = fields.partition(f => names(f.name))
      if (data ++ partitions != fields) None // a partition column that is in the files too
      else Some(new KnownPath(session, Json.text(source, "format"), new Path(roots.head),
          Json.textMap(location, "options"), StructType(data), StructType(partitions)))
    }
  }
}
