package org.apache.spark.sql.tidemill.leaving

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.util.UUID

import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.parquet.HadoopReadOptions
import org.apache.parquet.bytes.BytesInput
import org.apache.parquet.column.{ColumnDescriptor, Dictionary, Encoding, ParquetProperties}
import org.apache.parquet.column.page.DictionaryPage
import org.apache.parquet.column.statistics.Statistics
import org.apache.parquet.format.{PageHeader, PageType, Util}
import org.apache.parquet.hadoop.{CodecFactory, ParquetFileReader, ParquetFileWriter, ParquetWriter}
import org.apache.parquet.hadoop.metadata.{BlockMetaData, ColumnChunkMetaData, FileMetaData}
import org.apache.parquet.hadoop.util.{HadoopInputFile, HadoopOutputFile}
import org.apache.parquet.internal.column.columnindex.{ColumnIndex, OffsetIndex}
import org.apache.parquet.io.SeekableInputStream
import org.apache.spark.TaskContext
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.tidemill.base.{HadoopSettings, Json, LocalFiles}
import org.apache.spark.sql.tidemill.step.{Bounds, RunMetrics}

import org.json4s._
import org.json4s.JsonDSL._

/** A file, and the numbers of its rows that leave, in order. */
private[leaving] final case class Shortened(path: String, gone: Array[Long])

/**
 * Copies Parquet files without some of their rows. Only pages with such rows are opened; all others are copied as
 * bytes. One Spark job, with a task for each file.
 */
object WithoutRows {
  private val PageBytes = 1 << 20

  /**
   * {"path": a new folder, "files": [{"path", "rows": [numbers of rows]}]} to {"files": [file]}: for each file its copy
   * ({"path", "bytes", "modified", "rows", "bounds"}); {"rows": 0} if no row is left, and null if it has a layout of
   * which rows cannot be cut.
   */
  def run(session: SparkSession, request: JValue): JObject = {
    val folder = Json.text(request, "path")
    val files = Json.items(request, "files").map { file =>
      Shortened(Json.text(file, "path"), Json.longs(file, "rows").toArray.sorted.distinct)
    }
    val hadoop = new Configuration(HadoopSettings.of(session))
    LocalFiles.use(hadoop)
    val context = session.sparkContext
    new Path(folder).getFileSystem(hadoop).mkdirs(new Path(folder))
    val sent = HadoopSettings.forTasks(context, hadoop)
    val job = UUID.randomUUID().toString
    val copies = RunMetrics.untilEnd(context) {
      context.parallelize(files, math.max(1, files.size)).map(copied(_, folder, job, sent.settings)).collect()
    }
    "files" -> JArray(copies.toList.map(_.fold(JNull: JValue)(Json.parse)))
  }

  /** Runs what reads a file; a failure names the file as that of a scan does, so that it is taken for damaged. */
  private[leaving] def reading[T](path: String)(body: => T): T =
    try body
    catch {
      case other: UncutException => throw other
      case NonFatal(e) => throw QueryExecutionErrors.cannotReadFilesError(e, path)
    }

  private def copied(file: Shortened, folder: String, job: String, conf: Configuration): Option[String] = {
    val task = TaskContext.get()
    val name = f"part-${task.partitionId()}%05d-$job-a${task.attemptNumber()}"
    val target = new Path(folder, name + new Path(file.path).getName.dropWhile(_ != '.'))
    try Some(Json.print(copied(file, target, conf)))
    catch {
      case _: UncutException =>
        Try(target.getFileSystem(conf).delete(target, false))
        None
    }
  }

