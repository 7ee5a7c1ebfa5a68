/** Whether a view's content is what its query gives: Spark runs the query as it analysed it, row for row. */
package org.apache.spark.sql.tidemill.judge
