"""What is done with models: text, recipes, runs, scores, records, tables, benchmarks, pictures, the command line.

Nothing here is loaded by fairseq. Importing this package imports neither PyTorch nor fairseq; the modules that need
them say so in their imports, and the command line imports a module when its sub-command is called.
"""
