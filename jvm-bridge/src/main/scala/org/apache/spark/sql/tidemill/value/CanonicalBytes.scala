package org.apache.spark.sql.tidemill.value

import java.io.{ByteArrayOutputStream, DataOutputStream}
import java.math.RoundingMode
import java.nio.charset.StandardCharsets.UTF_8
import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.{ArrayData, CollationFactory, MapData}
import org.apache.spark.sql.types._
import org.apache.spark.types.variant.{Variant, VariantUtil}
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String, VariantVal}

/**
 * Values of one type as bytes, which are the same if and only if the values are.
 *
 * Floats: -0.0 is 0.0, and there is one NaN. Maps are sets of entries. Variants are what they say, however they are
 * encoded: numbers of one kind and value are the same at any width and scale. NULL is a value inside of others.
 *
 * @param collated
 *   strings are the same if their collation says so; otherwise if their bytes are
 */
final class CanonicalBytes(dataType: DataType, collated: Boolean) extends Serializable {
  import CanonicalBytes._

  @transient private lazy val write: Write = writer(dataType, collated)

  /** The bytes of a value other than NULL, in Spark's internal form. */
  def of(value: Any): Array[Byte] = bytes(write(value, _))
}

private object CanonicalBytes {
  type Write = (Any, DataOutputStream) => Unit

  private def bytes(write: DataOutputStream => Unit): Array[Byte] = {
    val buffer = new ByteArrayOutputStream
    write(new DataOutputStream(buffer))
    buffer.toByteArray
  }

  // Every form tells its own end, so that no two lists of values run together into the same bytes.
  private def writer(dataType: DataType, collated: Boolean): Write = dataType match {
    case NullType => (_, _) => ()
    case BooleanType => (v, out) => out.writeBoolean(v.asInstanceOf[Boolean])
    case ByteType => (v, out) => out.writeByte(v.asInstanceOf[Byte])
    case ShortType => (v, out) => out.writeShort(v.asInstanceOf[Short])
    case IntegerType | DateType | _: YearMonthIntervalType => (v, out) => out.writeInt(v.asInstanceOf[Int])
    case LongType | TimestampType | TimestampNTZType | _: DayTimeIntervalType | _: TimeType =>
      (v, out) => out.writeLong(v.asInstanceOf[Long])
    case FloatType => (v, out) => float(v.asInstanceOf[Float], out)
    case DoubleType => (v, out) => double(v.asInstanceOf[Double], out)
    case t: DecimalType =>
      (v, out) => {
        val exact = v.asInstanceOf[Decimal].toJavaBigDecimal.setScale(t.scale, RoundingMode.UNNECESSARY)
        block(exact.unscaledValue.toByteArray, out)
      }
    case t: StringType if collated && !t.supportsBinaryEquality =>
      (v, out) => block(CollationFactory.getCollationKeyBytes(v.asInstanceOf[UTF8String], t.collationId), out)
    case _: StringType => (v, out) => block(v.asInstanceOf[UTF8String].getBytes, out)
    case BinaryType => (v, out) => block(v.asInstanceOf[Array[Byte]], out)
    case CalendarIntervalType =>
      (v, out) => {
        val interval = v.asInstanceOf[CalendarInterval]
        out.writeInt(interval.months)
        out.writeInt(interval.days)
        out.writeLong(interval.microseconds)
      }
    case VariantType =>
      (v, out) => {
        val encoded = v.asInstanceOf[VariantVal]
        variant(new Variant(encoded.getValue, encoded.getMetadata), out)
      }
    case ArrayType(element, _) => array(element, orNull(writer(element, collated)))
    case MapType(key, value, _) => map(key, writer(key, collated), value, orNull(writer(value, collated)))
    case StructType(fields) =>
      val writers = fields.map(f => orNull(writer(f.dataType, collated)))
      (v, out) => {
        val row = v.asInstanceOf[InternalRow]
        fields.indices.foreach(i => writers(i)(item(row.isNullAt(i), row.get(i, fields(i).dataType)), out))
      }
    case _: GeometryType | _: GeographyType =>
      import scala.language.reflectiveCalls // the class of their values differs between Spark's versions
      (v, out) => block(v.asInstanceOf[{ def getBytes(): Array[Byte] }].getBytes(), out)
    case t: UserDefinedType[_] => writer(t.sqlType, collated)
    case other => throw new IllegalArgumentException(s"values of type ${other.sql} cannot be compared")
  }

