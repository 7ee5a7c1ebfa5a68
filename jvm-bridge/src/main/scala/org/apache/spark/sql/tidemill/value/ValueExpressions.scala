package org.apache.spark.sql.tidemill.value

import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.types.{BinaryType, DataType}

/** Functions that values of any type are compared by; the decoder knows them, no session's function registry does. */
object ValueExpressions {
  def lookup(name: String, arguments: Seq[Expression]): Option[Expression] = (name, arguments) match {
    case ("tidemill_identity", Seq(x)) => Some(CanonicalForm(x, collated = false))
    case ("tidemill_key", Seq(x)) => Some(CanonicalForm(x, collated = true))
    case _ => None
  }
}

/** A value as bytes that are the same if and only if the values are (see [[CanonicalBytes]]); NULL of NULL. */
final case class CanonicalForm(child: Expression, collated: Boolean) extends UnaryExpression {
  @transient private lazy val form = new CanonicalBytes(child.dataType, collated)

  override def nullIntolerant: Boolean = true
  override def prettyName: String = if (collated) "tidemill_key" else "tidemill_identity"
  override def dataType: DataType = BinaryType
  override protected def nullSafeEval(value: Any): Any = form.of(value)
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val reference = ctx.addReferenceObj("form", form)
    defineCodeGen(ctx, ev, value => s"$reference.of($value)")
  }
  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}
