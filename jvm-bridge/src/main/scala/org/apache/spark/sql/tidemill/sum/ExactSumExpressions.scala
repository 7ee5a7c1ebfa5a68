package org.apache.spark.sql.tidemill.sum

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{TypeCheckFailure, TypeCheckSuccess}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{ImperativeAggregate, TypedImperativeAggregate}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, CodegenFallback}
import org.apache.spark.sql.catalyst.trees.{BinaryLike, UnaryLike}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Tidemill's own functions as Catalyst expressions; the decoder knows them, no session's function registry does. */
object ExactSumExpressions {

  /** Type of a state: partials of the exact sum, and signed counts of NaN, +infinity and -infinity. */
  val stateType: StructType = StructType(Seq(
      StructField("partials", ArrayType(DoubleType, containsNull = false), nullable = false),
      StructField("nan", LongType, nullable = false),
      StructField("pos", LongType, nullable = false),
      StructField("neg", LongType, nullable = false)))

  def lookup(name: String, arguments: Seq[Expression]): Option[Expression] = (name, arguments) match {
    case ("tidemill_exact_sum", Seq(x, n)) => Some(ExactSumAggregate(x, n, square = false))
    case ("tidemill_exact_square_sum", Seq(x, n)) => Some(ExactSumAggregate(x, n, square = true))
    case ("tidemill_exact_merge", Seq(state)) => Some(ExactMergeAggregate(state))
    case ("tidemill_exact_value", Seq(state)) => Some(ExactValue(state))
    case ("tidemill_exact_moment", Seq(count, sum, squares, kind)) => Some(ExactMoment(count, sum, squares, kind))
    case ("tidemill_wide_sum", Seq(x, n)) => Some(WideSumAggregate(x, n))
    case ("tidemill_wide_merge", Seq(state)) => Some(WideMergeAggregate(state))
    case ("tidemill_wide_value", Seq(state, Literal(scale: Int, IntegerType))) => Some(WideValue(state, scale))
    case ("tidemill_observed_sum", Seq(x)) => Some(ObservedSum(x))
    case ("tidemill_observed_values", Seq(x, most)) => Some(ObservedValues(x, most.eval().asInstanceOf[Long].toInt))
    case _ if name.startsWith("tidemill_") =>
      throw new IllegalArgumentException(s"no function $name with ${arguments.length} arguments")
    case _ => None
  }

  def checkState(e: Expression): TypeCheckResult =
    if (e.dataType.asNullable == stateType.asNullable) TypeCheckSuccess
    else TypeCheckFailure(s"expects a state of tidemill_exact_sum, not ${e.dataType.simpleString}")
}

/** What the two aggregates share: states as buffers, never null. */
abstract class ExactAggregate extends TypedImperativeAggregate[ExactState] {
  override def dataType: DataType = ExactSumExpressions.stateType
  override def nullable: Boolean = false
  override def createAggregationBuffer(): ExactState = new ExactState
  override def merge(buffer: ExactState, input: ExactState): ExactState = buffer.merge(input)
  override def eval(buffer: ExactState): Any = buffer.toRow
  override def serialize(buffer: ExactState): Array[Byte] = buffer.toBytes
  override def deserialize(bytes: Array[Byte]): ExactState = ExactSum.fromBytes(bytes)
}

/** Exact sum of n*x, or of n*x*x; rows with a null in either are skipped. */
final case class ExactSumAggregate(
    left: Expression,
    right: Expression,
    square: Boolean,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)
  extends ExactAggregate with BinaryLike[Expression] with ImplicitCastInputTypes {

  override def prettyName: String = if (square) "tidemill_exact_square_sum" else "tidemill_exact_sum"

  override def inputTypes: Seq[AbstractDataType] = Seq(DoubleType, LongType)

  override def update(buffer: ExactState, input: InternalRow): ExactState = {
    val x = left.eval(input)
    val n = right.eval(input)
    if (x != null && n != null) {
      if (square) buffer.addSquare(x.asInstanceOf[Double], n.asInstanceOf[Long])
      else buffer.add(x.asInstanceOf[Double], n.asInstanceOf[Long])
    }
    buffer
  }

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): Expression =
    copy(left = newLeft, right = newRight)
}

/** Sum of states; null states are skipped. */
final case class ExactMergeAggregate(
    child: Expression, mutableAggBufferOffset: Int = 0, inputAggBufferOffset: Int = 0)
  extends ExactAggregate with UnaryLike[Expression] {

  override def prettyName: String = "tidemill_exact_merge"

  override def checkInputDataTypes(): TypeCheckResult = ExactSumExpressions.checkState(child)

  override def update(buffer: ExactState, input: InternalRow): ExactState = {
    val state = child.eval(input)
    if (state != null) buffer.merge(state.asInstanceOf[InternalRow])
    buffer
  }

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)
  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

/** The correctly rounded value of a state. */
final case class ExactValue(child: Expression) extends UnaryExpression {
  override def nullIntolerant: Boolean = true
  override def prettyName: String = "tidemill_exact_value"
  override def dataType: DataType = DoubleType
  override def checkInputDataTypes(): TypeCheckResult = ExactSumExpressions.checkState(child)
  override protected def nullSafeEval(state: Any): Any = ExactSum.value(state.asInstanceOf[InternalRow])
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode =
    defineCodeGen(ctx, ev, c => s"org.apache.spark.sql.tidemill.sum.ExactSum.value($c)")
  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

/** Variance or standard deviation from count, sum and sum of squares; null where Spark's aggregate is null. */
final case class ExactMoment(count: Expression, sum: Expression, squares: Expression, kind: Expression)
  extends Expression with CodegenFallback {

  override def children: Seq[Expression] = Seq(count, sum, squares, kind)
  override def nullable: Boolean = true
  override def prettyName: String = "tidemill_exact_moment"
  override def dataType: DataType = DoubleType

  override def checkInputDataTypes(): TypeCheckResult =
    if (count.dataType != LongType) TypeCheckFailure(s"expects a bigint count, not ${count.dataType.simpleString}")
    else Seq(sum, squares).map(ExactSumExpressions.checkState).find(_.isFailure).getOrElse(TypeCheckSuccess)

  override def eval(input: InternalRow): Any = {
    val n = count.eval(input)
    val s1 = sum.eval(input)
    val s2 = squares.eval(input)
    if (n == null || s1 == null || s2 == null) null
    else {
      val name = kind.eval(input).asInstanceOf[UTF8String].toString
      ExactSum.moment(n.asInstanceOf[Long], s1.asInstanceOf[InternalRow], s2.asInstanceOf[InternalRow], name)
    }
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): Expression =
    copy(newChildren(0), newChildren(1), newChildren(2), newChildren(3))
}
