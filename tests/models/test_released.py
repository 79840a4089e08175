"""Files as the released code writes them: fairseq by itself loads each, and the model gives the released numbers."""

import math
import re

import pytest
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

from ode_transformer.config import PRESETS, resolve
from ode_transformer.models import floater, macaron, ode
from tests.helpers import task
from tests.models.released import as_written, assert_logits, built, load

MODELS = {
    "macaron_prenorm": macaron.MacaronModel,
    **dict.fromkeys(
        ("ode_rk2_learnable", "ode_rk2_standard", "pcformer_rk2_ema", "pcformer_rk4_ema_rpr"), ode.OdeModel
    ),
    "floater": floater.ReleasedFloaterModel,
}
RENAMED = {
    **{
        rf"(layers\.\d+)\.layer_norms\.{i}": rf"\1.{name}"
        for i, name in enumerate(("self_attn_layer_norm", "final_layer_norm", "macaron_layer_norm"))
    },
    "gate_linear": "coefficients.gate",
    r"encoder\.alpha": "encoder.coefficients.weight",
    "rouge_predictions_norm": "prediction_norms",
}


def names(name, fixture):
    """Our names of a released parameter, which may be several in one tensor."""
    if fixture["name"] == "floater":
        return floater._renamed(name, fixture["model"][name]) or [name]
    for old, new in RENAMED.items():
        name = re.sub(old, new, name)
    return [name.replace("in_proj_", f"{x}_proj.") for x in "qkv"] if "in_proj_" in name else [name]


def loaded(state, folder):
    torch.save(state, folder / "file.pt")
    (m,), cfg = checkpoint_utils.load_model_ensemble([str(folder / "file.pt")], task=task())
    return m.eval(), cfg


@pytest.mark.parametrize("name", MODELS)
def test_a_file_of_the_released_code_gives_its_numbers(name, tmp_path):
    """Logits, encoder states, and norms of the gradients of all parameters; and again when it is saved in our form."""
    released = load(name)
    state = as_written(released)
    m, cfg = loaded(state, tmp_path)
    assert type(m) is MODELS[name]
    prev, logits = released["prev_output_tokens"], assert_logits(m, released)
    weights = torch.linspace(-1, 1, logits.numel()).view_as(logits) * (prev != 1)[..., None]
    (logits.log_softmax(-1) * weights).sum().backward()
    norms = {name: float(p.grad.norm()) for name, p in m.named_parameters()}
    for theirs, expected in released["grad_norms"].items():
        ours = math.hypot(*(norms.pop(part) for part in names(theirs, released)))
        assert ours == pytest.approx(float(expected), rel=1e-4, abs=1e-6), theirs
    assert not norms, f"parameters without a counterpart: {list(norms)}"

    out = m.encoder(released["src_tokens"], return_all_hiddens=True)
    ours, theirs = out["encoder_out"], [released["encoder_out"]]
    if "encoder_states" in released:
        ours, theirs = [*ours, *out["encoder_states"][1:]], [*theirs, *released["encoder_states"]]
    real = released["src_tokens"].t() != 1
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our[real], their[real], atol=1e-5, rtol=0)

    today = {**state, "args": None, "cfg": OmegaConf.to_container(cfg), "model": m.state_dict()}
    assert torch.equal(assert_logits(loaded(today, tmp_path)[0], released), logits)


CHOICES = ("splitting", "integrator", "coefficients", "gate_sharing", "encoder_history", "decoder_history")


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("macaron_prenorm", "macaron_tiny"),
        ("ode_rk2_learnable", "rk2_learnable"),
        ("ode_rk2_standard", "rk2"),
        ("pcformer_rk2_ema", "pcformer"),
        ("floater", "floater_base"),
    ],
)
def test_our_architectures_choose_the_methods_of_the_released_code(name, arch):
    theirs, (_, config_class, preset) = built(name).cfg, PRESETS[arch]
    ours = resolve(preset, config_class)
    assert {choice: getattr(theirs, choice) for choice in CHOICES} == {choice: ours[choice] for choice in CHOICES}
