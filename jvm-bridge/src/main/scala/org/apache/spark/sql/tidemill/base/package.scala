/** What every room stands on: files through Hadoop, JSON values, and the errors of Tidemill. */
package org.apache.spark.sql.tidemill.base
