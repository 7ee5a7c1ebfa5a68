package org.apache.spark.sql.tidemill.view

import org.json4s._

import org.apache.spark.sql.tidemill.base.Json

/**
 * The rows of a result file that have left the view, as a log entry names them: `"dv"` of a file.
 *
 * @param path of the file that holds the vector, among others
 * @param bytes of that file
 * @param offset of the vector in it
 * @param size of the vector in bytes
 * @param rows that it marks
 * @param of rows in the result file, marked or not
 */
final private[tidemill] case class DeletionVector(
    path: String, bytes: Long, offset: Int, size: Int, rows: Long, of: Long) {
  def json: JObject = JObject(
    "path" -> JString(path),
    "bytes" -> JLong(bytes),
    "offset" -> JInt(offset),
    "size" -> JInt(size),
    "rows" -> JLong(rows),
    "of" -> JLong(of))
}

private[tidemill] object DeletionVector {
  /** Of an entry's file; None if all its rows are the view's. */
  def of(file: JValue): Option[DeletionVector] = file \ "dv" match {
    case told: JObject =>
      def number(name: String): Long = Json.long(told, name)
      Some(DeletionVector(
          Json.text(told, "path"), number("bytes"), number("offset").toInt, number("size").toInt, number("rows"),
          number("of")))
    case _ => None
  }
}
