"""A Transformer of joeynmt that takes turns with ours, as a program for the Python of joeynmt's environment.

``contest.py`` starts it. This package and fairseq need not be installed there, so that it imports joeynmt, PyTorch and
the standard library only. Its argument is the file descriptor of a connection. It says there when it has imported them,
receives a job, sends what a record says about the model, and answers every further message with a turn's seconds.
"""

import logging
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import joeynmt
import torch
from joeynmt.batch import Batch
from joeynmt.config import parse_train_args
from joeynmt.model import build_model
from joeynmt.training import TrainManager
from joeynmt.transformer_layers import MultiHeadedAttention
from joeynmt.vocabulary import Vocabulary

_CPU = torch.device("cpu")
_SPECIAL = SimpleNamespace(
    unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
    unk_id=0, pad_id=1, bos_id=2, eos_id=3,
)  # fmt: skip


class Peer:
    """joeynmt's model, its trainer, and the batches of a turn.

    ``job`` has ``symbols`` (the vocabulary size, with joeynmt's four special symbols, which are as many as fairseq's),
    ``dropout``, ``encoder`` and ``decoder`` (arguments of joeynmt's classes), ``training`` (settings of its trainer)
    and ``batches``: of every batch the source sentences and the target sentences, as lists of symbols without the
    special ones.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        torch.manual_seed(1)
        self.vocabulary = Vocabulary([str(symbol) for symbol in range(4, job["symbols"])], _SPECIAL)
        shape = {"tied_embeddings": True, "tied_softmax": True}
        for side in ("encoder", "decoder"):
            embeddings = {"embedding_dim": job[side]["hidden_size"], "scale": True, "dropout": job["dropout"]}
            shape[side] = {"type": "transformer", **job[side], "dropout": job["dropout"], "embeddings": embeddings}
        self.model = build_model(shape, self.vocabulary, self.vocabulary)
        training = parse_train_args({**job["training"], "batch_size": 1})  # of its data loading, which is not used
        self.model.loss_function = (training.loss, training.label_smoothing)
        self.trainer = TrainManager(
            rank=1,  # rank 0 would also write for TensorBoard
            model=self.model,
            model_dir=Path(),
            device=_CPU,
            autocast={"device_type": "cpu", "enabled": False},
            train_args=training,
        )
        self.batches = [self._batch(*sentences) for sentences in job["batches"]]

    def _batch(self, *sentences: list[list[int]]) -> Batch:
        """A batch as joeynmt's datasets collate it; a symbol that its vocabulary lacks is unknown to it, too."""
        source, target = ([[str(symbol) for symbol in sentence] for sentence in side] for side in sentences)
        source_ids, lengths, _ = self.vocabulary.sentences_to_ids(source, bos=False, eos=True)
        target_ids, _, _ = self.vocabulary.sentences_to_ids(target, bos=True, eos=True)
        return Batch(
            src=torch.tensor(source_ids),
            src_length=torch.tensor(lengths),
            src_prompt_mask=None,
            trg=torch.tensor(target_ids),
            trg_prompt_mask=None,
            indices=torch.arange(len(source)),
            device=_CPU,
            pad_index=self.vocabulary.pad_index,
            eos_index=self.vocabulary.eos_index,
        )

    def about(self) -> dict[str, Any]:
        """The model's number of parameters, the attentions of a forward pass, and the versions of the libraries."""
        sides = {"encoder": self.model.encoder, "decoder": self.model.decoder}
        return {
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "evaluations": {
                side: sum(isinstance(module, MultiHeadedAttention) for module in part.modules())
                for side, part in sides.items()
            },
            "versions": {"joeynmt": joeynmt.__version__, "torch": torch.__version__},
        }

    def step(self) -> None:
        """A training step on every batch: what ``TrainManager.train_and_validate`` does with one."""
        for batch in self.batches:
            self.trainer._train_step(batch)
            self.trainer.optimizer.step()
            self.trainer.scheduler.step(self.trainer.stats.steps)
            self.model.zero_grad()
            self.trainer.stats.steps += 1


def main(connection: Connection) -> None:
    """Build the model of a job, then take a step at every message, until the other side has enough."""
    logging.disable(logging.WARNING)
    connection.send("ready")
    try:
        job = connection.recv()
        torch.set_num_threads(job["threads"])
        peer = Peer(job)
        connection.send(peer.about())
        while True:
            connection.recv()
            start = time.perf_counter()
            peer.step()
            connection.send(time.perf_counter() - start)
    except EOFError:
        pass
    except Exception as error:
        connection.send(RuntimeError(f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
