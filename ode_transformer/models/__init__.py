"""The models, one file per family. Importing this package registers all of them with fairseq.

The loss, the optimisers and a task are registered as well, old checkpoints are allowed to load, and PyTorch is told to
prefer its other attention kernels to cuDNN's, unless the environment says otherwise.
"""

import os

from ..requirements import check_requirements

check_requirements()

# PyTorch prefers cuDNN's attention on some GPUs, which plans anew for every shape; batches of text differ in theirs.
os.environ.setdefault("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1")

from .. import checkpoints, criterion, next_sentence, optim, sentence_prediction, span_prediction  # noqa: E402, F401
from . import classification, floater, language_model, macaron, masked_lm, ode, pcformer, transevolve  # noqa: E402

__all__ = ["classification", "floater", "language_model", "macaron", "masked_lm", "ode", "pcformer", "transevolve"]
