package tidemill.spark

import java.time.{Instant, LocalDate}
import java.time.temporal.ChronoUnit

import org.json4s._
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, render}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.tidemill.base.{Errors, HadoopSettings}
import org.apache.spark.sql.types._

/**
 * One of Tidemill's statements. Spark runs commands eagerly, once, in the thread that called `spark.sql`.
 *
 * @param statement the planner's own form of it; opaque here
 */
case class IncrementalCommand(sql: String, statement: JValue, override val output: Seq[Attribute])
  extends LeafRunnableCommand with Logging {

  override def run(session: SparkSession): Seq[Row] = {
    HadoopSettings.anew()
    val answer = Planner.call(session, "execute", ("sql" -> sql) ~ ("statement" -> statement), sql)
    (answer \ "warnings").children.foreach {
      case JString(text) => logWarning(text)
      case other => logWarning(compact(render(other)))
    }
    val types = output.map(_.dataType)
    (answer \ "rows").children.map(row =>
      Row.fromSeq(row.children.zip(types).map { case (c, t) => Cells.decode(c, t) }))
  }

  /** Short, for plans and the UI: the statement itself is the query's description there. */
  override def simpleString(maxFields: Int): String = s"IncrementalCommand ${compact(render(statement \ "kind"))}"
}

/** Cells of the planner's answers. */
private[spark] object Cells {

  /** The external Scala value of type `dataType` for a JSON cell; TIMESTAMP is microseconds, DATE days or ISO text. */
  def decode(cell: JValue, dataType: DataType): Any = (cell, dataType) match {
    case (JNull | JNothing, _) => null
    case (JBool(value), BooleanType) => value
    case (JString(value), _: StringType) => value
    case (JInt(value), ByteType) => value.toByte
    case (JInt(value), ShortType) => value.toShort
    case (JInt(value), IntegerType) => value.toInt
    case (JInt(value), LongType) => value.toLong
    case (JInt(value), FloatType) => value.toFloat
    case (JInt(value), DoubleType) => value.toDouble
    case (JDouble(value), FloatType) => value.toFloat
    case (JDouble(value), DoubleType) => value
    case (JDecimal(value), DoubleType) => value.toDouble
    case (JString(value), FloatType) => value.toFloat // NaN and Infinity, which JSON has no number for
    case (JString(value), DoubleType) => value.toDouble
    case (JInt(value), TimestampType) => Instant.EPOCH.plus(value.toLong, ChronoUnit.MICROS)
    case (JInt(value), DateType) => LocalDate.ofEpochDay(value.toLong)
    case (JString(value), DateType) => LocalDate.parse(value)
    case (JString(value), _: DecimalType) => new java.math.BigDecimal(value)
    case (JInt(value), _: DecimalType) => new java.math.BigDecimal(value.bigInteger)
    case (JArray(values), ArrayType(element, _)) => values.map(decode(_, element))
    case (JArray(values), StructType(fields)) =>
      Row.fromSeq(values.zip(fields.toSeq).map { case (value, field) => decode(value, field.dataType) })
    case (JObject(values), MapType(_: StringType, value, _)) => values.map { case (k, v) =>
        k -> decode(v, value)
      }.toMap
    case (other, _) =>
      val reason = s"it answered ${compact(render(other))} for a column of type ${dataType.sql}"
      throw Errors.plannerFailed(reason)
  }
}
