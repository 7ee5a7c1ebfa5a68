package org.apache.spark.sql.tidemill.leaving

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.nio.{ByteBuffer, ByteOrder}

import scala.collection.mutable

import org.apache.parquet.bytes.{BytesInput, BytesUtils, HeapByteBufferAllocator}
import org.apache.parquet.column.{ColumnDescriptor, Dictionary, Encoding}
import org.apache.parquet.column.statistics.Statistics
import org.apache.parquet.column.values.rle.{RunLengthBitPackingHybridDecoder, RunLengthBitPackingHybridEncoder}
import org.apache.parquet.io.api.Binary
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName._

/** A data page of which some rows were cut: its uncompressed bytes, its numbers of values and rows, its statistics. */
private[leaving] final case class CutPage(bytes: BytesInput, values: Int, rows: Int, statistics: Option[Statistics[_]])

/**
 * Cuts rows out of the uncompressed data pages (version 1) of one column chunk. The encoding of a page and its
 * dictionary stay what they were, so values are copied and never decoded, but for the new bounds of the page.
 */
private[leaving] final class CutPages(column: ColumnDescriptor, dictionary: => Option[Dictionary]) {
  private val kind = column.getPrimitiveType

  /**
   * @param page   the page's bytes
   * @param values its number of values and NULLs, as its header says
   * @param first  the number of its first row in the row group
   * @param gone   the rows of the row group to be cut, in order
   */
  def cut(page: Array[Byte], values: Int, encoding: Encoding, first: Long, gone: Array[Long]): CutPage = {
    val in = ByteBuffer.wrap(page).order(ByteOrder.LITTLE_ENDIAN)
    val repetitions = new Levels(column.getMaxRepetitionLevel, in)
    val definitions = new Levels(column.getMaxDefinitionLevel, in)
    val rest = in.slice().order(ByteOrder.LITTLE_ENDIAN)
    if (column.getMaxRepetitionLevel == 0 && definitions.areAll(values)) {
      // A value in each row, as in most pages: nothing has to be gone through to know which leave.
      val dropped = gone.slice(place(gone, first), place(gone, first + values)).map(row => (row - first).toInt)
      val kept = values - dropped.length
      val statistics = bounds(nulls = 0)
      val bytes = copied(rest, values, dropped, encoding, statistics)
      CutPage(BytesInput.concat(definitions.run(kept), bytes), kept, kept, statistics)
    } else cut(repetitions, definitions, rest, values, encoding, first, gone)
  }

  /** Where a row is, or would be, in a list in order. */
  private def place(rows: Array[Long], row: Long): Int = java.util.Arrays.binarySearch(rows, row) match {
    case missing if missing < 0 => -missing - 1
    case found => found
  }

  private def bounds(nulls: Int): Option[Statistics[_]] =
    if (kind.getPrimitiveTypeName == INT96) None
    else {
      val statistics: Statistics[_] = Statistics.createStats(kind)
      statistics.incrementNumNulls(nulls.toLong)
      Some(statistics)
    }

  private def cut(
      repetitions: Levels, definitions: Levels, in: ByteBuffer, values: Int, encoding: Encoding, first: Long,
      gone: Array[Long]): CutPage = {
    var next = place(gone, first)
    var row = first - 1
    var (rows, kept, present, seen) = (0, 0, 0, 0)
    var dropping = false
    val dropped = mutable.ArrayBuilder.make[Int]
    var i = 0
    while (i < values) {
      val (repetition, definition) = (repetitions.next(), definitions.next())
      if (repetition == 0) {
        row += 1
        while (next < gone.length && gone(next) < row) next += 1
        dropping = next < gone.length && gone(next) == row
        if (!dropping) rows += 1
      }
      val isPresent = definition == column.getMaxDefinitionLevel
      if (dropping) { if (isPresent) dropped += seen }
      else {
        repetitions.keep(repetition)
        definitions.keep(definition)
        kept += 1
        if (isPresent) present += 1
      }
      if (isPresent) seen += 1
      i += 1
    }
    val statistics = bounds(nulls = kept - present)
    val rest = copied(in, seen, dropped.result(), encoding, statistics)
    CutPage(BytesInput.concat(repetitions.bytes, definitions.bytes, rest), kept, rows, statistics)
  }

  private def copied(
      in: ByteBuffer, values: Int, dropped: Array[Int], encoding: Encoding, to: Option[Statistics[_]]): BytesInput =
    encoding match {
      case _ if values == 0 => BytesInput.from(in)
      case packed if packed.usesDictionary => ids(in, values, dropped, to)
      case Encoding.PLAIN if kind.getPrimitiveTypeName == BOOLEAN => bits(in, values, dropped, to)
      case Encoding.PLAIN if kind.getPrimitiveTypeName == BINARY => texts(in, values, dropped, to)
      case Encoding.PLAIN => fixed(in, values, dropped, to)
      case other => throw new UncutException(s"pages are encoded as $other")
    }

  /** Goes through the values of a page in order, and tells of each whether it stays. */
  private final class Staying(dropped: Array[Int]) {
    private var next = 0

    def apply(value: Int): Boolean = {
      val drop = next < dropped.length && dropped(next) == value
      if (drop) next += 1
      !drop
    }
  }

  private def ids(in: ByteBuffer, values: Int, dropped: Array[Int], to: Option[Statistics[_]]): BytesInput = {
    val width = in.get()
    val decoder = new RunLengthBitPackingHybridDecoder(width.toInt, stream(in))
    val encoder = CutPages.encoder(width.toInt, in.remaining)
    val (used, stays) = (new mutable.BitSet, new Staying(dropped))
    var i = 0
    while (i < values) {
      val id = decoder.readInt()
      if (stays(i)) {
        encoder.writeInt(id)
        used += id
      }
      i += 1
    }
    for (statistics <- to; known <- dictionary; id <- used) kind.getPrimitiveTypeName match {
      case INT32 => statistics.updateStats(known.decodeToInt(id))
      case INT64 => statistics.updateStats(known.decodeToLong(id))
      case FLOAT => statistics.updateStats(known.decodeToFloat(id))
      case DOUBLE => statistics.updateStats(known.decodeToDouble(id))
      case _ => statistics.updateStats(known.decodeToBinary(id))
    }
    BytesInput.concat(BytesInput.from(Array(width)), encoder.toBytes)
  }

  private def bits(in: ByteBuffer, values: Int, dropped: Array[Int], to: Option[Statistics[_]]): BytesInput = {
    val out = new Array[Byte]((values - dropped.length + 7) / 8)
    val stays = new Staying(dropped)
    val statistics: Statistics[_] = to.orNull
    var (i, at) = (0, 0)
    while (i < values) {
      if (stays(i)) {
        val bit = (in.get(i / 8) >> (i % 8)) & 1
        out(at / 8) = (out(at / 8) | (bit << (at % 8))).toByte
        if (statistics != null) statistics.updateStats(bit == 1)
        at += 1
      }
      i += 1
    }
    BytesInput.from(out)
  }

  private def texts(in: ByteBuffer, values: Int, dropped: Array[Int], to: Option[Statistics[_]]): BytesInput = {
    val out = new ByteArrayOutputStream(in.remaining)
    val stays = new Staying(dropped)
    val statistics: Statistics[_] = to.orNull
    var (i, from) = (0, 0)
    while (i < values) {
      val size = 4 + in.getInt(from)
      if (stays(i)) {
        out.write(in.array, in.arrayOffset + from, size)
        if (statistics != null)
          statistics.updateStats(Binary.fromReusedByteArray(in.array, in.arrayOffset + from + 4, size - 4))
      }
      from += size
      i += 1
    }
    BytesInput.from(out)
  }

  private def fixed(in: ByteBuffer, values: Int, dropped: Array[Int], to: Option[Statistics[_]]): BytesInput = {
    val width = kind.getPrimitiveTypeName match {
      case INT32 | FLOAT => 4
      case INT64 | DOUBLE => 8
      case INT96 => 12
      case _ => kind.getTypeLength
    }
    val out = new ByteArrayOutputStream(in.remaining)
    var from = 0
    def until(value: Int): Unit = {
      out.write(in.array, in.arrayOffset + from * width, (value - from) * width)
      from = value + 1
    }
    dropped.foreach(until)
    until(values)
    val kept = out.toByteArray
    to.foreach(update(_, ByteBuffer.wrap(kept).order(ByteOrder.LITTLE_ENDIAN), width))
    BytesInput.from(kept)
  }

  private def update(statistics: Statistics[_], in: ByteBuffer, width: Int): Unit = {
    val physical = kind.getPrimitiveTypeName
    while (in.hasRemaining) physical match {
      case INT32 => statistics.updateStats(in.getInt())
      case INT64 => statistics.updateStats(in.getLong())
      case FLOAT => statistics.updateStats(in.getFloat())
      case DOUBLE => statistics.updateStats(in.getDouble())
      case _ =>
        statistics.updateStats(Binary.fromReusedByteArray(in.array, in.arrayOffset + in.position(), width))
        in.position(in.position() + width)
    }
  }

  private def stream(in: ByteBuffer): ByteArrayInputStream =
    new ByteArrayInputStream(in.array, in.arrayOffset + in.position(), in.remaining)

  /** The repetition or definition levels at the begin of a page; `keep` collects those that stay. */
  private final class Levels(most: Int, in: ByteBuffer) {
    private val width = BytesUtils.getWidthFromMaxInt(most)
    private val size = if (most == 0) 0 else in.getInt()
    private val decoder = new RunLengthBitPackingHybridDecoder(
      width, new ByteArrayInputStream(in.array, in.arrayOffset + in.position(), size))
    private lazy val encoder = CutPages.encoder(width, size)
    private val begin = in.duplicate()
    in.position(in.position() + size)

    /** Whether so many levels are all the highest, in one run: the run's length times two, and the level. */
    def areAll(count: Int): Boolean = most == 0 || {
      val levels = CutPages.this.stream(begin)
      BytesUtils.readUnsignedVarInt(levels) == count << 1 && levels.read() == most
    }

    /** So many of the highest level, in one run. */
    def run(count: Int): BytesInput =
      if (most == 0) BytesInput.empty
      else {
        val levels = BytesInput.concat(BytesInput.fromUnsignedVarInt(count << 1), BytesInput.from(Array(most.toByte)))
        BytesInput.concat(BytesInput.fromInt(levels.size.toInt), levels)
      }

    def next(): Int = if (most == 0) 0 else decoder.readInt()
    def keep(level: Int): Unit = if (most > 0) encoder.writeInt(level)

    def bytes: BytesInput =
      if (most == 0) BytesInput.empty
      else {
        val levels = encoder.toBytes
        BytesInput.concat(BytesInput.fromInt(levels.size.toInt), levels)
      }
  }
}

private[leaving] object CutPages {
  private val FirstBytes = 64

  private def encoder(width: Int, expected: Int): RunLengthBitPackingHybridEncoder =
    new RunLengthBitPackingHybridEncoder(width, FirstBytes, math.max(FirstBytes, expected), new HeapByteBufferAllocator)
}

/** A file in a layout of which rows cannot be cut: whoever wants that must write its rows anew. */
private[leaving] final class UncutException(reason: String) extends Exception(reason)
