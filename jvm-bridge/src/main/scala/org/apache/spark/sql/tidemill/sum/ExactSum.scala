package org.apache.spark.sql.tidemill.sum

import java.math.{BigDecimal, MathContext}
import java.nio.ByteBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeArrayData}

/**
 * A sum of doubles without rounding: non-overlapping partials of growing magnitude (Shewchuk, "Adaptive Precision
 * Floating-Point Arithmetic", 1997; the same recipe as Python's math.fsum).
 */
final class Expansion {
  private var partials = Expansion.nothing
  private var length = 0

  def isEmpty: Boolean = length == 0

  /** True if the sum is a double itself. */
  def isDouble: Boolean = length <= 1

  def size: Int = length

  def putInto(buffer: ByteBuffer): Unit = {
    var i = 0
    while (i < length) { buffer.putDouble(partials(i)); i += 1 }
  }

  def toArray: Array[Double] = java.util.Arrays.copyOf(partials, length)

  def add(value: Double): Unit = {
    var x = value
    var kept = 0
    var i = 0
    while (i < length) {
      var y = partials(i)
      if (Math.abs(x) < Math.abs(y)) { val t = x; x = y; y = t }
      val high = x + y
      val low = y - (high - x)
      if (low != 0.0) { partials(kept) = low; kept += 1 }
      x = high
      i += 1
    }
    if (x != 0.0) {
      if (kept == partials.length) partials = java.util.Arrays.copyOf(partials, Math.max(2, 2 * kept))
      partials(kept) = x
      kept += 1
    }
    length = kept
  }

  /** Partials that depend on the sum only, each the nearest to what the bigger ones leave; the smallest first. */
  def fewest: Array[Double] = {
    val rest = new Expansion
    toArray.foreach(rest.add)
    val found = Array.newBuilder[Double]
    while (!rest.isEmpty) {
      val top = rest.rounded
      found += top
      rest.add(-top)
    }
    found.result().reverse
  }

  /** The double nearest to the sum, ties to even. */
  def rounded: Double = {
    if (length == 0) return 0.0
    var i = length - 1
    var high = partials(i)
    var low = 0.0
    while (i > 0 && low == 0.0) {
      val x = high
      i -= 1
      val y = partials(i)
      high = x + y
      low = y - (high - x)
    }
    // A tie in the last addition is decided by the sign of what is still below.
    if (i > 0 && ((low < 0.0 && partials(i - 1) < 0.0) || (low > 0.0 && partials(i - 1) > 0.0))) {
      val y = low * 2.0
      val x = high + y
      if (y == x - high) high = x
    }
    high
  }
}

object Expansion {
  private val nothing = Array.empty[Double]
}

/**
 * The exact signed sum of n*x or n*x*x over rows. Counts of NaN and infinities are kept apart, with the sign of n, so
 * that retracting one brings the finite sum back.
 *
 * Values from 2^960 on are kept scaled by 2^-1300 in a second expansion, so no intermediate sum overflows: a finite
 * true sum comes out finite whatever the order. Squares lose what lies below 2^-1074.
 */
final class ExactState {
  import ExactSum._

  private val low = new Expansion
  private val high = new Expansion
  private var nan, positive, negative = 0L

  def add(x: Double, n: Long): Unit =
    if (java.lang.Double.isFinite(x)) addFinite(x, n) else addSpecial(x, n)

  def addSquare(x: Double, n: Long): Unit =
    if (!java.lang.Double.isFinite(x)) addSpecial(if (x.isNaN) x else Double.PositiveInfinity, n)
    else if (Math.abs(x) < SquareLimit) {
      val square = x * x
      addFinite(square, n)
      addFinite(Math.fma(x, x, -square), n)
    } else {
      val scaled = x * HalfScale
      val square = scaled * scaled
      multiply(high, square, n)
      multiply(high, Math.fma(scaled, scaled, -square), n)
    }

  private def addSpecial(x: Double, n: Long): Unit =
    if (x.isNaN) nan += n else if (x > 0) positive += n else negative += n

  private def addFinite(x: Double, n: Long): Unit =
    if (Math.abs(x * n.toDouble) < Limit) multiply(low, x, n)
    else multiply(high, x * HalfScale * HalfScale, n)

  /** Adds n*x exactly; the caller has made sure that it does not overflow. */
  private def multiply(to: Expansion, x: Double, n: Long): Unit =
    if (n == 1L) to.add(x)
    else if (n == -1L) to.add(-x)
    else {
      val lower = n & 0xffffffffL
      if (n > -ExactLong && n < ExactLong) product(to, x, n.toDouble)
      else {
        product(to, x, lower.toDouble)
        product(to, x, (n - lower).toDouble)
      }
    }

  private def product(to: Expansion, x: Double, factor: Double): Unit = {
    val p = x * factor
    to.add(p)
    to.add(Math.fma(x, factor, -p))
  }

  def merge(row: InternalRow): Unit = {
    var to = low
    row.getArray(0).toDoubleArray().foreach(p => if (p.isNaN) to = high else to.add(p))
    nan += row.getLong(1)
    positive += row.getLong(2)
    negative += row.getLong(3)
  }

