package org.apache.spark.sql.tidemill.query

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.tidemill.source.Clock

import org.json4s._
import org.json4s.JsonDSL._

/**
 * Turns a normalised plan into the query document (wire format version 1). `id`, `asked`: see [[Query]].
 *
 * Columns, handles and sources are numbered by first occurrence, children left to right, then the node's own
 * expressions, so that a plan made for one analysis fits the next analysis of the same query.
 */
final class Encoder(id: Long, asked: Long) extends PredicateHelper {
  import Encoder.Encoded
  import Scope.Columns

  private val expressions = new ExpressionEncoder
  private val sources = new SourceEncoder
  private val nodes = mutable.ArrayBuffer.empty[OpaqueNode]
  private var used: AttributeSet = AttributeSet.empty
  private val readAbove = new java.util.IdentityHashMap[LogicalPlan, AttributeSet]
  private var orderDropped = false

  /**
   * @param analyzed the query as Spark's analyser left it
   * @param findings see [[Findings.document]]
   */
  def encode(analyzed: LogicalPlan, normal: LogicalPlan, findings: JObject): Query = {
    val names = analyzed.output.map(_.name)
    require(normal.output.length == names.length, "normalisation changed the number of output columns")
    val plan = dropOrder(normal)
    used = usedAttributes(plan)
    noteWindows(plan, plan.outputSet)
    val root = visit(plan)
    Clock.source(plan).foreach(sources.add)
    val output = plan.output.zip(names).map { case (a, name) =>
      JArray(List(JInt(expressions.id(a, root.scope)), JString(name)))
    }
    val document =
      ("version" -> 1) ~
        ("query" -> id) ~
        ("columns" -> expressions.columnsDocument) ~
        ("expressions" -> expressions.expressionsDocument) ~
        ("sources" -> sources.sources.toList.map(_.document)) ~
        ("root" -> root.node) ~
        ("output" -> output.toList) ~
        ("order_dropped" -> orderDropped) ~
        ("findings" -> findings)
    Query(id, asked, analyzed, expressions.columns, expressions.handles, nodes.toIndexedSeq, sources.sources, document)
  }

  /** A stored table has no order: sorts above the last limit are left out, and so are repartitionings there. */
  private def dropOrder(plan: LogicalPlan): LogicalPlan = plan match {
    case s: Sort => orderDropped = true; dropOrder(s.child)
    case r: RepartitionOperation => dropOrder(r.child)
    case r: RebalancePartitions => dropOrder(r.child)
    case p: Project if p.deterministic => p.withNewChildren(Seq(dropOrder(p.child)))
    case f: Filter if f.deterministic => f.withNewChildren(Seq(dropOrder(f.child)))
    case other => other
  }

  /** What any operator reads or the query gives out; scans list nothing else. */
  private def usedAttributes(plan: LogicalPlan): AttributeSet =
    AttributeSet(plan.collectWithSubqueries { case p => read(p) }.flatten ++ plan.output)

  /** What an operator reads of its inputs. */
  private def read(plan: LogicalPlan): Seq[Attribute] = plan match {
    case u: Union => u.children.flatMap(_.output)
    case p @ (_: Project | _: Filter | _: Join | _: Aggregate | _: Sort | _: GlobalLimit | _: LocalLimit | _: Window |
        _: Expand | _: Generate | _: Offset) =>
      p.references.toSeq ++ p.subqueriesAll.flatMap(_.output)
    case other => other.references.toSeq ++ other.children.flatMap(_.output)
  }

  /** Notes for each window what is read above it: a window passes on what its functions alone read. */
  private def noteWindows(plan: LogicalPlan, above: AttributeSet): Unit = {
    // A WITH that is read twice may be one plan, in two places.
    if (plan.isInstanceOf[Window]) readAbove.merge(plan, above, _ ++ _)
    val all = above ++ AttributeSet(read(plan))
    plan.children.foreach(noteWindows(_, all))
    Opaque.subqueries(plan).foreach(s => noteWindows(s.plan, all ++ s.plan.outputSet))
  }

