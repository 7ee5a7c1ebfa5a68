package org.apache.spark.sql.tidemill

import org.json4s._

import org.apache.spark.sql.classic.SparkSession

/** The bridge's operations on storage: files, the present positions of sources, and the session catalog. */
object Store {
  def files(session: SparkSession, request: JValue): JValue = Files.run(session, request)

  /**
   * {"sources": [source...], "since": [position...] or absent} to {"positions": [position...], "changes": [summary...]}.
   *
   * All positions are taken one right after the other, before any summary is worked out, so that the sources of a run are
   * pinned as closely together as they can be. A summary tells what metadata alone knows of the changes since the
   * position of the same index (null without one); see `DeltaSource.summary` and `ViewSource.summary`. No Spark job runs.
   */
  def pin(session: SparkSession, request: JValue): JValue = {
    val sources = Json.items(request, "sources")
    val positions = sources.map(Sources.pin(session, _))
    val since = Json.items(request, "since").padTo(sources.size, JNull)
    val summaries = sources.zip(since).zip(positions).map { case ((source, old), now) =>
      if (Json.present(old) && Json.present(now)) Sources.summary(session, source, old, now) else JNull
    }
    JObject("positions" -> JArray(positions.toList), "changes" -> JArray(summaries.toList))
  }

  def catalog(session: SparkSession, request: JValue): JValue = CatalogOps.run(session, request)
}
