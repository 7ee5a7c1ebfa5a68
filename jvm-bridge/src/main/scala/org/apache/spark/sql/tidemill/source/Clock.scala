package org.apache.spark.sql.tidemill.source

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.tidemill.base.Json
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import org.json4s._

/** The expressions that read the clock, and their values at a moment, given in microseconds since 1970. */
object Clock {

  def reads(e: Expression): Boolean = e.exists(isReading)

  /** The expressions of `e` that read the clock themselves. */
  def readings(e: Expression): Seq[Expression] = e.collect { case r if isReading(r) => r }

  def isReading(e: Expression): Boolean = e match {
    case _: CurrentDate | _: CurrentTimestampLike | _: LocalTimestamp | _: CurrentTime => true
    case c: Cast => word(c).isDefined
    case _ => false
  }

  /** Days for what changes at midnight in a zone, else the moment itself: see `ClockSource`. */
  def described(e: Expression): JObject = e match {
    case d: CurrentDate => days(d)
    case c: Cast if !word(c).contains("now") || c.dataType == DateType => days(c)
    case _ => JObject("reads" -> JString("moment"))
  }

  private def days(e: TimeZoneAwareExpression): JObject =
    JObject("reads" -> JString("date"), "zone" -> JString(e.zoneId.getId))

  /** `e` with the clock as it was at `micros`. */
  def at(e: Expression, micros: Long): Expression = if (reads(e)) e.transform(reading(micros)) else e

  def at(plan: LogicalPlan, micros: Long): LogicalPlan =
    plan.transformAllExpressionsWithSubqueries { case e if isReading(e) => reading(micros)(e) }

  private def reading(micros: Long): PartialFunction[Expression, Expression] = {
    case d: CurrentDate => Literal(DateTimeUtils.microsToDays(micros, d.zoneId), DateType)
    case t: CurrentTimestampLike => Literal(micros, t.dataType)
    case l: LocalTimestamp => Literal(local(micros, l), TimestampNTZType)
    case t: CurrentTime =>
      val nanos = DateTimeUtils.instantToNanosOfDay(DateTimeUtils.microsToInstant(micros), t.zoneId)
      Literal(DateTimeUtils.truncateTimeToPrecision(nanos, t.precision), TimeType(t.precision))
    case c: Cast if word(c).isDefined => special(c, word(c).get, micros)
  }

  private def local(micros: Long, e: TimeZoneAwareExpression): Long =
    DateTimeUtils.convertTz(micros, java.time.ZoneOffset.UTC, e.zoneId)

  private val shifts = Map("now" -> 0, "today" -> 0, "tomorrow" -> 1, "yesterday" -> -1)

  /** The word in cast('today' AS DATE) and its kin, which Spark's SpecialDatetimeValues folds at run time. */
  private def word(c: Cast): Option[String] = (c.child, c.dataType) match {
    case (Literal(text: UTF8String, _: StringType), DateType | TimestampType | TimestampNTZType) =>
      Some(text.toString.trim.toLowerCase(Locale.ROOT)).filter(shifts.contains)
    case _ => None
  }

  private def special(c: Cast, word: String, micros: Long): Literal = {
    val day = DateTimeUtils.microsToDays(micros, c.zoneId) + shifts(word)
    c.dataType match {
      case DateType => Literal(day, DateType)
      case TimestampType if word == "now" => Literal(micros, TimestampType)
      case TimestampType => Literal(DateTimeUtils.daysToMicros(day, c.zoneId), TimestampType)
      case ntz =>
        Literal(if (word == "now") local(micros, c) else DateTimeUtils.daysToMicros(day, java.time.ZoneOffset.UTC), ntz)
    }
  }

  /** The source entry that stands for the clock in the query document; None if the plan does not read it. */
  def source(plan: LogicalPlan): Option[JObject] = {
    val read = plan.collectWithSubqueries { case p => p }.flatMap(_.expressions).flatMap(readings).map(described)
    if (read.isEmpty) None
    else Some(JObject(
        "kind" -> JString("clock"), "format" -> JString("clock"), "name" -> JString(Name), "id" -> JString(Name),
        "path" -> JNull, "fields" -> JArray(Nil), "bytes" -> JInt(0), "rows" -> JInt(1), "partitions" -> JArray(Nil),
        "location" -> JObject(), "constant" -> JBool(false), "reason" -> JString(""),
        "reads" -> JArray(read.distinct.sortBy(Json.print).toList)))
  }

  /** No table has this name. */
  private val Name = "clock()"
}
