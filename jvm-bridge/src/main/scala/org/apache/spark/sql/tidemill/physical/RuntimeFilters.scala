package org.apache.spark.sql.tidemill.physical

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/**
 * What a join asks of one side where the other one comes from few rows in memory: the keys of a small change pick the
 * files, row groups and pages that are read. The join's own condition still decides.
 */
object RuntimeFilters extends PredicateHelper {

  /** Up to so many values are listed; of more, files get the range. As many as Parquet compares with a file's bounds. */
  private def mostValues: Int = SQLConf.get.parquetFilterPushDownInFilterThreshold

  /** What is smaller is read whole as fast. */
  private val LargeBytes = 1L << 20

  private val Few = TreeNodeTag[Unit]("tidemill.few")

  /** Says that the left side of a join has few rows by estimate. */
  def markFew(join: Join): Unit = join.setTagValue(Few, ())

  /**
   * An analysed plan with these filters. Few rows that are not in memory are found first where they pick what the other
   * side reads.
   *
   * @param find the rows of a plan, if they are few indeed; it runs a job
   */
  def in(plan: LogicalPlan, find: LogicalPlan => Option[LocalRelation]): LogicalPlan = plan.transformUp {
    case join: Join => filtered(if (picksMore(join)) join.copy(left = find(join.left).getOrElse(join.left)) else join)
    case filter: Filter => meeting(filter)
  }

  /** Whether a plan, analysed or not, can get filters at all. */
  def possible(plan: LogicalPlan): Boolean =
    plan.exists(_.isInstanceOf[Join]) && plan.exists(_.isInstanceOf[LocalRelation]) && !isFew(plan)

  /** Whether the rows of the left side, once they are known, ask more of a large right side than those in memory do. */
  private def picksMore(join: Join): Boolean = {
    def asks(conjunct: Expression): Boolean = {
      val one = join.left.output.map(_.withNullability(true))
      val nothing = LocalRelation(one, Seq(new GenericInternalRow(one.length)))
      implied(conjunct, join.right.outputSet, nothing).nonEmpty &&
      implied(conjunct, join.right.outputSet, join.left).isEmpty
    }
    join.getTagValue(Few).isDefined && join.joinType.isInstanceOf[InnerLike] && isLarge(join.right) &&
    join.left.deterministic && !join.left.exists(_.isInstanceOf[CollectMetrics]) &&
    join.condition.toSeq.flatMap(splitConjunctivePredicates).exists(asks)
  }

  private def isLarge(plan: LogicalPlan): Boolean = plan.collectLeaves().exists {
    case LogicalRelation(files: HadoopFsRelation, _, _, _, _) => files.sizeInBytes >= LargeBytes
    case _ => false
  }

  private def filtered(join: Join): Join = {
    val conjuncts = join.condition.toSeq.flatMap(splitConjunctivePredicates)
    def filter(other: LogicalPlan, few: LogicalPlan): LogicalPlan =
      if (isFew(other)) other
      else conjuncts.flatMap(implied(_, other.outputSet, few)).reduceOption(And).fold(other)(Filter(_, other))
    val right = join.joinType match {
      case _: InnerLike | LeftOuter | LeftSemi | LeftAnti | _: ExistenceJoin => filter(join.right, join.left)
      case _ => join.right
    }
    val left = join.joinType match {
      case _: InnerLike | LeftSemi | RightOuter => filter(join.left, join.right)
      case _ => join.left
    }
    join.copy(left = left, right = right)
  }

  /** Rows that meet one of the few rows of any of several joins: what one of these joins asks. */
  private def meeting(filter: Filter): Filter = {
    val (joins, rows) = existences(filter.child)
    val asked = splitDisjunctivePredicates(filter.condition).map {
      case met: Attribute => joins.get(met.exprId).flatMap { join =>
          val conjuncts = join.condition.toSeq.flatMap(splitConjunctivePredicates)
          conjuncts.flatMap(implied(_, rows.outputSet, join.right)).reduceOption(And)
        }
      case _ => None
    }
    if (asked.exists(_.isEmpty) || isFew(rows)) filter
    else {
      val fewer = Filter(asked.flatten.reduce(Or), rows)
      filter.copy(child = filter.child.transformUp { case plan if plan eq rows => fewer })
    }
  }

  /** Existence joins one on top of the other, by the column that tells, and the rows below them. */
  private def existences(plan: LogicalPlan): (Map[ExprId, Join], LogicalPlan) = plan match {
    case join @ Join(left, _, ExistenceJoin(exists), _, _) =>
      val (below, rows) = existences(left)
      (below + (exists.exprId -> join), rows)
    case rows => (Map.empty, rows)
  }

  /** Whether all rows are in memory already. */
  private def isFew(plan: LogicalPlan): Boolean =
    plan.collectLeaves().forall { case local: LocalRelation => !local.isStreaming; case _ => false }

