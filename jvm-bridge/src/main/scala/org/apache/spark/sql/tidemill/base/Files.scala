package org.apache.spark.sql.tidemill.base

import java.io.FileNotFoundException
import java.nio.ByteBuffer
import java.nio.charset.CharacterCodingException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.attribute.{PosixFileAttributeView, PosixFilePermissions}
import java.nio.file.{
  FileAlreadyExistsException, Files => Nio, NoSuchFileException, Path => NioPath, Paths, StandardCopyOption,
  StandardOpenOption
}
import java.util.UUID

import scala.annotation.tailrec
import scala.concurrent.{ExecutionContext, Future}
import scala.concurrent.duration.Duration
import scala.util.{Try, Using}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  ChecksumException, FileAlreadyExistsException => HadoopExists, FileContext, FileStatus, FileSystem, Options, Path
}
import org.apache.hadoop.fs.permission.FsPermission
import org.json4s._

import org.apache.spark.sql.execution.datasources.HadoopFsRelation
import org.apache.spark.util.ThreadUtils

/**
 * Operations on files through Hadoop's FileSystem.
 *
 * Paths travel as `Path.toString` gives them (with scheme, not URL-encoded). Text is UTF-8. New files get the
 * permissions that Hadoop's umask gives to those of every table: a view is read by other users.
 */
object Files {
  /** Threads of the driver that list directories; listing costs waiting, not computing. */
  private val ListingThreads = 8
  private val IfAbsent = Options.CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE

  /** `text` as an absolute path with scheme. */
  def qualified(text: String, conf: Configuration): Path = qualified(new Path(text), conf)

  def qualified(path: Path, conf: Configuration): Path = path.getFileSystem(conf).makeQualified(path)

  /**
   * The whole content, None if there is no such file. Bytes that are no UTF-8 read as the empty text, which no file of
   * Tidemill is: put in place of a wrong byte, a character would make another text of it.
   */
  def read(path: Path, conf: Configuration): Option[String] =
    try {
      val bytes = Using.resource(path.getFileSystem(conf).open(path))(_.readAllBytes())
      try Some(UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString)
      catch { case _: CharacterCodingException => Some("") }
    } catch {
      case _: FileNotFoundException => None
      case _: ChecksumException => Some("") // a local file whose checksum beside it does not fit
    }

  /** Files and folders directly in `path`; nothing if it does not exist. Hidden files included. */
  def list(path: Path, conf: Configuration): Seq[FileStatus] = children(path, conf)

  /**
   * Files (and without `recursive` also folders) below a folder that belongs to a view. A symbolic link is listed as a
   * link and not followed: what lies outside of the view's location is not the view's to list or remove.
   */
  def listOwn(path: Path, conf: Configuration, recursive: Boolean): Seq[Listed] = {
    def level(folders: Seq[Path]): Seq[Listed] = {
      val found = eachFolder(folders, conf).map(status => Listed(status, isLink(status)))
      val (below, rest) = found.partition(listed => recursive && listed.isFolder)
      if (below.isEmpty) rest else rest ++ level(below.map(_.status.getPath))
    }
    level(Seq(path))
  }

  /** Hadoop's local file system shows what a link leads to. */
  private def isLink(status: FileStatus): Boolean =
    status.isSymlink || status.getPath.toUri.getScheme == "file" && Nio.isSymbolicLink(local(status.getPath))

  /**
   * All files below `roots` whose names, and whose folders' names, `wanted` accepts. Listed level by level by threads
   * of the driver: a run that finds nothing to do must not cost a Spark job.
   */
  def walk(roots: Seq[Path], conf: Configuration, wanted: String => Boolean): Seq[FileStatus] = {
    def level(folders: Seq[Path]): Seq[FileStatus] = {
      val found = eachFolder(folders, conf).filter(s => wanted(s.getPath.getName))
      val (below, files) = found.partition(_.isDirectory)
      if (below.isEmpty) files else files ++ level(below.map(_.getPath))
    }
    level(roots)
  }

  /** What lies directly in each of `folders`; nothing for those that do not exist. */
  def eachFolder(folders: Seq[Path], conf: Configuration): Seq[FileStatus] =
    eachInThreads(folders)(children(_, conf)).flatten

