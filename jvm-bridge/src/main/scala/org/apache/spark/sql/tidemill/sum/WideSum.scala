package org.apache.spark.sql.tidemill.sum

import java.math.{BigDecimal, BigInteger}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{TypeCheckFailure, TypeCheckSuccess}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{ImperativeAggregate, TypedImperativeAggregate}
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.trees.{BinaryLike, UnaryLike}
import org.apache.spark.sql.types._

/**
 * Sums of decimals without a bound: a change of +x and -x may leave DECIMAL(38) where the old and the new sum do not.
 *
 * The state is the unscaled sum, at the argument's scale, as the bytes of a two's complement integer.
 */
abstract class WideAggregate extends TypedImperativeAggregate[Array[BigInteger]] {
  override def dataType: DataType = BinaryType
  override def nullable: Boolean = false
  override def createAggregationBuffer(): Array[BigInteger] = Array(BigInteger.ZERO)
  override def merge(buffer: Array[BigInteger], input: Array[BigInteger]): Array[BigInteger] = {
    buffer(0) = buffer(0).add(input(0))
    buffer
  }
  override def eval(buffer: Array[BigInteger]): Any = buffer(0).toByteArray
  override def serialize(buffer: Array[BigInteger]): Array[Byte] = buffer(0).toByteArray
  override def deserialize(bytes: Array[Byte]): Array[BigInteger] = Array(new BigInteger(bytes))
}

/** Sum of n*x for a decimal x; rows with a null in either are skipped. */
final case class WideSumAggregate(
    left: Expression, right: Expression, mutableAggBufferOffset: Int = 0, inputAggBufferOffset: Int = 0)
  extends WideAggregate with BinaryLike[Expression] {

  override def prettyName: String = "tidemill_wide_sum"

  override def checkInputDataTypes(): TypeCheckResult = (left.dataType, right.dataType) match {
    case (_: DecimalType, LongType) => TypeCheckSuccess
    case (x, n) => TypeCheckFailure(s"expects a decimal and a bigint, not ${x.simpleString} and ${n.simpleString}")
  }

  private lazy val scale = left.dataType.asInstanceOf[DecimalType].scale

  override def update(buffer: Array[BigInteger], input: InternalRow): Array[BigInteger] = {
    val x = left.eval(input)
    val n = right.eval(input)
    if (x != null && n != null) {
      val unscaled = x.asInstanceOf[Decimal].toJavaBigDecimal.setScale(scale).unscaledValue
      val times = n.asInstanceOf[Long]
      buffer(0) = buffer(0).add(if (times == 1) unscaled else unscaled.multiply(BigInteger.valueOf(times)))
    }
    buffer
  }

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): Expression =
    copy(left = newLeft, right = newRight)
}

/** Sum of states; null states are skipped. */
final case class WideMergeAggregate(
    child: Expression, mutableAggBufferOffset: Int = 0, inputAggBufferOffset: Int = 0)
  extends WideAggregate with UnaryLike[Expression] with ImplicitCastInputTypes {

  override def prettyName: String = "tidemill_wide_merge"
  override def inputTypes: Seq[AbstractDataType] = Seq(BinaryType)

  override def update(buffer: Array[BigInteger], input: InternalRow): Array[BigInteger] = {
    val state = child.eval(input)
    if (state != null) buffer(0) = buffer(0).add(new BigInteger(state.asInstanceOf[Array[Byte]]))
    buffer
  }

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)
  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

/** A state as DECIMAL(38, scale); null, as Spark's own buffer would be, where it does not fit. */
final case class WideValue(child: Expression, scale: Int) extends UnaryExpression with CodegenFallback {
  override def nullIntolerant: Boolean = true
  override def nullable: Boolean = true
  override def prettyName: String = "tidemill_wide_value"
  override def dataType: DataType = DecimalType(DecimalType.MAX_PRECISION, scale)

  override protected def nullSafeEval(state: Any): Any = {
    val sum = new BigDecimal(new BigInteger(state.asInstanceOf[Array[Byte]]), scale)
    if (sum.precision > DecimalType.MAX_PRECISION) null else Decimal(sum, DecimalType.MAX_PRECISION, scale)
  }

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}
