"""Where the way from a parameter to the loss ends for its derivative."""

from collections import deque

from .graph import LAYERS, RANDOM, STOPS, Block, Graph, Node

ALWAYS_ZERO = Block("a derivative that is always zero", ())  # of an operation that we do not know


def causes(graph: Graph, parameter: Node, loss: Node) -> list[Block]:
    """The operations at which the derivative of a parameter ends, in the order of the program, one for each way to the loss.

    A way may end more than once; what counts is where the way with the fewest ends has its first. So a `stop_gradient` that a softmax
    has inside is no cause if the softmax as a whole is differentiated.
    """
    to_go = num_blocks_to(graph, loss)
    followed, waiting, ends = {parameter}, deque([parameter]), []
    while waiting:
        for edge in graph.after[waiting.popleft()]:
            if edge.block is not None:
                if to_go.get(edge.target) == to_go[parameter] - 1:
                    ends.append(edge)
            elif edge.target not in followed:
                followed.add(edge.target)
                waiting.append(edge.target)
    noisy = drawn(graph)
    blocks = [
        edge.block._replace(cause="sampling") if edge.source in noisy and edge.block.cause not in STOPS else edge.block
        for edge in sorted(ends, key=lambda edge: edge[:2])
    ]
    return list(dict.fromkeys(blocks)) or [ALWAYS_ZERO]


def num_blocks_to(graph: Graph, loss: Node) -> dict[Node, int]:
    """For everything that the loss is computed from: the fewest blocks on a way to it."""
    found, waiting = {}, deque([(loss, 0)])
    while waiting:
        node, count = waiting.popleft()
        if node in found:
            continue
        found[node] = count
        for edge in graph.before[node]:
            if edge.block is None:
                waiting.appendleft((edge.source, count))
            else:
                waiting.append((edge.source, count + 1))
    return found


def drawn(graph: Graph) -> set[Node]:
    """Operations on random numbers. Those behind a layer are left out: noise that goes through one is dropout, not a choice."""
    waiting = deque(node for node, equation in graph.operations.items() if equation.primitive.name in RANDOM)
    found = set(waiting)
    while waiting:
        for edge in graph.after[waiting.popleft()]:
            equation = graph.operations.get(edge.target)
            if edge.target not in found and (equation is None or equation.primitive.name not in LAYERS):
                found.add(edge.target)
                waiting.append(edge.target)
    return found
