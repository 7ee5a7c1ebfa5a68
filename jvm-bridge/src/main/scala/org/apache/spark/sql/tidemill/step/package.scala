/** A step on its way back from Python: decoded into a Catalyst plan, run, and measured. */
package org.apache.spark.sql.tidemill.step
