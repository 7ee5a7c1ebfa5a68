package org.apache.spark.sql.tidemill.view

import java.io.FileNotFoundException
import java.net.URI

import scala.annotation.tailrec

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.json4s._

import org.apache.spark.sql.{classic, SparkSession}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink
import org.apache.spark.sql.tidemill.base.{Errors, Files, Json, TidemillException}
import org.apache.spark.sql.types.{DataType, StructField, StructType}

/**
 * The runs of a view that plain readers see: `_spark_metadata/<run>.compact`, each with all files of its run (who
 * writes them: `tidemill.runtime.storage.publish`), and the columns that a run has, which its definition tells.
 */
private[tidemill] object PublishedRuns {
  /** How often what changed while it was looked at is looked at anew. */
  val Attempts = 10

  /** The condition of a statement for which columns and runs do not go together. */
  val Changed = "TIDEMILL_COLUMNS_CHANGED"

  private val Manifest = raw"(\d+)\.compact".r
  private val Definition = "_tidemill/view.json"
  private val Definitions = "_tidemill/definition"

  sealed trait Newest
  /** The newest run with the wanted columns. */
  final case class Fitting(index: ViewFileIndex) extends Newest
  /** Nothing was published yet. */
  case object Unfilled extends Newest
  /** What is published has other columns. */
  case object Others extends Newest

  /** The newest published run that has the columns of `table`; `known` if it is that. */
  def newest(session: SparkSession, table: CatalogTable, known: Option[ViewFileIndex]): Newest = {
    val conf = session.asInstanceOf[classic.SparkSession].sessionState.newHadoopConf()
    val path = new Path(table.location)
    val fitting = known.filter(index => index.path == path && same(index.schema, table.schema))
    newest(session, path, table.schema, fitting, conf, Attempts)
  }

  @tailrec private def newest(
      session: SparkSession, path: Path, schema: StructType, known: Option[ViewFileIndex], conf: Configuration,
      attempts: Int): Newest = {
    val manifests = Files.list(new Path(path, FileStreamSink.metadataDir), conf)
      .flatMap(file =>
        Some(file.getPath.getName).collect { case Manifest(run) => (run.toLong, file.getModificationTime) })
      .sorted.reverse
    def index(manifest: (Long, Long)): Option[ViewFileIndex] = known.filter(_.manifest == manifest).orElse {
      Option.when(columns(path, manifest._1, conf).forall(same(_, schema))) {
        new ViewFileIndex(session, path, manifest, files(path, manifest._1, conf), schema)
      }
    }
    val found =
      try Right(manifests.iterator.flatMap(index(_)).nextOption())
      catch { case gone: FileNotFoundException => Left(gone) } // newer runs need it no more: look for these
    found match {
      case Right(Some(index)) => Fitting(index)
      case Right(None) => if (manifests.isEmpty) Unfilled else Others
      case Left(gone) if attempts == 0 => throw gone
      case Left(_) => newest(session, path, schema, known, conf, attempts - 1)
    }
  }

  private def files(path: Path, run: Long, conf: Configuration): Seq[FileStatus] = {
    val manifest = new Path(path, s"${FileStreamSink.metadataDir}/$run.compact")
    val text = Files.read(manifest, conf).getOrElse(throw new FileNotFoundException(manifest.toString))
    val lines = text.linesIterator
    if (lines.nextOption().forall(_ != "v1"))
      throw Errors.damaged(manifest, new IllegalArgumentException("it does not begin as a manifest does"))
    lines.map(Json.inFile(manifest, _) { file =>
      new FileStatus(Json.long(file, "size"), false, 1, Json.long(file, "blockSize"),
        Json.long(file, "modificationTime"),
        new Path(new URI(Json.text(file, "path"))))
    }).toSeq
  }

  /** The columns of the definition for which a run stands; None where there is no log that tells. */
  private def columns(path: Path, run: Long, conf: Configuration): Option[StructType] = {
    val log = new ViewLog(path, conf)
    log.entry(run) match {
      case Some(text) =>
        val entry = Json.inFile(log.path(run), text)(identity)
        Some(columns(path, entry, conf).getOrElse(throw new FileNotFoundException(definition(path, entry).toString)))
      case None if path.getFileSystem(conf).exists(new Path(path, Definition)) =>
        throw new FileNotFoundException(log.path(run).toString)
      case None => None
    }
  }

  /** The columns of the definition for which an entry of the log stands; None if VACUUM removed that. */
  def columns(path: Path, entry: JValue, conf: Configuration): Option[StructType] =
    Files.read(definition(path, entry), conf).map(Json.inFile(definition(path, entry), _) { known =>
      require((known \ "columns").isInstanceOf[JArray], "it has no columns")
      StructType(Json.items(known, "columns").map { column =>
        StructField(Json.text(column, "name"), DataType.fromJson(Json.print(column \ "type")))
      })
    })

  private def definition(path: Path, entry: JValue): Path =
    Json.longOption(entry, "definition").filter(_ > 0).map(ViewLog.numbered(new Path(path, Definitions), _))
      .getOrElse(new Path(path, Definition))

  /** Whether these are the same columns; catalogs may keep names in lower case, and a stored column may be NULL. */
  def same(one: StructType, other: StructType): Boolean = DataType.equalsIgnoreCaseAndNullability(one, other)

  def changed(table: CatalogTable): TidemillException = changed(ViewGuard.nameOf(table))

  def changed(view: String): TidemillException = Errors.of(Changed, Map("view" -> view))
}