  def merge(other: ExactState): ExactState = {
    other.low.toArray.foreach(low.add)
    other.high.toArray.foreach(high.add)
    nan += other.nan
    positive += other.positive
    negative += other.negative
    this
  }

  def isFinite: Boolean = nan == 0 && positive == 0 && negative == 0

  /** The sum as Spark's own would be: NaN and infinities as IEEE has them, else correctly rounded. */
  def value: Double =
    if (nan != 0 || (positive != 0 && negative != 0)) Double.NaN
    else if (positive != 0) Double.PositiveInfinity
    else if (negative != 0) Double.NegativeInfinity
    else if (high.isEmpty) low.rounded
    else exact.doubleValue

  /** The exact finite part. */
  def exact: BigDecimal = {
    val small = low.toArray.foldLeft(BigDecimal.ZERO)((sum, p) => sum.add(new BigDecimal(p)))
    high.toArray.foldLeft(small)((sum, p) => sum.add(new BigDecimal(p).multiply(Scale)))
  }

  /** Partials in the one form that depends on the sum only; a NaN separates the scaled ones from the others. */
  private def canonical: Array[Double] =
    if (high.isEmpty && low.isDouble && Math.abs(low.rounded) < CanonicalLimit) low.toArray
    else if (high.isEmpty && Math.abs(low.rounded) < CanonicalLimit) low.fewest
    else {
      var rest = exact
      val scaled, plain = Array.newBuilder[Double]
      while (rest.abs.compareTo(CanonicalBound) >= 0) {
        val top = rest.divide(Scale).doubleValue
        scaled += top
        rest = rest.subtract(new BigDecimal(top).multiply(Scale))
      }
      while (rest.signum != 0) {
        val top = rest.doubleValue
        plain += top
        rest = rest.subtract(new BigDecimal(top))
      }
      val top = scaled.result().reverse
      if (top.isEmpty) plain.result().reverse else plain.result().reverse ++ (Double.NaN +: top)
    }

  def toRow: InternalRow =
    new GenericInternalRow(Array[Any](UnsafeArrayData.fromPrimitiveArray(canonical), nan, positive, negative))

  def toBytes: Array[Byte] = {
    val buffer = ByteBuffer.allocate(28 + 8 * (low.size + high.size))
    buffer.putLong(nan).putLong(positive).putLong(negative).putInt(low.size)
    low.putInto(buffer)
    high.putInto(buffer)
    buffer.array()
  }

  private[tidemill] def read(bytes: Array[Byte]): ExactState = {
    val buffer = ByteBuffer.wrap(bytes)
    nan = buffer.getLong()
    positive = buffer.getLong()
    negative = buffer.getLong()
    val small = buffer.getInt()
    for (_ <- 0 until small) low.add(buffer.getDouble())
    while (buffer.hasRemaining) high.add(buffer.getDouble())
    this
  }
}

object ExactSum {
  /** Sums of up to 2^63 terms below this stay finite. */
  private[tidemill] val Limit = Math.scalb(1.0, 960)
  private[tidemill] val SquareLimit = Math.scalb(1.0, 480)
  /** 2^-1300 is no double; it is applied in two steps, one per factor of a square. */
  private[tidemill] val HalfScale = Math.scalb(1.0, -650)
  private[tidemill] val Scale = BigDecimal.valueOf(2).pow(1300)
  private[tidemill] val CanonicalLimit = Math.scalb(1.0, 1000)
  private[tidemill] val CanonicalBound = BigDecimal.valueOf(2).pow(1000)
  /** Whole numbers below this are doubles. */
  private[tidemill] val ExactLong = 1L << 53

  def fromBytes(bytes: Array[Byte]): ExactState = new ExactState().read(bytes)

  def fromRow(row: InternalRow): ExactState = {
    val state = new ExactState
    state.merge(row)
    state
  }

  /** Called from generated code. */
  def value(row: InternalRow): Double = fromRow(row).value

  /**
   * Variance or standard deviation from a count, an exact sum and an exact sum of squares.
   *
   * Null over no rows, and for the sample kinds over one row (Spark's default; its legacy setting gives NaN there).
   * NaN once any value is NaN or infinite, as Spark's own recurrence gives it. Never negative.
   */
  def moment(count: Long, sum: InternalRow, squares: InternalRow, kind: String): java.lang.Double = {
    val sample = kind.endsWith("_samp")
    if (count <= 0 || (sample && count == 1)) null
    else {
      val (s1, s2) = (fromRow(sum), fromRow(squares))
      if (!s1.isFinite || !s2.isFinite) Double.NaN
      else {
        val n = BigDecimal.valueOf(count)
        val total = s1.exact
        val numerator = n.multiply(s2.exact).subtract(total.multiply(total))
        val denominator = n.multiply(if (sample) n.subtract(BigDecimal.ONE) else n)
        val variance =
          if (numerator.signum <= 0) 0.0 else numerator.divide(denominator, Digits).doubleValue
        if (kind.startsWith("stddev")) Math.sqrt(variance) else variance
      }
    }
  }

  /** Far more than a double holds, so that the one rounding is the last. */
  private[tidemill] val Digits = new MathContext(60)
}
