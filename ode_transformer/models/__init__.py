"""The models, one file per family. Importing this package registers all of them with fairseq.

The import also registers the criterion, the optimizers and the tasks, allows old checkpoints to load, makes fairseq's
commands print our errors as a sentence, puts a subclass in the place of fairseq's ``FP16Optimizer`` (which differs with
``fused_adam`` alone), and tells PyTorch to prefer its other attention kernels to cuDNN's, unless the environment says
otherwise.
"""

import os
import sys
from pathlib import Path

from .. import plugins
from ..errors import print_sentence
from ..requirements import check_requirements

check_requirements()
if Path(sys.argv[0]).name.startswith("fairseq-"):
    sys.excepthook = print_sentence
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # hydra leaves errors to the hook
plugins.load_installed()  # before the models list the choices of their options, to which plugins may add

# On some GPUs PyTorch prefers cuDNN's attention, which makes a new plan for every shape, and batches of text differ in
# shape.
os.environ.setdefault("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1")

from .. import checkpoints  # noqa: E402, F401
from ..training import criterion, next_sentence, optim, sentence_prediction, span_prediction  # noqa: E402, F401
from . import classification, floater, language_model, macaron, masked_lm, ode, pcformer, transevolve  # noqa: E402

__all__ = ["classification", "floater", "language_model", "macaron", "masked_lm", "ode", "pcformer", "transevolve"]
