package org.apache.spark.sql.tidemill.step

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{
  AggregateExpression, AggregateFunction, DeclarativeAggregate
}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LocalRelation, Project}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.tidemill.query.{Handle, Query}
import org.apache.spark.sql.tidemill.source.Clock
import org.apache.spark.sql.tidemill.sum.ExactSumExpressions
import org.apache.spark.sql.tidemill.value.ValueExpressions
import org.apache.spark.sql.types._

import org.json4s._
import org.json4s.jackson.JsonMethods

/** Turns wire expressions into Catalyst expressions over the attributes that stand for the columns right now. */
final class ExpressionDecoder(session: SparkSession, query: Query) {
  import ExpressionDecoder._

  type Columns = Map[Int, Attribute]

  def decode(wire: JValue, columns: Columns): Expression = decodeAll(Seq(wire), columns).head

  /** Decodes the expressions of one node together: what needs type coercion goes through the analyser once. */
  def decodeAll(wires: Seq[JValue], columns: Columns): Seq[Expression] = {
    val raw = wires.map(build(_, columns))
    if (raw.forall(_.resolved)) raw else coerce(raw)
  }

  private def build(wire: JValue, columns: Columns): Expression = wire \ "col" match {
    case JInt(id) => column(id.toInt, columns)
    case _ => (wire \ "handle", wire \ "fn", wire \ "cast") match {
        case (JInt(number), _, _) => handle(number.toInt, wire \ "clock", columns)
        case (_, JString(name), _) => call(name, wire, columns)
        case _ if (wire \ "evaluate") != JNothing => evaluate(wire, columns)
        case (_, _, child: JObject) => cast(build(child, columns), dataType(wire \ "to"))
        case _ if (wire \ "type") != JNothing => literal(wire \ "lit", dataType(wire \ "type"))
        case _ => throw new IllegalArgumentException(s"not an expression: ${show(wire)}")
      }
  }

  private def cast(value: Expression, to: DataType): Expression = {
    val conf = session.sessionState.conf
    Cast(value, to, Some(conf.sessionLocalTimeZone), EvalMode.fromSQLConf(conf))
  }

  private def column(id: Int, columns: Columns): Attribute = columns.getOrElse(id, {
      val known = columns.keys.toSeq.sorted.mkString(", ")
      throw new IllegalArgumentException(s"column #$id is not an output of the node's inputs ($known)")
    })

  /** @param clock microseconds at which what reads the clock is evaluated; absent: when the plan is run */
  private def handle(number: Int, clock: JValue, columns: Columns): Expression = {
    val Handle(expression, ids) = query.expressions(number)
    val asked = clock match {
      case JInt(micros) => Clock.at(expression, micros.toLong)
      case _ => expression
    }
    ExpressionDecoder.fresh(replace(asked, ids, columns))
  }

  /** An expression of the analysed query with today's attributes in the place of its own. */
  def replace(expression: Expression, ids: Map[ExprId, Int], columns: Columns): Expression = expression.transform {
    case a: AttributeReference if ids.contains(a.exprId) => column(ids(a.exprId), columns)
  }

  /** An aggregate's final value from its buffer's values: Spark's own rounding, overflow and NULL rules. */
  private def evaluate(wire: JValue, columns: Columns): Expression = {
    val JInt(number) = wire \ "evaluate"
    query.expressions(number.toInt).expression match {
      case AggregateExpression(function: DeclarativeAggregate, _, _, _, _) =>
        val buffers = list(wire \ "buffers").map(build(_, columns))
        val values = AttributeMap(function.aggBufferAttributes.zip(buffers).map { case (a, e) =>
          a -> cast(e, a.dataType)
        })
        function.evaluateExpression.transform { case a: AttributeReference => values.getOrElse(a, a) }
      case other => throw new IllegalArgumentException(s"not evaluated from buffers: ${other.sql}")
    }
  }

