"""The fused Adam is fairseq's, with --amp too; options that it does not have are named."""

import copy
from argparse import Namespace
from dataclasses import replace

import pytest
import torch
from fairseq import optim
from fairseq.optim import fp16_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from fairseq.optim.amp_optimizer import AMPOptimizer
from torch import nn

from ode_transformer.training.optim import FlowAdam, FlowAdamConfig, FP16Optimizer, FusedAdam
from tests.helpers import raises


def config(**more):
    return FairseqAdamConfig(_name="fused_adam", adam_betas="(0.9, 0.98)", lr=[1e-2], **more)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_its_updates_are_those_of_fairseqs_adam(weight_decay):
    torch.manual_seed(0)
    start, optimizers, parameters = [nn.Parameter(torch.randn(7, 5)), nn.Parameter(torch.randn(3))], [], []
    for each in (FairseqAdam, FusedAdam):
        parameters.append(copy.deepcopy(start))
        optimizers.append(each(config(weight_decay=weight_decay, adam_eps=1e-9), parameters[-1]))
    for update in range(20):
        gradients = [torch.randn_like(p) for p in start]
        if update % 4 == 1:
            gradients[1] = None  # of a layer that was dropped
        norms = []
        for optimizer, mine in zip(optimizers, parameters, strict=True):
            optimizer.set_lr(0.01 * (update + 1))
            for p, gradient in zip(mine, gradients, strict=True):
                p.grad = copy.deepcopy(gradient)
            limit, of_devices = (0.0, 1.0, 99.0)[update % 3], torch.square if update % 2 else None
            norms.append(optimizer.clip_grad_norm(limit, of_devices))
            optimizer.step()
        clipped = ([norm, *(p.grad for p in mine)] for norm, mine in zip(norms, parameters, strict=True))
        torch.testing.assert_close(*clipped)
        if update in (9, 14):  # a checkpoint, of its own and of the other
            optimizers[1].load_state_dict(copy.deepcopy(optimizers[update == 9].state_dict()), {})
    torch.testing.assert_close(parameters[1], parameters[0], rtol=1e-5, atol=1e-6)
    assert not torch.allclose(parameters[0][0], start[0], atol=0.1)
    assert optimizers[1].param_groups[0]["fused"]
    for p, state in optimizers[1].optimizer.state.items():
        assert state["step"].device == p.device and state["step"].dtype == torch.float32


@pytest.mark.parametrize("flow", [False, True])
def test_with_amp_the_loss_scale_leaves_updates_as_they_are(flow):
    """With one so large that Adam, given gradients divided by it twice, would see epsilon alone."""
    torch.manual_seed(0)
    parameters = [[nn.Parameter(torch.ones(5)), nn.Parameter(torch.ones(3))] for _ in range(2)]
    for mine in parameters:
        mine[1].param_group = "flow" if flow else "default"
    plain, scaled = [
        FlowAdam(FlowAdamConfig(_name="flow_adam", adam_betas="(0.9, 0.98)", lr=[1e-2], flow_lr_scale=3.0), mine)
        if flow
        else FusedAdam(config(), mine)
        for mine in parameters
    ]
    common = Namespace(fp16_init_scale=2**20, amp_scale_window=None, min_loss_scale=1e-4)
    amp = AMPOptimizer(Namespace(optimizer=scaled.cfg, common=common), parameters[1], scaled)
    amp._grad_scaler = torch.amp.GradScaler("cpu", init_scale=2**20)  # fairseq's is of CUDA
    for update in range(6):
        gradients = [torch.randn(5) * 1e-3, torch.randn(3) * 1e-3]
        before = copy.deepcopy(parameters[1])
        amp.zero_grad()
        for p, gradient in zip(parameters[1], gradients, strict=True):
            amp.backward((p * gradient).sum() * (float("inf") if update == 3 else 1))
        amp.clip_grad_norm(0.0)
        amp.step()
        if update == 3:  # an overflow
            assert amp.scaler.get_scale() == 2**19
            torch.testing.assert_close(parameters[1], before, rtol=0, atol=0)
            continue
        for p, gradient in zip(parameters[0], gradients, strict=True):
            p.grad = gradient
        plain.step()
        torch.testing.assert_close(parameters[1], parameters[0])
        assert not torch.equal(parameters[1][0], before[0]) and not torch.equal(parameters[1][1], before[1])


