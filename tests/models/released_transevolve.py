"""The released TransEvolve code's weights, in the order in which it created them, as our modules' state dicts."""

import numpy as np
import torch

from tests.helpers import FIXTURES


def load():
    """The fixture's inputs and outputs by name; under "enc" and "dec" their weights in their order."""
    stored = np.load(FIXTURES / "transevolve_fullff.npz")
    arrays = {name.removeprefix("full/"): torch.from_numpy(x) for name, x in stored.items()}
    return arrays | {side: [x for k, x in arrays.items() if k.startswith(f"{side}/")] for side in ("enc", "dec")}


def state_dict(weights, blocks, depth, decoder):
    """Our names for the weights of a stack."""
    values = iter(weights)
    state = {}

    def initial(name):
        for which, time in (("query", "time_query"), ("key", "time_key")):
            whole = next(values)
            d = whole.size(0) // 2
            state[f"{name}.{which}.weight"], state[f"{name}.{time}"] = whole[:, :d], whole[:, d:]

    def norm(name):
        state[f"{name}.layer_norm.weight"], state[f"{name}.layer_norm.bias"] = next(values), next(values)

    for b in range(blocks):
        block = f"layers.{b}"
        initial(f"{block}.state")
        if decoder:
            initial(f"{block}.encoder_state")
        for i in range(depth):
            for attention in ("attention", "encoder_attention")[: 1 + decoder]:
                name = f"{block}.{attention}.{i}"
                state[f"{name}.time_weights"] = next(values)
                state[f"{name}.out.weight"] = next(values).t()
                norm(name)
            name = f"{block}.feed_forward.{i}"
            norm(name)
            for linear in ("fc1", "fc2"):
                state[f"{name}.{linear}.weight"], state[f"{name}.{linear}.bias"] = next(values).t(), next(values)
        norm(block)
    assert next(values, None) is None
    return {k: v.contiguous() for k, v in state.items()}
