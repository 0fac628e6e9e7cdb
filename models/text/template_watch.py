"""Insertion of clock and size checks into a chat template's code: see `models.text.template_limits`.

The nodes that are put into a template call methods of its environment: `tick`, `keep` and `joined`.
"""

from collections.abc import Iterator

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from jinja2.visitor import NodeTransformer


class ReadingTime(Extension):
    """Lexer that checks the clock while a template is read."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """Yield the same tokens."""
        for token in stream:
            self.environment.tick()  # type: ignore[attr-defined]
            yield token


class Watched(NodeTransformer):
    """Code generator that inserts checks of the clock and of sizes into a template."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        """Make each turn of a loop check the clock, a skipped one too."""
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(_ask("tick", node), lineno=node.lineno))
        if node.test:
            node.test = nodes.And(_ask("tick", node), node.test, lineno=node.lineno)
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        """Make a comparison check the clock: texts and lists may be long, but for one with a constant."""
        if all(other.op in ("eq", "ne") and isinstance(other.expr, nodes.Const) for other in node.ops):
            return self.generic_visit(node)
        return nodes.And(_ask("tick", node), self.generic_visit(node), lineno=node.lineno)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        """Let the environment put texts together."""
        self.generic_visit(node)
        return _ask("joined", node, nodes.List(node.nodes, lineno=node.lineno))

    def visit_List(self, node: nodes.Node) -> nodes.Node:  # noqa: N802
        """Let what is made be weighed."""
        return _ask("keep", node, self.generic_visit(node))

    visit_Dict = visit_List  # noqa: N815

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        """Let a part of a text or list be weighed."""
        return self.visit_List(node) if isinstance(node.arg, nodes.Slice) else self.generic_visit(node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        """Let what is made be weighed; names that are assigned to are no tuple."""
        return self.visit_List(node) if node.ctx == "load" else node


def _ask(method: str, node: nodes.Node, *arguments: nodes.Node) -> nodes.Call:
    method_value = nodes.EnvironmentAttribute(method, lineno=node.lineno)
    return nodes.Call(method_value, list(arguments), [], None, None, lineno=node.lineno)
