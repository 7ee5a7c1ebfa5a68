package org.apache.spark.sql.tidemill.query

import java.lang.ref.SoftReference
import java.util.{LinkedHashMap => JLinkedHashMap, Map => JMap, UUID}

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession

/** A text and where the tables in it are looked up. */
private[tidemill] final case class Text(sql: String, catalog: String, namespace: Seq[String])

/**
 * Queries that were analysed before, for runs to use again: an analysis takes some twenty milliseconds. Each of them
 * keeps the session that it was analysed in, so they go when memory is short.
 */
private[tidemill] object AnalysedBefore {
  private val Most = 1024

  private final case class Kept(query: Query, meanings: Meanings)

  private val kept = new JLinkedHashMap[Text, SoftReference[Kept]](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[Text, SoftReference[Kept]]): Boolean = size > Most
  }

  /** The query that an analysis of `text` would make, which began at `since`, in milliseconds since 1970. */
  def find(session: SparkSession, text: Text, since: Long): Option[Query] =
    Option(kept.synchronized(kept.get(text))).flatMap(found => Option(found.get))
      .collect { case Kept(query, meanings) if meanings.hold(session, since) => query }

  /** Gives a query a name and remembers it, if it can be told later whether it would still be the same. */
  def keep(session: SparkSession, text: Text, parsed: LogicalPlan, query: Query): Query =
    Meanings.of(session, parsed, query).fold(query) { meanings =>
      val named = query.named(UUID.randomUUID.toString)
      kept.synchronized(kept.put(text, new SoftReference(Kept(named, meanings))))
      named
    }
}
