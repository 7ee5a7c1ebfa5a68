/** What Python calls: one JSON text each way. */
package org.apache.spark.sql.tidemill.bridge