  private def visit(plan: LogicalPlan): Encoded = {
    val encoded = plan match {
      case leaf: LeafNode if SourceEncoder.isSource(leaf) => scan(leaf)
      case p if hasSubquery(p) && !p.isInstanceOf[Filter] => opaque(p, "expression with a subquery")
      case p: Project => project(p.projectList, visit(p.child))
      case f: Filter => filter(f)
      case j: Join if Encoder.kinds.contains(j.joinType) || j.joinType.isInstanceOf[ExistenceJoin] => join(j)
      case a: Aggregate if Opaque.sessions(a).nonEmpty => opaque(Opaque.withKeys(a), "sessions are merged by Spark")
      case a: Aggregate => aggregate(a)
      case u: Union if !u.byName && !u.allowMissingCol => union(u)
      case s: Sort if s.global => sort(s)
      case GlobalLimit(limit, LocalLimit(_, child)) => limited(limit, child)
      case o: Offset => // alone; its order must stay with it, and Spark wants limit and offset together to fit an Int
        limited(Literal(Int.MaxValue - o.offsetExpr.eval().asInstanceOf[Int]), o)
      case other => opaque(other, s"${other.nodeName} has no incremental form")
    }
    expressions.widen(plan.output, encoded.scope)
    encoded
  }

  private def hasSubquery(plan: LogicalPlan): Boolean = plan.expressions.exists(SubqueryExpression.hasSubquery)

  private def scan(leaf: LogicalPlan): Encoded = {
    val number = sources.number(leaf)
    val fields = sources.sources(number).fields
    // by name: a source that orders its columns anew is read by the same plan
    val columns =
      leaf.output.zip(fields).filter { case (a, _) => used.contains(a) }.sortBy(_._2).map { case (a, field) =>
        (a, expressions.newColumn(a), field)
      }
    Encoded(
      ("op" -> "scan") ~ ("source" -> number) ~
        ("columns" -> columns.toList.map { case (_, c, field) => JArray(List(JInt(c), JString(field))) }) ~
        ("at" -> JNull),
      columns.map { case (a, c, _) => a.exprId -> c }.toMap)
  }

  private def project(list: Seq[NamedExpression], child: Encoded): Encoded = {
    val columns = mutable.LinkedHashMap.empty[Int, JValue]
    val scope = list.map { named =>
      val value = expressions.encode(named, child.scope)
      val column = named match {
        case a: Attribute => expressions.id(a, child.scope)
        case other => expressions.newColumn(other)
      }
      columns(column) = value
      named.exprId -> column
    }.toMap
    val keepsAll = child.node \ "op" == JString("scan") && scope.toSet == child.scope.toSet
    if (keepsAll) child
    else Encoded(("op" -> "project") ~ ("columns" -> pairs(columns.toSeq)) ~ inputs(child), scope)
  }

  private def pairs(columns: Seq[(Int, JValue)]): JArray =
    JArray(columns.toList.map { case (c, e) => JArray(List(JInt(c), e)) })

  private def inputs(children: Encoded*): JObject = JObject("inputs" -> JArray(children.toList.map(_.node)))

  private def filter(f: Filter): Encoded = {
    val (subqueries, plain) = splitConjunctivePredicates(f.condition).partition(SubqueryExpression.hasSubquery)
    val below = visit(f.child)
    val filtered =
      if (plain.isEmpty) below
      else Encoded(
        ("op" -> "filter") ~ ("condition" -> plain.map(expressions.encode(_, below.scope)).toList) ~ inputs(below),
        below.scope)
    if (subqueries.isEmpty) filtered
    else opaque(Filter(subqueries.reduce(And), f.child), "expression with a subquery", Some(Seq(filtered)))
  }

