package org.apache.spark.sql.tidemill.query

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions.objects.InvokeLike
import org.apache.spark.sql.catalyst.trees.TreeNode
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.types.UTF8String

/**
 * What an expression computes by, and its SQL does not show: the schema of from_json, IGNORE NULLS of first(), the time
 * zone and the ANSI mode that a plain view was created under. Two expressions of equal SQL may differ in it.
 */
private[query] object Unshown {

  /**
   * Each parameter with the place of its expression. Those that are as a function has them by default, or as the
   * session has them, are left out.
   */
  def of(expression: Expression): Seq[String] = {
    val conf = SQLConf.get
    expression.collect { case e => e }.zipWithIndex.flatMap { case (e, place) =>
      (settings(e, conf) ++ parameters(e)).map(found => s"$place: $found")
    }
  }

  private def settings(e: Expression, conf: SQLConf): Seq[String] = {
    val mode = EvalMode.fromSQLConf(conf)
    val modes = e.productElementNames.zip(e.productIterator).collect {
      case (_, found: EvalMode.Value) if found != mode && !isShown(e, found) => found.toString
      case (_, NumericEvalContext(found, _)) if found != mode && !isShown(e, found) => found.toString
      case (name @ ("failOnError" | "ansiEnabled"), found: Boolean) if found != conf.ansiEnabled => s"$name $found"
    }
    val zone = Some(e).collect {
      case t: TimeZoneAwareExpression if t.timeZoneId.exists(_ != conf.sessionLocalTimeZone) => t.timeZoneId.get
    }
    (modes ++ zone).toSeq
  }

  /** TRY_CAST, try_sum and try_avg go by a name of their own; arithmetic has its sign. */
  private def isShown(e: Expression, mode: EvalMode.Value): Boolean =
    mode == EvalMode.TRY && !e.isInstanceOf[BinaryArithmetic]

  private def parameters(e: Expression): Seq[String] =
    if (tellsAll(e)) Nil
    else e.productElementNames.zip(e.productIterator).collect {
      case (name, value) if !Handled(name) && !isDefault(e, value) => s"$name ${told(value)}"
    }.toSeq

  private val Handled = Set(
    "failOnError", "ansiEnabled", "evalMode", "evalContext", "timeZoneId", "mutableAggBufferOffset",
    "inputAggBufferOffset", "exprId", "resultId", "nullable", "queryContext", "dataType", "resultType",
    "nullOnDivideByZero", "suggestedFuncOnFail", "randomSeed", "hideSeed")

  private def tellsAll(e: Expression): Boolean = e match {
    case _: Literal | _: NamedExpression | _: Cast | _: GetStructField | _: SubqueryExpression => true
    case _: BinaryArithmetic | _: AggregateExpression | _: UserDefinedExpression | _: WindowExpression => true
    case _: SortOrder | _: HashExpression[_] | _: StringRegexExpression | _: InvokeLike => true
    case _: WindowFrame | _: LambdaFunction | _: PreciseTimestampConversion => true
    case _ => false
  }

  private def isDefault(e: Expression, value: Any): Boolean = (e, value) match {
    case (_, null | None | false | 0 | 0L) => true
    case (_, _: TreeNode[_] | Some(_: TreeNode[_])) => true
    case (_: CollectList | _: CollectSet, true) => true // IGNORE NULLS
    case (_: HyperLogLogPlusPlus, 0.05) => true
    case (_, items: Iterable[_]) => items.forall(isDefault(e, _))
    case (_, product: (_, _)) => isDefault(e, product._1) && isDefault(e, product._2)
    case _ => false
  }

  /** The same text at each analysis: of an object that is none of these, only its class. */
  private def told(value: Any): String = value match {
    case d: DataType => d.sql
    case plain @ (_: Boolean | _: Number | _: String | _: UTF8String | _: Enumeration#Value) => plain.toString
    case Some(inner) => told(inner)
    case map: Map[_, _] => map.toSeq.map { case (k, v) => s"${told(k)}=${told(v)}" }.sorted.mkString("(", ", ", ")")
    case items: Iterable[_] => items.map(told).mkString("(", ", ", ")")
    case other => other.getClass.getSimpleName
  }
}
