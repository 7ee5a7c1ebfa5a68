package org.apache.spark.sql.tidemill.step

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable.ArrayBuffer
import scala.util.Try

import org.apache.hadoop.fs.Path
import org.apache.hadoop.mapreduce.{JobContext, TaskAttemptContext}

import org.apache.spark.internal.io.{FileCommitProtocol, FileNameSpec}
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage
import org.apache.spark.sql.tidemill.base.Json

/**
 * Writes each file of a job where it stays.
 *
 * A folder that nobody wrote before, and of which the log names the files, needs no temporary folders beside it and no
 * rename per file, which an object store makes a copy. An attempt's number is in the names of its files: what one that
 * failed or was too late leaves is nobody's, and goes with the next VACUUM.
 */
final class DirectCommit(jobId: String, path: String) extends FileCommitProtocol with Serializable {
  @transient private lazy val written = ArrayBuffer.empty[String]

  override def setupJob(job: JobContext): Unit = {
    val folder = new Path(path)
    folder.getFileSystem(job.getConfiguration).mkdirs(folder)
  }

  override def commitJob(job: JobContext, tasks: Seq[TaskCommitMessage]): Unit =
    DirectCommit.committed.put(path,
      tasks.flatMap(_.obj.asInstanceOf[Seq[Committed]]).map(c => c.place -> c.told).toMap)

  /** The folder is its maker's to remove. */
  override def abortJob(job: JobContext): Unit = ()

  override def setupTask(task: TaskAttemptContext): Unit = written.clear()

  override def newTaskTempFile(task: TaskAttemptContext, folder: Option[String], name: FileNameSpec): String = {
    val attempt = task.getTaskAttemptID
    val file = f"${name.prefix}part-${attempt.getTaskID.getId}%05d-$jobId-a${attempt.getId}${name.suffix}"
    written += new Path(folder.fold(new Path(path))(new Path(path, _)), file).toString
    written.last
  }

  override def newTaskTempFile(task: TaskAttemptContext, folder: Option[String], extension: String): String =
    newTaskTempFile(task, folder, FileNameSpec("", extension))

  override def newTaskTempFileAbsPath(task: TaskAttemptContext, folder: String, extension: String): String =
    throw new UnsupportedOperationException(s"a file outside $path")

  override def newTaskTempFileAbsPath(task: TaskAttemptContext, folder: String, name: FileNameSpec): String =
    newTaskTempFileAbsPath(task, folder, name.suffix)

  override def commitTask(task: TaskAttemptContext): TaskCommitMessage = {
    val conf = task.getConfiguration
    val told = conf.getBoolean(DirectCommit.Told, false)
    new TaskCommitMessage(written.toList.map(new Path(_)).map { file =>
      Committed(DirectCommit.place(new Path(path), file), Option.when(told)(Json.print(Bounds.of(file, conf))))
    })
  }

  override def abortTask(task: TaskAttemptContext): Unit =
    written.map(new Path(_)).foreach(file => Try(file.getFileSystem(task.getConfiguration).delete(file, false)))
}

/** The place of a committed file, and what [[Bounds]] tells of it, as JSON. */
final case class Committed(place: String, told: Option[String])

object DirectCommit {
  /** The option of a write whose files are to tell their rows and bounds. */
  val Told = "tidemill.bounds"

  private val committed = new ConcurrentHashMap[String, Map[String, Option[String]]]

  /** Where a file lies below a folder, from its name upwards: a task gives its files in all partitions one name. */
  def place(folder: Path, file: Path): String =
    Iterator.iterate(file)(_.getParent).take(file.depth - folder.depth).map(_.getName).mkString("/")

  /** The files that a job committed in a folder, by place, with what each tells; asked once. */
  def taken(path: Path): Map[String, Option[String]] =
    Option(committed.remove(path.toString)).getOrElse(throw new IllegalStateException(s"no job was committed in $path"))
}
