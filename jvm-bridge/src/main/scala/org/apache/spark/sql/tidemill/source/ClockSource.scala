package org.apache.spark.sql.tidemill.source

import org.json4s._

import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.tidemill.base.Json

/**
 * The clock as a source of queries that read it. It has no rows.
 *
 * A position is {"clock": microseconds since 1970, "values": what the query reads of the clock then}: for `current_date`
 * the day in its zone, so that the clock stands still until midnight.
 */
private[tidemill] object ClockSource {
  def pin(source: JValue, micros: Long): JValue = JObject(
    "clock" -> JLong(micros),
    "values" -> JArray(Json.items(source, "reads").map(value(_, micros)).toList))

  private def value(read: JValue, micros: Long): JValue = Json.text(read, "reads") match {
    case "date" => JInt(DateTimeUtils.microsToDays(micros, DateTimeUtils.getZoneId(Json.text(read, "zone"))))
    case _ => JLong(micros)
  }
}