  private def call(name: String, wire: JValue, columns: Columns): Expression = {
    val arguments = list(wire \ "args").map(build(_, columns))
    val own = Partitions.lookup(name, arguments).orElse(ValueExpressions.lookup(name, arguments)).orElse(
      ExactSumExpressions.lookup(name, arguments))
    val built = own.getOrElse(FunctionRegistry.builtin.lookupFunction(FunctionIdentifier(name), arguments))
    built match {
      case f: AggregateFunction =>
        val filter = Some(wire \ "filter").collect { case e: JObject => build(e, columns) }
        f.toAggregateExpression((wire \ "distinct") == JBool(true), filter)
      case e => e
    }
  }

  /** Type coercion by the session's analyser, over a relation that only has the attributes in question. */
  private def coerce(expressions: Seq[Expression]): Seq[Expression] = {
    val attributes = AttributeSet(expressions.flatMap(_.references)).toSeq
    val named = expressions.map(e => Alias(e, "e")())
    val source = LocalRelation(attributes)
    val isAggregate = expressions.exists(_.exists(_.isInstanceOf[AggregateExpression]))
    val plan = if (isAggregate) Aggregate(Nil, named, source) else Project(named, source)
    session.sessionState.analyzer.execute(plan) match {
      case Project(list, _) if list.length == named.length => list.map(unwrap)
      case Aggregate(_, list, _, _) if list.length == named.length => list.map(unwrap)
      case other =>
        val texts = expressions.map(_.sql).mkString(", ")
        throw new IllegalArgumentException(s"cannot resolve $texts: $other")
    }
  }

  private def unwrap(named: NamedExpression): Expression = named match {
    case Alias(child, _) if child.resolved => child
    case other =>
      val reason = other.collectFirst {
        case e if e.childrenResolved && !e.resolved => e.checkInputDataTypes().toString
      }
      throw new IllegalArgumentException(s"cannot resolve ${other.sql}: ${reason.getOrElse("unknown")}")
  }
}

object ExpressionDecoder {

  /** A type as parsed JSON, or as the JSON text of a nested type. */
  def dataType(wire: JValue): DataType = wire match {
    case JString(text) if text.startsWith("{") => DataType.fromJson(text)
    case other => DataType.fromJson(show(other))
  }

  def show(wire: JValue): String = JsonMethods.compact(JsonMethods.render(wire))

  def list(wire: JValue): Seq[JValue] = wire match {
    case JArray(items) => items
    case JNothing | JNull => Nil
    case other => throw new IllegalArgumentException(s"not a list: ${show(other)}")
  }

  def literal(value: JValue, dataType: DataType): Literal = (value, dataType) match {
    case (JNull | JNothing, _) => Literal(null, dataType)
    case (JBool(b), BooleanType) => Literal(b)
    case (JInt(n), ByteType) => Literal(n.toByte)
    case (JInt(n), ShortType) => Literal(n.toShort)
    case (JInt(n), IntegerType) => Literal(n.toInt)
    case (JInt(n), LongType) => Literal(n.toLong)
    case (JString(s), t: StringType) => Literal.create(s, t)
    case (other, _) =>
      val text = other match {
        case JString(s) => s
        case n => show(n)
      }
      // Dates, decimals, doubles: Spark's own reading of their text.
      val zone = Some(org.apache.spark.sql.internal.SQLConf.get.sessionLocalTimeZone)
      Literal(Cast(Literal(text), dataType, zone, EvalMode.ANSI).eval(), dataType)
  }

  /** Ids inside an expression that must differ between its copies: results of aggregates, Python calls, subqueries. */
  def fresh(expression: Expression): Expression = expression.transformUp {
    case a: AggregateExpression => a.copy(resultId = NamedExpression.newExprId)
    case u: PythonUDF => u.copy(resultId = NamedExpression.newExprId)
    case u: PythonUDAF => u.copy(resultId = NamedExpression.newExprId)
  }
}
