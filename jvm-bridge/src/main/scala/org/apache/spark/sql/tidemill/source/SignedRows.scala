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

  /** So many rows are made of rows with counts in the driver; more are left to a step. */
  private val MostCopies = 10000

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

  /** The same over rows in memory, with counts in the column `count`: in memory too, unless equal rows are many. */
  def unit(files: Seq[FewRows], fields: Seq[String], count: String): LogicalPlan = {
    val stored = LocalRelation(DataTypeUtils.toAttributes(files.head.schema.asNullable), files.flatMap(_.rows))
    val (columns, counts) = (pick(stored, fields), pick(stored, Seq(count)).head)
    def place(a: Attribute) = stored.output.indexWhere(_.exprId == a.exprId)
    val (places, at) = (columns.map(a => place(a) -> a.dataType), place(counts))
    if (stored.data.iterator.map(row => math.abs(row.getLong(at).toDouble)).sum > MostCopies)
      unit(stored, columns, counts)
    else {
      val rows = stored.data.flatMap { row =>
        val times = row.getLong(at)
        val values = places.map { case (i, dataType) => row.get(i, dataType) } :+ java.lang.Long.signum(times).toLong
        Iterator.fill(math.abs(times).toInt)(InternalRow.fromSeq(values))
      }
      LocalRelation(columns :+ AttributeReference(Count, LongType, nullable = false)(), rows)
    }
  }

  /** No rows: `fields` as in `plan`, and the count. */
  def nothing(plan: LogicalPlan, fields: Seq[String]): LogicalPlan = {
    val columns = pick(plan, fields).map(_.newInstance())
    LocalRelation(columns :+ AttributeReference(Count, LongType, nullable = false)())
  }
}
