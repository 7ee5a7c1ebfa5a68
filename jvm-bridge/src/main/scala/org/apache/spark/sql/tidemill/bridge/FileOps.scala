package org.apache.spark.sql.tidemill.bridge

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.json4s._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.tidemill.base.{Files, HadoopSettings, Json}
import org.apache.spark.sql.tidemill.view.{RowsInMemory, ViewLog}

/**
 * Operations on files, asked for by Python as {"do": name, ...}; paths as [[Files]] has them. {"do": "each", "each":
 * [operation...]} answers each of them, one after the other.
 */
private[tidemill] object FileOps {
  def run(session: SparkSession, request: JValue): JValue = run(request, HadoopSettings.of(session))

  private def run(request: JValue, conf: Configuration): JValue = {
    def path(name: String): Path = Files.qualified(Json.text(request, name), conf)
    def paths: Seq[Path] = Json.texts(request, "paths").map(Files.qualified(_, conf))
    Json.text(request, "do") match {
      case "each" => JArray(Json.items(request, "each").map(run(_, conf)).toList)
      case "read" => Files.read(path("path"), conf).map(JString(_)).getOrElse(JNull)
      case "read_many" =>
        JArray(paths.map(Files.read(_, conf).map(JString(_)).getOrElse(JNull)).toList)
      case "write_new" => Files.writeNew(path("path"), Json.text(request, "text"), conf)
      case "write" =>
        Files.replace(path("path"), Json.text(request, "text"), conf, Json.flag(request, "lasting"))
        JBool(true)
      case "list" =>
        JArray(Files.listOwn(path("path"), conf, Json.flag(request, "recursive")).map(listed).toList)
      case "mkdirs" => JBool(path("path").getFileSystem(conf).mkdirs(path("path")))
      case "delete" => JInt(paths.count(p => p.getFileSystem(conf).delete(p, true)))
      case "delete_empty" => paths.foreach(Files.deleteEmpty(_, conf)); JBool(true)
      case "newest" =>
        new ViewLog(path("path"), conf).newest().fold[JValue](JNull) { case (run, text) =>
          JObject("run" -> JLong(run), "text" -> JString(text))
        }
      case "exists" => JBool(path("path").getFileSystem(conf).exists(path("path")))
      case "stat" => JArray(Files.stat(Json.texts(request, "paths"), conf).map(_.fold[JValue](JNull)(entry)).toList)
      case "missing" => JArray(Files.missing(Json.texts(request, "paths"), conf).map(JString(_)).toList)
      case "rename" =>
        val renamed = Files.rename(path("from"), path("to"), conf)
        if (renamed) RowsInMemory.moved(path("from").toString, path("to").toString)
        JBool(renamed)
      case "qualify" => JString(path("path").toString)
      case other => throw new IllegalArgumentException(s"Unknown file operation '$other'")
    }
  }

  private def listed(found: Files.Listed): JValue =
    if (found.isLink) entry(found.status) merge JObject("folder" -> JBool(false), "link" -> JBool(true))
    else entry(found.status)

  private def entry(status: FileStatus): JValue = JObject(
    "path" -> JString(status.getPath.toString),
    "bytes" -> JLong(status.getLen),
    "modified" -> JLong(status.getModificationTime),
    "folder" -> JBool(status.isDirectory))
}
