package org.apache.spark.sql.tidemill.judge

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._

/**
 * A query that ends in LIMIT or OFFSET, taken apart: which of the rows tied at the cut it gives, Spark is free to
 * choose.
 *
 * @param answer     the query with its ranks, the values that it sorts by, behind its own columns
 * @param ranks      the attributes of the ranks; none without an order
 * @param all        the same rows without the cut
 * @param cutsBefore whether rows before the answer are cut off too
 */
final case class TiedRows(answer: LogicalPlan, ranks: Seq[Attribute], all: LogicalPlan, cutsBefore: Boolean) {

  /** All rows that have one of these ranks, given as keys of [[ComparableRow]]. */
  def having(keys: Seq[Array[Byte]]): LogicalPlan = {
    val struct = CreateNamedStruct(ranks.zipWithIndex.flatMap { case (a, i) => Seq(Literal(s"c$i"), a) })
    Filter(In(GetStructField(ComparableRow(struct), 0), keys.map(Literal(_))), all)
  }
}

object TiedRows {
  /** None if the query does not end in a cut. */
  def of(plan: LogicalPlan): Option[TiedRows] = above(plan, identity)

  /** `rebuilt`: puts what was above the plan on top of another plan. */
  private def above(plan: LogicalPlan, rebuilt: LogicalPlan => LogicalPlan): Option[TiedRows] = plan match {
    case SubqueryAlias(_, child) => above(child, rebuilt)
    case v: View => above(v.child, rebuilt)
    case Project(list, child) => above(child, below => rebuilt(passing(list, child, below)))
    case WithCTE(body, definitions) => above(body, below => rebuilt(WithCTE(below, definitions)))
    case limit @ (_: GlobalLimit | _: Offset) => Some(cut(limit, rebuilt))
    case _ => None
  }

  /** A projection that passes on what `below` has besides the columns of the plan in whose place it is. */
  private def passing(list: Seq[NamedExpression], child: LogicalPlan, below: LogicalPlan): LogicalPlan =
    Project(list ++ below.output.filterNot(child.outputSet.contains), below)

  private def cut(limit: LogicalPlan, rebuilt: LogicalPlan => LogicalPlan): TiedRows = {
    val (cuts, sorted) = cutsOf(limit)
    val (order, under, projections) = orderOf(sorted, identity)
    val named = order.map(o => o -> Alias(sortedBy(o.child), "rank")())
    val ranked = if (order.isEmpty) under else Project(under.output ++ named.map(_._2), under)
    def onTop(plan: LogicalPlan): LogicalPlan = rebuilt(projections(plan))
    val keys = named.map { case (o, rank) => o.copy(child = rank.toAttribute, sameOrderExpressions = Nil) }
    val ordered = if (keys.isEmpty) ranked else Sort(keys, global = true, ranked)
    val answer = cuts.foldRight(ordered)((cut, below) => cut.withNewChildren(Seq(below)))
    TiedRows(onTop(answer), named.map(_._2.toAttribute), onTop(ranked), cuts.exists(_.isInstanceOf[Offset]))
  }

  /** Values that sort alike have equal ranks. */
  private def sortedBy(e: Expression): Expression = e.dataType match {
    case s: org.apache.spark.sql.types.StringType if !s.supportsBinaryEquality => CollationKey(e)
    case _ => e
  }

  private def cutsOf(plan: LogicalPlan): (List[LogicalPlan], LogicalPlan) = plan match {
    case g @ GlobalLimit(_, l @ LocalLimit(_, child)) =>
      val (cuts, below) = cutsOf(child)
      (g :: l :: cuts, below)
    case o @ Offset(_, child) =>
      val (cuts, below) = cutsOf(child)
      (o :: cuts, below)
    case other => (Nil, other)
  }

  /** The order, what is sorted, and the projections between the two. */
  private def orderOf(
      plan: LogicalPlan,
      rebuilt: LogicalPlan => LogicalPlan): (Seq[SortOrder], LogicalPlan, LogicalPlan => LogicalPlan) = plan match {
    case s: Sort if s.global => (s.order, s.child, rebuilt)
    case SubqueryAlias(_, child) if sorts(child) => orderOf(child, rebuilt)
    case Project(list, child) if sorts(child) => orderOf(child, below => rebuilt(passing(list, child, below)))
    case other => (Nil, other, rebuilt)
  }

  private def sorts(plan: LogicalPlan): Boolean = plan match {
    case s: Sort => s.global
    case SubqueryAlias(_, child) => sorts(child)
    case Project(_, child) => sorts(child)
    case _ => false
  }
}
