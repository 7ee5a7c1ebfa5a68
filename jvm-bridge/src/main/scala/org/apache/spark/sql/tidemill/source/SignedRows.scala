package org.apache.spark.sql.tidemill.source

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Abs, Alias, Attribute, AttributeReference, Cast, GreaterThan, If, Literal, NamedExpression
}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.tidemill.view.FewRows
import org.apache.spark.sql.types.LongType

/** Plans of change sets: rows with a signed count. */
private[tidemill] object SignedRows {
  /** The column of signed counts in change sets. */
  val Count = "_n"

  /** Its name in the files of a view with these columns, as `count_field` has it in the planner. */
  def countOf(columns: Seq[String]): String =
    Iterator.iterate(Count)("_" + _).find(name => !columns.exists(_.equalsIgnoreCase(name))).get

  /** The output attributes of `plan` with the names `fields`: an exact match first, else by the session's rules. */
  def pick(plan: LogicalPlan, fields: Seq[String]): Seq[Attribute] = fields.map { name =>
    plan.output.find(_.name == name).orElse(plan.output.find(a => plan.conf.resolver(a.name, name))).getOrElse {
      throw new NoSuchElementException(s"Column '$name' is not among ${plan.output.map(_.name).mkString(", ")}")
    }
  }

  /** `plan`'s rows as insertions. */
  def inserted(plan: LogicalPlan, fields: Seq[String]): LogicalPlan =
    Project(pick(plan, fields) :+ Alias(Literal(1L), Count)(), plan)

  /** Rows with any count as rows with counts of 1 and -1; `count` is the attribute of the counts. */
  def unit(plan: LogicalPlan, columns: Seq[Attribute], count: Attribute): LogicalPlan = {
    val sign = Alias(If(GreaterThan(count, Literal(0L)), Literal(1L), Literal(-1L)), Count)()
    val signed = Project((columns: Seq[NamedExpression]) :+ sign :+ count, plan)
    Copies(signed, columns :+ sign.toAttribute, Abs(Cast(count, LongType)))
  }

  /** [[unit]] over rows in memory: `fields` of them, and the count in the column `count`. */
  def unit(files: Seq[FewRows], fields: Seq[String], count: String): LogicalPlan = {
    val plan = LocalRelation(DataTypeUtils.toAttributes(files.head.schema.asNullable))
    def place(a: Attribute) = plan.output.indexWhere(_.exprId == a.exprId)
    val columns = pick(plan, fields)
    val places = columns.map(a => place(a) -> a.dataType)
    val counts = place(pick(plan, Seq(count)).head)
    val rows = files.flatMap(_.rows).flatMap { row =>
      val times = row.getLong(counts)
      val values = places.map { case (i, dataType) => row.get(i, dataType) } :+ java.lang.Long.signum(times).toLong
      Iterator.fill(math.toIntExact(math.abs(times)))(InternalRow.fromSeq(values))
    }
    LocalRelation(columns :+ AttributeReference(Count, LongType, nullable = false)(), rows)
  }

  /** No rows: `fields` as in `plan`, and the count. */
  def nothing(plan: LogicalPlan, fields: Seq[String]): LogicalPlan = {
    val columns = pick(plan, fields).map(_.newInstance())
    LocalRelation(columns :+ AttributeReference(Count, LongType, nullable = false)())
  }
}
