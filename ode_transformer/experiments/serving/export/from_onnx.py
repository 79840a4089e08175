"""The backend of models exported to ONNX: beam search with ONNX Runtime and NumPy, without PyTorch.

A model is two graphs. ``encoder.onnx`` maps sentences (B, S) to the caches of the source, with one row per sentence.
``decoder.onnx`` is a step of decoding: from the symbols so far (B, n, T), of n hypotheses per sentence, it computes the
log-probabilities of the next symbol (B, n, V), and the caches grown by one position.

The growing caches have one row per hypothesis and are reordered within the graph: ``order`` (B, n) is the row of the
previous step that each hypothesis continues. Before the first step they are empty.

The sentences of a batch are divided among threads, each with a search of its own. Several threads per operation, ONNX
Runtime's default, bring less.
"""

import itertools
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Optional

import numpy as np
import onnxruntime

from ....errors import OdeTransformerError
from ..backend import Found, Search
from . import Exported

NEXT = ".next"
"""The suffix of a growing cache among the outputs of the decoder's graph; its input has the name alone."""

_TYPES = {"tensor(float)": np.float32, "tensor(bool)": np.bool_, "tensor(int64)": np.int64}

PAD, END = 1, 2


class Reader(Exported):
    """A model in ONNX Runtime, with the beam search of fairseq's ``SequenceGenerator``."""

    device = "cpu"

    def _open(self, device: Optional[str]) -> None:
        if device not in (None, "cpu"):
            raise OdeTransformerError(f"device {device}: the search over ONNX Runtime is for the CPU")
        self.numbers = [{symbol: i for i, symbol in enumerate(symbols)} for symbols in self.symbols]
        self.encoder, self.decoder = (_session(self.folder / name) for name in ("encoder.onnx", "decoder.onnx"))
        self.of_source = [output.name for output in self.encoder.get_outputs()]
        self.grown = [output.name for output in self.decoder.get_outputs() if output.name.endswith(NEXT)]
        self.growing = {name.removesuffix(NEXT) for name in self.grown}
        self.inputs = {given.name: given for given in self.decoder.get_inputs()}

    def _read(self, side: int, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
        """Return the indices of the symbols of sentences; ``side`` is 0 for sources and 1 for targets."""
        numbers = self.numbers[side]
        return [[numbers.get(symbol, numbers["<unk>"]) for symbol in sentence] for sentence in sentences]

    def _translate(self, sentences: Sequence[Sequence[str]], search: Search, most: int) -> list[list[Found]]:
        sources = self._read(0, sentences)
        size = math.ceil(len(sources) / self.threads)
        parts = [sources[i : i + size] for i in range(0, len(sources), size)]
        with ThreadPoolExecutor(len(parts)) as threads:
            found = list(threads.map(lambda part: self.search(part, search, most), parts))
        return [
            [([self.symbols[1][i] for i in tokens], score) for tokens, score in hypotheses]
            for hypotheses in itertools.chain.from_iterable(found)
        ]

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """As in :class:`.Backend`, step by step and in one thread."""
        rows = [[*target, END] for target in self._read(1, targets)]
        given = np.full((len(rows), 1, max(map(len, rows)) + 1), PAD)
        for row, tokens in zip(given[:, 0], rows, strict=True):
            row[0], row[1 : len(tokens) + 1] = END, tokens
        caches = self._encode(self._read(0, sources))
        order, columns = np.arange(len(rows))[:, None], []
        for t in range(given.shape[2] - 1):
            # A sentence that has ended reads the end again; the result is ignored.
            tokens = np.where(given[:, :, : t + 1] == PAD, END, given[:, :, : t + 1])
            (log_probs,) = self._step(["log_probs"], tokens, order, caches)
            columns.append(np.take_along_axis(log_probs, given[:, :, t + 1 :][:, :, :1], axis=2)[:, 0, 0])
        return [[float(column[i]) for column in columns[: len(row)]] for i, row in enumerate(rows)]

    def search(
        self, sources: Sequence[Sequence[int]], search: Search, most: int
    ) -> list[list[tuple[list[int], float]]]:
        """Return the ``nbest`` best translations of each source, as indices without the end, with their scores.

        A sentence is finished when it has ``beam`` translations. As in fairseq, a translation ends if the end of
        sentence is among the ``beam`` best of 2 ``beam`` candidates. It has ``most`` symbols at most, and its end.
        """
        beam = search.beam
        # The candidates per hypothesis, two of which may be discarded: padding, and an end before ``min_len``.
        count = min(2 * beam + 2, len(self.symbols[1]))
        caches = self._encode(sources)
        left = np.arange(len(sources))  # the indices of unfinished sentences
        found: list[list[tuple[list[int], float]]] = [[] for _ in sources]
        tokens, scores = np.full((len(sources), 1, 1), END), np.zeros((len(sources), 1), np.float32)
        order = left[:, None]
        for step in range(most + 1):
            if step < most:
                values, symbols = self._step(["values", "symbols"], tokens, order, caches, count)
                values[(symbols == PAD) | ((symbols == END) & (step < search.min_len))] = -np.inf
            else:
                (log_probs,) = self._step(["log_probs"], tokens, order, caches)
                values, symbols = log_probs[:, :, [END]], np.full((*log_probs.shape[:2], 1), END)
            if np.isnan(values).any() or not ((symbols >= 0) & (symbols < len(self.symbols[1]))).all():
                raise OdeTransformerError(f"{self.name}: computes no log-probabilities of its symbols; export it again")
            totals = (scores[:, :, None] + values).reshape(len(left), -1)  # of all hypotheses of a sentence
            best = np.argsort(-totals, axis=1, kind="stable")[:, : 2 * beam]
            totals, taken = (np.take_along_axis(x, best, 1) for x in (totals, symbols.reshape(len(left), -1)))
            parents = best // values.shape[2]
            ends = (taken == END) & (totals > -np.inf)
            for row, place in zip(*np.nonzero(ends[:, :beam]), strict=True):
                hypotheses = found[left[row]]
                if len(hypotheses) < beam:
                    score = float(totals[row, place]) / (step + 1) ** search.lenpen
                    hypotheses.append((tokens[row, parents[row, place], 1:].tolist(), score))
            stay = np.array([len(found[sentence]) < beam for sentence in left])
            if step == most or not stay.any():
                break
            # The best candidates that have not ended are continued.
            going = np.argsort(ends, axis=1, kind="stable")[:, :beam]
            scores, parents, taken = (np.take_along_axis(x, going, 1)[stay] for x in (totals, parents, taken))
            order = np.flatnonzero(stay)[:, None] * tokens.shape[1] + parents
            tokens = np.concatenate((tokens.reshape(-1, step + 1)[order], taken[:, :, None]), axis=2)
            if not stay.all():
                left = left[stay]
                for name in caches.keys() - self.growing:
                    caches[name] = _value(caches[name].numpy()[stay])
        return [sorted(hypotheses, key=lambda pair: -pair[1])[: search.nbest] for hypotheses in found]

    def _encode(self, sources: Sequence[Sequence[int]]) -> dict[str, Any]:
        columns = max(map(len, sources)) + 1
        padded = np.full((len(sources), columns), PAD)
        for row, source in zip(padded, sources, strict=True):
            row[columns - len(source) - 1 :] = [*source, END]
        read = self.encoder.run_with_ort_values(self.of_source, {"source": _value(padded)})
        caches = dict(zip(self.of_source, read, strict=True))
        for given in map(self.inputs.get, self.growing):  # empty before the first step
            shape = [len(sources), *(n if isinstance(n, int) else 0 for n in given.shape[1:])]
            caches[given.name] = _value(np.zeros(shape, _TYPES[given.type]))
        return caches

    def _step(
        self, outputs: list[str], tokens: np.ndarray, order: np.ndarray, caches: dict[str, Any], count: int = 1
    ) -> list[np.ndarray]:
        """Take a step of the decoder, update the caches, and return its other outputs."""
        given = {"tokens": _value(tokens), "order": _value(order), "count": _value(np.array([count]))}
        found = self.decoder.run_with_ort_values([*outputs, *self.grown], given | caches)
        for name, value in zip(self.grown, found[len(outputs) :], strict=True):
            caches[name.removesuffix(NEXT)] = value
        return [value.numpy().copy() for value in found[: len(outputs)]]  # their memory goes with the values


def _session(path: Path) -> onnxruntime.InferenceSession:
    """Open a graph on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.load_model_format", "ONNX")  # and not what a file claims to be
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _value(x: np.ndarray) -> Any:
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(x))