  private def join(j: Join): Encoded = {
    val left = visit(j.left)
    val right = visit(j.right)
    val both = left.scope ++ right.scope
    val condition = j.condition.toSeq.flatMap(splitConjunctivePredicates).map(expressions.encode(_, both))
    val (kind, exists) = j.joinType match {
      case ExistenceJoin(attribute) => ("existence", Some(attribute.exprId -> expressions.newColumn(attribute)))
      case other => (Encoder.kinds(other), None)
    }
    val scope = j.joinType match {
      case LeftSemi | LeftAnti => left.scope
      case _: ExistenceJoin => left.scope ++ exists
      case _ => both
    }
    def hinted(hint: Option[HintInfo]): Boolean = hint.exists(_.strategy.contains(BROADCAST))
    val broadcast: JValue =
      if (hinted(j.hint.leftHint)) JString("left") else if (hinted(j.hint.rightHint)) JString("right") else JNull
    val node = ("op" -> "join") ~ ("kind" -> kind) ~ ("condition" -> condition.toList)
    val withExists = exists.fold(node)(e => node ~ ("exists" -> e._2))
    Encoded(withExists ~ ("broadcast" -> broadcast) ~ inputs(left, right), scope)
  }

  /** Keys and pure aggregate calls in one node, what is made of them in a project above. */
  private def aggregate(a: Aggregate): Encoded = {
    val child = visit(a.child)
    var scope: Columns = Map.empty
    val keys = mutable.LinkedHashMap.empty[Int, JValue]
    val computedKeys = mutable.ArrayBuffer.empty[(Expression, Attribute)]
    a.groupingExpressions.foreach {
      case k: Attribute =>
        val column = expressions.id(k, child.scope)
        keys(column) = expressions.encode(k, child.scope)
        scope += k.exprId -> column
      case k if !computedKeys.exists(_._1.semanticEquals(k)) =>
        val named = Alias(k, "key")()
        val value = expressions.encode(k, child.scope)
        val column = expressions.newColumn(named)
        keys(column) = value
        scope += named.exprId -> column
        computedKeys += k -> named.toAttribute
      case _ =>
    }
    val calls = mutable.ArrayBuffer.empty[(AggregateExpression, Attribute, Int, JValue)]
    def call(e: AggregateExpression, name: Option[Alias]): Attribute = {
      val same = calls.find(c => c._1.semanticEquals(e) && !Findings.isNondeterministic(e))
      same.map(_._2).getOrElse {
        val attribute = name.getOrElse(Alias(e, e.aggregateFunction.prettyName)()).toAttribute
        val value = expressions.encode(e, child.scope)
        val column = expressions.newColumn(attribute)
        calls += ((e, attribute, column, value))
        scope += attribute.exprId -> column
        attribute
      }
    }
    val results = a.aggregateExpressions.map {
      case alias @ Alias(e: AggregateExpression, _) =>
        val attribute = call(e, Some(alias))
        if (attribute.exprId == alias.exprId) attribute else alias.withNewChildren(Seq(attribute))
      case other => other.transformDown {
          case e: AggregateExpression => call(e, None)
          case e if computedKeys.exists(_._1.semanticEquals(e)) => computedKeys.find(_._1.semanticEquals(e)).get._2
        }
    }.map(_.asInstanceOf[NamedExpression])
    val node = Encoded(
      ("op" -> "aggregate") ~ ("keys" -> pairs(keys.toSeq)) ~
        ("aggregates" -> pairs(calls.toSeq.map(c => c._3 -> c._4))) ~ inputs(child),
      scope)
    val plain = results.forall(_.isInstanceOf[Attribute]) &&
      results.map(_.exprId) == a.groupingExpressions.collect { case k: Attribute => k.exprId } ++ calls.map(_._2.exprId)
    if (plain) node else project(results, node)
  }

  /** Gives the union's columns ids of their own: Catalyst reuses the first child's. */
  private def union(u: Union): Encoded = {
    val children = u.children.map(visit)
    val from = u.children.zip(children).map { case (plan, encoded) =>
      plan.output.map(a => JInt(expressions.id(a, encoded.scope)): JValue).toList
    }
    val columns = u.output.map(a => a.exprId -> expressions.newColumn(a))
    Encoded(
      ("op" -> "union") ~ ("columns" -> columns.map(_._2).toList) ~ inputs(children: _*) ~ ("from" -> from.toList),
      columns.toMap)
  }

