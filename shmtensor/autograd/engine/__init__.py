"""The graph at run time: nodes, hooks, and the walk that computes gradients."""