  private def copied(file: Shortened, target: Path, conf: Configuration): JObject = Using.Manager { use =>
    val input = HadoopInputFile.fromPath(new Path(file.path), conf)
    val reader = use(reading(file.path)(ParquetFileReader.open(input, HadoopReadOptions.builder(conf).build())))
    val meta = reader.getFileMetaData
    if (meta.getEncryptionType != FileMetaData.EncryptionType.UNENCRYPTED) throw new UncutException("it is encrypted")
    val stream = use(input.newStream())
    val codecs = new CodecFactory(conf, PageBytes)
    val writer = use(new ParquetFileWriter(
        HadoopOutputFile.fromPath(target, conf), meta.getSchema, ParquetFileWriter.Mode.CREATE,
        ParquetWriter.DEFAULT_BLOCK_SIZE.toLong, 0, ParquetProperties.DEFAULT_COLUMN_INDEX_TRUNCATE_LENGTH,
        ParquetProperties.DEFAULT_STATISTICS_TRUNCATE_LENGTH, true))
    writer.start()
    val columns = meta.getSchema.getColumns.asScala.map(c => c.getPath.toSeq -> c).toMap
    var (first, read, rewritten) = (0L, 0L, 0L)
    reader.getRowGroups.asScala.foreach { block =>
      val gone = file.gone.filter(r => r >= first && r < first + block.getRowCount).map(_ - first)
      if (gone.length < block.getRowCount) {
        val copy = new BlockCopy(file.path, reader, stream, writer, codecs, block, gone)
        writer.startBlock(block.getRowCount - gone.length)
        block.getColumns.asScala.foreach(chunk => copy.column(columns(chunk.getPath.toArray.toSeq), chunk))
        writer.endBlock()
        read += copy.rowsRead
        rewritten += math.max(0L, copy.rowsRead - gone.length)
      }
      first += block.getRowCount
    }
    writer.end(meta.getKeyValueMetaData)
    codecs.release()
    val status = target.getFileSystem(conf).getFileStatus(target)
    val metrics = TaskContext.get().taskMetrics()
    metrics.inputMetrics.incRecordsRead(read)
    metrics.outputMetrics.setRecordsWritten(rewritten)
    metrics.outputMetrics.setBytesWritten(status.getLen)
    ("path" -> target.toString) ~ ("bytes" -> status.getLen) ~ ("modified" -> status.getModificationTime) ~
      Bounds.of(writer.getFooter)
  }.get
}

/** A data page of the copy, with the encodings of its levels and values. */
private final case class CopiedPage(
    values: Int, plainBytes: Int, bytes: BytesInput, statistics: Option[Statistics[_]], rows: Long,
    encodings: (Encoding, Encoding, Encoding))

