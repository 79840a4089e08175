"""TransEvolve: counts, the released code's outputs, the classifier, what is refused."""

import copy
import math
from collections import Counter

import numpy as np
import pytest
import torch
from fairseq.models import FairseqEncoderModel, build_model

from ode_transformer.models.classification import ClassificationHead, EncoderClassifier
from ode_transformer.models.transevolve import SinusoidsFromZero
from ode_transformer.modules.dropout import Dropout
from ode_transformer.modules.evolving_attention import waves
from ode_transformer.modules.feed_forward import RandomProjection
from ode_transformer.modules.layers import Context
from tests import helpers
from tests.helpers import Kernels, architectures, batch, configure, model, raises, saved_bytes, small, task
from tests.models.test_masked_lm import prepare

# Sizes: the paper's parameters, and those of them that nothing depends on


@pytest.mark.parametrize(
    ("arch", "parameters", "frozen", "of_small"),
    [
        ("fullff_1", 52_632_576, 1_572_864, 4.08),
        ("fullff_2", 58_926_080, 3_145_728, 4.60),
        ("randomff_1", 27_497_472, 1_591_296, 0.94),
        ("randomff_2", 33_790_976, 3_164_160, 1.47),
    ],
)
def test_counts(arch, parameters, frozen, of_small):
    """And those of the small encoder's layers, in millions (spec section 2, without embeddings)."""
    with torch.device("meta"):
        m, layers = model(f"transevolve_{arch}", symbols=32_000), classifier(f"transevolve_small_{arch}").encoder.layers
    assert sum(p.numel() for p in m.parameters()) == parameters
    assert sum(p.numel() for p in m.parameters() if not p.requires_grad) == frozen
    assert sum(p.numel() for p in layers.parameters()) / 1e6 == pytest.approx(of_small, abs=0.005)


NARROW = {"encoder-embed-dim": 16, "encoder-attention-heads": 2, "encoder-ffn-embed-dim": 32}


def classifier(arch="transevolve_small", **values):
    m = build_model(configure(arch, {"max-positions": 4000, **values}), task())
    m.register_classification_head("h", 10)
    return m.eval()


@pytest.mark.parametrize("arch", ["transformer_small", "transevolve_small"])
def test_an_encoder_starts_from_the_embeddings_in_a_file(arch, tmp_path):
    (tmp_path / "vectors").write_text(f"1 256\nw5 {' '.join(['0.5'] * 256)}\n")
    weight = classifier(arch, **{"encoder-embed-path": str(tmp_path / "vectors")}).encoder.embed_tokens.weight
    assert (weight == 0.5).all(-1).sum() == 1


# The released code


def state_dict(weights, blocks, depth, decoder):
    """Our names for the weights of a stack, which come in the order in which the released code created them."""
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


def test_the_released_weights_give_the_released_outputs():
    sizes = {"encoder-embed-dim": 32, "encoder-ffn-embed-dim": 128, "encoder-attention-heads": 4}
    m = model("transevolve_fullff_2", sizes | {"decoder-attention-heads": 4, "transevolve-form": "released"}).eval()
    stored = np.load(helpers.FIXTURES / "transevolve_fullff.npz")
    arrays = {name.removeprefix("full/"): torch.from_numpy(x) for name, x in stored.items()}
    for side, stack in (("enc", m.encoder), ("dec", m.decoder)):
        weights = [x for name, x in arrays.items() if name.startswith(f"{side}/")]
        missing = stack.load_state_dict(state_dict(weights, 2, 3, side == "dec"), strict=False).missing_keys
        assert not [key for key in missing if key.startswith("layers")]
    src_padding, tgt_padding = arrays["src"] == 0, arrays["tgt"] == 0
    x = arrays["enc_in"].transpose(0, 1)
    for block in m.encoder.layers:
        x = block(x, Context(src_padding))
    torch.testing.assert_close(x.transpose(0, 1)[~src_padding], arrays["encoder_out"][~src_padding], atol=1e-5, rtol=0)
    y = arrays["dec_in"].transpose(0, 1)
    for block in m.decoder.layers:
        y = block(y, Context(tgt_padding, source=x, source_padding_mask=src_padding))
    torch.testing.assert_close(y.transpose(0, 1)[~tgt_padding], arrays["decoder_out"][~tgt_padding], atol=1e-5, rtol=0)


