package tidemill.spark

import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}
import org.apache.spark.sql.tidemill.bridge.{FixedSettings, Installed}
import org.apache.spark.sql.tidemill.step.ReplaceIncrementalOutput
import org.apache.spark.sql.tidemill.view.{ReadNewestRun, ReadPresentColumns, RefuseWrites, RefuseWritesResolved}

/**
 * The entry point: `spark.sql.extensions=tidemill.spark.TidemillExtensions`.
 *
 * The jar also names it as a service, so that `--jars` alone is enough. Applying it twice to the same extensions
 * changes nothing.
 */
class TidemillExtensions extends SparkSessionExtensionsProvider {

  override def apply(extensions: SparkSessionExtensions): Unit =
    if (Installed.add(extensions)) {
      FixedSettings.register()
      Schedules.begin()
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
