package org.apache.spark.sql.tidemill.bridge

import org.json4s._

import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.CatalogManager
import org.apache.spark.sql.tidemill.base.Json
import org.apache.spark.sql.tidemill.source.Sources
import org.apache.spark.sql.tidemill.view.DeltaResult

/** The bridge's operations on storage: files, the present positions of sources, and the session catalog. */
object Store {
  def files(session: SparkSession, request: JValue): JValue = FileOps.run(session, request)

  /**
   * {"sources": [source...], "since": [position...] or absent, "at": [position...] or absent, "now": what the
   * clock shows, in microseconds since 1970, or absent, "query": number or absent} to
   * {"positions": [position...], "changes": [summary...]}. With "query", that of a run, positions may be as old as its
   * analysis, and tell rows where it takes reading some footers.
   *
   * All positions are taken one right after the other, before any summary is worked out, so that the sources of a run
   * are pinned as closely together as they can be; one that "at" gives is taken as it is. A summary tells what metadata
   * alone knows of the changes since the position of the same index (null without one); see [[Source.summary]]. No
   * Spark job runs.
   */
  def pin(session: SparkSession, request: JValue): JValue = {
    val sources = Json.items(request, "sources")
    val now = Json.longOption(request, "now").getOrElse(DateTimeUtils.instantToMicros(java.time.Instant.now()))
    val analysis = Plans.asked(request)
    val fixed = Json.items(request, "at").padTo(sources.size, JNull)
    val positions = sources.zip(fixed).map { case (source, at) =>
      if (Json.present(at)) at else Sources.pin(session, source, now, analysis)
    }
    val since = Json.items(request, "since").padTo(sources.size, JNull)
    val counted =
      if (analysis.isEmpty) positions
      else sources.lazyZip(since).lazyZip(positions).map(Sources.counted(session, _, _, _))
    val summaries = sources.zip(since).zip(counted).map { case ((source, old), now) =>
      if (Json.present(old) && Json.present(now)) Sources.summary(session, source, old, now) else JNull
    }
    JObject("positions" -> JArray(counted.toList), "changes" -> JArray(summaries.toList))
  }

  /** See [[DeltaResult]]; {"refused": text} in a session that cannot have Delta tables. */
  def delta(session: SparkSession, request: JValue): JValue = {
    val catalog = session.sessionState.catalogManager.catalog(CatalogManager.SESSION_CATALOG_NAME).getClass.getName
    if (catalog.startsWith("org.apache.spark.sql.delta.")) DeltaResult.run(session, request)
    else {
      val remedy = "start it with tidemill.configure(builder, formats=[\"delta\"])"
      JObject("refused" -> JString(s"its catalog does not know Delta tables; $remedy"))
    }
  }

  def catalog(session: SparkSession, request: JValue): JValue = CatalogOps.run(session, request)
}
