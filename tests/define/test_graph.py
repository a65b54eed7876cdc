"""Edges, order and ancestry."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.define.definition import Definition
from holdfast.define.graph import CycleError, Graph, build_graph
from holdfast.define.node import Branch, Node, NodeType


def graph(*nodes: Node) -> Graph:
    return build_graph(Definition("w", nodes=nodes))


def task(name: str, **keys: tuple[str, ...]) -> Node:
    return Node(name, **keys)  # type: ignore[arg-type]


def test_next_joins_all_of_unless_depends_on_names_the_source() -> None:
    built = graph(
        task("a", next=("c", "d")),
        task("b", next=("c",)),
        task("c", any_of=("a",)),
        task("d", all_of=("b", "a")),
    )
    assert (built.all_of["c"], built.any_of["c"]) == (("b",), ("a",))
    assert (built.all_of["d"], built.any_of["d"]) == (("b", "a"), ())
    assert built.sources["c"] == ("b", "a")
    assert built.outgoing["a"] == ("c", "d")
    assert built.outgoing["b"] == ("c", "d")


def test_branches_are_edges_in_their_order_and_each_target_counts_once() -> None:
    route = Node(
        "route",
        NodeType.CONDITIONAL,
        branches=(Branch(("b", "a"), "x"), Branch(("a",), None)),
    )
    built = graph(route, task("a"), task("b", any_of=("route",)))
    assert built.outgoing["route"] == ("b", "a")
    assert (built.all_of["a"], built.any_of["b"], built.all_of["b"]) == (("route",), ("route",), ())


def test_the_order_puts_sources_first_and_keeps_the_order_of_the_file() -> None:
    built = graph(task("d", all_of=("b", "c")), task("c", all_of=("a",)), task("b", all_of=("a",)), task("a"))
    assert built.order == ("a", "c", "b", "d")
    assert built.roots == ("a",)
    assert built.ends == ("d",)


def test_ancestors_and_descendants_are_transitive() -> None:
    built = graph(task("a", next=("b",)), task("b", next=("c",)), task("c"), task("x"))
    assert built.ancestors("c") == {"a", "b"}
    assert built.descendants("a") == {"b", "c"}
    assert built.is_upstream("a", "c")
    assert not built.is_upstream("c", "a")
    assert not built.is_upstream("a", "a")
    assert not built.is_upstream("unknown", "a")
    assert built.ancestors("x") == frozenset()


def test_stages_are_numbered_by_the_file_without_start_and_end() -> None:
    built = graph(
        Node("s", NodeType.START, next=("a",)),
        task("b"),
        Node("e", NodeType.END),
        task("a", next=("b", "e")),
    )
    assert [built.stage_number(name) for name in ("s", "b", "e", "a")] == [None, 1, None, 2]


def test_a_fan_in_belongs_to_the_fan_out_before_it() -> None:
    built = graph(
        Node("out", NodeType.FAN_OUT, next=("in",)),
        task("other", next=("in",)),
        Node("in", NodeType.FAN_IN),
    )
    assert built.fan_out_of == {"in": "out"}


def test_result_nodes_are_those_before_an_end_and_those_before_nothing() -> None:
    built = graph(
        task("a", next=("e", "b")),
        task("b"),
        Node("c", NodeType.CONDITIONAL, branches=(Branch(("e",), None),)),
        Node("e", NodeType.END),
    )
    assert built.result_nodes == ("a", "b")


@pytest.mark.parametrize(
    ("edges", "cycle"),
    [
        ({"a": ("a",)}, ("a", "a")),
        ({"a": ("b",), "b": ("c",), "c": ("b",)}, ("b", "c", "b")),
        ({"c": ("a",), "a": ("b",), "b": ("c",)}, ("c", "a", "b", "c")),
        ({"a": ("b",), "b": (), "c": ("d", "b"), "d": ("c",)}, ("c", "d", "c")),
    ],
)
def test_a_cycle_is_named_from_its_first_node_in_the_file(
    edges: dict[str, tuple[str, ...]], cycle: tuple[str, ...]
) -> None:
    with pytest.raises(CycleError) as caught:
        graph(*(task(name, next=targets) for name, targets in edges.items()))
    assert caught.value.cycle == cycle


def test_a_chain_of_a_thousand_nodes_is_no_problem() -> None:
    names = [f"n{number}" for number in range(1000)]
    built = graph(*(task(name, next=tuple(names[i + 1 : i + 2])) for i, name in enumerate(names)))
    assert len(built.ancestors("n999")) == 999


@settings(deadline=None)
@given(st.data())
def test_the_order_respects_every_edge_of_any_acyclic_graph(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    names = [f"n{number}" for number in range(count)]
    nodes = []
    for position, name in enumerate(names):
        later = st.lists(st.sampled_from(names[position + 1 :] or names[-1:]), max_size=3)
        targets = [target for target in data.draw(later) if target != name]
        nodes.append(task(name, next=tuple(targets)))
    built = graph(*data.draw(st.permutations(nodes)))
    place = {name: position for position, name in enumerate(built.order)}
    assert sorted(built.order) == sorted(names)
    for name in names:
        assert all(place[source] < place[name] for source in built.sources[name])
        assert built.ancestors(name) == set(built.sources[name]).union(
            *(built.ancestors(source) for source in built.sources[name])
        )
        assert all(name in built.outgoing[source] for source in built.sources[name])
