"""Adam in one pass over all parameters, and a version with a separate learning rate for the flow of FLOATER."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from torch import nn
from torch.optim import AdamW

from .errors import OdeTransformerError


@register_optimizer("fused_adam", dataclass=FairseqAdamConfig)
class FusedAdam(FairseqAdam):
    """fairseq's Adam by PyTorch's fused kernel, which goes over all parameters once.

    Updates equal fairseq's up to rounding, except that epsilon is added after the second moment is corrected for its
    bias. Not for ``--memory-efficient-fp16``.

    Raises:
        OdeTransformerError: an option of fairseq's other implementations.
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
                raise OdeTransformerError(
                    f"--{name.replace('_', '-')}: cannot be combined with --optimizer {cfg._name}; use adam"
                )
        self._optimizer = AdamW(params, **self.optimizer_config, fused=True)

    def step(self, *args: Any, **more: Any) -> None:
        """One update; none if a GradScaler found a gradient that is not finite."""
        self._optimizer.found_inf = getattr(self, "found_inf", None)
        super().step(*args, **more)

    def load_state_dict(self, state_dict: dict, optimizer_overrides: Optional[dict] = None) -> None:
        """As in fairseq; the state may also be that of fairseq's own Adam."""
        super().load_state_dict(state_dict, optimizer_overrides)
        for group in self.param_groups:
            group["fused"] = True
            for p in group["params"]:
                state = self._optimizer.state.get(p)
                if state:  # fairseq's counts steps on the CPU; the kernel wants the count beside the parameter
                    state["step"] = torch.as_tensor(state["step"], dtype=torch.float32, device=p.device)


@dataclass
class FlowAdamConfig(FairseqAdamConfig):
    """As fairseq's Adam, and the flow's learning rate."""

    flow_lr_scale: float = field(
        default=1.0, metadata={"help": "ratio of the flow's learning rate to that of all other parameters"}
    )


@register_optimizer("flow_adam", dataclass=FlowAdamConfig)
class FlowAdam(FusedAdam):
    """The flow is a group of its own (paper, section 4.4: with a larger learning rate).

    Raises:
        OdeTransformerError: no parameter of a flow among those given, or a scale that is not positive.
    """

    def __init__(self, cfg: FlowAdamConfig, params: Iterable[nn.Parameter]):
        if not cfg.flow_lr_scale > 0:
            raise OdeTransformerError(f"--flow-lr-scale {cfg.flow_lr_scale}: must be positive")
        groups: dict[bool, list] = {False: [], True: []}
        for p in params:
            groups[getattr(p, "param_group", "default") == "flow"].append(p)
        if not groups[True]:
            raise OdeTransformerError(
                "--optimizer flow_adam: finds no flow that is trained (see --freeze). It needs --position-encoder "
                "floater or rnn-*; with --fp16 also --fp16-no-flatten-grads, because in one flat vector the flow "
                "cannot be identified"
            )
        super().__init__(cfg, [{"params": groups[False]}, {"params": groups[True]}])

    def set_lr(self, lr: float) -> None:
        """Set the learning rate, the flow's to its multiple."""
        rest, flow = self.param_groups
        rest["lr"], flow["lr"] = lr, lr * self.cfg.flow_lr_scale
