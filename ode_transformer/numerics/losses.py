"""Projection onto the vocabulary and label-smoothed cross-entropy in one function, which never holds the scores of all
tokens at the same time.

With p = softmax(W x) over a vocabulary of size V, target t and smoothing e, which is spread over the other entries as
e' = e / (V - 1), fairseq's loss of a token and its gradient are ::

    loss = -(1 - e - e') log p_t - e' sum_v log p_v,         d loss / d (W x) = p - e' - (1 - e - e') 1_t

so that a chunk of tokens at a time can be projected, its loss taken, and its gradient, which is all that is kept, sent
back through W. Memory is that of a chunk and of the gradients of x and W; the work is the same three products.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

# Scores that are held at a time: a chunk that a processor's cache may hold, one that keeps a GPU busy. And the fewest
# tokens: W passes through the processor once a chunk.
CHUNK = {"cpu": 2**21, "cuda": 2**26}
TOKENS = 256

# Gradients of scores are at most 1 and mostly near 1 / V, and are multiplied by this in fp16. The gradient of W, a sum
# over tokens, is not scaled: for a frequent symbol it would exceed fp16's range at any loss scale.
_FP16_SCALE = 2.0**7


class _ProjectedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, target: Tensor, smoothing: float, padding_idx: int):
        precise, shape = torch.promote_types(x.dtype, torch.float32), x.shape
        kept, rows = target != padding_idx, None
        if x.device.type == "cpu":  # on a GPU, the host would have to wait for their number
            rows = kept.nonzero().squeeze(1)
            x, target, kept = x[rows], target[rows], kept[rows]
        count, size = len(x), len(weight)
        share = smoothing / (size - 1)
        scale = _FP16_SCALE if x.dtype == torch.float16 else 1.0
        wanted = ctx.needs_input_grad[:2]
        grad_x = torch.empty_like(x) if wanted[0] else None
        grad_weight = torch.zeros_like(weight, dtype=precise) if wanted[1] else None
        loss, nll = (torch.zeros((), dtype=precise, device=x.device) for _ in range(2))
        chunk = max(TOKENS, CHUNK.get(x.device.type, CHUNK["cuda"]) // size)
        for start in range(0, count, chunk):
            part = slice(start, start + chunk)
            log_p = F.log_softmax(F.linear(x[part], weight), dim=-1, dtype=precise)
            seen = kept[part].to(precise)
            goal = target[part].unsqueeze(-1)
            of_target = log_p.gather(-1, goal).squeeze(-1)
            nll -= of_target.dot(seen)
            loss -= (1 - smoothing - share) * of_target.dot(seen)
            if share:
                loss -= share * log_p.sum(dim=-1).dot(seen)
            if any(wanted):
                grad = log_p.exp_()
                if share:
                    grad.sub_(share)
                grad.scatter_add_(-1, goal, grad.new_full(goal.shape, -(1 - smoothing - share)))
                if rows is None or scale != 1:
                    grad.mul_(seen.unsqueeze(-1) * scale)
                grad = grad.type_as(x)
                if wanted[0]:
                    torch.mm(grad, weight, out=grad_x[part])
                if wanted[1]:
                    _add_product(grad_weight, grad, x[part] if scale == 1 else x[part] / scale)
        if wanted[0] and rows is not None:
            grad_x = grad_x.new_zeros(shape).index_copy_(0, rows, grad_x)
        ctx.save_for_backward(grad_x, grad_weight)
        ctx.scale, ctx.dtype = scale, weight.dtype
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx, grad_loss: Tensor, _):
        grad_x, grad_weight = ctx.saved_tensors
        if grad_x is not None:
            grad_x = grad_x * (grad_loss / ctx.scale).to(grad_x.dtype)
        if grad_weight is not None:
            grad_weight = (grad_weight * grad_loss).to(ctx.dtype)
        return grad_x, grad_weight, None, None, None


def _add_product(total: Tensor, grad: Tensor, x: Tensor) -> None:
    """total += grad^T x, summed in the precision of the total."""
    if grad.dtype == total.dtype:
        total.addmm_(grad.t(), x)
    else:
        total.add_(grad.t() @ x)


def projected_cross_entropy(
    x: Tensor, weight: Tensor, target: Tensor, smoothing: float, padding_idx: int
) -> tuple[Tensor, Tensor]:
    """Label-smoothed cross-entropy of W x, summed over tokens.

    Args:
        x: the features of N tokens, (N, C).
        weight: W, (V, C), with V at least 2.
        target: the indices of the target tokens, (N,).
        smoothing: e, at least 0 and below 1.
        padding_idx: the target of padding, which is ignored.

    Returns:
        The loss, which can be differentiated once, and the negative log-likelihood, which cannot; both (), in fp32 for
        features in half precision.
    """
    return _ProjectedCrossEntropy.apply(x, weight, target, smoothing, padding_idx)