  /** What a part of the condition asks of the other side's rows, so that it can be true with one of the few rows. */
  private def implied(conjunct: Expression, other: AttributeSet, few: LogicalPlan): Option[Expression] = {
    def met(a: Expression, e: Expression)(ask: (Attribute, Seq[Any]) => Option[Expression]): Option[Expression] =
      a match {
        case a: Attribute
            if other.contains(a) && isOrdered(a.dataType) && a.dataType == e.dataType &&
              e.references.nonEmpty && e.references.subsetOf(few.outputSet) => values(e, few).flatMap(ask(a, _))
        case _ => None
      }
    conjunct match {
      case Or(a, b) => alternative(a, other, few).zip(alternative(b, other, few)).map { case (one, two) =>
          Or(one, two)
        }
      case EqualTo(a, b) => met(a, b)(equal(nulls = false)).orElse(met(b, a)(equal(nulls = false)))
      case EqualNullSafe(a, b) => met(a, b)(equal(nulls = true)).orElse(met(b, a)(equal(nulls = true)))
      case GreaterThanOrEqual(a, b) => met(a, b)(atLeast).orElse(met(b, a)(atMost))
      case GreaterThan(a, b) => met(a, b)(atLeast).orElse(met(b, a)(atMost))
      case LessThanOrEqual(a, b) => met(a, b)(atMost).orElse(met(b, a)(atLeast))
      case LessThan(a, b) => met(a, b)(atMost).orElse(met(b, a)(atLeast))
      case _ => None
    }
  }

  /**
   * What one part of a disjunction asks. It may be about one side alone; of the other side's rows only what cannot fail is
   * computed, for the join might not meet them.
   */
  private def alternative(part: Expression, other: AttributeSet, few: LogicalPlan): Option[Expression] =
    splitConjunctivePredicates(part).flatMap {
      case one if one.references.nonEmpty && one.references.subsetOf(other) => Option.when(cannotFail(one))(one)
      case one if one.references.subsetOf(few.outputSet) => values(one, few).map(found => Literal(found.contains(true)))
      case one => implied(one, other, few)
    }.reduceOption(And)

  /** Whether an expression only compares columns and literals. */
  private def cannotFail(e: Expression): Boolean = !e.exists {
    case _: Attribute | _: Literal | _: Predicate => false
    case _ => true
  }

  /** Types of which files know bounds, and values that are the same where they are equal. */
  private def isOrdered(dataType: DataType): Boolean = dataType match {
    case _: IntegralType | _: DecimalType | DateType | TimestampType | TimestampNTZType => true
    case StringType => true
    case _ => false
  }

  private def equal(nulls: Boolean)(a: Attribute, found: Seq[Any]): Option[Expression] = {
    val known = found.filter(_ != null).toSet
    val among =
      if (known.isEmpty) Literal.FalseLiteral
      else if (known.size <= mostValues) InSet(a, known)
      else {
        val ordering = TypeUtils.getInterpretedOrdering(a.dataType)
        And(
          GreaterThanOrEqual(a, new Bound(known.min(ordering), a.dataType)),
          LessThanOrEqual(a, new Bound(known.max(ordering), a.dataType)))
      }
    Some(if (nulls && found.contains(null)) Or(among, IsNull(a)) else among)
  }

  private def atLeast(a: Attribute, found: Seq[Any]): Option[Expression] =
    bound(a, found)(_.min(_)).map(GreaterThanOrEqual(a, _)).orElse(Some(Literal.FalseLiteral))

  private def atMost(a: Attribute, found: Seq[Any]): Option[Expression] =
    bound(a, found)(_.max(_)).map(LessThanOrEqual(a, _)).orElse(Some(Literal.FalseLiteral))

  private def bound(a: Attribute, found: Seq[Any])(of: (Seq[Any], Ordering[Any]) => Any): Option[Literal] = {
    val known = found.filter(_ != null)
    Option.when(known.nonEmpty)(new Bound(of(known, TypeUtils.getInterpretedOrdering(a.dataType)), a.dataType))
  }

  /** Values of an expression over the rows of a plan that reads memory only, perhaps with some that no row has. */
  private def values(e: Expression, plan: LogicalPlan): Option[Seq[Any]] =
    if (!e.deterministic) None
    else plan match {
      case LocalRelation(output, rows, false, _) =>
        Try {
          val bound = BindReferences.bindReference(e, output)
          rows.map(bound.eval)
        }.toOption
      case project: Project => values(replaceAlias(e, getAliasMap(project)), project.child)
      case Aggregate(grouping, list, child, _) if grouping.nonEmpty =>
        val below = replaceAlias(e, getAliasMap(list))
        val keys = AttributeSet(grouping.collect { case a: Attribute => a })
        if (below.references.subsetOf(keys) && !below.exists(_.isInstanceOf[aggregate.AggregateExpression]))
          values(below, child)
        else None
      case union: Union =>
        val each = union.children.map { child =>
          val own = AttributeMap(union.output.zip(child.output))
          values(e.transform { case a: Attribute => own.getOrElse(a, a) }, child)
        }
        Option.when(each.forall(_.isDefined))(each.flatten.flatten)
      case Join(left, _, _: InnerLike | LeftOuter | LeftSemi | LeftAnti, _, _)
          if e.references.subsetOf(left.outputSet) =>
        values(e, left)
      case Join(_, right, _: InnerLike | RightOuter, _, _) if e.references.subsetOf(right.outputSet) =>
        values(e, right)
      case one @ (_: Filter | _: Distinct | _: SubqueryAlias | _: CollectMetrics | _: Sort | _: Window | _: Generate)
          if e.references.subsetOf(one.children.head.outputSet) => values(e, one.children.head)
      case _ => None
    }
}
