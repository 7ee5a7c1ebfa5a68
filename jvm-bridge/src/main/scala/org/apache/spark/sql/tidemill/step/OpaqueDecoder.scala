package org.apache.spark.sql.tidemill.step

import java.util.IdentityHashMap

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.ExistenceJoin
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.tidemill.query.{Opaque, OpaqueNode}

/** Puts operators that the planner sees only from outside together again: the way back of [[Opaque]]. */
object OpaqueDecoder {

  /**
   * An operator over new inputs.
   *
   * @param children   new inputs, each with the columns and order of `node.inputs`
   * @param below      the attributes of the inputs' columns by id
   * @param subqueries new plans of [[Opaque.subqueries]], in that order
   * @param passed     attributes that the operator did not have and is to pass on
   * @return the operator, and the attributes of the columns that it produces or passes on
   */
  def rebuild(
      node: OpaqueNode,
      children: Seq[LogicalPlan],
      below: Map[Int, Attribute],
      subqueries: Seq[LogicalPlan],
      passed: Seq[Attribute] = Nil): (LogicalPlan, Map[Int, Attribute]) = {
    val original = node.plan
    val replaced = new IdentityHashMap[SubqueryExpression, LogicalPlan]
    Opaque.subqueries(original).zip(subqueries).foreach { case (s, plan) => replaced.put(s, plan) }
    val inherited = node.columns.flatMap { case (exprId, c) => below.get(c).map(exprId -> _) }
    val fresh = produced(original).map(id => id -> NamedExpression.newExprId).toMap
    def rewrite(e: Expression): Expression = e.transformDown {
      case s: ScalarSubquery if replaced.containsKey(s) =>
        s.copy(plan = replaced.get(s), exprId = NamedExpression.newExprId)
      case s: SubqueryExpression if replaced.containsKey(s) => s.withNewPlan(replaced.get(s))
      case a: Alias if fresh.contains(a.exprId) =>
        Alias(rewrite(a.child), a.name)(
          fresh(a.exprId), a.qualifier, a.explicitMetadata, a.nonInheritableMetadataKeys)
      // with the marks that it had: a session is known by one
      case a: AttributeReference if inherited.contains(a.exprId) => inherited(a.exprId).withMetadata(a.metadata)
      case a: AttributeReference if fresh.contains(a.exprId) => a.withExprId(fresh(a.exprId))
    }
    val placed = place(original, children, node, fresh)
    val plan = placed.mapExpressions(e => ExpressionDecoder.fresh(rewrite(e))) match {
      case e: Expand => e.copy(projections = e.projections.map(_ ++ passed), output = e.output ++ passed)
      case other => other
    }
    (plan, outputs(node, plan, inherited, fresh))
  }

  private def outputs(
      node: OpaqueNode,
      plan: LogicalPlan,
      inherited: Map[ExprId, Attribute],
      fresh: Map[ExprId, ExprId]): Map[Int, Attribute] = {
    val present = plan.output.map(a => a.exprId -> a).toMap
    node.plan.output.flatMap { a =>
      val now = fresh.getOrElse(a.exprId, inherited.get(a.exprId).fold(a.exprId)(_.exprId))
      for (c <- node.columns.get(a.exprId); attribute <- present.get(now)) yield c -> attribute
    }.toMap
  }

  /** Ids that the operator itself makes and that its copies must not share. */
  private def produced(plan: LogicalPlan): Set[ExprId] = plan match {
    // A loop names its output by plain ids, not expressions; the Project above renames it.
    case _: UnionLoop => Set.empty
    case other =>
      val taken = AttributeSet(other.children.flatMap(_.output))
      ((other.output ++ other.producedAttributes.toSeq).filterNot(taken.contains).map(_.exprId)).toSet
  }

  private def place(
      original: LogicalPlan,
      children: Seq[LogicalPlan],
      node: OpaqueNode,
      fresh: Map[ExprId, ExprId]): LogicalPlan = original match {
    case WithCTE(_, definitions) =>
      WithCTE(children.head, definitions.zip(children.tail).map { case (d, c) => d.copy(child = c) })
    case g: Generate =>
      val dropped = g.unrequiredChildIndex.flatMap(i => node.columns.get(g.child.output(i).exprId)).toSet
      val indices = node.inputs.head.zipWithIndex.collect { case (c, i) if dropped(c) => i }
      g.copy(unrequiredChildIndex = indices, child = children.head)
    case j @ Join(_, _, ExistenceJoin(exists), _, _) =>
      val renamed = fresh.get(exists.exprId).fold(exists)(exists.withExprId(_))
      j.copy(left = children(0), right = children(1), joinType = ExistenceJoin(renamed))
    case other => other.withNewChildren(children)
  }
}
