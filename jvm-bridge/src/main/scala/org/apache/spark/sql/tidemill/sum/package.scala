/** Aggregates of Tidemill's own: sums without rounding or overflow, and what observations count. */
package org.apache.spark.sql.tidemill.sum