def test_the_input_is_embedding_and_sinusoids_from_0_without_dropout():
    m = small("transevolve_fullff_1_tiny", dropout=0.5).train()
    src, _, _ = batch()
    x, _ = m.encoder.forward_embedding(src)
    real = src != 1
    assert not SinusoidsFromZero(16, 1)(src)[~real].any()
    index = (real.cumsum(1) - 1).float()
    frequency = 10000 ** (-torch.arange(8) / 7)
    angle = index[..., None] * frequency
    expected = 4 * m.encoder.embed_tokens(src) + torch.cat((angle.sin(), angle.cos()), -1)
    torch.testing.assert_close(x[real], expected[real])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_positions_are_exact_far_out_in_half_precision(dtype):
    positions = SinusoidsFromZero(16, 1)
    tokens = torch.full((1, 3000), 5)
    exact = positions(tokens)
    ours = copy.deepcopy(positions).to(dtype)(tokens)
    assert ours.dtype == dtype
    torch.testing.assert_close(ours.float(), exact, atol=5e-3, rtol=0)


# The whole model


def test_no_matrix_of_all_pairs_is_held_by_the_whole_model():
    m = small("transevolve_fullff_1_tiny").train()
    n = 500
    src, prev = torch.randint(4, 50, (2, 1, n)).unbind()
    with Kernels() as kernels:
        m(src, torch.tensor([n]), prev)[0].sum().backward()
    assert kernels.numel < n * n


def test_only_the_values_of_a_depth_are_padded_there():
    """Of self-attention, in encoder and decoder, forwards and backwards; queries, keys, their shifts once a block."""
    pads = []
    for depth in (2, 3):
        with Kernels() as kernels:
            small("transevolve_fullff_1_tiny", **{"evolution-depth": depth}).train()(*batch())[0].sum().backward()
        pads.append(kernels.calls["constant_pad_nd"])
    assert pads[1] - pads[0] == 4


def test_recomputation_keeps_less():
    """Within a block too: one block is all that some architectures have."""
    plain, lean = (small("transevolve_fullff_1_tiny", **{"evolution-depth": 6}, **more).train() for more in (
        {}, {"checkpoint-activations": True}))  # fmt: skip
    assert saved_bytes(lean) < 0.5 * saved_bytes(plain)


@pytest.mark.parametrize("form", ["paper", "released"])
def test_every_layer_knows_its_depth_and_has_random_matrices_of_its_own(form):
    m = small("transevolve_randomff_2_tiny", **{"evolution-depth": 3, "transevolve-form": form})
    drawn = [ff.fc2.right for side in (m.encoder, m.decoder) for block in side.layers for ff in block.feed_forward]
    same = [1 for i, a in enumerate(drawn) for b in drawn[:i] if torch.equal(a, b)]
    assert len(drawn) == 12 and (form == "released" or not same), "in the released first layers all sines are 0"
    for side in (m.encoder, m.decoder):
        for block in side.layers:
            attention = [block.attention] + ([block.encoder_attention] if side is m.decoder else [])
            for layers in attention:
                for i, a in enumerate(layers):
                    assert a.form == form and torch.equal(a.waves, waves(len(a.time_weights), i, 3, form))
    # The first block of the encoder.
    for i, ff in enumerate(m.encoder.layers[0].feed_forward):
        seed = 1 * 2 * 2 * 3 + i
        assert torch.equal(ff.fc1.left, RandomProjection(16, 24, i, 3, form, 2 * seed).left)
        assert torch.equal(ff.fc2.right, RandomProjection(24, 16, i, 3, form, 2 * seed + 1).right)


def test_what_is_dropped():
    """Queries and keys once per block; the output of every attention and feed-forward, and within the latter."""
    m = small("transevolve_fullff_1_tiny", dropout=0.4, **{"activation-dropout": 0.2}).train()
    calls = Counter()
    for name, module in m.named_modules():
        if isinstance(module, Dropout):
            module.register_forward_hook(lambda module, *_, name=name: calls.update([(name, module.p)]))
    m(*batch())
    expected = {(f"{side}.dropout_module", 0.0): 1 for side in ("encoder", "decoder")}  # not the embedding
    for side, parts in (("encoder", [""]), ("decoder", ["", "encoder_"])):
        for part in parts:
            expected[f"{side}.layers.0.{part}state.dropout_module", 0.4] = 2
            expected |= {(f"{side}.layers.0.{part}attention.{i}.dropout_module", 0.4): 1 for i in range(2)}
        for i in range(2):
            ff = f"{side}.layers.0.feed_forward.{i}"
            expected |= {(f"{ff}.dropout_module", 0.4): 1, (f"{ff}.activation_dropout_module", 0.2): 1}
    assert calls == expected


