"""From Spark's normal form to the planner's: n-ary inner joins, and no sort without a limit."""

from __future__ import annotations

from tidemill.plan.expr import Col, Expr
from tidemill.plan.ops import Join, Project, Sort
from tidemill.plan.tree import Tree, columns_of


def normalise(tree: Tree) -> Tree:
    """The planner's normal form of a query's tree.

    A sort without a limit has no effect on a bag and is removed. Nested inner joins become one `Join` with all their
    conjuncts, so that a delta can be joined outward from the changed input, whatever the order of the text. Projections
    between these joins that only drop columns are removed too; one projection on top restores the columns.
    """
    inputs = tuple(normalise(i) for i in tree.inputs)
    match tree.op:
        case Sort():
            return inputs[0]
        case Join(kind="right", condition=condition):  # columns go by id, so a right join is a mirrored left join
            return Tree(Join("left", condition), (inputs[1], inputs[0]))
        case Join(kind="inner", condition=condition):
            return _flatten(condition, inputs)
        case _:  # anything else stays as it is
            return Tree(tree.op, inputs)


def _flatten(condition: tuple[Expr, ...], inputs: tuple[Tree, ...]) -> Tree:
    conjuncts, parts = list(condition), list[Tree]()
    narrowed = False
    for part in inputs:
        inner = part
        if isinstance(part.op, Project) and _only_drops(part.op) and _is_inner(part.inputs[0]):
            inner = part.inputs[0]
        if _is_inner(inner):
            assert isinstance(inner.op, Join)
            narrowed = narrowed or inner is not part
            conjuncts.extend(inner.op.condition)
            parts.extend(inner.inputs)
        else:
            parts.append(part)
    joined = Tree(Join("inner", tuple(conjuncts)), tuple(parts))
    if not narrowed:
        return joined
    kept = tuple(c for part in inputs for c in columns_of(part))
    return Tree(Project(tuple((c, Col(c)) for c in kept)), (joined,))


def _is_inner(tree: Tree) -> bool:
    return isinstance(tree.op, Join) and tree.op.kind == "inner"


def _only_drops(project: Project) -> bool:
    return all(isinstance(e, Col) and e.id == c for c, e in project.columns)
