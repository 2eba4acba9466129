"""The graph at run time: nodes, hooks, and the backward that computes gradients."""