  private def order(orders: Seq[SortOrder], scope: Columns): JArray = JArray(orders.toList.map { o =>
    JArray(List(
        expressions.encode(o.child, scope), JBool(o.direction == Ascending), JBool(o.nullOrdering == NullsFirst)))
  })

  private def sort(s: Sort): Encoded = {
    val child = visit(s.child)
    Encoded(("op" -> "sort") ~ ("order" -> order(s.order, child.scope)) ~ inputs(child), child.scope)
  }

  /** LIMIT with the sort that gives it meaning; a projection between the two moves above. */
  private def limited(limit: Expression, below: LogicalPlan): Encoded = {
    val (offset, ordered) = below match {
      case Offset(e, child) => (Some(e), child)
      case other => (None, other)
    }
    def node(orders: Seq[SortOrder], plan: LogicalPlan): Encoded = {
      val child = visit(plan)
      Encoded(
        ("op" -> "limit") ~ ("limit" -> expressions.encode(limit, child.scope)) ~
          ("offset" -> offset.map(expressions.encode(_, child.scope)).getOrElse(JNull)) ~
          ("order" -> order(orders, child.scope)) ~ inputs(child),
        child.scope)
    }
    ordered match {
      case s: Sort if s.global && !hasSubquery(s) => node(s.order, s.child)
      case p @ Project(list, s: Sort) if s.global && !hasSubquery(p) && !hasSubquery(s) =>
        project(list, node(s.order, s.child))
      case other => node(Nil, other)
    }
  }

  private def opaque(plan: LogicalPlan, reason: String, ready: Option[Seq[Encoded]] = None): Encoded = {
    val plans = Opaque.children(plan)
    val children = ready.getOrElse(plans.map(visit))
    val queries = Opaque.subqueries(plan).map(_.plan)
    val subqueries = queries.map(visit)
    val below = children.foldLeft(Map.empty: Columns)(_ ++ _.scope)
    // What partitions a window is asked for above it too: which rows of its answer a change touches.
    // So is the first of what orders a partition: from which row on a change touches it.
    val ordered = Opaque.order(plan)
    val asked = readAbove.getOrDefault(plan, used) ++ AttributeSet(
      Opaque.partition(plan).getOrElse(Nil)) ++ AttributeSet(ordered.take(1))
    val columns = plan.output.filter(asked.contains).map { a =>
      a.exprId -> below.getOrElse(a.exprId, expressions.newColumn(a))
    }
    def listed(plan: LogicalPlan, encoded: Encoded): Seq[Int] = plan.output.flatMap(a => encoded.scope.get(a.exprId))
    val number = nodes.length
    nodes += OpaqueNode(
      plan, below ++ columns, plans.zip(children).map((listed _).tupled),
      queries.zip(subqueries).map((listed _).tupled))
    val kept =
      ("node" -> number) ~ ("columns" -> columns.map(_._2).toList.distinct) ~ ("children" -> children.length) ~
        ("text" -> Opaque.text(plan, below))
    val node: JObject = plan match {
      case _ if queries.isEmpty && Opaque.partition(plan).isDefined =>
        val partition = Opaque.partition(plan).get.map(expressions.encode(_, below)).toList
        val calls = Opaque.calls(plan, expressions.encode(_, below)).toList
        ("op" -> "window") ~ kept ~ ("partition" -> partition) ~ ("calls" -> calls) ~ ("order" -> order(ordered, below))
      case _: Expand | _: Generate if queries.isEmpty && plan.deterministic =>
        ("op" -> "row_wise") ~ ("name" -> plan.nodeName) ~ kept
      case _ => ("op" -> "opaque") ~ ("name" -> plan.nodeName) ~ ("reason" -> reason) ~ kept
    }
    Encoded(node ~ inputs(children ++ subqueries: _*), columns.toMap)
  }
}

object Encoder {
  /** A node and the column ids of the attributes that it gives out. */
  private final case class Encoded(node: JObject, scope: Scope.Columns)

  val kinds: Map[JoinType, String] = Map(
    Inner -> "inner", Cross -> "inner", LeftOuter -> "left", RightOuter -> "right", FullOuter -> "full",
    LeftSemi -> "semi", LeftAnti -> "anti")
}
