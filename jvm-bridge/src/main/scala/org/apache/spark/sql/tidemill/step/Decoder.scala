package org.apache.spark.sql.tidemill.step

import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable

import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.Count
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.tidemill.base.Json
import org.apache.spark.sql.tidemill.physical.RuntimeFilters
import org.apache.spark.sql.tidemill.query.{Query, SourceInfo}
import org.apache.spark.sql.tidemill.source.{Copies, Sources}
import org.apache.spark.sql.types._

import org.json4s._

/**
 * Builds a Catalyst plan from wire nodes.
 *
 * Every occurrence of a leaf or a computed column gets attributes of its own, so that a subtree may be used twice, in a
 * self-join too. Nothing is marked as analysed: the session's analyser sees the whole plan, so stale nullability (an
 * inner join that became an outer one) cannot survive.
 */
final class Decoder(session: SparkSession, query: Query) {
  import Decoder._
  import ExpressionDecoder.{dataType, list, show}

  private val expressions = new ExpressionDecoder(session, query)
  private val observed = mutable.HashSet.empty[String]

  /** The plan of a wire tree whose output is the given columns under the given names, in that order. */
  def decode(root: JValue, output: Seq[(Int, String)]): LogicalPlan = {
    val decoded = visit(root)
    Project(output.map { case (c, name) => Alias(column(decoded, c), name)() }, decoded.plan)
  }

  private def visit(wire: JValue): Decoded = {
    val op = wire \ "op" match {
      case JString(name) => name
      case _ => throw new IllegalArgumentException(s"not a plan node: ${show(wire).take(200)}")
    }
    op match {
      case "scan" => scan(wire)
      case "changes" => changes(wire)
      case "files" => files(wire)
      case "empty" => empty(wire)
      case "filter" => filter(wire)
      case "project" => project(wire)
      case "join" => join(wire)
      case "aggregate" => aggregate(wire)
      case "union" => union(wire)
      case "sort" => sort(wire)
      case "limit" => limit(wire)
      case "numbered" => numbered(wire)
      case "opaque" | "row_wise" | "window" => opaque(wire)
      case "replicate" => replicate(wire)
      case "observe" => observe(wire)
      case other => throw new IllegalArgumentException(s"unknown plan node '$other'")
    }
  }

  private def inputs(wire: JValue): Seq[Decoded] = list(wire \ "inputs").map(visit)

  private def input(wire: JValue): Decoded = inputs(wire) match {
    case Seq(one) => one
    case other => throw new IllegalArgumentException(s"${text(wire \ "op")} takes one input, not ${other.length}")
  }

  private def name(column: Int): String =
    if (column < query.columns.length) query.columns(column).name else s"c$column"

  private def column(decoded: Decoded, id: Int): Attribute = decoded.columns.getOrElse(
    id, throw new IllegalArgumentException(s"column #$id is not an output of the node"))

  // ---- leaves

  private def source(wire: JValue): SourceInfo = query.sources(int(wire \ "source"))

  private def fields(wire: JValue): Seq[(Int, String)] = list(wire \ "columns").map {
    case JArray(id :: JString(field) :: _) => (int(id), field)
    case other => throw new IllegalArgumentException(s"not a column: ${show(other)}")
  }

  private def scan(wire: JValue): Decoded = {
    val info = source(wire)
    val columns = fields(wire)
    wire \ "at" match {
      case JNull | JNothing =>
        val leaf = info.leaf match {
          case relation: MultiInstanceRelation => relation.newInstance()
          case other => Project(other.output.map(a => Alias(a, a.name)()), other)
        }
        Decoded(leaf, columns.map { case (c, field) => c -> leaf.output(info.position(field)) })
      case position =>
        renamed(Sources.snapshot(session, info.leaf, columns.map(_._2), position, memory = true), columns.map(_._1))
    }
  }

  private def changes(wire: JValue): Decoded = {
    val columns = fields(wire)
    val plan = Sources.changes(session, source(wire).leaf, columns.map(_._2), wire \ "from", wire \ "to")
    renamed(plan, columns.map(_._1) :+ int(wire \ "count"))
  }

  /** Fresh attributes for a plan made elsewhere, column by column. */
  private def renamed(plan: LogicalPlan, ids: Seq[Int]): Decoded = {
    // The plan may come unresolved; its output is only known after the analyser saw it.
    val resolved = if (plan.resolved) plan else session.sessionState.analyzer.execute(plan)
    require(resolved.output.length >= ids.length, s"source gave ${resolved.output.length} columns for ${ids.length}")
    computed(ids.zip(resolved.output), resolved)
  }

