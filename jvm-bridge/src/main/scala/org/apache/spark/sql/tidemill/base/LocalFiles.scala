package org.apache.spark.sql.tidemill.base

import java.nio.file.{Files => Nio}
import java.nio.file.attribute.PosixFilePermissions

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.hadoop.fs.permission.FsPermission

/**
 * The local file system, which gives permissions to files itself. Where Hadoop's native library is missing, its own
 * starts the program `chmod` for each file and folder that it makes: ten milliseconds each.
 */
final class LocalFiles extends LocalFileSystem(new LocalFiles.Raw)

object LocalFiles {
  private val Chosen = "fs.file.impl"

  /** Makes local files be written so with these settings, unless they name a file system of their own. */
  def use(settings: Configuration): Unit = if (settings.get(Chosen) == null) {
    settings.set(Chosen, classOf[LocalFiles].getName)
    settings.set(s"$Chosen.disable.cache", "true") // others go on with theirs
  }

  final private[base] class Raw extends RawLocalFileSystem {
    override def setPermission(path: Path, permission: FsPermission): Unit = {
      val file = pathToFile(path).toPath
      if (permission.getStickyBit || !Nio.getFileStore(file).supportsFileAttributeView("posix"))
        super.setPermission(path, permission)
      else Nio.setPosixFilePermissions(file, PosixFilePermissions.fromString(permission.toString))
    }
  }
}
