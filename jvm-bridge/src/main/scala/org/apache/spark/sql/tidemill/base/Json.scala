package org.apache.spark.sql.tidemill.base

import java.security.MessageDigest

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.types.DataType

/** Readers and writers of json4s values; a missing or ill-typed value is an IllegalArgumentException with its name. */
private[tidemill] object Json {
  def text(value: JValue, name: String): String = textOption(value, name).getOrElse(wrong(value, name, "a string"))

  def textOption(value: JValue, name: String): Option[String] = value \ name match {
    case JString(s) => Some(s)
    case _ => None
  }

  def texts(value: JValue, name: String): Seq[String] = items(value, name).map {
    case JString(s) => s
    case _ => wrong(value, name, "a list of strings")
  }

  def textMap(value: JValue, name: String): Map[String, String] = value \ name match {
    case JObject(fields) => fields.collect { case (k, JString(v)) => k -> v }.toMap
    case _ => Map.empty
  }

  def items(value: JValue, name: String): Seq[JValue] = value \ name match {
    case JArray(list) => list
    case JNothing | JNull => Nil
    case _ => wrong(value, name, "a list")
  }

  def longs(value: JValue, name: String): Seq[Long] = items(value, name).map {
    case JInt(number) => number.toLong
    case JLong(number) => number
    case _ => wrong(value, name, "whole numbers")
  }

  def flag(value: JValue, name: String): Boolean = value \ name == JBool(true)

  def longOption(value: JValue, name: String): Option[Long] = value \ name match {
    case JInt(n) => Some(n.toLong)
    case JLong(n) => Some(n)
    case JDouble(n) if n.isWhole => Some(n.toLong)
    case _ => None
  }

  def long(value: JValue, name: String): Long = longOption(value, name).getOrElse(wrong(value, name, "a whole number"))

  def present(value: JValue): Boolean = value != JNull && value != JNothing

  def parse(text: String): JValue = JsonMethods.parse(text)

  /** What `read` makes of the JSON in a file of a view; TIDEMILL_FILE_DAMAGED where nobody can have written that. */
  def inFile[A](path: Path, text: String)(read: JValue => A): A =
    try read(parse(text) match {
        case whole: JObject => whole
        case _ => throw new IllegalArgumentException("it is no JSON object")
      })
    catch {
      case known: TidemillException => throw known
      case gone: java.io.FileNotFoundException => throw gone
      case NonFatal(wrong) => throw Errors.damaged(path, wrong)
    }

  def print(value: JValue): String = JsonMethods.compact(JsonMethods.render(value))

  def dataType(value: JValue): DataType = DataType.fromJson(print(value))

  def of(dataType: DataType): JValue = parse(dataType.json)

  def of(text: Option[String]): JValue = text.map(JString(_)).getOrElse(JNull)

  def ofLong(number: Option[Long]): JValue = number.map(JLong(_)).getOrElse(JNull)

  def ofTexts(values: Iterable[String]): JValue = JArray(values.map(JString(_)).toList)

  def ofMap(values: Iterable[(String, String)]): JValue =
    JObject(values.map { case (k, v) => k -> (JString(v): JValue) }.toList)

  /** A short fingerprint. */
  def digest(bytes: Array[Byte]): String =
    MessageDigest.getInstance("SHA-256").digest(bytes).take(8).map(b => f"$b%02x").mkString

  private def wrong(value: JValue, name: String, wanted: String): Nothing =
    throw new IllegalArgumentException(s"'$name' must be $wanted in ${print(value).take(300)}")
}
