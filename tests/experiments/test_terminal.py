"""What a terminal shows of our commands, and of the programs that they start."""

import io
import json
import logging
import sys
import warnings

import pytest

from ode_transformer import quiet
from ode_transformer.experiments.bench import systems
from ode_transformer.experiments.records import logs
from ode_transformer.experiments.runs import processes, runner, terminal
from tests.helpers import Terminal, raises

CONFIGURATION = "2026-01-01 00:00:00 | INFO | fairseq_cli.train | {'_name': None, 'common': {'seed': 1}}"
MODEL = "2026-01-01 00:00:00 | INFO | fairseq_cli.train | MacaronModel(\n  (encoder): SplitEncoder()\n\n)"
TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1\n\nRuntimeError: why'


def record(name, **values):
    return f"2026-01-01 00:00:00 | INFO | {name} | {json.dumps(values)}"


INNER = [record("train_inner", epoch=1, update=n / 4, loss=f"{9 - n}.5", wps="100", num_updates=f"{n}") for n in (1, 2)]
VALID = record("valid", epoch=1, valid_loss="7.5", valid_ppl="181.02", valid_num_updates="1200")
TRAIN = record("train", epoch=1, train_loss="8.5", train_ppl="362.04", train_wps="90.5", train_num_updates="1200")


def shown(monkeypatch, lines, words=("fairseq-train", "data", "--max-update", "4"), screen=None) -> str:
    """What is shown of a log that comes in pieces."""
    screen = screen or io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    log = "\n".join(lines).encode()
    with terminal.LogView(words) as view:
        for i in range(0, len(log), 7):
            view.feed(log[i : i + 7])
    return screen.getvalue()


def test_the_page_of_configuration_and_the_model_are_left_to_the_log(monkeypatch):
    warning = "2026-01-01 00:00:00 | WARNING | fairseq.trainer | a warning\n  of two lines"
    lines = [CONFIGURATION, "why é", MODEL, warning, CONFIGURATION, MODEL, TRACEBACK, MODEL]
    assert shown(monkeypatch, lines) == f"why é\n{warning}\n{TRACEBACK}\n"


def test_progress_is_a_line_where_there_is_no_terminal(monkeypatch):
    assert shown(monkeypatch, [CONFIGURATION, *INNER, VALID, TRAIN]).split("\n")[:-1] == [
        "epoch 1, 1 update: loss 8.5, words/s 100",
        "epoch 1, 2 updates: loss 7.5, words/s 100",
        "epoch 1, 1,200 updates: validation: loss 7.5, perplexity 181.02",
        "epoch 1, 1,200 updates: loss 8.5, perplexity 362.04, words/s 90.5",
    ]
    of_glue = record("valid", epoch=1, valid_loss="0.9", valid_mcc="12.5", valid_num_updates="7")
    of_others = record("others", num_updates="many")
    assert shown(monkeypatch, [of_others, of_glue, ""]) == "epoch 1, 7 updates: validation: loss 0.9, Matthews 12.5\n"


def test_results_of_fairseq_validate_are_of_their_set(monkeypatch):
    """They have neither epoch nor updates; the sums of single batches say nothing."""
    batch = record("fairseq.logging.progress_bar", loss="23456.7")
    test = record("test", test_loss="12.7", test_ppl="69.9", test_wps="0")
    words = ["fairseq-validate", "data"]
    assert shown(monkeypatch, [CONFIGURATION, batch, test, ""], words) == "test: loss 12.7, perplexity 69.9\n"


def test_that_a_training_diverged_is_told_from_its_log(tmp_path):
    """fairseq raises it, saves a checkpoint, and then fails in its search for the first NaN with another error."""
    diverged = TRACEBACK.replace("RuntimeError: why", "FloatingPointError: gradients are Nan/Inf")
    both = [diverged, "\nDuring handling of the above exception, another exception occurred:\n", TRACEBACK]
    log = tmp_path / "train.log"
    log.write_text("\n".join([CONFIGURATION, *both, CONFIGURATION, *INNER]))
    assert logs.divergence(log) == "", "the training that resumed it has not"
    inner = record("train_inner", epoch=1, loss="9.1", gnorm="35.2", lr="0.02", num_updates="50")
    log.write_text("\n".join([CONFIGURATION, inner, *both]))
    numbers = "updates 50, learning rate 0.02, gradient norm 35.2"
    assert f"no longer finite numbers (last report: {numbers}); take a lower --lr" in logs.divergence(log)
    step = runner.Step("train", ["sh", "-c", f"cat {log}; exit 1"], log=str(tmp_path / "again.log"))
    raises(r"^train: the training diverged.*Its output is in .*again\.log$", runner.execute, step)


@pytest.mark.parametrize(
    ("words", "bars"),
    [(["--max-update", "4"], ("| 1/4 [", "| 2/4 [")), (["--max-epoch", "3"], ("| 0.25/3 [", "| 0.5/3 ["))],
)
def test_progress_is_a_bar_on_a_terminal(monkeypatch, words, bars):
    said = shown(monkeypatch, [*INNER, VALID, TRACEBACK], words, Terminal())
    assert all(bar in said for bar in bars) and "loss 7.5, words/s 100" in said
    assert "epoch 1, 1 update:" not in said
    assert "epoch 1, 1,200 updates: validation: loss 7.5, perplexity 181.02\n" in said
    assert all(f"{line}\n" in said for line in TRACEBACK.split("\n"))
    assert "| 1/3 [" in shown(monkeypatch, [TRAIN], ["--max-epoch", "3"], Terminal()), "epochs shorter than reports"


def test_the_log_has_all_and_the_terminal_what_matters(tmp_path, capfd):
    log = tmp_path / "train.log"
    text = f"{CONFIGURATION}\n{VALID}\nwhy\n"
    (tmp_path / "said").write_text(text)
    assert processes.launch(["cat", str(tmp_path / "said")], processes.environment({}), log, -1) == 0
    assert log.read_text() == text
    assert capfd.readouterr().err.endswith("validation: loss 7.5, perplexity 181.02\nwhy\n")


def test_commands_are_tidy(monkeypatch, capsys):
    """Libraries' warnings are not printed, no logger speaks below a warning, and all is as it was after it."""
    monkeypatch.setattr(logging.root, "handlers", [])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with quiet.tidy():
            logging.basicConfig(level=logging.INFO)  # what fairseq does when it is imported
            logging.getLogger("fairseq.tasks.text_to_speech").info("Please install tensorboardX")
            logging.getLogger("fairseq.trainer").warning("of what matters")
            systems.configure(systems.Contestant("macaron_tiny"), systems.Setting())
            warnings.warn("`torch.jit.script` is deprecated.", DeprecationWarning, stacklevel=1)  # by fairseq's import
    assert not caught
    assert capsys.readouterr().err == "WARNING: of what matters\n" and not logging.root.handlers