  private def files(wire: JValue): Decoded = {
    val listed = list(wire \ "paths").map(ListedFile.of)
    val columns = list(wire \ "columns").map {
      case JArray(List(id, JString(field), t)) => (int(id), StructField(field, dataType(t)))
      case other => throw new IllegalArgumentException(s"not a column: ${show(other)}")
    }
    // Columns that tell of a row what its file's metadata say: the path as it was listed, the row's number in the file.
    val told = Seq("path_column" -> ListedParquet.ListedPath, "row_column" -> ParquetFileFormat.ROW_INDEX).flatMap {
      case (name, field) => Some(wire \ name).collect { case JInt(id) => id.toInt -> field }
    }
    val (rows, values) = ListedParquet.read(session, query.id, listed, StructType(columns.map(_._2)), told.map(_._2))
    if (told.isEmpty) Decoded(rows, columns.map(_._1).zip(rows.output))
    else computed((columns.map(_._1) ++ told.map(_._1)).zip(values), rows)
  }

  private def empty(wire: JValue): Decoded = {
    val columns = list(wire \ "columns").map {
      case JArray(List(id, t)) => int(id) -> AttributeReference(name(int(id)), dataType(t))()
      case other => throw new IllegalArgumentException(s"not a column: ${show(other)}")
    }
    Decoded(LocalRelation(columns.map(_._2)), columns)
  }

  // ---- operators

  private def filter(wire: JValue): Decoded = {
    val child = input(wire)
    val condition = expressions.decodeAll(list(wire \ "condition"), child.columns).reduceOption(And)
    child.copy(plan = condition.fold(child.plan)(Filter(_, child.plan)))
  }

  private def definitions(wire: JValue): Seq[(Int, JValue)] = list(wire).map {
    case JArray(List(id, e)) => (int(id), e)
    case other => throw new IllegalArgumentException(s"not a column definition: ${show(other)}")
  }

  private def project(wire: JValue): Decoded = {
    val child = input(wire)
    val (ids, wires) = definitions(wire \ "columns").unzip
    generated(ids.zip(expressions.decodeAll(wires, child.columns)), child)
  }

  /** A generating column (explode) becomes a node of its own: only so are its type and attribute known at once. */
  private def generated(definitions: Seq[(Int, Expression)], child: Decoded): Decoded =
    definitions.collectFirst { case (c, g: Generator) => (c, g) } match {
      case None => computed(definitions, child.plan, child.columns)
      case Some((c, generator)) =>
        val attributes = DataTypeUtils.toAttributes(generator.elementSchema)
        val below = Generate(generator, Nil, outer = false, None, attributes, child.plan)
        computed(definitions.map { case (d, e) => d -> (if (d == c) attributes.head else e) }, below, child.columns)
    }

  /** A Project that gives each column an attribute of its own, except where it passes the same column on. */
  private def computed(
      definitions: Seq[(Int, Expression)], child: LogicalPlan, below: Columns = Map.empty): Decoded = {
    val named = definitions.map {
      case (c, a: Attribute) if below.get(c).contains(a) => c -> (a: NamedExpression)
      case (c, e) => c -> (Alias(e, name(c))(): NamedExpression)
    }
    Decoded(Project(named.map(_._2), child), named.map { case (c, n) => c -> n.toAttribute })
  }

  private def join(wire: JValue): Decoded = {
    val (left, right) = inputs(wire) match {
      case Seq(l, r) => (l, r)
      case other => throw new IllegalArgumentException(s"join takes two inputs, not ${other.length}")
    }
    val common = left.columns.keySet.intersect(right.columns.keySet)
    if (common.nonEmpty) {
      throw new IllegalArgumentException(s"both sides of a join have column #${common.min}")
    }
    val exists = wire \ "exists" match {
      case JInt(id) => Some(id.toInt -> AttributeReference(name(id.toInt), BooleanType, nullable = false)())
      case _ => None
    }
    val kind = text(wire \ "kind") match {
      case "existence" => ExistenceJoin(exists.get._2)
      case other => joinTypes.getOrElse(other, throw new IllegalArgumentException(s"unknown join '$other'"))
    }
    val condition =
      expressions.decodeAll(list(wire \ "condition"), left.columns ++ right.columns).reduceOption(And)
    val broadcast = Some(HintInfo(strategy = Some(BROADCAST)))
    val hint = wire \ "broadcast" match {
      case JString("left") => JoinHint(broadcast, None)
      case JString("right") => JoinHint(None, broadcast)
      case _ => JoinHint.NONE
    }
    val plan = Join(left.plan, right.plan, kind, condition, hint)
    if (Json.flag(wire, "few")) RuntimeFilters.markFew(plan)
    val ordered = kind match {
      case LeftSemi | LeftAnti => left.ordered
      case _: ExistenceJoin => left.ordered ++ exists
      case _ => left.ordered ++ right.ordered
    }
    Decoded(plan, current(ordered, plan))
  }

