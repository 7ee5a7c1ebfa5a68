package tidemill.spark

import java.util.{Collections, WeakHashMap}

import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}
import org.apache.spark.sql.tidemill.{FixedSettings, ReadNewestRun, ReadPresentColumns, RefuseWrites, RefuseWritesResolved, ReplaceIncrementalOutput}

/**
 * The entry point: `spark.sql.extensions=tidemill.spark.TidemillExtensions`.
 *
 * The jar also names it as a service, so that `--jars` alone is enough. Applying it twice to the same extensions
 * changes nothing.
 */
class TidemillExtensions extends SparkSessionExtensionsProvider {

  override def apply(extensions: SparkSessionExtensions): Unit =
    if (TidemillExtensions.applied.add(extensions)) {
      FixedSettings.register()
      extensions.injectParser((session, delegate) => ParserProxy(session, delegate))
      // Before Spark resolves a name: then the refusal comes first, whatever Spark would say about the statement.
      extensions.injectHintResolutionRule(session => RefuseWrites(session))
      extensions.injectResolutionRule(session => RefuseWrites(session))
      extensions.injectPostHocResolutionRule(session => RefuseWritesResolved(session))
      extensions.injectResolutionRule(session => ReplaceIncrementalOutput(session))
      extensions.injectResolutionRule(session => new ReadPresentColumns(session))
      extensions.injectPostHocResolutionRule(session => new ReadNewestRun(session))
    }
}

object TidemillExtensions {
  /** Weak, and by identity (the class defines no equality): extensions live as long as their sessions. */
  private val applied = Collections.synchronizedSet(
    Collections.newSetFromMap(new WeakHashMap[SparkSessionExtensions, java.lang.Boolean]))

  /** Whether sessions with these extensions understand Tidemill's statements. */
  def isApplied(extensions: SparkSessionExtensions): Boolean = applied.contains(extensions)
}