/** Copies the column chunks of one row group without the rows `gone`. */
private final class BlockCopy(
    path: String, reader: ParquetFileReader, stream: SeekableInputStream, writer: ParquetFileWriter,
    codecs: CodecFactory,
    block: BlockMetaData, gone: Array[Long]) {

  /** The rows of the pages that were opened, in the column where they are the most. */
  var rowsRead = 0L

  /** Copies a column chunk. */
  def column(descriptor: ColumnDescriptor, chunk: ColumnChunkMetaData): Unit = {
    val (bounds, places) =
      WithoutRows.reading(path)((Option(reader.readColumnIndex(chunk)), reader.readOffsetIndex(chunk)))
    val bloom = reader.readBloomFilter(chunk)
    if (gone.isEmpty) writer.appendColumnChunk(descriptor, stream, chunk, bloom, bounds.orNull, places)
    else if (places == null) throw new UncutException("it does not tell where its pages begin")
    else {
      val (dictionary, pages) = WithoutRows.reading(path)(copied(descriptor, chunk, bounds, places))
      writer.startColumn(descriptor, pages.map(_.values.toLong).sum, chunk.getCodec)
      dictionary.foreach(writer.writeDictionaryPage)
      pages.foreach { page =>
        val (repetitions, definitions, values) = page.encodings
        writer.writeDataPage(
          page.values, page.plainBytes, page.bytes, page.statistics.orNull, page.rows, repetitions, definitions, values)
      }
      // Of a value that has left a filter may say that it is there.
      if (bloom != null) writer.addBloomFilter(chunk.getPath.toDotString, bloom)
      writer.endColumn()
    }
  }

  private def copied(
      descriptor: ColumnDescriptor, chunk: ColumnChunkMetaData, bounds: Option[ColumnIndex],
      places: OffsetIndex): (Option[DictionaryPage], Seq[CopiedPage]) = {
    val bytes = new Array[Byte](math.toIntExact(chunk.getTotalSize))
    stream.seek(chunk.getStartingPos)
    stream.readFully(bytes)
    val in = new Positioned(bytes)
    def body(header: PageHeader): BytesInput = {
      val found = BytesInput.from(bytes, in.position, header.getCompressed_page_size)
      in.skip(header.getCompressed_page_size.toLong)
      found
    }
    def plain(page: BytesInput, header: PageHeader): BytesInput =
      codecs.getDecompressor(chunk.getCodec).decompress(page, header.getUncompressed_page_size)
    var stored = Option.empty[(DictionaryPage, PageHeader)]
    lazy val dictionary = stored.map { case (page, header) =>
      val content = BytesInput.from(array(plain(page.getBytes, header)))
      page.getEncoding.initDictionary(
        descriptor, new DictionaryPage(content, page.getDictionarySize, page.getEncoding))
    }
    val cutting = new CutPages(descriptor, dictionary)
    val pages = Seq.newBuilder[CopiedPage]
    var (page, read) = (0, 0L)
    while (page < places.getPageCount) {
      val header = Util.readPageHeader(in)
      header.getType match {
        case PageType.DICTIONARY_PAGE =>
          val known = header.getDictionary_page_header
          stored = Some(
            new DictionaryPage(
              body(header), header.getUncompressed_page_size, known.getNum_values,
              Encoding.valueOf(known.getEncoding.name)) -> header)
        case PageType.DATA_PAGE =>
          val known = header.getData_page_header
          val (from, to) = (places.getFirstRowIndex(page), places.getLastRowIndex(page, block.getRowCount))
          val encodings = (
            Encoding.valueOf(known.getRepetition_level_encoding.name),
            Encoding.valueOf(known.getDefinition_level_encoding.name),
            Encoding.valueOf(known.getEncoding.name))
          if (!touched(from, to))
            pages += CopiedPage(
              known.getNum_values, header.getUncompressed_page_size, body(header),
              bounds.map(statistics(descriptor, _, page)), to - from + 1, encodings)
          else {
            read += to - from + 1
            val opened = array(plain(body(header), header))
            val cut = cutting.cut(opened, known.getNum_values, encodings._3, from, gone)
            if (cut.rows > 0) {
              val packed = array(codecs.getCompressor(chunk.getCodec).compress(cut.bytes))
              pages += CopiedPage(
                cut.values, math.toIntExact(cut.bytes.size), BytesInput.from(packed),
                cut.statistics.filter(_ => bounds.isDefined), cut.rows.toLong, encodings)
            }
          }
          page += 1
        case other => throw new UncutException(s"it has pages of the kind $other")
      }
    }
    rowsRead = math.max(rowsRead, read)
    (stored.map(_._1), pages.result())
  }

  private def touched(from: Long, to: Long): Boolean = {
    val at = java.util.Arrays.binarySearch(gone, from)
    at >= 0 || (-at - 1 < gone.length && gone(-at - 1) <= to)
  }

  private def statistics(descriptor: ColumnDescriptor, bounds: ColumnIndex, page: Int): Statistics[_] = {
    val found = Statistics.getBuilderForReading(descriptor.getPrimitiveType)
    Option(bounds.getNullCounts).foreach(n => found.withNumNulls(n.get(page)))
    if (!bounds.getNullPages.get(page))
      found.withMin(bytes(bounds.getMinValues.get(page))).withMax(bytes(bounds.getMaxValues.get(page)))
    found.build()
  }

  /** A copy: compressors use their buffers again. */
  private def array(input: BytesInput): Array[Byte] = {
    val out = new ByteArrayOutputStream(math.toIntExact(input.size))
    input.writeAllTo(out)
    out.toByteArray
  }

  private def bytes(buffer: java.nio.ByteBuffer): Array[Byte] = {
    val found = new Array[Byte](buffer.remaining)
    buffer.duplicate().get(found)
    found
  }

  private final class Positioned(bytes: Array[Byte]) extends ByteArrayInputStream(bytes) {
    def position: Int = pos
  }
}