  /** The columns with the nullability that they have in the plan's output. */
  private def current(columns: Seq[(Int, Attribute)], plan: LogicalPlan): Seq[(Int, Attribute)] = {
    val output = plan.output.map(a => a.exprId -> a).toMap
    columns.map { case (c, a) => c -> output.getOrElse(a.exprId, a) }
  }

  private def aggregate(wire: JValue): Decoded = {
    val child = input(wire)
    val keys = definitions(wire \ "keys")
    val calls = definitions(wire \ "aggregates")
    val keyExpressions = expressions.decodeAll(keys.map(_._2), child.columns)
    val callExpressions = expressions.decodeAll(calls.map(_._2), child.columns)
    // Keys are computed below: a literal among the grouping expressions would be read as an ordinal.
    val named = keys.map(_._1).zip(keyExpressions).map {
      case (c, a: Attribute) if child.columns.get(c).contains(a) => c -> (a: NamedExpression)
      case (c, e) => c -> (Alias(e, name(c))(): NamedExpression)
    }
    val fresh = named.map(_._2).collect { case a: Alias => a }
    val below = if (fresh.isEmpty) child.plan else Project(child.plan.output ++ fresh, child.plan)
    val results = calls.map(_._1).zip(callExpressions).map { case (c, e) => c -> Alias(e, name(c))() }
    val attributes = named.map { case (c, n) => c -> n.toAttribute }
    Decoded(
      Aggregate(attributes.map(_._2), attributes.map(_._2) ++ results.map(_._2), below),
      attributes ++ results.map { case (c, a) => c -> a.toAttribute })
  }

  private def union(wire: JValue): Decoded = {
    val children = inputs(wire)
    val ids = list(wire \ "columns").map(int)
    val from = list(wire \ "from").map(list(_).map(int))
    require(from.length == children.length, "a union lists the columns of each input")
    val arranged = children.zip(from).map { case (child, columns) =>
      require(columns.length == ids.length, "each input of a union gives every column")
      Project(ids.zip(columns).map { case (id, c) => Alias(column(child, c), name(id))() }, child.plan)
    }
    val plan = if (arranged.length == 1) arranged.head else widened(Union(arranged))
    computed(ids.zip(plan.output), plan)
  }

  /** Widens unequal types at once: attributes above must carry the final type. */
  private def widened(union: Union): LogicalPlan = {
    val types = union.children.map(_.output.map(_.dataType))
    if (types.distinct.length == 1) union else session.sessionState.analyzer.execute(union)
  }

  private def orders(wire: JValue, columns: Columns): Seq[SortOrder] = {
    val items = list(wire \ "order")
    val keys = expressions.decodeAll(items.map(_(0)), columns)
    items.zip(keys).collect {
      // A constant orders nothing, and an integer would be read as an ordinal.
      case (item, e) if !e.foldable =>
        val direction = if (item(1) == JBool(true)) Ascending else Descending
        SortOrder(e, direction, if (item(2) == JBool(true)) NullsFirst else NullsLast, Nil)
    }
  }

  private def ordered(child: LogicalPlan, keys: Seq[SortOrder]): LogicalPlan =
    if (keys.isEmpty) child else Sort(keys, global = true, child)

  private def sort(wire: JValue): Decoded = {
    val child = input(wire)
    child.copy(plan = ordered(child.plan, orders(wire, child.columns)))
  }

  private def limit(wire: JValue): Decoded = {
    val child = input(wire)
    val sorted = ordered(child.plan, orders(wire, child.columns))
    val shifted = wire \ "offset" match {
      case e: JObject => Offset(expressions.decode(e, child.columns), sorted)
      case _ => sorted
    }
    child.copy(plan = Limit(expressions.decode(wire \ "limit", child.columns), shifted))
  }

