package org.apache.spark.sql.tidemill.source

import scala.collection.mutable
import scala.util.hashing.MurmurHash3

import org.apache.hadoop.fs.{FileStatus, Path}
import org.json4s._

import org.apache.spark.sql.tidemill.base.Json

/**
 * The files of a source in its position: {"files", "bytes", "modified": number of files, their bytes, the newest time;
 * "pages": [text...]}.
 *
 * A page holds some thousand files in the order of their paths: folder, NUL, files, NUL, folder ..., where files is
 * name/bytes/modified/name/... (no path contains NUL, no name a slash). Where a page ends is decided by the name of its
 * last file, and of that file's folder, alone: a file that comes or goes changes one page, and all others stay equal,
 * so that two listings are compared, and kept, by the pages in which they differ.
 */
private[tidemill] object Listing {
  type Listed = (String, Long, Long)

  /** Files on a page, on average; a power of two. */
  private val Page = 2048
  private val Gap = '\u0000'

  def position(files: Seq[FileStatus]): JObject = {
    val sorted = files.map(f => f.getPath.toString -> f).sortBy(_._1)
    JObject(
      "files" -> JInt(sorted.size),
      "bytes" -> JLong(files.iterator.map(_.getLen).sum),
      "modified" -> JLong(files.iterator.map(_.getModificationTime).foldLeft(0L)(math.max)),
      "pages" -> JArray(pages(sorted).map(JString(_)).toList))
  }

  private def pages(sorted: Seq[(String, FileStatus)]): Seq[String] = {
    val done = mutable.ArrayBuffer.empty[String]
    val page = new StringBuilder
    var folder = ""
    sorted.foreach { case (path, file) =>
      val slash = path.lastIndexOf('/')
      if (page.isEmpty || path.substring(0, slash) != folder) {
        if (page.nonEmpty) page += Gap
        folder = path.substring(0, slash)
        page ++= folder += Gap
      } else page += '/'
      page ++= path.substring(slash + 1) += '/' ++= file.getLen.toString += '/' ++= file.getModificationTime.toString
      if ((MurmurHash3.stringHash(path.substring(path.lastIndexOf('/', slash - 1) + 1)) & (Page - 1)) == 0) {
        done += page.result()
        page.clear()
      }
    }
    if (page.nonEmpty) done += page.result()
    done.toSeq
  }

  /** All files. */
  def of(position: JValue): Seq[Listed] = Json.texts(position, "pages").flatMap(read)

  /** The files at `to` that are not, or not like that, at `from`. */
  def added(from: JValue, to: JValue): Seq[Listed] = {
    val (before, now) = (Json.texts(from, "pages").toSet, Json.texts(to, "pages"))
    val known = (before -- now).iterator.flatMap(read).toSet
    now.filterNot(before).flatMap(read).filterNot(known)
  }

  def status(file: Listed): FileStatus = new FileStatus(file._2, false, 0, 0, file._3, new Path(file._1))

  private def read(page: String): Seq[Listed] = page.split(Gap).toSeq.grouped(2).flatMap { case Seq(folder, files) =>
    files.split('/').toSeq.grouped(3).map { case Seq(name, bytes, modified) =>
      (s"$folder/$name", bytes.toLong, modified.toLong)
    }
  }.toSeq
}
