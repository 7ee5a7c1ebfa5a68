package org.apache.spark.sql.tidemill.query

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{
  AggregateExpression, AggregateFunction, DeclarativeAggregate
}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.tidemill.base.Json
import org.apache.spark.sql.tidemill.source.Clock
import org.apache.spark.sql.types._

import org.json4s._
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods

/** Column ids by attribute; valid within one subtree, since a union gives new ids to what keeps its expression id. */
object Scope {
  type Columns = Map[ExprId, Int]
}

/**
 * Numbers columns and expressions of one query and describes them for the planner.
 *
 * Handles are shared by equal deterministic expressions over equal columns; text and numbers depend on the query only,
 * never on expression ids, so the same text analysed twice gives the same document.
 */
final class ExpressionEncoder {
  import ExpressionEncoder._
  import Scope.Columns

  private val columnTable = mutable.ArrayBuffer.empty[Column]
  private val handleTable = mutable.ArrayBuffer.empty[Handle]
  private val documents = mutable.ArrayBuffer.empty[JValue]
  private val known = mutable.HashMap.empty[(Expression, Columns), Int]

  def columns: IndexedSeq[Column] = columnTable.toIndexedSeq
  def handles: IndexedSeq[Handle] = handleTable.toIndexedSeq

  def columnsDocument: JArray = JArray(columnTable.toList.map { c =>
    ("id" -> c.id) ~ ("name" -> c.name) ~ ("type" -> typeDocument(c.dataType)) ~ ("nullable" -> c.nullable)
  })

  def expressionsDocument: JArray = JArray(documents.toList)

  def newColumn(name: String, dataType: DataType, nullable: Boolean): Int = {
    val id = columnTable.length
    columnTable += Column(id, name, dataType, nullable)
    id
  }

  def newColumn(attribute: NamedExpression): Int =
    newColumn(attribute.name, attribute.dataType, attribute.nullable)

  /** An outer join may make a column nullable on the way up: remember it for the column as a whole. */
  def widen(output: Seq[Attribute], scope: Columns): Unit = output.foreach { a =>
    scope.get(a.exprId).foreach { id =>
      if (a.nullable && !columnTable(id).nullable) columnTable(id) = columnTable(id).copy(nullable = true)
    }
  }

  /** The wire form of an expression: a column, a plain literal, or a handle. */
  def encode(expression: Expression, scope: Columns): JValue = expression match {
    case Alias(child, _) => encode(child, scope)
    case a: Attribute => "col" -> JInt(id(a, scope))
    case Literal(value, dataType) if isPlain(dataType) =>
      ("lit" -> literalDocument(value)) ~ ("type" -> typeDocument(dataType))
    case other => "handle" -> JInt(handle(other, scope))
  }

  def id(attribute: Attribute, scope: Columns): Int = scope.getOrElse(
    attribute.exprId,
    throw new IllegalStateException(s"column ${attribute.sql} (${attribute.exprId}) is not in scope"))

  private def handle(expression: Expression, scope: Columns): Int = {
    expression.find(_.isInstanceOf[OuterReference]).foreach { e =>
      // Passes Spark's analysis and dies in code generation: refuse it here.
      throw new IllegalStateException(s"correlated subquery left in the normal form: ${e.sql}")
    }
    val used = expression.references.toSeq.map(a => a.exprId -> id(a, scope)).toMap
    // Shuffling nondeterministic calls together would change what rand() means; aggregates like first() may share.
    val shareable = !Findings.isNondeterministic(expression)
    val key = (expression.canonicalized, used)
    if (shareable && known.contains(key)) known(key)
    else {
      val number = handleTable.length
      handleTable += Handle(expression, used)
      documents += JNothing
      if (shareable) known(key) = number
      documents(number) = describe(number, expression, scope, used)
      number
    }
  }

  private def describe(number: Int, e: Expression, scope: Columns, used: Columns): JObject =
    ("handle" -> number) ~
      ("text" -> text(e, used)) ~
      ("columns" -> used.values.toList.distinct.sorted) ~
      ("type" -> typeDocument(e.dataType)) ~
      ("nullable" -> e.nullable) ~
      ("deterministic" -> !Findings.isNondeterministic(e)) ~
      ("time_dependent" -> Clock.reads(e)) ~
      ("functions" -> functions(e).toList) ~
      ("equal" -> equal(e, scope)) ~
      ("compare" -> compare(e, scope)) ~
      ("aggregate" -> aggregate(e, scope))

  private def equal(e: Expression, scope: Columns): JValue = {
    def pair(left: Expression, right: Expression, nullSafe: Boolean): JValue =
      ("left" -> encode(left, scope)) ~ ("right" -> encode(right, scope)) ~ ("null_safe" -> nullSafe)
    e match {
      case EqualTo(left, right) => pair(left, right, nullSafe = false)
      case EqualNullSafe(left, right) => pair(left, right, nullSafe = true)
      case _ => JNull
    }
  }

