package org.apache.spark.sql.tidemill.step

import java.util.Base64

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.types.StructType

import org.json4s._

/**
 * Cells as JSON: null, booleans, numbers and strings as they are; TIMESTAMP as epoch microseconds; DATE as ISO text;
 * decimals, NaN and infinities as text; BINARY as base64; ARRAY and STRUCT as lists, MAP as a list of pairs unless its
 * keys are strings.
 */
object RowEncoding {

  def encode(row: InternalRow, schema: StructType): JArray = {
    val external = CatalystTypeConverters.createToScalaConverter(schema)(row).asInstanceOf[Row]
    JArray(external.toSeq.toList.map(cell))
  }

  def cell(value: Any): JValue = value match {
    case null => JNull
    case b: Boolean => JBool(b)
    case n @ (_: Byte | _: Short | _: Int | _: Long) => JInt(BigInt(n.asInstanceOf[Number].longValue))
    case f: Float => number(f.toDouble)
    case d: Double => number(d)
    case t: java.sql.Timestamp => micros(t.toInstant)
    case t: java.time.Instant => micros(t)
    case bytes: Array[Byte] => JString(Base64.getEncoder.encodeToString(bytes))
    case row: Row => JArray(row.toSeq.toList.map(cell))
    case items: scala.collection.Seq[_] => JArray(items.toList.map(cell))
    case map: scala.collection.Map[_, _] if map.keys.forall(_.isInstanceOf[String]) =>
      JObject(map.toList.map { case (k, v) => k.toString -> cell(v) }.sortBy(_._1))
    case map: scala.collection.Map[_, _] =>
      JArray(map.toList.map { case (k, v) => JArray(List(cell(k), cell(v))) })
    case d: java.math.BigDecimal => JString(d.toPlainString)
    case other => JString(other.toString)
  }

  private def number(d: Double): JValue = if (d.isNaN || d.isInfinite) JString(d.toString) else JDouble(d)

  private def micros(t: java.time.Instant): JValue =
    JInt(BigInt(t.getEpochSecond) * 1000000 + t.getNano / 1000)
}
