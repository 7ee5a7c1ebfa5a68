/** A query on its way to Python: encoded, and with what keeps it from being maintained. */
package org.apache.spark.sql.tidemill.query
