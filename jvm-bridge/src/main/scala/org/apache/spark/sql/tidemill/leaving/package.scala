/** Rows that leave the files of a result: cut out of these, or marked in deletion vectors. */
package org.apache.spark.sql.tidemill.leaving
