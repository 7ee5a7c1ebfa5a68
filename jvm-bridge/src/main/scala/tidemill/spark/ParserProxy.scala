package tidemill.spark

import java.lang.reflect.{InvocationTargetException, Method, Modifier}

import org.codehaus.janino.ClassBodyEvaluator
import org.json4s._
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, render}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.parser.{ParseException, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.{Command, CompoundBody, LogicalPlan, ParsedStatement}
import org.apache.spark.sql.internal.{SQLConf, VariableSubstitution}
import org.apache.spark.sql.tidemill.base.Errors
import org.apache.spark.sql.types.DataType

/**
 * Spark's parser with Tidemill's statements in front.
 *
 * Its class is made at run time from the interface as this Spark has it: methods that a later Spark adds reach the
 * delegate too, and defaults of the interface (`parsePlanWithParameters` drops the parameters) never hide what the
 * delegate does. `java.lang.reflect.Proxy` would do, if it did not wrap checked exceptions that a method does not
 * declare: Spark's parser throws such ones (errors in SQL scripts).
 */
private[spark] object ParserProxy {

  /** The parser's methods, by their number in the made class. */
  private val methods = classOf[ParserInterface].getMethods.filterNot(m => Modifier.isStatic(m.getModifiers))

  private lazy val made: Class[_] = {
    val evaluator = new ClassBodyEvaluator
    evaluator.setParentClassLoader(classOf[ParserCalls].getClassLoader)
    evaluator.setClassName("tidemill.spark.MadeParserProxy")
    evaluator.setImplementedInterfaces(Array(classOf[ParserInterface]))
    evaluator.cook(source)
    evaluator.getClazz
  }

  private def source: String = {
    val calls = classOf[ParserCalls].getName
    val bodies = methods.zipWithIndex.map { case (method, number) =>
      val types = method.getParameterTypes.map(_.getCanonicalName)
      val declared = types.zipWithIndex.map { case (t, i) => s"final $t a$i" }.mkString(", ")
      val passed = types.indices.map(i => s"a$i").mkString("new Object[] {", ", ", "}")
      val result = method.getReturnType.getCanonicalName
      s"public $result ${method.getName}($declared) { return ($result) calls.call($number, $passed); }"
    }
    s"private final $calls calls;\npublic MadeParserProxy($calls calls) { this.calls = calls; }\n" +
      bodies.mkString("\n")
  }

  def apply(session: SparkSession, delegate: ParserInterface): ParserInterface =
    made.getConstructor(classOf[ParserCalls]).newInstance(new ParserCalls(session, delegate))
      .asInstanceOf[ParserInterface]

  private[spark] def method(number: Int): Method = methods(number)
}

/** Where all calls of the made class arrive. Public for it; Scala declares no exceptions. */
class ParserCalls(session: SparkSession, delegate: ParserInterface) {

  def call(number: Int, args: Array[AnyRef]): AnyRef = {
    ThreadClasses.find(session)
    val method = ParserProxy.method(number)
    method.getName match {
      case "parsePlan" if owned(args) => Statement.parse(session, delegate, text(args))
      case "parsePlanWithParameters" if owned(args) =>
        if (hasParameters(args(1))) {
          val statement = Map("statement" -> "statements for incremental views")
          throw Errors.parse("UNSUPPORTED_FEATURE.PARAMETER_MARKER_IN_UNEXPECTED_STATEMENT", statement, text(args), 0)
        }
        Statement.parse(session, delegate, text(args))
      case _ =>
        try method.invoke(delegate, args: _*)
        catch { case e: InvocationTargetException => throw e.getCause }
    }
  }

  private def text(args: Array[AnyRef]): String = args(0).asInstanceOf[String]

  private def owned(args: Array[AnyRef]): Boolean = Verbs.owned(text(args))

  /** Spark's contexts are case classes around one collection; an empty one means no parameters. */
  private def hasParameters(context: AnyRef): Boolean = context match {
    case product: Product => product.productIterator.exists {
        case values: Iterable[_] => values.nonEmpty
        case other => other != null
      }
    case other => other != null
  }
}

/** Text of one of Tidemill's statements to a command. */
private[spark] object Statement {

  def parse(session: SparkSession, delegate: ParserInterface, original: String): LogicalPlan = {
    val conf = session.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState.conf
    val text = SQLConf.withExistingConf(conf)(new VariableSubstitution().substitute(original))
    val answer = Planner.call(session, "parse", "sql" -> text, text)
    answer \ "query" match {
      case JArray(List(JInt(start), JInt(end))) => checkQuery(delegate, text, start.toInt, end.toInt)
      case _ =>
    }
    val output = (answer \ "columns").children.map {
      case JArray(List(JString(name), dataType, JBool(nullable))) =>
        AttributeReference(name, DataType.fromJson(compact(render(dataType))), nullable)()
      case other => throw Errors.plannerFailed(s"it answered the column ${compact(render(other))}")
    }
    IncrementalCommand(text, answer \ "statement", output)
  }

  /**
   * Has Spark parse the query within `text` at once. All before it is blanked, so that line, position and pointer of
   * an error are those of the statement as the user wrote it.
   *
   * @param start index of the query's first character; @param end index behind its last
   */
  private def checkQuery(delegate: ParserInterface, text: String, start: Int, end: Int): Unit = {
    // One blank per code point: so count Spark's positions.
    val blank =
      text.substring(0, start).codePoints.toArray.map(c => if (c == '\n' || c == '\r') c.toChar else ' ').mkString
    val plan =
      try delegate.parsePlan(blank + text.substring(start, end))
      catch { case e: ParseException => throw e.withCommand(text) }
    plan match {
      case _: Command | _: ParsedStatement | _: CompoundBody =>
        val word = text.substring(start, end).takeWhile(c => !Character.isWhitespace(c))
        throw Errors.parse("PARSE_SYNTAX_ERROR", Map("error" -> s"'$word'", "hint" -> ""), text, start)
      case _ =>
    }
  }
}