  private def item(isNull: Boolean, value: => Any): Any = if (isNull) null else value

  private def orNull(write: Write): Write = (v, out) => {
    out.writeBoolean(v != null)
    if (v != null) write(v, out)
  }

  private def block(bytes: Array[Byte], out: DataOutputStream): Unit = {
    out.writeInt(bytes.length)
    out.write(bytes)
  }

  private def float(value: Float, out: DataOutputStream): Unit =
    out.writeInt(java.lang.Float.floatToIntBits(if (value == 0f) 0f else value))

  private def double(value: Double, out: DataOutputStream): Unit =
    out.writeLong(java.lang.Double.doubleToLongBits(if (value == 0d) 0d else value))

  private def array(element: DataType, write: Write): Write = (v, out) => {
    val items = v.asInstanceOf[ArrayData]
    out.writeInt(items.numElements())
    (0 until items.numElements()).foreach(i => write(item(items.isNullAt(i), items.get(i, element)), out))
  }

  private def map(key: DataType, writeKey: Write, value: DataType, writeValue: Write): Write = (v, out) => {
    val entries = v.asInstanceOf[MapData]
    val (keys, values) = (entries.keyArray(), entries.valueArray())
    sorted(entries.numElements(), out) { (i, entry) =>
      writeKey(keys.get(i, key), entry)
      writeValue(item(values.isNullAt(i), values.get(i, value)), entry)
    }
  }

  /** Parts without an order of their own, in that of their bytes. */
  private def sorted(n: Int, out: DataOutputStream)(write: (Int, DataOutputStream) => Unit): Unit = {
    out.writeInt(n)
    val parts = Array.tabulate(n)(i => bytes(write(i, _)))
    Arrays.sort(parts, (a: Array[Byte], b: Array[Byte]) => Arrays.compareUnsigned(a, b))
    parts.foreach(out.write(_))
  }

  private def variant(v: Variant, out: DataOutputStream): Unit = {
    val kind = v.getType
    out.writeByte(kind.ordinal)
    kind match {
      case VariantUtil.Type.OBJECT =>
        sorted(v.objectSize, out) { (i, field) =>
          block(v.getFieldAtIndex(i).key.getBytes(UTF_8), field)
          variant(v.getFieldAtIndex(i).value, field)
        }
      case VariantUtil.Type.ARRAY =>
        out.writeInt(v.arraySize)
        (0 until v.arraySize).foreach(i => variant(v.getElementAtIndex(i), out))
      case VariantUtil.Type.NULL => ()
      case VariantUtil.Type.BOOLEAN => out.writeBoolean(v.getBoolean)
      case VariantUtil.Type.LONG | VariantUtil.Type.DATE | VariantUtil.Type.TIMESTAMP |
          VariantUtil.Type.TIMESTAMP_NTZ => out.writeLong(v.getLong)
      case VariantUtil.Type.STRING => block(v.getString.getBytes(UTF_8), out)
      case VariantUtil.Type.DOUBLE => double(v.getDouble, out)
      case VariantUtil.Type.FLOAT => float(v.getFloat, out)
      case VariantUtil.Type.DECIMAL =>
        val exact = v.getDecimal.stripTrailingZeros
        out.writeInt(exact.scale)
        block(exact.unscaledValue.toByteArray, out)
      case VariantUtil.Type.BINARY => block(v.getBinary, out)
      case VariantUtil.Type.UUID =>
        out.writeLong(v.getUuid.getMostSignificantBits)
        out.writeLong(v.getUuid.getLeastSignificantBits)
      case other => throw new IllegalArgumentException(s"variants of kind $other cannot be compared")
    }
  }
}
