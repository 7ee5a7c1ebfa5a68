package org.apache.spark.sql.tidemill.sum

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{Collect, ImperativeAggregate}
import org.apache.spark.sql.catalyst.trees.UnaryLike
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * The different values that an observation saw but NULL; NULL if there are more than `most`, or one that cannot be told
 * as a text of JSON. What a task that is done again has seen stays among them: whoever looks values up may look for too
 * many, not for too few.
 */
final case class ObservedValues(
    child: Expression, most: Int, mutableAggBufferOffset: Int = 0, inputAggBufferOffset: Int = 0)
  extends Collect[mutable.HashSet[Any]] with UnaryLike[Expression] {
  import ObservedValues.LongestText

  override def prettyName: String = "tidemill_observed_values"
  override def dataType: DataType = ArrayType(child.dataType, containsNull = false)
  override def nullable: Boolean = true
  override def createAggregationBuffer(): mutable.HashSet[Any] = mutable.HashSet.empty
  override protected lazy val bufferElementType: DataType = child.dataType
  override protected def convertToBufferElement(value: Any): Any = value match {
    case text: UTF8String if text.numBytes > LongestText => UTF8String.fromBytes(text.getBytes.take(LongestText + 1))
    case other => InternalRow.copyValue(other)
  }

  override def update(buffer: mutable.HashSet[Any], input: InternalRow): mutable.HashSet[Any] =
    if (isFull(buffer)) buffer else super.update(buffer, input)

  override def merge(buffer: mutable.HashSet[Any], other: mutable.HashSet[Any]): mutable.HashSet[Any] =
    if (isFull(buffer)) buffer else super.merge(buffer, other)

  /** One more than are wanted is enough to know that there are too many. */
  private def isFull(buffer: mutable.HashSet[Any]): Boolean = buffer.size > most

  private def canBeTold(value: Any): Boolean = value match {
    case text: UTF8String => text.numBytes <= LongestText && text.isValid
    case _ => true
  }

  override def eval(buffer: mutable.HashSet[Any]): Any =
    if (isFull(buffer) || !buffer.forall(canBeTold)) null else new GenericArrayData(buffer.toArray)

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)
  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

object ObservedValues {
  /** Bytes; nobody looks novels up. */
  val LongestText = 256
}
