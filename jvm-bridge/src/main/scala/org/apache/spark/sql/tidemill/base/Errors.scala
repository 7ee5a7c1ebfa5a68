package org.apache.spark.sql.tidemill.base

import scala.io.{Codec, Source}
import scala.util.Using

import org.apache.hadoop.fs.Path
import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.QueryContext
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.parser.ParseException
import org.apache.spark.sql.catalyst.trees.Origin

/**
 * An error of Tidemill. Spark's table of conditions does not know its condition, so message and state come along; they
 * arrive intact in PySpark and Spark Connect.
 *
 * @param message the full text, in Spark's layout: `[CONDITION] text. SQLSTATE: state`
 */
class TidemillException(
    condition: String, state: String, message: String, parameters: Map[String, String], cause: Option[Throwable] = None)
  extends AnalysisException(
    message = message,
    cause = cause,
    errorClass = Some(condition),
    messageParameters = parameters,
    sqlState = Some(state),
    messageTemplate = Some(message))

/**
 * The same, with a place in the text of the statement. The public constructors of Spark's class look the condition up
 * in Spark's table: the stand-in given here is in it, and all is overridden.
 */
class TidemillParseException(
    condition: String, state: String, text: String, parameters: Map[String, String], sql: String, origin: Origin)
  extends ParseException(Some(sql), origin, "PARSE_SYNTAX_ERROR", Map("error" -> "", "hint" -> "")) {

  override def getCondition: String = condition
  override def getSqlState: String = state
  override def getMessageParameters: java.util.Map[String, String] = {
    val map = new java.util.LinkedHashMap[String, String]
    parameters.foreach { case (name, value) => map.put(name, value) }
    map
  }
  override def getDefaultMessageTemplate: String = text
  override def getQueryContext: Array[QueryContext] = Array.empty
  override def withCommand(command: String): ParseException =
    new TidemillParseException(condition, state, text, parameters, command, origin)

  /** As Spark prints it: message, place, and the statement with a pointer below the line. */
  override def getMessage: String = {
    val (line, position) = (origin.line.getOrElse(1), origin.startPosition.getOrElse(0))
    val (above, below) = sql.split("\n").splitAt(line)
    val pointer = "-" * position + "^^^"
    s"\n$text (line $line, pos $position)\n\n== SQL ==\n" + (above ++ Array(pointer) ++ below).map(_ + "\n").mkString
  }
}

/** The one place where errors for the user are made. */
object Errors {
  implicit private val formats: Formats = DefaultFormats

  /** condition -> (SQLSTATE, message with `<parameter>`s): the file that the Python side uses. */
  private lazy val table: Map[String, (String, String)] =
    Using.resource(getClass.getResourceAsStream("/tidemill/errors.json")) { stream =>
      val entries = JsonMethods.parse(Source.fromInputStream(stream)(Codec.UTF8).mkString).asInstanceOf[JObject].obj
      entries.map { case (name, entry) =>
        name -> (((entry \ "sqlState").extract[String], (entry \ "message").extract[String]))
      }.toMap
    }

  /** An error of the JVM side, one of errors.json. */
  def of(condition: String, parameters: Map[String, String], cause: Option[Throwable] = None): TidemillException = {
    val (state, template) = table(condition)
    val text = parameters.foldLeft(template) { case (t, (name, value)) => t.replace(s"<$name>", value) }
    new TidemillException(condition, state, s"[$condition] $text SQLSTATE: $state", parameters, cause)
  }

  /** A file of a view that cannot be read. */
  def damaged(path: Path, cause: Throwable): TidemillException = {
    val reason = Option(cause.getMessage).flatMap(_.linesIterator.nextOption()).getOrElse(cause.getClass.getSimpleName)
    of("TIDEMILL_FILE_DAMAGED", Map("file" -> path.toString, "reason" -> reason.stripSuffix(".")), Some(cause))
  }

  /** An error of Spark's own at index `start` of the statement. */
  def parse(condition: String, parameters: Map[String, String], sql: String, start: Int): ParseException =
    new ParseException(Some(sql), origin(sql, start), condition, parameters)

  /** The planner is not there, or does not keep to the contract. */
  def plannerFailed(reason: String, cause: Option[Throwable] = None): TidemillException =
    of("TIDEMILL_PLANNER_FAILED", Map("reason" -> reason.stripSuffix("."), "log" -> "that of the Spark driver"), cause)

  /** The error that the planner answered with: CONTRACT's error envelope. */
  def fromPlanner(error: JValue, sql: String): AnalysisException = {
    val condition = (error \ "condition").extract[String]
    val state = (error \ "sqlState").extract[String]
    val message = (error \ "message").extract[String]
    val parameters = error \ "parameters" match {
      case JObject(fields) => fields.map { case (name, value) => name -> value.extract[String] }.toMap
      case _ => Map.empty[String, String]
    }
    error \ "start" match {
      case JInt(start) =>
        new TidemillParseException(condition, state, message, parameters, sql, origin(sql, start.toInt))
      case _ => new TidemillException(condition, state, message, parameters)
    }
  }

  /** Line (from 1) and column (from 0, in code points as Spark's parser counts) of index `start`. */
  private def origin(sql: String, start: Int): Origin = {
    val above = sql.substring(0, start.max(0).min(sql.length))
    val column = above.substring(above.lastIndexOf('\n') + 1)
    Origin(line = Some(above.count(_ == '\n') + 1), startPosition = Some(column.codePointCount(0, column.length)))
  }
}
