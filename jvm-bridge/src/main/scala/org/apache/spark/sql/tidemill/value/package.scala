/** When two values are the same one, whatever their type. */
package org.apache.spark.sql.tidemill.value
