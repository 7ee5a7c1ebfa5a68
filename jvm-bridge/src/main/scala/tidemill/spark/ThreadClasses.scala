package tidemill.spark

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic

/**
 * The class loaders of threads that serve others.
 *
 * Each session of the Thrift server is one of Hive's, which gives its thread a loader of the class path alone. Jars and
 * packages of the application are not found by it, so that opening a session fails if the catalog is Delta's.
 */
private[spark] object ThreadClasses {

  private val own = getClass.getClassLoader

  /** Has the thread find classes as the application does, if it would not even find Tidemill's. */
  def find(session: SparkSession): Unit = {
    val thread = Thread.currentThread
    if (!reaches(thread.getContextClassLoader)) {
      val jars = session.asInstanceOf[classic.SparkSession].sharedState.jarClassLoader
      if (reaches(jars)) thread.setContextClassLoader(jars)
    }
  }

  private def reaches(loader: ClassLoader): Boolean =
    Iterator.iterate(loader)(_.getParent).takeWhile(_ != null).exists(_ eq own)
}
