"""Models of these sizes lose by a second thread: OpenMP's waiting costs more than the work."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
