package org.apache.spark.sql.tidemill.sum

import java.math.{BigDecimal, BigInteger}
import java.nio.ByteBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{TypeCheckFailure, TypeCheckSuccess}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.trees.{BinaryLike, UnaryLike}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types._

/**
 * Sums of decimals without a bound: a change of +x and -x may leave DECIMAL(38) where the old and the new sum do not.
 *
 * The state is the unscaled sum, at the argument's scale, as the bytes of a two's complement integer. The buffer has
 * 256 bits of it, lowest first: 2^63 rows of 2^63 times 38 digits need 253.
 */
abstract class WideAggregate extends ImperativeAggregate with CodegenFallback {
  import WideAggregate.Width

  override def dataType: DataType = BinaryType
  override def nullable: Boolean = false

  final override val aggBufferAttributes: Seq[AttributeReference] =
    Seq.tabulate(Width)(i => AttributeReference(s"part$i", LongType, nullable = false)())

  final override val inputAggBufferAttributes: Seq[AttributeReference] = aggBufferAttributes.map(_.newInstance())

  override def aggBufferSchema: StructType = DataTypeUtils.fromAttributes(aggBufferAttributes)

  override def initialize(buffer: InternalRow): Unit =
    (0 until Width).foreach(i => buffer.setLong(mutableAggBufferOffset + i, 0L))

  override def merge(buffer: InternalRow, input: InternalRow): Unit = {
    val at = inputAggBufferOffset
    add(buffer, input.getLong(at), input.getLong(at + 1), input.getLong(at + 2), input.getLong(at + 3))
  }

  override def eval(buffer: InternalRow): Any = {
    val bytes = ByteBuffer.allocate(8 * Width)
    (Width - 1 to 0 by -1).foreach(i => bytes.putLong(buffer.getLong(mutableAggBufferOffset + i)))
    new BigInteger(bytes.array()).toByteArray
  }

  final protected def add(buffer: InternalRow, value: BigInteger): Unit =
    if (value.bitLength < 64) add(buffer, value.longValue, value.longValue >> 63)
    else add(buffer, value.longValue, value.shiftRight(64).longValue, value.shiftRight(128).longValue,
      value.shiftRight(192).longValue)

  /** Adds a number of 128 bits. */
  final protected def add(buffer: InternalRow, low: Long, high: Long): Unit =
    add(buffer, low, high, high >> 63, high >> 63)

  private def add(buffer: InternalRow, a: Long, b: Long, c: Long, d: Long): Unit = {
    added(buffer, 3, d, added(buffer, 2, c, added(buffer, 1, b, added(buffer, 0, a, 0L))))
    ()
  }

  /** Adds to one part of the sum; returns the carry. */
  private def added(buffer: InternalRow, part: Int, value: Long, carry: Long): Long = {
    val before = buffer.getLong(mutableAggBufferOffset + part)
    val sum = before + value
    val after = sum + carry
    buffer.setLong(mutableAggBufferOffset + part, after)
    (if (java.lang.Long.compareUnsigned(sum, before) < 0) 1L else 0L) +
      (if (java.lang.Long.compareUnsigned(after, sum) < 0) 1L else 0L)
  }
}

object WideAggregate {
  private val Width = 4
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

  override def update(buffer: InternalRow, input: InternalRow): Unit = {
    val x = left.eval(input)
    val n = right.eval(input)
    if (x != null && n != null) {
      val times = n.asInstanceOf[Long]
      val unscaled = x.asInstanceOf[Decimal].toJavaBigDecimal.setScale(scale).unscaledValue
      if (unscaled.bitLength < 64)
        add(buffer, unscaled.longValue * times, Math.multiplyHigh(unscaled.longValue, times))
      else add(buffer, if (times == 1L) unscaled else unscaled.multiply(BigInteger.valueOf(times)))
    }
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

  override def update(buffer: InternalRow, input: InternalRow): Unit = {
    val state = child.eval(input)
    if (state != null) add(buffer, new BigInteger(state.asInstanceOf[Array[Byte]]))
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
