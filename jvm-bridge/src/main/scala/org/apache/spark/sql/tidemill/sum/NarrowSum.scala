package org.apache.spark.sql.tidemill.sum

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.{BinaryLike, UnaryLike}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.{AbstractDataType, DataType, DoubleType, LongType, StructType}
import org.apache.spark.util.LongAccumulator

/**
 * Exact sums of doubles in buffers of four doubles, which Spark's hash aggregation keeps in its own memory: an object
 * for each of many groups takes three times as long.
 *
 * Sums of which the parts lie up to some 200 binary digits apart fit. Others, NaN and infinities do not: the buffer is
 * void then, and `overflow` says so. Whoever executes the plan has to look at it, and to take the objects instead.
 */
abstract class NarrowAggregate extends ImperativeAggregate with CodegenFallback {
  import NarrowSum.Width

  def overflow: LongAccumulator

  override def dataType: DataType = ExactSumExpressions.stateType
  override def nullable: Boolean = false

  final override val aggBufferAttributes: Seq[AttributeReference] =
    Seq.tabulate(Width)(i => AttributeReference(s"partial$i", DoubleType, nullable = false)())

  final override val inputAggBufferAttributes: Seq[AttributeReference] = aggBufferAttributes.map(_.newInstance())

  override def aggBufferSchema: StructType = DataTypeUtils.fromAttributes(aggBufferAttributes)

  override def initialize(buffer: InternalRow): Unit = clear(buffer, 0, Width)

  override def merge(buffer: InternalRow, input: InternalRow): Unit = {
    var i = 0
    while (i < Width) {
      val partial = input.getDouble(inputAggBufferOffset + i)
      if (partial == 0.0) i = Width
      else {
        add(buffer, partial)
        i += 1
      }
    }
  }

  override def eval(buffer: InternalRow): Any = {
    val state = new ExactState
    var i = 0
    while (i < Width) {
      val partial = buffer.getDouble(mutableAggBufferOffset + i)
      if (partial == 0.0) i = Width
      else {
        state.add(partial, 1L)
        i += 1
      }
    }
    state.toRow
  }

  private def clear(buffer: InternalRow, from: Int, until: Int): Unit = {
    var i = from
    while (i < until) {
      buffer.setDouble(mutableAggBufferOffset + i, 0.0)
      i += 1
    }
  }

  /** As [[Expansion]] adds; the first partial that is zero ends them. */
  final protected def add(buffer: InternalRow, value: Double): Unit = {
    val base = mutableAggBufferOffset
    var x = value
    var kept, i = 0
    var y = buffer.getDouble(base)
    while (y != 0.0) {
      if (Math.abs(x) < Math.abs(y)) { val t = x; x = y; y = t }
      val high = x + y
      val low = y - (high - x)
      if (low != 0.0) { buffer.setDouble(base + kept, low); kept += 1 }
      x = high
      i += 1
      y = if (i < Width) buffer.getDouble(base + i) else 0.0
    }
    if (x != 0.0) {
      if (kept == Width) pack(buffer, x)
      else {
        buffer.setDouble(base + kept, x)
        clear(buffer, kept + 1, i)
      }
    } else clear(buffer, kept, i)
  }

  /** A buffer that is full, and one more partial: the fewest that have this sum, if they fit. */
  private def pack(buffer: InternalRow, last: Double): Unit = {
    val all = new Expansion
    (0 until Width).foreach(i => all.add(buffer.getDouble(mutableAggBufferOffset + i)))
    all.add(last)
    val packed = all.fewest
    if (packed.length > Width) overflow.add(1L)
    else {
      clear(buffer, packed.length, Width)
      packed.indices.foreach(i => buffer.setDouble(mutableAggBufferOffset + i, packed(i)))
    }
  }
}

