/** The normal form of a query: Spark's own rewritings, and ours that give the planner what it can maintain. */
package org.apache.spark.sql.tidemill.normal
