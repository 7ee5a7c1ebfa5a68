package org.apache.spark.sql.tidemill.judge

import java.io.{ByteArrayOutputStream, DataOutputStream}
import java.math.{BigDecimal => JavaDecimal, MathContext}
import java.nio.charset.StandardCharsets.UTF_8
import java.time.ZoneOffset
import java.util.Arrays

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpectsInputTypes, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData, MapData}
import org.apache.spark.sql.types._
import org.apache.spark.types.variant.Variant
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String, VariantVal}

/**
 * A struct as bytes that are equal exactly if the rows are: {"key": BINARY, "rest": BINARY, "numbers": ARRAY<DOUBLE>}.
 *
 * Strings count by their bytes whatever their collation, maps by their entries in any order, variants by their JSON,
 * -0.0 as 0.0 and NaN as itself. Of doubles and floats, at any depth, the key has eleven significant digits, so that
 * two that differ in their last bits mostly have one key. Their full values are the numbers, in the order of the key;
 * the rest is the key without them.
 */
final case class ComparableRow(child: Expression) extends UnaryExpression with ExpectsInputTypes with CodegenFallback {

  override def inputTypes: Seq[AbstractDataType] = Seq(StructType)

  override def dataType: DataType = ComparableRow.Answer

  override def nullable: Boolean = false

  override def eval(input: InternalRow): Any = {
    val key = ComparableRow.Key()
    key.add(child.eval(input), child.dataType)
    InternalRow(key.bytes, key.rest, new GenericArrayData(key.numbers.toArray[Any]))
  }

  override protected def withNewChildInternal(newChild: Expression): ComparableRow = copy(child = newChild)
}

object ComparableRow {
  val Answer: StructType =
    new StructType().add("key", BinaryType, nullable = false).add("rest", BinaryType, nullable = false)
      .add("numbers", ArrayType(DoubleType, containsNull = false), nullable = false)

  /** Whether a value of this type can hold a double or a float. */
  def hasFloats(dataType: DataType): Boolean = dataType.existsRecursively {
    case DoubleType | FloatType => true
    case _ => false
  }

  private val Digits = new MathContext(11)

  /** Values one behind the other; each says where it ends, so that no two rows run into the same bytes. */
  private final case class Key() {
    private val (whole, bare) = (new ByteArrayOutputStream, new ByteArrayOutputStream)
    private val outs = Seq(new DataOutputStream(whole), new DataOutputStream(bare))
    val numbers: mutable.ArrayBuffer[Double] = mutable.ArrayBuffer.empty

    def bytes: Array[Byte] = whole.toByteArray

    def rest: Array[Byte] = bare.toByteArray

    def add(value: Any, dataType: DataType): Unit =
      if (value == null) outs.foreach(_.writeByte(0))
      else {
        outs.foreach(_.writeByte(1))
        present(value, dataType)
      }

    private def present(value: Any, dataType: DataType): Unit = (value, dataType) match {
      case (row: InternalRow, StructType(fields)) =>
        fields.zipWithIndex.foreach { case (f, i) => add(row.get(i, f.dataType), f.dataType) }
      case (items: ArrayData, ArrayType(kind, _)) =>
        outs.foreach(_.writeInt(items.numElements()))
        (0 until items.numElements()).foreach(i => add(items.get(i, kind), kind))
      case (entries: MapData, kind: MapType) => map(entries, kind)
      case (udt, kind: UserDefinedType[_]) => present(udt, kind.sqlType)
      case (d: Double, _) => number(d)
      case (f: Float, _) => number(f.toDouble)
      case (d: Decimal, _) => string(d.toJavaBigDecimal.stripTrailingZeros.toPlainString)
      case (bytes: Array[Byte], _) => sized(bytes)
      case (v: VariantVal, _) => string(new Variant(v.getValue, v.getMetadata).toJson(ZoneOffset.UTC))
      case (i: CalendarInterval, _) => string(s"${i.months} ${i.days} ${i.microseconds}")
      // dates, times and most intervals are numbers of days, months, micros or nanos
      case (s: UTF8String, _) => sized(s.getBytes)
      case (plain @ (_: Boolean | _: Number), _) => string(plain.toString)
      case _ => throw new IllegalArgumentException(s"values of ${dataType.sql} cannot be compared")
    }

    private def map(entries: MapData, kind: MapType): Unit = {
      val (keys, values) = (entries.keyArray(), entries.valueArray())
      val told = (0 until entries.numElements()).map { i =>
        val entry = Key()
        entry.add(keys.get(i, kind.keyType), kind.keyType)
        entry.add(values.get(i, kind.valueType), kind.valueType)
        entry
      }.sortWith((a, b) => Arrays.compareUnsigned(a.bytes, b.bytes) < 0)
      outs.foreach(_.writeInt(told.size))
      told.foreach { entry =>
        outs.zip(Seq(entry.bytes, entry.rest)).foreach { case (out, bytes) => sized(bytes, out) }
        numbers ++= entry.numbers
      }
    }

    private def number(d: Double): Unit = {
      val plain = d + 0.0 // -0.0 as 0.0
      numbers += plain
      val digits =
        if (plain.isNaN || plain.isInfinite) plain.toString
        else new JavaDecimal(plain).round(Digits).stripTrailingZeros.toString
      sized(digits.getBytes(UTF_8), outs.head)
    }

    private def string(s: String): Unit = sized(s.getBytes(UTF_8))

    private def sized(bytes: Array[Byte]): Unit = outs.foreach(sized(bytes, _))

    private def sized(bytes: Array[Byte], out: DataOutputStream): Unit = {
      out.writeInt(bytes.length)
      out.write(bytes)
    }
  }
}