  /** Which of `paths` do not exist. */
  def missing(paths: Seq[String], conf: Configuration): Seq[String] =
    eachInThreads(paths) { text =>
      val path = new Path(text)
      if (path.getFileSystem(conf).exists(path)) None else Some(text)
    }.flatten

  /** What lies under each of `paths`; None if there is nothing. */
  def stat(paths: Seq[String], conf: Configuration): Seq[Option[FileStatus]] =
    eachInThreads(paths) { text =>
      val path = new Path(text)
      try Some(path.getFileSystem(conf).getFileStatus(path))
      catch { case _: FileNotFoundException => None }
    }

  /** Whether Delta lists the files of a relation; asked by name, since its classes need not be there. */
  def ofDelta(relation: HadoopFsRelation): Boolean =
    relation.location.getClass.getName.startsWith("org.apache.spark.sql.delta.")

  /** They end when they have had nothing to do for a minute: to make new ones takes longer than to look at few files. */
  private lazy val listing =
    ExecutionContext.fromExecutor(ThreadUtils.newDaemonCachedThreadPool("tidemill-files", ListingThreads))

  /** Does `work` for each item, at once if there are several. */
  def eachInThreads[A, B](items: Seq[A])(work: A => B): Seq[B] =
    if (items.size < 4) items.map(work)
    else {
      implicit val threads: ExecutionContext = listing
      ThreadUtils.awaitResult(Future.sequence(items.map(item => Future(work(item)))), Duration.Inf)
    }

  private def children(path: Path, conf: Configuration): Seq[FileStatus] =
    try path.getFileSystem(conf).listStatus(path).toSeq
    catch { case _: FileNotFoundException => Nil }

  /**
   * Creates `path` with `text` unless it exists: {"created": bool}, or {"refused": text} where the file system offers
   * no way to do so. Whoever gets true is the only one, whatever other processes do, and no reader ever sees a part.
   */
  def writeNew(path: Path, text: String, conf: Configuration): JValue = {
    val fs = path.getFileSystem(conf)
    fs.getScheme match {
      case "file" => created(unlessTaken(linkNew(local(path), text, fs)))
      case "hdfs" | "viewfs" => created(unlessTaken(renameNew(path, text, conf)))
      case _ if fs.hasPathCapability(path.getParent, IfAbsent) =>
        created(putNew(fs, path, text))
      case scheme =>
        val system = s"the file system '$scheme' (${fs.getClass.getName})"
        JObject("refused" -> JString(s"$system has no operation that creates a file only if it is absent"))
    }
  }

  private def created(done: Boolean): JValue = JObject("created" -> JBool(done))

  /**
   * Does `work` again where its temporary file was gone before it got its name: VACUUM cannot tell it from what a
   * writer that died has left.
   */
  @tailrec private def unlessTaken[A](work: => A, attempts: Int = 10000): A =
    (try Right(work)
    catch { case gone @ (_: NoSuchFileException | _: FileNotFoundException) => Left(gone) }) match {
      case Right(done) => done
      case Left(gone) if attempts == 0 => throw gone
      case Left(_) => unlessTaken(work, attempts - 1)
    }

  /** Local: a complete temporary file is hard-linked to its name, which fails if the name is taken. */
  private def linkNew(target: NioPath, text: String, fs: FileSystem): Boolean = {
    val temporary = writeTemporary(target, text, fs, lasting = true)
    try {
      Nio.createLink(target, temporary)
      true
    } catch {
      case _: FileAlreadyExistsException => false
    } finally Nio.deleteIfExists(temporary)
  }

  /** HDFS: the name node renames without overwriting in one step. */
  private def renameNew(target: Path, text: String, conf: Configuration): Boolean = {
    val context = FileContext.getFileContext(target.toUri, conf)
    val temporary = writeTemporary(target, text, conf, lasting = true)
    try {
      context.rename(temporary, target, Options.Rename.NONE)
      true
    } catch {
      case _: HadoopExists =>
        context.delete(temporary, false)
        false
    }
  }

  /** Object stores: the put itself carries the condition; losing shows when the stream is closed, at the latest. */
  private def putNew(fs: FileSystem, target: Path, text: String): Boolean = {
    try {
      val out = fs.createFile(target).overwrite(true).recursive().must(IfAbsent, true).build()
      Using.resource(out)(_.write(text.getBytes(UTF_8)))
      true
    } catch {
      case _: HadoopExists => false
      // stores differ in the exception for a failed condition: what lies under the name decides
      case failure: java.io.IOException => read(target, fs.getConf).map(_ == text).getOrElse(throw failure)
    }
  }

