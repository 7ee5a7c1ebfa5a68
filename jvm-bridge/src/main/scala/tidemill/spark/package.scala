/** The way into Spark: the extension, the parser and the command of Tidemill's statements, and the planner behind them. */
package tidemill.spark