  private def compare(e: Expression, scope: Columns): JValue = {
    def triple(a: Attribute, op: String, l: Literal): JValue =
      if (l.value == null) JNull
      else ("column" -> id(a, scope)) ~ ("op" -> op) ~ ("value" -> valueDocument(l))
    e match {
      case c: BinaryComparison =>
        (c.left, c.right) match {
          case (a: Attribute, l: Literal) => triple(a, c.symbol, l)
          case (l: Literal, a: Attribute) => triple(a, mirrored.getOrElse(c.symbol, c.symbol), l)
          case _ => JNull
        }
      case In(a: Attribute, list) =>
        val values = list.collect { case l: Literal if l.value != null => valueDocument(l) }
        if (values.isEmpty || values.length != list.length) JNull
        else ("column" -> id(a, scope)) ~ ("op" -> "in") ~ ("value" -> JArray(values.toList))
      case _ => JNull
    }
  }

  private def aggregate(e: Expression, scope: Columns): JValue = e match {
    case AggregateExpression(function, _, distinct, filter, _) =>
      ("function" -> function.prettyName.toLowerCase(java.util.Locale.ROOT)) ~
        ("args" -> JArray(function.children.toList.map(encode(_, scope)))) ~
        ("distinct" -> distinct) ~
        ("filter" -> filter.map(encode(_, scope)).getOrElse(JNull)) ~
        ("buffers" -> buffers(function))
    case _ => JNull
  }
}

object ExpressionEncoder {
  import Scope.Columns

  private val mirrored = Map("<" -> ">", ">" -> "<", "<=" -> ">=", ">=" -> "<=")

  def typeDocument(dataType: DataType): JValue = JsonMethods.parse(dataType.json)

  /** Literals whose JSON form is exact and unambiguous; all others travel as handles. */
  private def isPlain(dataType: DataType): Boolean = dataType match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType => true
    case s: StringType => s == StringType
    case _ => false
  }

  private def literalDocument(value: Any): JValue = value match {
    case null => JNull
    case b: Boolean => JBool(b)
    case n: Number => JInt(BigInt(n.longValue))
    case s => JString(s.toString)
  }

  /** A literal's value for estimates: JSON numbers for numbers, text as Spark prints it for the rest. */
  def valueDocument(literal: Literal): JValue = literal.dataType match {
    case BooleanType => JBool(literal.value.asInstanceOf[Boolean])
    case ByteType | ShortType | IntegerType | LongType => JInt(BigInt(literal.value.asInstanceOf[Number].longValue))
    case FloatType | DoubleType =>
      val number = literal.value.asInstanceOf[Number].doubleValue
      if (number.isNaN || number.isInfinite) JString(number.toString) else JDouble(number)
    case _: DecimalType => JDecimal(literal.value.asInstanceOf[Decimal].toBigDecimal)
    case _ => JString(printed(literal))
  }

  private def printed(literal: Literal): String = literal.dataType match {
    case _: StringType => literal.value.toString
    case _ if Cast.canCast(literal.dataType, StringType) =>
      Cast(literal, StringType, Some(SQLConf.get.sessionLocalTimeZone)).eval().toString
    case _ => literal.sql
  }

  /**
   * SQL text with `#id` for columns; lambda variables are numbered within the expression. What SQL does not show
   * follows: see [[Unshown]].
   */
  def text(expression: Expression, columns: Columns): String = {
    val lambdas = mutable.LinkedHashMap.empty[ExprId, Int]
    val marked = expression.transform {
      case v: NamedLambdaVariable =>
        AttributeReference(s"#l${lambdas.getOrElseUpdate(v.exprId, lambdas.size)}", v.dataType, v.nullable)(v.exprId)
      case a: AttributeReference if columns.contains(a.exprId) =>
        AttributeReference(s"#${columns(a.exprId)}", a.dataType, a.nullable)(a.exprId)
    }
    val unshown = Unshown.of(expression)
    val shown = "`(#l?\\d+)`".r.replaceAllIn(marked.sql, m => m.group(1))
    if (unshown.isEmpty) shown else unshown.mkString(s"$shown {", ", ", "}")
  }

  /** User functions in an expression, each with a fingerprint of its code where one can be had. */
  def functions(expression: Expression): Seq[String] = expression.collect {
    case u: PythonUDF => s"python:${u.name}:${Json.digest(u.func.command.toArray)}"
    case u: PythonUDAF => s"python:${u.name}:${Json.digest(u.func.command.toArray)}"
    case u: ScalaUDF => s"scala:${u.udfName.getOrElse("")}:${u.function.getClass.getName}"
    case u: ApplyFunctionExpression => s"connector:${u.function.name}:${u.function.canonicalName}"
    case u: UserDefinedExpression => s"jvm:${u.name}:${u.getClass.getName}"
  }.distinct

  /** Types of the buffer that a declarative aggregate's value is made from; null for the others. */
  private def buffers(function: AggregateFunction): JValue = function match {
    case d: DeclarativeAggregate => JArray(d.aggBufferAttributes.toList.map(a => typeDocument(a.dataType)))
    case _ => JNull
  }
}
