package org.apache.spark.sql.tidemill.physical

import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.expressions.codegen.{CodeGenerator, CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.types.DataType

/**
 * A literal that generated code takes from outside. Bounds differ from run to run: written into the code, each run would
 * compile it anew, and the JVM would have to warm to it anew.
 */
final class Bound(value: Any, dataType: DataType) extends Literal(value, dataType) {
  override def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val from = ctx.addReferenceObj("bound", value, CodeGenerator.boxedType(dataType))
    ev.copy(
      code = code"final ${CodeGenerator.javaType(dataType)} ${ev.value} = $from;",
      isNull = FalseLiteral)
  }
}
