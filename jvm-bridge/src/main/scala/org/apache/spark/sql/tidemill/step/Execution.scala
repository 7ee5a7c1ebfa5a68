package org.apache.spark.sql.tidemill.step

import java.util.concurrent.ConcurrentHashMap

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}
import org.apache.parquet.hadoop.ParquetOutputFormat

import org.apache.spark.TaskContext
import org.apache.spark.sql.SaveMode
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.{Ascending, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanHelper
import org.apache.spark.sql.execution.command.DataWritingCommandExec
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.tidemill.base.{Files, HadoopSettings, Json}
import org.apache.spark.sql.tidemill.physical.{DriverTasks, MovingFrames, RuntimeFilters, Strategies}
import org.apache.spark.sql.tidemill.query.Query
import org.apache.spark.sql.tidemill.source.Clock
import org.apache.spark.sql.tidemill.sum.NarrowSum
import org.apache.spark.sql.tidemill.view.{FewRows, RowsInMemory}

import org.json4s._
import org.json4s.JsonDSL._

/** Runs a wire plan in a session and reports what came out and what it cost. */
final class Execution(session: SparkSession, query: Query, request: JValue) extends AdaptiveSparkPlanHelper {
  import Decoder.{int, text}
  import ExpressionDecoder.list

  private val sink = request \ "sink"

  private val columns: Seq[(Int, String)] = list(sink \ "columns").map {
    case JArray(List(c, JString(name))) => (int(c), name)
    case other => throw new IllegalArgumentException(s"not a column: ${ExpressionDecoder.show(other)}")
  } match {
    case Nil => list(query.document \ "output").map(o => (int(o(0)), text(o(1))))
    case given => given
  }

  /**
   * Columns of the plan that hold partition values as text, each with the name of the column that they are values of.
   */
  private val partitions: Seq[(String, String)] = list(sink \ "partitions").map {
    case JArray(List(JString(column), JString(of))) => (column, of)
    case other => throw new IllegalArgumentException(s"not a partition column: ${ExpressionDecoder.show(other)}")
  }

  private def partitionAttributes: Seq[UnresolvedAttribute] =
    partitions.map { case (column, _) => UnresolvedAttribute.quoted(column) }

  private def option(value: JValue): Option[String] = Some(value).collect { case JString(s) => s }

  /** Wall time by part. */
  private val watch = new Stopwatch

  private val view = option(request \ "view").getOrElse("query")
  private val label = option(request \ "output").getOrElse("result")

  def run(): JObject = session.withActive(measured()) ~ ("wall_ms" -> watch.told)

  private def measured(): JObject = {
    Strategies.enable(session)
    val decoded = new Decoder(session, query).decode(request \ "plan", columns)
    val timed = request \ "clock" match {
      case JInt(micros) => Clock.at(decoded, micros.toLong)
      case _ => decoded
    }
    val plan =
      if (RuntimeFilters.possible(timed)) RuntimeFilters.in(session.sessionState.analyzer.execute(timed), found)
      else timed
    session.sessionState.conf.setConf(SQLConf.WINDOW_SEGMENT_TREE_ENABLED, MovingFrames.wantTree(plan))
    val narrow = if (Execution.wide.contains((view, label))) None else NarrowSum.in(plan, session.sparkContext)
    narrow.fold(executed(plan)) { case (tried, overflow) =>
      val outcome = Try(executed(tried))
      if (overflow.isZero || outcome.failed.toOption.exists(RunMetrics.isCancelled)) outcome.get
      else {
        Execution.wide.add((view, label))
        directory.foreach(path => fileSystem(path).delete(path, true))
        executed(plan)
      }
    }
  }

  /** The rows of a part of the plan, if they are few, by a job in front of the step's own. */
  private def found(part: LogicalPlan): Option[LocalRelation] =
    if (Sink.of(text(sink \ "kind")) == Sink.Explain) None
    else RunMetrics.untilEnd(session.sparkContext) {
      val execution = session.sessionState.executePlan(part)
      val rows = SQLExecution.withNewExecutionId(execution, Some("tidemill rows that pick")) {
        val planned = execution.executedPlan
        watch.end("catalyst")
        atMost(planned, Execution.MostFound)
      }
      watch.end("jobs")
      rows.map(LocalRelation(part.output, _))
    }

  private def executed(plan: LogicalPlan): JObject = {
    val number = request \ "run" match { case JInt(n) => n.toLong; case _ => 0L }
    val shaped = if (partitions.isEmpty) plan else RebalancePartitions(partitionAttributes, plan)
    IncrementalOutput.using(view, number, label, inOrder(shaped)) { leaf =>
      cleaning {
        RunMetrics.untilEnd(session.sparkContext) {
          Sink.of(text(sink \ "kind")) match {
            case Sink.Parquet => parquet(leaf)
            case Sink.Rows => rows(leaf)
            case Sink.Explain => explain(leaf)
          }
        }
      }
    }
  }

  /** Each task's rows in the order that the sink asks for. */
  private def inOrder(plan: LogicalPlan): LogicalPlan = option(sink \ "order").fold(plan) { column =>
    Sort(Seq(SortOrder(UnresolvedAttribute.quoted(column), Ascending)), global = false, plan)
  }

  /** How rows are laid out in files. */
  private def options: Map[String, String] = {
    val pages: Map[String, String] = sink \ "page_rows" match {
      case JInt(rows) => Map(ParquetOutputFormat.PAGE_ROW_COUNT_LIMIT -> rows.toString)
      case _ => Map.empty
    }
    val rows: Map[String, String] = sink \ "file_rows" match {
      case JInt(most) => Map("maxRecordsPerFile" -> most.toString)
      case _ => Map.empty
    }
    pages ++ rows ++ Option.when(Json.flag(sink, "bounds"))(DirectCommit.Told -> "true")
  }

  /** Nothing of a failed write may be found by the next run; what was in the place before is not ours to delete. */
  private def cleaning[T](body: => T): T = directory match {
    case Some(path) if !fileSystem(path).exists(path) =>
      try body
      catch {
        case e: Throwable =>
          Try(fileSystem(path).delete(path, true))
          throw e
      }
    case _ => body
  }

  private def directory: Option[Path] = option(sink \ "path").map(new Path(_))

  private def hadoop: Configuration = HadoopSettings.of(session)

  private def fileSystem(path: Path): FileSystem = path.getFileSystem(hadoop)

  private def explain(leaf: IncrementalOutput): JObject =
    answer(JArray(Nil), JNull, None) ~
      ("text" -> session.sessionState.executePlan(leaf).explainString(ExtendedMode))

  private def rows(leaf: IncrementalOutput): JObject = {
    val execution = session.sessionState.executePlan(leaf)
    val schema = execution.analyzed.schema
    val collected = SQLExecution.withNewExecutionId(execution, Some("tidemill rows")) {
      val planned = execution.executedPlan
      watch.end("catalyst")
      sink \ "most" match {
        case JInt(most) => atMost(planned, most.toInt)
        case _ => Some(planned.executeCollect().toSeq)
      }
    }
    watch.end("jobs")
    val cells = collected.fold(JNull: JValue)(found => JArray(found.map(RowEncoding.encode(_, schema)).toList))
    answer(JArray(Nil), cells, Some(execution.executedPlan))
  }

  /** All rows, or None if there are more than `most`; no task gathers more than it needs to tell that. */
  private def atMost(plan: SparkPlan, most: Int): Option[Seq[InternalRow]] = {
    def first(context: TaskContext, rows: Iterator[InternalRow]): Array[InternalRow] =
      rows.take(most + 1).map(_.copy()).toArray
    val found = DriverTasks.run(plan, plan.execute(), first)
    Option.when(found.map(_.length.toLong).sum <= most)(found.toSeq.flatten)
  }

  private def parquet(leaf: IncrementalOutput): JObject = {
    val path = new Path(text(sink \ "path"))
    if (partitions.nonEmpty) inFolders(leaf, path)
    else {
      val execution = session.sessionState.executePlan(leaf)
      val tasks = Some(sink \ "files").collect { case JInt(files) => files.toInt }
      val few = sink \ "few" match { case JInt(rows) => rows.toInt; case _ => 0 }
      val written = SQLExecution.withNewExecutionId(execution, Some("tidemill write")) {
        val planned = execution.executedPlan
        watch.end("catalyst")
        new StepWrite(session, path, options, few).execute(planned, tasks)
      }
      watch.end("jobs")
      val files = written.inMemory match {
        case Some(all) if Json.flag(sink, "memory") => List(kept(path, all))
        case all =>
          val files = listed(path, written.inFiles())
          // Later steps, of this run and of others, need not read the file.
          for (rows <- all; Seq(file) <- Some(files)) RowsInMemory.keep(Json.text(file, "path"), rows)
          files
      }
      watch.end("writing")
      answer(JArray(files), JInt(written.rows), Some(execution.executedPlan))
    }
  }

  /** The file that rows in memory stand for; it does not exist. */
  private def kept(path: Path, all: FewRows): JObject = {
    val file = new Path(fileSystem(path).makeQualified(path), "memory").toString
    RowsInMemory.keep(query.id, file, all)
    ("path" -> file) ~ ("bytes" -> all.bytes) ~ ("modified" -> 0L)
  }

  /** Writes into a folder for each value of the partitions, with Spark's own command. */
  private def inFolders(leaf: IncrementalOutput, path: Path): JObject = {
    val command = InsertIntoHadoopFsRelationCommand(
      outputPath = path,
      staticPartitions = Map.empty,
      ifPartitionNotExists = false,
      partitionColumns = partitionAttributes,
      bucketSpec = None,
      fileFormat = new ParquetFileFormat,
      options = options,
      query = leaf,
      mode = SaveMode.ErrorIfExists,
      catalogTable = None,
      fileIndex = None,
      outputColumnNames = columns.map(_._2))
    watch.end("catalyst")
    // Spark plans the rows within the command, as it executes it.
    val executed = committedDirectly(session.sessionState.executePlan(command).commandExecuted)
    watch.end("jobs")
    val written = executed.collectFirst { case c: CommandResult => c.commandPhysicalPlan }
    // The write command may sit below an adaptive plan; only it counts the rows.
    val count = written.flatMap(collectFirst(_) { case w: DataWritingCommandExec => w.metrics("numOutputRows").value })
      .getOrElse(throw new IllegalStateException("Spark's write command is not in the executed plan"))
    answer(JArray(listed(path, DirectCommit.taken(path))), JInt(count), written)
  }

  private def committedDirectly[T](body: => T): T = {
    val conf = session.sessionState.conf
    val before = conf.fileCommitProtocolClass
    conf.setConf(SQLConf.FILE_COMMIT_PROTOCOL_CLASS, classOf[DirectCommit].getName)
    try body
    finally conf.setConf(SQLConf.FILE_COMMIT_PROTOCOL_CLASS, before)
  }

  /**
   * The committed files below `path`; with partitions, each says its values, and the folder that Spark gives them in a
   * table.
   */
  private def listed(path: Path, committed: Map[String, Option[String]]): List[JObject] = {
    val root = fileSystem(path).makeQualified(path)
    val found = Files.walk(Seq(root), hadoop, !_.startsWith("."))
    def place(f: FileStatus): String = DirectCommit.place(root, f.getPath)
    found.toList.filter(f => committed.contains(place(f))).sortBy(_.getPath.toString).map { f =>
      val told = committed(place(f)).fold(JObject())(Json.parse(_).asInstanceOf[JObject])
      val file = ("path" -> f.getPath.toString) ~ ("bytes" -> f.getLen) ~ ("modified" -> f.getModificationTime) ~ told
      if (partitions.isEmpty) file
      else {
        val values = Partitions.valuesOf(root, f.getPath.getParent)
        val folder = Partitions.folder(partitions.map(_._2), values)
        file ~ ("partition" -> JArray(values.map(Json.of).toList)) ~ ("folder" -> folder)
      }
    }
  }

  private def answer(files: JArray, rows: JValue, executed: Option[SparkPlan]): JObject =
    ("files" -> files) ~ ("rows" -> rows) ~
      ("observed" -> executed.map(observed).getOrElse(JObject())) ~
      ("text" -> JNull)

  private def observed(plan: SparkPlan): JObject = {
    val found = CollectMetricsExec.collect(plan)
    JObject(found.toList.sortBy(_._1).map { case (name, row) =>
      name -> JObject(row.schema.fieldNames.toList.zipWithIndex.map { case (metric, i) =>
        metric -> RowEncoding.cell(row.get(i))
      })
    })
  }
}

object Execution {

  /** The most rows of a part that are found first. */
  private val MostFound = 5000

  /** The steps, by view and name, with exact sums that did not fit into narrow buffers. */
  private val wide = ConcurrentHashMap.newKeySet[(String, String)]
}
