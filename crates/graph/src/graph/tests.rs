//! Laws of the graph.
