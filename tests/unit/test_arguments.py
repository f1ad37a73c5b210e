"""No function takes ten arguments or more by position: records and keywords say what is what."""

from __future__ import annotations

import ast

import pytest

from tools import house

MOST = 9  # by position, apart from `self` and `cls`


def many(tree: ast.AST) -> list[str]:
    """The functions that take more by position, and their lines."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            names = [one.arg for one in (*node.args.posonlyargs, *node.args.args) if one.arg not in ("self", "cls")]
            if len(names) > MOST:
                found.append(f"{node.lineno}: {getattr(node, 'name', 'lambda')} takes {len(names)}")
    return found


@pytest.mark.parametrize("top", house.TOPS)
def test_no_function_takes_ten_arguments_by_position(top):
    assert {str(path): lines for path in house.modules(top) if (lines := many(house.tree(path)))} == {}


def test_arguments_by_keyword_are_not_counted_and_those_of_lambdas_are():
    by_keyword = ast.parse(f"def f(self, a, *, {', '.join(f'k{n}' for n in range(20))}): pass")
    assert many(by_keyword) == []
    assert many(ast.parse(f"lambda {', '.join(f'k{n}' for n in range(10))}: 0")) == ["1: lambda takes 10"]
