"""``--criterion chunked_label_smoothed_cross_entropy``: fairseq's label-smoothed cross-entropy in less memory and time.

The decoder's features are projected onto the vocabulary chunk by chunk within the loss (``losses.py``), so
that no tensor of tokens x symbols is held, unless all tokens fit into one chunk. Values, gradients, options and logs
are those of ``label_smoothed_cross_entropy``.
"""

from typing import Any

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from torch import Tensor, nn

from ..errors import OdeTransformerError
from .losses import projected_cross_entropy

NAME = "chunked_label_smoothed_cross_entropy"

_SCORES_ON_CPU, _SCORES = 2**23, 2**26  # of a chunk; the former take 32 MiB, about a last-level cache
_FEWEST = 512  # tokens; with fewer, a product is slow


@register_criterion(NAME, dataclass=LabelSmoothedCrossEntropyCriterionConfig)
class ChunkedLabelSmoothedCrossEntropy(LabelSmoothedCrossEntropyCriterion):
    """As fairseq's; for models whose decoder ends with a projection without bias."""

    def forward(self, model: nn.Module, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict]:
        """Return the loss of a sample, its divisor, and the values to log, as fairseq's criterion does."""
        _projection(model)  # a model without one may not take the following arguments
        # No layer is the one whose attention weights are returned: it could not take the fused kernel.
        net_input = {**sample["net_input"], "features_only": True, "alignment_layer": -1}
        return super().forward(model, {**sample, "net_input": net_input}, reduce)

    def compute_loss(
        self, model: nn.Module, net_output: tuple[Tensor, Any], sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return loss and negative log-likelihood of features (B, T, C), summed over the tokens of a sample."""
        if not reduce or self.report_accuracy:
            option = "--report-accuracy" if self.report_accuracy else "a loss per token"
            raise OdeTransformerError(f"--criterion {NAME}: cannot compute {option}; take label_smoothed_cross_entropy")
        features = net_output[0][:, self.ignore_prefix_size :]
        target = model.get_targets(sample, net_output)[:, self.ignore_prefix_size :]
        rows, weight = features.reshape(-1, features.size(-1)), _projection(model)
        device, (symbols, width) = rows.device.type, weight.shape
        # A chunk reads the projection twice and its gradient once: with C tokens or more (C is the width), this traffic
        # does not exceed that of the chunk's scores.
        tokens = max(_FEWEST, width, (_SCORES_ON_CPU if device == "cpu" else _SCORES) // symbols)
        if torch.is_autocast_enabled(device):
            rows, weight = (tensor.to(torch.get_autocast_dtype(device)) for tensor in (rows, weight))
        with torch.autocast(device, enabled=False):
            return projected_cross_entropy(rows, weight, target.reshape(-1), self.eps, self.padding_idx, tokens)


def _projection(model: nn.Module) -> Tensor:
    """Return the matrix (vocabulary size, C) that turns a decoder's features into scores."""
    decoder = getattr(model, "decoder", None)
    if getattr(decoder, "adaptive_softmax", None) is not None:
        raise OdeTransformerError(
            f"--criterion {NAME}: cannot be combined with --adaptive-softmax-cutoff; take adaptive_loss"
        )
    projection = getattr(decoder, "output_projection", None)
    if type(projection) is not nn.Linear or projection.bias is not None:
        raise OdeTransformerError(f"--criterion {NAME}: needs a decoder with an output_projection without bias")
    distributed = getattr(model, "module", None)  # fairseq's wrapper of PyTorch's
    if getattr(distributed, "find_unused_parameters", False) and projection.weight is not decoder.embed_tokens.weight:
        raise OdeTransformerError(
            f"--criterion {NAME}: cannot be combined with --find-unused-parameters unless the output projection is the "
            "embedding (--share-decoder-input-output-embed): the model by itself does not use the projection"
        )
    return projection.weight
