"""The names and shapes of parameters and buffers, which stored checkpoints have: they stay as they are.

After an addition, `python -m tests.models.test_parameters` writes the list anew.
"""

import re
from collections import Counter, defaultdict
from itertools import groupby

from fairseq.models import FairseqEncoderModel, FairseqLanguageModel

from tests.helpers import FIXTURES, VARIANTS, architectures, model, small

LIST = FIXTURES / "parameters.txt"
MODELS = [*VARIANTS, *architectures(FairseqEncoderModel), *architectures(FairseqLanguageModel)]


def ranges(numbers: list[int]) -> str:
    """[0, 1, 2, 5] -> "0-2 5"."""
    runs = [[n for _, n in run] for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def listed() -> str:
    """A line for each model; then for each name its shape, how often it occurs, and in which of the models."""
    found = defaultdict(list)
    for i, name in enumerate(MODELS):
        built = small(name) if name in VARIANTS else model(name)
        if hasattr(built, "register_classification_head"):
            built.register_classification_head("head", num_classes=3)
        state = built.state_dict()
        names = Counter(f"{re.sub(r'[.][0-9]+[.]', '.*.', key)} {tuple(x.shape)}" for key, x in state.items())
        for row, count in names.items():
            found[f"{row} {count}"].append(i)
    rows = [f"{row}: {ranges(numbers)}" for row, numbers in sorted(found.items())]
    return "\n".join([*(f"{i} {name}" for i, name in enumerate(MODELS)), *rows]) + "\n"


def test_parameters_have_the_names_and_shapes_of_stored_checkpoints():
    assert listed() == LIST.read_text(encoding="utf-8")


if __name__ == "__main__":
    LIST.write_text(listed(), encoding="utf-8")
