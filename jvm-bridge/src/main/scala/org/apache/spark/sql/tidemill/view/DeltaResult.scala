package org.apache.spark.sql.tidemill.view

import scala.annotation.tailrec

import org.apache.hadoop.fs.Path
import org.json4s._

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.SaveMode
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.delta.{
  DeletionVectorsTableFeature, DeltaConcurrentModificationException, DeltaConfigs, DeltaLog, DeltaOperations,
  OptimisticTransaction
}
import org.apache.spark.sql.delta.actions.{Action, AddFile, Metadata, SetTransaction}
import org.apache.spark.sql.delta.files.TahoeFileIndex
import org.apache.spark.sql.delta.sources.DeltaSQLConf
import org.apache.spark.sql.delta.util.FileNames
import org.apache.spark.sql.execution.datasources.HadoopFsRelation
import org.apache.spark.sql.tidemill.base.{Files, HadoopSettings, Json}
import org.apache.spark.sql.types.StructType

/**
 * The Delta table at a view's location, which shows the view's result files to everyone who reads Delta. Its
 * transactions add and remove files, or mark rows of them as gone. They carry the number of the run whose content they
 * show (application: the view). Asked for by Python as {"do": name, "location", ...}; loaded only where a session has
 * Delta.
 */
private[tidemill] object DeltaResult {
  /** Another writer may come first a few times; Tidemill's own writers show the same content. */
  private val Attempts = 5
  private val Filled = "tidemill.filled"
  /** Files of a table that one task brings together for a checkpoint. */
  private val FilesPerTask = 10000

  def run(session: SparkSession, request: JValue): JValue = {
    val root = Files.qualified(Json.text(request, "location"), HadoopSettings.of(session))
    Json.text(request, "do") match {
      case "check" => check(session, root, request); JBool(true)
      case "published" => Json.ofLong(published(session, root, request))
      case "publish" => JBool(publish(session, root, request, Attempts))
      case "forget" => DeltaLog.invalidateCache(session, root); JBool(true)
      case other => throw new IllegalArgumentException(s"Unknown operation on a result '$other'")
    }
  }

  /** Whether this relation shows the content of an incremental view, and not the table of one that was never filled. */
  def shows(files: HadoopFsRelation): Boolean = files.location match {
    case index: TahoeFileIndex => index.metadata.configuration.get(Filled).contains("true")
    case _ => true
  }

  /** Fails as Delta does where it cannot have such a table; nothing is written. */
  private def check(session: SparkSession, root: Path, request: JValue): Unit = {
    DeltaLog.invalidateCache(session, root) // what lay here before may be gone, and versions start anew
    describe(DeltaLog.forTable(session, root).startTransaction(None, None), request)
  }

  private def application(request: JValue): String = s"tidemill-${Json.text(request, "view")}"

  /** The run that the newest version shows; None if there is no version, or if it is not Tidemill's. */
  private def published(session: SparkSession, root: Path, request: JValue): Option[Long] = {
    val log = DeltaLog.forTable(session, root)
    runOf(log, log.update().version, application(request))
  }

  private def runOf(log: DeltaLog, version: Long, application: String): Option[Long] =
    if (version < 0) None
    else {
      val entry = log.store.read(FileNames.unsafeDeltaFile(log.logPath, version), log.newDeltaHadoopConf())
      entry.map(Action.fromJson).collectFirst { case SetTransaction(`application`, run, _) => run }
    }

  /**
   * Makes the files "files" the content, as of "run" (null: the view has none yet); false if there was nothing to do.
   * One transaction. "before" is {"run", "files"}: what Tidemill has shown last, if it is known. Where that is what the
   * table holds, only the difference is looked at; else all its files are.
   */
  @tailrec
  private def publish(session: SparkSession, root: Path, request: JValue, attempts: Int): Boolean = {
    val done =
      try Some(attempt(session, DeltaLog.forTable(session, root), root, request))
      catch { case _: DeltaConcurrentModificationException if attempts > 1 => None }
    done match {
      case Some(answer) => answer
      case None => publish(session, root, request, attempts - 1)
    }
  }

  private def attempt(session: SparkSession, log: DeltaLog, root: Path, request: JValue): Boolean = {
    val txn = log.startTransaction(None, None)
    txn.readWholeTable() // whatever another writer does meanwhile is in the way
    val (name, run) = (application(request), Json.longOption(request, "run"))
    val ours = runOf(log, txn.readVersion, name)
    // Which run was shown last, before somebody else's version, only a job over the whole log tells.
    val shown = ours.getOrElse(if (txn.readVersion < 0) -1L else txn.txnVersion(name))
    if (run.exists(_ < shown)) return false
    val changed = describe(txn, request)
    val live = filesOf(Json.items(request, "files"), root, txn.metadata)
    val present = request \ "before" match {
      case before: JObject if ours.isDefined && ours == Json.longOption(before, "run") =>
        filesOf(Json.items(before, "files"), root, txn.metadata)
      case _ if txn.readVersion < 0 => Map.empty[(String, String), AddFile]
      case _ =>
        // The checksum of a version lists the files of a small table; only a job over the log tells the others.
        val all = txn.snapshot.checksumOpt.flatMap(_.allFiles).getOrElse(txn.snapshot.allFiles.collect().toSeq)
        all.map(f => shownAs(f) -> f).toMap
    }
    val added = live.removedAll(present.keys).values.toSeq
    val removed = present.removedAll(live.keys).values.map(_.remove)
    if (!changed && ours == run && added.isEmpty && removed.isEmpty) false
    else {
      val mark = run.map(SetTransaction(name, _, Some(System.currentTimeMillis)))
      // Delta refuses vectors in a table that does not have the feature: somebody may have dropped it.
      if (added.exists(_.deletionVector != null) && !txn.protocol.isFeatureSupported(DeletionVectorsTableFeature))
        txn.updateProtocol(txn.protocol.withFeature(DeletionVectorsTableFeature))
      val (before, now) = (present.keySet.map(_._1), live.keySet.map(_._1))
      val mode = if (before.exists(now)) SaveMode.Append else SaveMode.Overwrite
      val text = s"tidemill: view ${Json.text(request, "name")}" + run.map(n => s", run $n").getOrElse("")
      val parts = Some(txn.metadata.partitionColumns).filter(_.nonEmpty)
      val shown = FileStatistics.added(session, added, root, txn.metadata)
      committing(session, txn) {
        txn.commit(mark.toSeq ++ removed ++ shown, DeltaOperations.Write(mode, parts, None, Some(text)))
      }
      true
    }
  }

  /**
   * Commits in a session where a checkpoint, if one is due, is made by few tasks: by itself Delta starts 50 of them for
   * a table of any size. What the user has set counts.
   */
  private def committing[A](session: SparkSession, txn: OptimisticTransaction)(commit: => A): A = {
    val due = (txn.readVersion + 1) % DeltaConfigs.CHECKPOINT_INTERVAL.fromMetaData(txn.metadata) == 0
    val known = txn.snapshot.checksumOpt.map(_.numFiles)
    if (!due || known.isEmpty || session.conf.contains(DeltaSQLConf.DELTA_SNAPSHOT_PARTITIONS.key)) commit
    else {
      val own = session.cloneSession()
      own.conf.set(DeltaSQLConf.DELTA_SNAPSHOT_PARTITIONS.key, 1 + known.sum / FilesPerTask)
      own.withActive(commit)
    }
  }

  /** Gives the table schema, partitioning, comment and properties of the view; false if it has them already. */
  private def describe(txn: OptimisticTransaction, request: JValue): Boolean = {
    val old = txn.metadata
    val own = Map("tidemill.view" -> Json.text(request, "view"), Filled -> Json.present(request \ "run").toString)
    val wanted = old.copy(
      description = Json.textOption(request, "comment").orNull,
      schemaString = Json.dataType(request \ "schema").asInstanceOf[StructType].json,
      partitionColumns = Json.texts(request, "partitions"),
      configuration = Json.textMap(request, "properties") ++ own)
    val fresh = txn.readVersion < 0
    // Properties that the session gives to all new Delta tables might change how their files are to be written.
    if (fresh)
      txn.updateMetadata(wanted.copy(createdTime = Some(System.currentTimeMillis)), ignoreDefaultProperties = true)
    else if (wanted != old) txn.updateMetadata(wanted)
    fresh || wanted != old
  }

  /** A file, and which of its rows are gone: what a transaction adds and removes. */
  private def shownAs(file: AddFile): (String, String) = file.path -> file.getDeletionVectorUniqueId.getOrElse("")

  private def filesOf(
      files: Seq[JValue], root: Path, metadata: Metadata): Map[(String, String), AddFile] = files.map { file =>
    val path = root.toUri.relativize(new Path(Json.text(file, "path")).toUri)
    val values = metadata.partitionColumns.zip(Json.items(file, "partition")).map {
      case (column, JString(value)) => column -> value
      case (column, _) => column -> null
    }
    val vector = DeletionVector.of(file).map(DeletionVectors.descriptor).orNull
    val shown = AddFile(
      SparkPath.fromUri(path).urlEncoded, values.toMap, Json.long(file, "bytes"), Json.long(file, "modified"),
      dataChange = true, deletionVector = vector)
    shownAs(shown) -> shown
  }.toMap
}
