# docker build -t ode-transformer .                                               for a CPU
# docker build -t ode-transformer --build-arg INDEX=https://pypi.org/simple .     for GPUs, with CUDA
# docker run -v "$PWD:/work" ode-transformer run quickstart/macaron-tiny          data-bin/ and runs/ of this folder
# docker run --gpus all --ipc=host -v "$PWD:/work" ode-transformer run quickstart/macaron-tiny           on GPUs
FROM python:3.12-slim
ARG INDEX=https://download.pytorch.org/whl/cpu
RUN apt-get update && apt-get install -y --no-install-recommends curl xz-utils && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN pip install --no-cache-dir --extra-index-url $INDEX -c /source/constraints.txt /source && rm -r /source
WORKDIR /work
ENTRYPOINT ["ode-transformer"]
