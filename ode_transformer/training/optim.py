"""Adam in one pass over all parameters, and a version with a separate learning rate for the flow of FLOATER.

On a GPU every tensor that is handled by itself costs a launch, and a model has hundreds. With these optimizers the
norm of the gradients, and in mixed precision the copies between both precisions, take all tensors at once, too.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import fairseq.optim
import torch
from fairseq.optim import FairseqOptimizer, fp16_optimizer, register_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from torch import Tensor, nn
from torch._utils import _unflatten_dense_tensors
from torch.optim import AdamW

from ..config import flag, option
from ..errors import OdeTransformerError


@register_optimizer("fused_adam", dataclass=FairseqAdamConfig)
class FusedAdam(FairseqAdam):
    """fairseq's Adam with PyTorch's fused kernel, which traverses all parameters once.

    Updates equal fairseq's up to rounding, except that epsilon is added after the second moment is corrected for its
    bias. Not for ``--memory-efficient-fp16``.
    """

    supports_flat_params = True
    # Tells PyTorch's GradScaler to leave the gradients as they are and to report what it found in them. With --amp,
    # fairseq unscales those of PyTorch's optimizer and then steps its own, which the scaler does not know: without this
    # it would divide by the loss scale a second time, and epsilon would weigh as many times more.
    _step_supports_amp_scaling = True

    def __init__(self, cfg: FairseqAdamConfig, params: Iterable):
        FairseqOptimizer.__init__(self, cfg)
        for name in ("fp16_adam_stats", "use_old_adam"):
            if getattr(cfg, name):
                raise OdeTransformerError(f"{flag(name)}: cannot be combined with --optimizer {cfg._name}; use adam")
        self._optimizer = AdamW(params, **self.optimizer_config, fused=True)

    def step(self, *args: Any, **more: Any) -> None:
        """Update the parameters, unless a GradScaler found a gradient that is not finite."""
        self._optimizer.found_inf = getattr(self, "found_inf", None)
        super().step(*args, **more)

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Return the norm of all gradients; scale them down if it exceeds ``max_norm`` and ``max_norm`` is positive."""
        gradients = [p.grad for p in self.params if p.grad is not None]
        if len(gradients) < 2:
            return super().clip_grad_norm(max_norm, aggregate_norm_fn)
        norm = torch.stack(torch._foreach_norm(gradients, 2, dtype=torch.float32)).norm()
        if aggregate_norm_fn is not None:
            norm = aggregate_norm_fn(norm)
        if max_norm > 0:
            torch._foreach_mul_(gradients, (float(max_norm) / (norm + 1e-6)).clamp_(max=1))
        return norm

    def load_state_dict(self, state_dict: dict, optimizer_overrides: dict | None = None) -> None:
        """As in fairseq; the state may also be that of its own Adam, which its trainer accepts in mixed precision."""
        super().load_state_dict(state_dict, optimizer_overrides)
        for group in self.param_groups:
            group["fused"] = True
            for p in group["params"]:
                state = self._optimizer.state.get(p)
                if state:  # fairseq's Adam counts steps on the CPU; the kernel needs the count beside the parameter
                    state["step"] = torch.as_tensor(state["step"], dtype=torch.float32, device=p.device)


class FP16Optimizer(fp16_optimizer.FP16Optimizer):
    """fairseq's optimizer for mixed precision, which fairseq's trainer takes from ``fairseq.optim``.

    Around a ``FusedAdam`` it copies all gradients, or all parameters, at once. The values are the same, and so is the
    name of the class, which checkpoints hold.
    """

    def _flat(self) -> nn.Parameter | None:
        """The parameters in single precision as one vector; None if each is a tensor of its own."""
        return next(iter(self.fp32_params.values())) if isinstance(self.fp32_params, dict) else None

    @property
    def _at_once(self) -> bool:
        several = isinstance(self.fp32_params, dict) and len(self.fp32_params) > 1  # devices
        return isinstance(self.fp32_optimizer, FusedAdam) and not several

    def _sync_fp16_grads_to_fp32(self) -> None:
        if not self._at_once:
            return super()._sync_fp16_grads_to_fp32()
        if not self._needs_sync:
            return None
        flat, parameters = self._flat(), [p for p in self.fp16_params if p.requires_grad]
        if flat is None:
            into = [p32.grad for p, p32 in zip(self.fp16_params, self.fp32_params, strict=True) if p.requires_grad]
        else:
            into = _unflatten_dense_tensors(flat.grad, parameters)
        # Parameters without a gradient keep the zeros of zero_grad.
        pairs = [(g32, p.grad) for g32, p in zip(into, parameters, strict=True) if p.grad is not None]
        if pairs:
            torch._foreach_copy_(*map(list, zip(*pairs, strict=True)))
        self._needs_sync = False
        return None

    def _sync_fp32_params_to_fp16(self) -> None:
        if not self._at_once:
            return super()._sync_fp32_params_to_fp16()
        flat, parameters = self._flat(), [p.data for p in self.fp16_params]
        source = list(self.fp32_params) if flat is None else _unflatten_dense_tensors(flat.data, parameters)
        torch._foreach_copy_(parameters, [p.detach() for p in source])
        return None

    def zero_grad(self) -> None:
        """Clear the gradients in both precisions."""
        if not self._at_once or self._flat() is not None:
            return super().zero_grad()
        for p in self.fp16_params:
            p.grad = None
        torch._foreach_zero_([p32.grad for p32 in self.fp32_params if p32.grad is not None])
        self._needs_sync = False
        if self.scaler is not None:
            self._multiply_factor = 1.0 / float(self.scaler.loss_scale)
        return None


fairseq.optim.FP16Optimizer = FP16Optimizer


@dataclass
class FlowAdamConfig(FairseqAdamConfig):
    """The options of fairseq's Adam, and the scale of the flow's learning rate."""

    flow_lr_scale: float = option(1.0, "ratio of the flow's learning rate to that of all other parameters")


@register_optimizer("flow_adam", dataclass=FlowAdamConfig)
class FlowAdam(FusedAdam):
    """Adam with a flow as a parameter group of its own (FLOATER, section 4.4: with a larger learning rate)."""

    def __init__(self, cfg: FlowAdamConfig, params: Iterable[nn.Parameter]):
        if not cfg.flow_lr_scale > 0:
            raise OdeTransformerError(f"--flow-lr-scale {cfg.flow_lr_scale}: must be positive")
        rest, flow = [], []
        for p in params:
            (flow if getattr(p, "param_group", None) == "flow" else rest).append(p)
        if not flow:
            raise OdeTransformerError(
                "--optimizer flow_adam: finds no flow that is trained (see --freeze). It needs --position-encoder "
                "floater or rnn-*; with --fp16 also --fp16-no-flatten-grads, because in one flat vector the flow "
                "cannot be identified"
            )
        super().__init__(cfg, [{"params": rest}, {"params": flow}])

    def set_lr(self, lr: float) -> None:
        """Set the learning rate; the flow's is its multiple."""
        rest, flow = self.param_groups
        rest["lr"], flow["lr"] = lr, lr * self.cfg.flow_lr_scale
