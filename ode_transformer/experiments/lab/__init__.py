"""The laboratory: the accuracy of the methods as numerical solvers, on known problems and in trained models."""
