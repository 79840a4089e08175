"""Work with models: text, recipes, runs, scores, records, tables, benchmarks, figures, and the command line.

fairseq loads nothing of this. Importing this package imports neither PyTorch nor fairseq. The modules that need them
import them, and the command line imports a module when its sub-command is called.
"""
