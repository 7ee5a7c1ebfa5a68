package org.apache.spark.sql.tidemill.step

import java.util.{Date, UUID}

import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.mapreduce.Job
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat

import org.apache.spark.TaskContext
import org.apache.spark.internal.io.SparkHadoopWriterUtils
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.tidemill.base.{HadoopSettings, LocalFiles, SettingsForTasks}
import org.apache.spark.sql.tidemill.physical.{DriverTasks, FewRowsExec}
import org.apache.spark.sql.tidemill.view.FewRows
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/**
 * Writes the rows of a plan as Parquet into one folder. A task that has few rows sends them to the driver instead, which
 * puts all of these into one file, or keeps them in memory: a small step needs no files, and its readers none either.
 *
 * @param options of the write, see [[DirectCommit]] for its own
 * @param few     the most rows of all tasks together that come to the driver, with at most [[StepWrite.FewBytes]]
 */
final class StepWrite(session: SparkSession, path: Path, options: Map[String, String], few: Int) {

  /** Executes the plan. Its tasks are merged into at most `tasks`; they move no row. */
  def execute(plan: SparkPlan, tasks: Option[Int]): StepRows = {
    val (files, settings) = described(plan.schema)
    def rows(count: Long, few: Seq[InternalRow], written: Seq[Committed]): StepRows =
      new StepRows(files.description(settings), plan.schema, count, few, written)
    plan match {
      case known: FewRowsExec if known.rows.length <= few && known.bytes <= StepWrite.FewBytes =>
        rows(known.rows.length, known.executeCollect().toSeq, Nil)
      case _ =>
        val all = plan.execute()
        val merged = tasks.filter(_ < all.getNumPartitions).fold(all)(n => all.coalesce(math.max(1, n)))
        val parts = math.max(1, merged.getNumPartitions)
        val sent = HadoopSettings.forTasks(session.sparkContext, settings)
        val task = StepWrite.task(files, sent, few / parts, StepWrite.FewBytes / parts)
        val done = DriverTasks.run(plan, merged, task)
        rows(done.map(_.rows).sum, done.flatMap(_.few), done.flatMap(_.files))
    }
  }

  private def described(schema: StructType): (WrittenFiles, Configuration) = {
    val format = new ParquetFileFormat
    DataSourceUtils.verifySchema(format, schema)
    val job = Job.getInstance(HadoopSettings.of(session)) // a copy
    options.foreach { case (name, value) => job.getConfiguration.set(name, value) }
    LocalFiles.use(job.getConfiguration)
    job.setOutputKeyClass(classOf[Void])
    job.setOutputValueClass(classOf[InternalRow])
    FileOutputFormat.setOutputPath(job, path)
    val ours = CaseInsensitiveMap(options)
    val factory = format.prepareWrite(session, job, ours, schema)
    val columns = DataTypeUtils.toAttributes(schema)
    val most = ours.get("maxRecordsPerFile").fold(0L)(_.toLong)
    val zone = session.sessionState.conf.getConf(SQLConf.SESSION_LOCAL_TIMEZONE)
    (WrittenFiles(path.toString, factory, columns, most, zone), job.getConfiguration)
  }
}

/** How the files of a write look; `most`: rows in a file, 0 without bound. */
final private case class WrittenFiles(
    path: String, factory: OutputWriterFactory, columns: Seq[Attribute], most: Long, zone: String) {

  /** For Spark's writer, with Hadoop's settings of the write. */
  def description(settings: Configuration): WriteJobDescription = new WriteJobDescription(
    uuid = UUID.randomUUID().toString,
    serializableHadoopConf = new SerializableConfiguration(settings),
    outputWriterFactory = factory,
    allColumns = columns,
    dataColumns = columns,
    partitionColumns = Nil,
    bucketSpec = None,
    path = path,
    customPartitionLocations = Map.empty,
    maxRecordsPerFile = most,
    timeZoneId = zone,
    statsTrackers = Nil)
}

/** What a step made of its rows: `few` came to the driver, and all others are in the files of tasks. */
final class StepRows(
    description: WriteJobDescription, schema: StructType, val rows: Long, few: Seq[InternalRow],
    files: Seq[Committed]) {

  /** All rows, if all came to the driver. */
  def inMemory: Option[FewRows] = Option.when(files.isEmpty)(FewRows(schema, few))

  /** Puts all rows into files, at least one. Returns what [[DirectCommit]] tells of each, by place. */
  def inFiles(): Map[String, Option[String]] = {
    val own =
      if (few.isEmpty && files.nonEmpty) Nil
      else StepWrite.write(description, few.iterator, part = 0, stage = 0, attempt = 0)
    (files ++ own).map(c => c.place -> c.told).toMap
  }
}

/** What one task made of its rows. */
final case class TaskRows(rows: Long, few: Seq[UnsafeRow], files: Seq[Committed])

object StepWrite {

  /** The most bytes of rows that come to the driver. */
  private val FewBytes = 1 << 20

  private def task(
      files: WrittenFiles, sent: SettingsForTasks, few: Int, bytes: Int)
      : (TaskContext, Iterator[InternalRow]) => TaskRows =
    (context, rows) => {
      lazy val unsafe = UnsafeProjection.create(files.columns.map(_.dataType).toArray)
      val first = ArrayBuffer.empty[UnsafeRow]
      var size = 0
      while (rows.hasNext && first.length < few && size < bytes) {
        val row = rows.next() match {
          case row: UnsafeRow => row
          case other => unsafe(other)
        }
        size += row.getSizeInBytes
        first += row.copy()
      }
      if (!rows.hasNext) TaskRows(first.length.toLong, first.toSeq, Nil)
      else {
        var count = 0L
        val counted = (first.iterator ++ rows).map { row =>
          count += 1
          row
        }
        val attempt = context.taskAttemptId().toInt & Int.MaxValue
        val description = files.description(sent.settings)
        val written = write(description, counted, context.partitionId(), context.stageId(), attempt)
        context.taskMetrics().outputMetrics.setRecordsWritten(count)
        TaskRows(count, Nil, written)
      }
    }

  /** Writes rows into one file, or into several of the most rows that the description allows. */
  private[step] def write(
      description: WriteJobDescription, rows: Iterator[InternalRow], part: Int, stage: Int, attempt: Int)
      : Seq[Committed] = {
    // No two writes give a file the same name, and none but those told of are anybody's.
    val committer = new DirectCommit(UUID.randomUUID().toString, description.path)
    val id = SparkHadoopWriterUtils.createJobTrackerID(new Date)
    FileFormatWriter.executeTask(description, id, stage, part, attempt, committer, rows, None)
      .commitMsg.obj.asInstanceOf[Seq[Committed]]
  }
}
