"""The laboratory: how accurate the methods are as numerical solvers, and what trained models do with them."""
