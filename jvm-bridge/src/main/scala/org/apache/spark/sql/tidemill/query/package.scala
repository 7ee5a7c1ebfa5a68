/** A query on its way to Python: normalised, encoded, and with what keeps it from being maintained. */
package org.apache.spark.sql.tidemill.query
