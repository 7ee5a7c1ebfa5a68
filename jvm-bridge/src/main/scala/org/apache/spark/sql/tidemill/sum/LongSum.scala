package org.apache.spark.sql.tidemill.sum

import java.math.{BigDecimal, BigInteger}

import org.apache.spark.QueryContext
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, DeclarativeAggregate, Sum}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.UnaryLike
import org.apache.spark.sql.types._

/**
 * The exact sum of longs as a decimal: in two longs, low and high, that generated code adds to.
 *
 * Spark sums decimals as objects, one per row, which takes ten times as long. 2^63 longs fit into 127 bits. A sum that
 * the type does not hold is what it is in Spark's own sum.
 *
 * @param dataType its scale is that of the longs
 * @param nullOnOverflow null instead of an error
 */
final case class LongSum(
    child: Expression, dataType: DecimalType, nullOnOverflow: Boolean, context: QueryContext)
  extends DeclarativeAggregate with UnaryLike[Expression] {

  override def prettyName: String = "tidemill_long_sum"
  override def nullable: Boolean = true

  override def checkInputDataTypes(): TypeCheckResult =
    if (child.dataType == LongType) TypeCheckResult.TypeCheckSuccess
    else TypeCheckResult.TypeCheckFailure(s"$prettyName expects a bigint, not ${child.dataType.simpleString}")

  private lazy val low = AttributeReference("low", LongType, nullable = false)()
  private lazy val high = AttributeReference("high", LongType, nullable = false)()
  private lazy val seen = AttributeReference("seen", BooleanType, nullable = false)()

  override lazy val aggBufferAttributes: Seq[AttributeReference] = Seq(low, high, seen)
  override lazy val initialValues: Seq[Expression] = Seq(Literal(0L), Literal(0L), Literal(false))

  override lazy val updateExpressions: Seq[Expression] = {
    val added = plus(low, child)
    val more = Seq(added, plus(plus(high, ShiftRight(child, Literal(63))), carry(added, child)), Literal(true))
    if (!child.nullable) more
    else more.zip(aggBufferAttributes).map { case (next, before) => If(IsNull(child), before, next) }
  }

  override lazy val mergeExpressions: Seq[Expression] = {
    val added = plus(low.left, low.right)
    Seq(added, plus(plus(high.left, high.right), carry(added, low.right)), Or(seen.left, seen.right))
  }

  override lazy val evaluateExpression: Expression = {
    val sum = CheckOverflowInSum(Wide(high, low, dataType.scale), dataType, nullOnOverflow, context)
    If(seen, sum, Literal(null, dataType))
  }

  /** Wraps around. */
  private def plus(a: Expression, b: Expression): Expression =
    Add(a, b, NumericEvalContext(EvalMode.LEGACY, allowDecimalPrecisionLoss = true))

  /** 1 if an unsigned sum is below what was added to it: it has wrapped around. */
  private def carry(sum: Expression, added: Expression): Expression =
    If(LessThan(unsigned(sum), unsigned(added)), Literal(1L), Literal(0L))

  private def unsigned(value: Expression): Expression = BitwiseXor(value, Literal(Long.MinValue))

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

object LongSum extends Rule[LogicalPlan] {

  /** Sums of decimals that are longs. */
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformAllExpressions {
    case whole @ AggregateExpression(sum @ Sum(_, evaluation), _, false, _, _) =>
      sum.dataType match {
        case kind: DecimalType => long(sum.child, kind.scale).fold(whole) { value =>
            val quiet = evaluation.evalMode != EvalMode.ANSI
            whole.copy(aggregateFunction = LongSum(value, kind, quiet, sum.getContextOrNull()))
          }
        case _ => whole
      }
  }

  /** A decimal of this scale as the long that it is made of; None if it may be more. */
  private def long(value: Expression, scale: Int): Option[Expression] = value match {
    case Literal(null, _: DecimalType) => Some(Literal(null, LongType))
    case Literal(x: Decimal, DecimalType.Fixed(_, `scale`)) => unscaled(x, scale).map(Literal(_))
    case Cast(x, DecimalType.Fixed(digits, 0), _, _) if scale == 0 && digits >= Digits.getOrElse(x.dataType, 99) =>
      Some(if (x.dataType == LongType) x else Cast(x, LongType))
    case Cast(x, DecimalType.Fixed(digits, `scale`), _, _) if widens(x.dataType, digits, scale) => long(x, scale)
    case Coalesce(values) => all(values, scale).map(Coalesce(_))
    case If(condition, a, b) => all(Seq(a, b), scale).map(found => If(condition, found.head, found.last))
    case x => x.dataType match {
        case DecimalType.Fixed(precision, `scale`) if precision <= Decimal.MAX_LONG_DIGITS => Some(UnscaledValue(x))
        case _ => None
      }
  }

  private def widens(from: DataType, digits: Int, scale: Int): Boolean = from match {
    case DecimalType.Fixed(precision, `scale`) => digits >= precision
    case _ => false
  }

  private def all(values: Seq[Expression], scale: Int): Option[Seq[Expression]] = {
    val found = values.flatMap(long(_, scale))
    Option.when(found.length == values.length)(found)
  }

  private def unscaled(x: Decimal, scale: Int): Option[Long] =
    Option(x.toJavaBigDecimal.setScale(scale).unscaledValue).filter(_.bitLength < 64).map(_.longValue)

  private val Digits: Map[DataType, Int] = Map(LongType -> 19, IntegerType -> 10, ShortType -> 5, ByteType -> 3)
}

/** The decimal of a number with 128 bits; null if it has more than 38 digits. */
final case class Wide(left: Expression, right: Expression, scale: Int) extends BinaryExpression {
  override def nullIntolerant: Boolean = true
  override def nullable: Boolean = true
  override def prettyName: String = "tidemill_wide"
  override def dataType: DataType = DecimalType(DecimalType.MAX_PRECISION, scale)

  override protected def nullSafeEval(high: Any, low: Any): Any =
    WideNumber.decimal(high.asInstanceOf[Long], low.asInstanceOf[Long], scale)

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = nullSafeCodeGen(
    ctx,
    ev,
    (high, low) => s"""
      |${ev.value} = ${classOf[WideNumber].getName}.decimal($high, $low, $scale);
      |${ev.isNull} = ${ev.value} == null;""".stripMargin
  )

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): Expression =
    copy(left = newLeft, right = newRight)
}

/** Numbers with 128 bits. */
final class WideNumber

object WideNumber {
  private val Half = 64

  /** Called from generated code: null if there are more than 38 digits. */
  def decimal(high: Long, low: Long, scale: Int): Decimal = {
    val number =
      if (high == low >> 63) BigInteger.valueOf(low)
      else BigInteger.valueOf(high).shiftLeft(Half).add(unsigned(low))
    val value = new BigDecimal(number, scale)
    if (value.precision > DecimalType.MAX_PRECISION) null else Decimal(value, DecimalType.MAX_PRECISION, scale)
  }

  private def unsigned(low: Long): BigInteger = {
    val bits = BigInteger.valueOf(low & Long.MaxValue)
    if (low < 0) bits.setBit(Half - 1) else bits
  }
}