  private def numbered(wire: JValue): Decoded = {
    val child = input(wire)
    val partition = expressions.decodeAll(list(wire \ "partition"), child.columns)
    val by = orders(wire, child.columns)
    def over(frame: FrameType) =
      WindowSpecDefinition(partition, by, SpecifiedWindowFrame(frame, UnboundedPreceding, CurrentRow))
    val rows = Seq("number" -> RowNumber(), "rank" -> Rank(by.map(_.child))).map { case (field, function) =>
      int(wire \ field) -> WindowExpression(function, over(RowFrame))
    }
    val through = (wire \ "through").toOption.map { id =>
      int(id) -> WindowExpression(Count(Literal(1)).toAggregateExpression(), over(RangeFrame))
    }
    val added = (rows ++ through).map { case (id, value) => id -> Alias(value, name(id))() }
    Decoded(Window(added.map(_._2), partition, by, child.plan),
      child.ordered ++ added.map { case (c, a) =>
        c -> a.toAttribute
      })
  }

  private def replicate(wire: JValue): Decoded = {
    val child = input(wire)
    val count = expressions.decode(wire \ "count", child.columns)
    child.copy(plan = Copies(child.plan, child.ordered.map(_._2), count))
  }

  private def observe(wire: JValue): Decoded = {
    val child = input(wire)
    val label = text(wire \ "name")
    val metrics = list(wire \ "metrics").map {
      case JArray(List(JString(metric), e)) => (metric, e)
      case other => throw new IllegalArgumentException(s"not a metric: ${show(other)}")
    }
    // A copy of the subtree must not count twice: Spark wants names unique, and so do the numbers.
    if (!observed.add(label)) child
    else {
      val named = metrics.map(_._1).zip(expressions.decodeAll(metrics.map(_._2), child.columns)).map {
        case (metric, e) => Alias(e, metric)()
      }
      child.copy(plan = CollectMetrics(label, named, child.plan, observations.incrementAndGet()))
    }
  }

  private def opaque(wire: JValue): Decoded = {
    val node = query.nodes(int(wire \ "node"))
    val all = inputs(wire)
    val count = int(wire \ "children")
    val (children, subqueries) = all.splitAt(count)
    require(children.length == node.inputs.length, "an opaque node keeps its number of inputs")
    val asked = list(wire \ "columns").map(int)
    // Some operators name columns by position: give each child the order that the operator was built over, and behind
    // it what it did not have then and is to pass on.
    val placed = children.zip(node.inputs).map { case (child, ids) =>
      val more = asked.filter(c => child.columns.contains(c) && !node.columns.valuesIterator.contains(c))
      val wanted = (ids ++ more).map(column(child, _))
      if (child.plan.output.map(_.exprId) == wanted.map(_.exprId)) child.plan else Project(wanted, child.plan)
    }
    val below: Columns = children.flatMap(_.columns).toMap
    val plans = subqueries.zip(node.subqueries).map { case (decoded, ids) =>
      Project(ids.map(column(decoded, _)), decoded.plan)
    }
    val passed = asked.filterNot(node.columns.valuesIterator.contains).flatMap(c => below.get(c).map(c -> _))
    val (plan, produced) = OpaqueDecoder.rebuild(node, placed, below, plans, passed.map(_._2))
    val outputs = asked.map { c =>
      c -> produced.orElse(passed.toMap).applyOrElse(
        c, (_: Int) => throw new IllegalArgumentException(s"${plan.nodeName} does not give column #$c"))
    }
    computed(outputs, plan)
  }
}

object Decoder {
  type Columns = Map[Int, Attribute]

  /** A plan and the attribute that stands for each of its columns, in output order. */
  private final case class Decoded(plan: LogicalPlan, ordered: Seq[(Int, Attribute)]) {
    lazy val columns: Columns = ordered.toMap
  }

  private val observations = new AtomicLong(0)

  private val joinTypes: Map[String, JoinType] = Map(
    "inner" -> Inner, "left" -> LeftOuter, "right" -> RightOuter, "full" -> FullOuter, "semi" -> LeftSemi,
    "anti" -> LeftAnti)

  def int(wire: JValue): Int = long(wire).toInt

  def long(wire: JValue): Long = wire match {
    case JInt(n) => n.toLong
    case JLong(n) => n
    case other => throw new IllegalArgumentException(s"not a number: ${ExpressionDecoder.show(other)}")
  }

  def text(wire: JValue): String = wire match {
    case JString(s) => s
    case other => throw new IllegalArgumentException(s"not a text: ${ExpressionDecoder.show(other)}")
  }
}