  /**
   * Puts `text` under `path`, whatever was there, so that readers see the old or the new content and nothing between.
   *
   * @param lasting if not, the file may be empty when the machine stops soon afterwards
   */
  def replace(path: Path, text: String, conf: Configuration, lasting: Boolean): Unit = {
    val fs = path.getFileSystem(conf)
    fs.getScheme match {
      case "file" =>
        val target = local(path)
        unlessTaken {
          val temporary = writeTemporary(target, text, fs, lasting)
          try Nio.move(temporary, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING)
          finally Nio.deleteIfExists(temporary)
        }
        // a checksum that Hadoop kept for an earlier file of this name would make the new one unreadable
        Nio.deleteIfExists(target.resolveSibling(s".${target.getFileName}.crc"))
      case "hdfs" | "viewfs" =>
        unlessTaken {
          val temporary = writeTemporary(path, text, conf, lasting)
          FileContext.getFileContext(path.toUri, conf).rename(temporary, path, Options.Rename.OVERWRITE)
        }
      case _ => // object stores show a put when it is complete
        Using.resource(fs.create(path, true))(_.write(text.getBytes(UTF_8)))
    }
  }

  /** Renames a file or folder unless the new name is taken; false if it is, or if there is nothing to rename. */
  def rename(from: Path, to: Path, conf: Configuration): Boolean = {
    val fs = from.getFileSystem(conf)
    fs.exists(from) && !fs.exists(to) && fs.rename(from, to)
  }

  /** Removes a folder that holds nothing, and leaves any other. */
  def deleteEmpty(folder: Path, conf: Configuration): Unit = {
    val fs = folder.getFileSystem(conf)
    // looked at first, because object stores may take a folder that holds something; refused by all others
    if (children(folder, conf).isEmpty)
      try fs.delete(folder, false)
      catch { case _: java.io.IOException => }
  }

  /** A file, folder or link below a view's location. */
  case class Listed(status: FileStatus, isLink: Boolean) {
    def isFolder: Boolean = status.isDirectory && !isLink
  }

  private def local(path: Path): NioPath = Paths.get(path.toUri.getPath)

  private def temporaryName(name: String): String = s".$name.${UUID.randomUUID()}.tmp"

  /** Folders and file get the permissions that `fs` gives to what it makes itself. */
  private def writeTemporary(target: NioPath, text: String, fs: FileSystem, lasting: Boolean): NioPath = {
    if (!Nio.isDirectory(target.getParent)) fs.mkdirs(new Path(target.getParent.toUri))
    val temporary = target.resolveSibling(temporaryName(target.getFileName.toString))
    val channel = java.nio.channels.FileChannel.open(temporary, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)
    try {
      Using.resource(channel) { _ =>
        if (Nio.getFileStore(temporary).supportsFileAttributeView(classOf[PosixFileAttributeView])) {
          val mode = FsPermission.getFileDefault.applyUMask(FsPermission.getUMask(fs.getConf))
          val all = Seq(mode.getUserAction, mode.getGroupAction, mode.getOtherAction).map(_.SYMBOL).mkString
          Nio.setPosixFilePermissions(temporary, PosixFilePermissions.fromString(all))
        }
        val bytes = ByteBuffer.wrap(text.getBytes(UTF_8))
        while (bytes.hasRemaining) channel.write(bytes)
        if (lasting) channel.force(true) // the name must not outlive its content when the machine stops
      }
    } catch {
      case failure: Throwable => // a full disk, say: half a file helps nobody
        Try(Nio.deleteIfExists(temporary))
        throw failure
    }
    temporary
  }

  private def writeTemporary(target: Path, text: String, conf: Configuration, lasting: Boolean): Path = {
    val temporary = new Path(target.getParent, temporaryName(target.getName))
    val fs = target.getFileSystem(conf)
    try {
      Using.resource(fs.create(temporary, false)) { out =>
        out.write(text.getBytes(UTF_8))
        if (lasting) out.hsync()
      }
    } catch {
      case failure: Throwable =>
        Try(fs.delete(temporary, false))
        throw failure
    }
    temporary
  }
}
