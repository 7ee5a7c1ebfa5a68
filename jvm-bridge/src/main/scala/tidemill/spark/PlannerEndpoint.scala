package tidemill.spark

import org.apache.spark.sql.SparkSession

/** The planner as the JVM sees it: implemented in Python, called through py4j. Must be public for py4j's proxy. */
trait PlannerEndpoint {
  /**
   * @param session the session that the statement runs in (`org.apache.spark.sql.classic.SparkSession`)
   * @param method `parse` or `execute`
   * @param request JSON
   * @return JSON: `{"ok": ...}`, `{"error": ...}` or `{"failure": n}`; never throws
   */
  def call(session: SparkSession, method: String, request: String): String
}