/** [[ExactSumAggregate]] in a narrow buffer. */
final case class NarrowSum(
    left: Expression, right: Expression, square: Boolean, mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)(val overflow: LongAccumulator)
  extends NarrowAggregate with BinaryLike[Expression] with ImplicitCastInputTypes {

  override def prettyName: String = if (square) "tidemill_exact_square_sum" else "tidemill_exact_sum"
  override def inputTypes: Seq[AbstractDataType] = Seq(DoubleType, LongType)

  override def update(buffer: InternalRow, input: InternalRow): Unit = {
    val x = left.eval(input)
    val n = right.eval(input)
    if (x != null && n != null) {
      val value = x.asInstanceOf[Double]
      val times = n.asInstanceOf[Long]
      if (square) addSquare(buffer, value, times) else addProduct(buffer, value, times)
    }
  }

  private def addProduct(buffer: InternalRow, x: Double, n: Long): Unit =
    if (!(Math.abs(x * n.toDouble) < ExactSum.Limit)) overflow.add(1L)
    else if (n == 1L) add(buffer, x)
    else if (n == -1L) add(buffer, -x)
    else if (n > -ExactSum.ExactLong && n < ExactSum.ExactLong) {
      val p = x * n.toDouble
      add(buffer, p)
      add(buffer, Math.fma(x, n.toDouble, -p))
    } else overflow.add(1L)

  private def addSquare(buffer: InternalRow, x: Double, n: Long): Unit =
    if (!(Math.abs(x) < ExactSum.SquareLimit)) overflow.add(1L)
    else {
      val square = x * x
      addProduct(buffer, square, n)
      addProduct(buffer, Math.fma(x, x, -square), n)
    }

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(mutableAggBufferOffset = offset)(overflow)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(inputAggBufferOffset = offset)(overflow)
  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): Expression =
    copy(left = newLeft, right = newRight)(overflow)
  override protected def otherCopyArgs: Seq[AnyRef] = Seq(overflow)
}

/** [[ExactMergeAggregate]] in a narrow buffer. */
final case class NarrowMerge(child: Expression, mutableAggBufferOffset: Int = 0, inputAggBufferOffset: Int = 0)(
    val overflow: LongAccumulator)
  extends NarrowAggregate with UnaryLike[Expression] {

  override def prettyName: String = "tidemill_exact_merge"

  override def update(buffer: InternalRow, input: InternalRow): Unit = {
    val state = child.eval(input).asInstanceOf[InternalRow]
    if (state != null) {
      if (state.getLong(1) != 0L || state.getLong(2) != 0L || state.getLong(3) != 0L) overflow.add(1L)
      val partials = state.getArray(0)
      var i = 0
      while (i < partials.numElements()) {
        val partial = partials.getDouble(i)
        // A NaN separates those that are scaled.
        if (Math.abs(partial) < ExactSum.Limit) add(buffer, partial) else overflow.add(1L)
        i += 1
      }
    }
  }

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(mutableAggBufferOffset = offset)(overflow)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate =
    copy(inputAggBufferOffset = offset)(overflow)
  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)(overflow)
  override protected def otherCopyArgs: Seq[AnyRef] = Seq(overflow)
}

object NarrowSum {
  /** Doubles in a buffer. */
  private[sum] val Width = 4

  /** A plan with its exact sums in narrow buffers, and what counts the sums that do not fit; None if it has no such. */
  def in(plan: LogicalPlan, context: SparkContext): Option[(LogicalPlan, LongAccumulator)] = {
    val overflow = new LongAccumulator
    var found = false
    val narrow = plan.transformAllExpressionsWithSubqueries {
      case ExactSumAggregate(x, n, square, _, _) =>
        found = true
        NarrowSum(x, n, square)(overflow)
      case ExactMergeAggregate(state, _, _) =>
        found = true
        NarrowMerge(state)(overflow)
    }
    Option.when(found) {
      // Also what a task counts that fails then, perhaps because of a sum that is void.
      overflow.register(context, Some("exact sums that do not fit"), countFailedValues = true)
      (narrow, overflow)
    }
  }
}
