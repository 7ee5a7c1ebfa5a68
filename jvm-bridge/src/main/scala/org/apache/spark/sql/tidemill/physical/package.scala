/** How Spark carries a step out: the same rows for less. */
package org.apache.spark.sql.tidemill.physical
