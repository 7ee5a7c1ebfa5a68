/** The way into Spark: the extension, the statements' parser and command, and the planner behind them. */
package tidemill.spark
