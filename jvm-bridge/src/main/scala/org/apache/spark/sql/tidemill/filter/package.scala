/** Filters that few rows in memory put on what a step reads from files. */
package org.apache.spark.sql.tidemill.filter