def test_a_flow_learns_at_a_rate_of_its_own():
    """Adam's first update is the learning rate, against the sign of the gradient."""
    rest, flow = nn.Parameter(torch.zeros(5)), nn.Parameter(torch.zeros(3))
    flow.param_group = "flow"
    cfg = FlowAdamConfig(_name="flow_adam", adam_betas="(0.9, 0.98)", lr=[1e-2], flow_lr_scale=3.0)
    optimizer = FlowAdam(cfg, [flow, rest])
    optimizer.set_lr(0.1)
    rest.grad, flow.grad = torch.randn(5), torch.randn(3)
    optimizer.step()
    torch.testing.assert_close((rest.data, flow.data), (-0.1 * rest.grad.sign(), -0.3 * flow.grad.sign()))


def test_what_cannot_be_trained_with_is_named():
    cfg = FlowAdamConfig(_name="flow_adam", adam_betas="(0.9, 0.98)", lr=[1e-2])
    with pytest.raises(ValueError, match=r"finds no flow that is trained \(see --freeze\).*--fp16-no-flatten-grads"):
        FlowAdam(cfg, nn.Linear(2, 2).parameters())
    raises("--flow-lr-scale 0", FlowAdam, replace(cfg, flow_lr_scale=0), nn.Linear(2, 2).parameters())
    for option in ("fp16_adam_stats", "use_old_adam"):
        message = f"--{option.replace('_', '-')}: cannot be combined with --optimizer fused_adam"
        raises(message, FusedAdam, config(**{option: True}), [nn.Parameter(torch.zeros(1))])


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_copies_of_all_tensors_at_once_are_those_of_fairseq_bit_by_bit(flat, precision):
    common = Namespace(
        bf16=precision == "bf16", fp16_scale_window=2, fp16_init_scale=16, fp16_scale_tolerance=0.0,
        threshold_loss_scale=None, min_loss_scale=1e-4,
    )  # fmt: skip
    torch.manual_seed(0)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float16
    start = [nn.Parameter(torch.randn(size, dtype=dtype)) for size in ((7, 5), (3,), (4, 2))]
    optimizers, parameters = [], []
    for kind in (fp16_optimizer.FP16Optimizer, FP16Optimizer):
        mine = copy.deepcopy(start)
        parameters.append(mine)
        singles = kind.build_fp32_params(None, mine, flatten=False)
        if flat:  # as fairseq builds it on a GPU
            whole = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in singles]))
            whole.grad = torch.zeros_like(whole)
            singles = {None: whole}
        cfg = Namespace(optimizer=config(), common=common, optimization=Namespace(update_freq=[1]))
        cfg.distributed_training, cfg.common.model_parallel_size = Namespace(distributed_world_size=1), 1
        adam = FusedAdam(config(), list(singles.values()) if flat else singles)
        optimizers.append(kind(cfg, mine, adam, singles))
    for update in range(6):
        signs = [torch.randn(p.shape).to(dtype) for p in start]
        for optimizer, mine in zip(optimizers, parameters, strict=True):
            optimizer.zero_grad()
            used = mine[:2] if update == 2 else mine  # a layer is dropped
            optimizer.backward(sum((p * sign).sum() for p, sign in zip(used, signs, strict=False)).float())
            optimizer.multiply_grads(0.5)
            optimizer.clip_grad_norm(1.0)
            optimizer.step()
        assert all(map(torch.equal, *parameters))
    assert not torch.equal(parameters[1][0], start[0])
    assert type(optimizers[1]).__name__ == type(optimizers[0]).__name__  # as in checkpoints
    assert optim.FP16Optimizer is FP16Optimizer, "which fairseq's trainer takes"
