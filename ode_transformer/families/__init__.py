"""One file a paper: what it is, its equations, configuration, modules, model, architectures."""
