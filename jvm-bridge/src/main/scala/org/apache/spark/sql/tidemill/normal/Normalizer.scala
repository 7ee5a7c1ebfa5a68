package org.apache.spark.sql.tidemill.normal

import org.apache.spark.sql.catalyst.analysis.{EliminateSubqueryAliases, EliminateView, RewriteCollationJoin}
import org.apache.spark.sql.catalyst.expressions.EliminatePipeOperators
import org.apache.spark.sql.catalyst.optimizer._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.SparkSession

/**
 * The normal form of an analysed query: Spark's own rewritings that look neither at data nor at the clock.
 *
 * Left out on purpose, because they freeze what may change between two runs: ConstantFolding and ComputeCurrentTime
 * (current_date and session variables), PropagateEmptyRelation and ConvertToLocalRelation (inputs that are empty now),
 * LimitPushDown and OptimizeOneRowPlan, every rule that reads sizes or snapshots. DecimalAggregates and
 * RewriteDistinctAggregates hide plain aggregates and are left to the run's own optimiser.
 */
final class Normalizer(session: SparkSession) extends Optimizer(session.sessionState.catalogManager) {

  private def finish: Seq[Rule[LogicalPlan]] = Seq(
    EliminateResolvedHint,
    EliminateSubqueryAliases,
    EliminatePipeOperators,
    EliminateView,
    EliminateSQLFunctionNode,
    ReplaceExpressions,
    NormalizeFloatingNumbers,
    PullOutGroupingExpressions,
    InsertMapSortInGroupingExpressions,
    KeysInOrder,
    InsertMapSortInRepartitionExpressions,
    RewriteAsOfJoin,
    RewriteNearestByJoin,
    EvalInlineTables,
    RewriteCollationJoin)

  // Built per call: Batch and FixedPoint are inner classes that read the conf of the moment.
  override def defaultBatches: Seq[Batch] = Seq(
    Batch("Finish Analysis", FixedPoint(1), finish: _*),
    Batch("Common Expressions", FixedPoint(1), RewriteWithExpression),
    Batch("Eliminate Distinct", FixedPoint(1), EliminateDistinct),
    Batch("Inline CTE", FixedPoint(1), InlineCTE()),
    Batch("Union", fixedPoint, RemoveNoopOperators, CombineUnions, RemoveNoopUnion),
    Batch("Decorrelate", FixedPoint(1),
      OptimizeOneRowRelationSubquery, PullOutNestedDataOuterRefExpressions, PullupCorrelatedPredicates),
    Batch("Subquery", FixedPoint(1), OptimizeSubqueries),
    Batch("Replace Operators", fixedPoint,
      ReplaceDeduplicateWithAggregate, RewriteExceptAll, RewriteIntersectAll, ReplaceIntersectWithSemiJoin,
      ReplaceExceptWithFilter, ReplaceExceptWithAntiJoin, ReplaceDistinctWithAggregate),
    Batch("Aggregate", fixedPoint, RemoveLiteralFromGroupExpressions, RemoveRepetitionFromGroupExpressions),
    Batch("Operators", fixedPoint,
      PushProjectionThroughUnion, ReorderJoin, EliminateOuterJoin, PushDownPredicates, ColumnPruning, CollapseProject,
      EliminateLimits, EliminateOffsets, CombineUnions, BooleanSimplification, SimplifyCasts, PruneFilters,
      RewriteCorrelatedScalarSubquery, RewriteLateralSubquery, RemoveRedundantAliases, RemoveNoopOperators,
      SimplifyExtractValueOps),
    Batch("Rewrite Subquery", FixedPoint(1),
      RewritePredicateSubquery, PushPredicateThroughJoin, ColumnPruning, CollapseProject, RemoveRedundantAliases,
      RemoveNoopOperators),
    Batch("Spellings", FixedPoint(1), Spellings),
    Batch("Scalar Subqueries", FixedPoint(1), ScalarSubqueries),
    Batch("Values as Columns", fixedPoint,
      PushDownPredicates, ColumnPruning, CollapseProject, RemoveRedundantAliases, RemoveNoopOperators),
    Batch("Sorts", fixedPoint, EliminateSorts, RemoveRedundantSorts),
    Batch("Moving Bounds", FixedPoint(1), MovingBounds))

  // The user's spark.sql.optimizer.excludedRules must not change the meaning of a stored plan.
  override def nonExcludableRules: Seq[String] = defaultBatches.flatMap(_.rules.map(_.ruleName)).distinct

  override protected val excludedOnceBatches: Set[String] = Set.empty
}
