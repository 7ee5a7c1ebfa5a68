/** The tables of incremental views as others see them: log, published runs, and what may not be written. */
package org.apache.spark.sql.tidemill.view
