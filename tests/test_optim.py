"""The fused Adam is fairseq's; options that it does not have are named."""

import copy

import pytest
import torch
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from torch import nn

from ode_transformer.optim import FusedAdam


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
        if update % 3 == 1:
            gradients[1] = None  # of a layer that was dropped
        for optimizer, mine in zip(optimizers, parameters, strict=True):
            optimizer.set_lr(0.01 * (update + 1))
            for p, gradient in zip(mine, gradients, strict=True):
                p.grad = gradient
            optimizer.step()
        if update in (9, 14):  # a checkpoint, of its own and of the other
            optimizers[1].load_state_dict(copy.deepcopy(optimizers[update == 9].state_dict()), {})
    torch.testing.assert_close(parameters[1], parameters[0], rtol=1e-5, atol=1e-6)
    assert not torch.allclose(parameters[0][0], start[0], atol=0.1)
    assert optimizers[1].param_groups[0]["fused"]


@pytest.mark.parametrize("option", ["fp16_adam_stats", "use_old_adam"])
def test_options_of_other_adams_are_refused(option):
    with pytest.raises(ValueError, match=f"--{option.replace('_', '-')}: does not go with --optimizer fused_adam"):
        FusedAdam(config(**{option: True}), [nn.Parameter(torch.zeros(1))])
