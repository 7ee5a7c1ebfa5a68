/** What a query reads: a source's description, positions, content at a position, and changes between two. */
package org.apache.spark.sql.tidemill.source