@pytest.mark.parametrize("arch", ["transevolve_fullff_1_tiny", "transevolve_randomff_1_tiny"])
def test_initial_values(arch):
    block = model(arch).encoder.layers[0]
    d, inner = 128, 512
    bounds = {"state.query.weight": math.sqrt(3 / (2 * d)), "attention.0.time_weights": math.sqrt(6 / d)}
    bounds["state.time_query"] = bounds["state.key.weight"] = bounds["state.query.weight"]
    bounds["attention.0.out.weight"] = math.sqrt(6 / (2 * d))
    if "random" in arch:
        bounds["feed_forward.0.fc1.singular_values"] = math.sqrt(6 / d)
    else:
        bounds["feed_forward.0.fc1.weight"] = math.sqrt(6 / (d + inner))
    values = dict(block.named_parameters())
    for name, bound in bounds.items():
        assert 0.9 * bound < values[name].abs().max() <= bound, name


# The encoder alone


def test_the_head_reads_the_mean_over_real_tokens():
    head = ClassificationHead(4, 3)
    x = torch.randn(2, 5, 4)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    mean = torch.stack((x[0].mean(0), x[1, :3].mean(0)))
    torch.testing.assert_close(head(x, padding), head.out_proj(head.layer_norm(mean)))


@pytest.mark.parametrize("arch", architectures(FairseqEncoderModel))
def test_padding_does_not_change_a_class(arch):
    m = classifier(arch, **NARROW)
    tokens = torch.randint(4, 50, (2, 9))
    padded = torch.cat((tokens, torch.ones(2, 4, dtype=torch.long)), 1)
    scores, _ = m(tokens, classification_head_name="h")
    again, _ = m(padded, classification_head_name="h")
    assert scores.shape == (2, 10)
    torch.testing.assert_close(again, scores, atol=1e-5, rtol=0)


def test_the_transformer_beside_it_has_its_width_and_depth():
    ours, theirs = classifier(), classifier("transformer_small")
    assert isinstance(theirs, EncoderClassifier)
    assert ours(torch.randint(4, 50, (2, 9)))[0].shape == (2, 9, 256), "states, where no head is asked"
    assert len(theirs.encoder.layers) == len(ours.encoder.layers[0].attention) == 6
    assert theirs.encoder.layers[0].embed_dim == 256 and theirs.encoder.layers[0].normalize_before


@pytest.mark.parametrize("arch", ["transevolve_small", "transformer_small"])
def test_the_task_trains_it_at_its_length(tmp_path, arch):
    """fairseq's sentence_prediction, with sentences longer than the default of 512."""
    its = {}
    for split, count in (("train", 6), ("valid", 2)):
        its[f"{split}_input0"] = ["a b " * 300 + "c" * (i % 2) for i in range(count)]
        its[f"{split}_label"] = [i % 2 for i in range(count)]
    values = {**NARROW, **dict.fromkeys(("task", "criterion"), "sentence_prediction"), "num-classes": 2}
    values["max-positions"] = 700
    m, _ = helpers.train(prepare(tmp_path / "data", **its), arch=arch, **values)
    assert m.max_positions() == 700
    assert "sentence_classification_head" in m.classification_heads


@pytest.mark.parametrize(("ours", "theirs"), [("paper", "released"), ("released", "paper")])
def test_a_checkpoint_of_the_other_form_is_refused(ours, theirs):
    a = small("transevolve_fullff_1_tiny", **{"transevolve-form": ours})
    b = small("transevolve_fullff_1_tiny", **{"transevolve-form": theirs})
    with pytest.raises(ValueError, match=rf"--transevolve-form {ours}: must be {theirs}"):
        a.load_state_dict(b.state_dict())


def test_a_decoder_without_a_source_is_refused():
    raises("needs the output of an encoder", small("transevolve_fullff_1_tiny").decoder, batch()[2])
