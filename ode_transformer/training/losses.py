"""Projection onto the vocabulary and label-smoothed cross-entropy in one function, which holds the scores of a chunk of
tokens at a time.

With p = softmax(W x) over a vocabulary of size V, target t and smoothing e, which is spread over the other entries as
e' = e / (V - 1), fairseq's loss of a token and its gradient are ::

    loss = -(1 - e - e') log p_t - e' sum_v log p_v,         d loss / d (W x) = p - e' - (1 - e - e') 1_t

so that tokens can be processed in chunks: the chunk is projected, its loss computed, and its gradient, which alone is
kept, propagated back through W. The memory is that of one chunk and of the gradients of x and W; the work is the same
three products.

The scores are traversed as rarely as possible, because at small widths one traversal costs as much as a product, and on
a GPU the speed of memory is the limit. The smoothing term needs no traversal: it is a sum over all symbols and tokens,
``sum_n sum_v (W x_n)_v = (sum_v W_v) . (sum_n x_n)``, and so are its gradients. In half precision, and on a GPU, one
more traversal subtracts e', scales and rounds. On a GPU the rows of padding stay, and are set to zero in x and its
gradient.
"""

import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Gradients of scores are at most 1 and mostly near 1 / V, and are multiplied by this in fp16. The gradient of W, a sum
# over tokens, is not scaled: for a frequent symbol it would exceed fp16's range at any loss scale.
_FP16_SCALE = 2.0**7


class _ProjectedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, target: Tensor, smoothing: float, padding_idx: int, most: int):
        precise, shape = torch.promote_types(x.dtype, torch.float32), x.shape
        kept, rows = target != padding_idx, None
        if x.device.type == "cpu":  # on a GPU, the host would have to wait for their number
            rows = kept.nonzero().squeeze(1)
            x, target, kept = x[rows], target[rows], kept[rows]
        count, size = len(x), len(weight)
        share = smoothing / (size - 1)
        scale = _FP16_SCALE if x.dtype == torch.float16 else 1.0
        seen = kept.to(precise)
        # The factor of the scores' gradients in the gradient of W, in which padding counts for nothing.
        inputs = x if rows is not None and scale == 1 else x * (seen / scale).unsqueeze(-1).to(x.dtype)
        # On a CPU in full precision, e' is subtracted from both products and not from the scores' gradients.
        smooths_products = rows is not None and x.dtype == precise
        wants_x, wants_weight = ctx.needs_input_grad[:2]
        grad_x = torch.empty_like(x) if wants_x else None
        grad_weight = torch.zeros_like(weight, dtype=precise) if wants_weight else None
        score, log_p_target = x.new_empty(count, 1), x.new_empty(count, 1, dtype=precise)
        chunks = math.ceil(count / most) if count > 1.5 * most else 1  # two small products are slower than one
        tokens = math.ceil(count / chunks) or 1
        # One buffer for all chunks; gradients are written into it, on a CPU in single precision log-probabilities too.
        held = x.new_empty(min(tokens, count), size)
        for start in range(0, count, tokens):
            part = slice(start, start + tokens)
            goal = target[part].unsqueeze(-1)
            scores = torch.mm(x[part], weight.t(), out=held[: len(goal)])
            torch.gather(scores, -1, goal, out=score[part])
            log_p = torch.log_softmax(scores, -1, dtype=precise, out=scores if smooths_products else None)
            of_target = torch.gather(log_p, -1, goal, out=log_p_target[part])
            if wants_x or wants_weight:
                grad = log_p.exp_().scatter_(-1, goal, of_target.exp() - (1 - smoothing - share))
                if not smooths_products:  # one traversal subtracts, scales and rounds; rounded first, p would lose e'
                    grad = torch.add(torch.tensor(-share * scale, dtype=precise), grad, alpha=scale, out=scores)
                if wants_x:
                    torch.mm(grad, weight, out=grad_x[part])
                if wants_weight:
                    _add_product(grad_weight, grad, inputs[part])
        nll = -log_p_target.squeeze(-1).dot(seen)
        loss = (1 - smoothing - share) * nll
        if share:
            log_z = (score - log_p_target).squeeze(-1).dot(seen)
            of_tokens, of_symbols = seen @ x.to(precise), weight.sum(dim=0, dtype=precise)
            loss = loss - share * (of_tokens.dot(of_symbols) - size * log_z)
            if smooths_products and wants_x:
                grad_x.sub_(of_symbols, alpha=share)
            if smooths_products and wants_weight:
                grad_weight.sub_(of_tokens, alpha=share)
        if wants_x and rows is None:
            grad_x.mul_(seen.unsqueeze(-1))
        elif wants_x:
            grad_x = grad_x.new_zeros(shape).index_copy_(0, rows, grad_x)
        ctx.save_for_backward(grad_x, grad_weight)
        ctx.scale, ctx.dtype = scale, weight.dtype
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_loss: Tensor, _):
        grad_x, grad_weight = ctx.saved_tensors
        if grad_x is not None:
            grad_x = grad_x * (grad_loss / ctx.scale).to(grad_x.dtype)
        if grad_weight is not None:
            grad_weight = (grad_weight * grad_loss).to(ctx.dtype)
        return grad_x, grad_weight, None, None, None, None


def _add_product(total: Tensor, grad: Tensor, x: Tensor) -> None:
    """total += grad^T x, summed in the precision of the total."""
    if grad.dtype == total.dtype:
        total.addmm_(grad.t(), x)
    else:
        total.add_(grad.t() @ x)


def projected_cross_entropy(
    x: Tensor, weight: Tensor, target: Tensor, smoothing: float, padding_idx: int, tokens: int
) -> tuple[Tensor, Tensor]:
    """Label-smoothed cross-entropy of W x, summed over tokens.

    Args:
        x: the features of N tokens, (N, C).
        weight: W, (V, C), with V at least 2.
        target: (N,).
        smoothing: e, at least 0 and below 1.
        padding_idx: the target of padding, which is ignored.
        tokens: the maximum number projected at a time, at least 1; but up to one and a half times as many form one
            chunk, not two small ones. The order in which sums are computed depends on it.

    Returns:
        The loss, which can be differentiated once, and the negative log-likelihood, which cannot; both (), in fp32 for
        features in half precision.
    """
    if not torch.is_grad_enabled():  # an autograd.Function cannot see this: gradients are always off inside forward
        x, weight = x.detach(), weight.detach()
    return _ProjectedCrossEntropy.apply(x, weight, target, smoothing, padding_idx, tokens)
