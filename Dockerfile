# docker build -t ode-transformer .                         for a CPU (x86-64; on ARM with --platform linux/amd64)
# docker build -t ode-transformer --build-arg INDEX=https://pypi.org/simple .     for GPUs, with CUDA
# docker run -u "$(id -u):$(id -g)" -v "$PWD:/work" ode-transformer run quickstart/macaron-tiny     data-bin/, runs/ here
# docker run -u "$(id -u):$(id -g)" -v "$PWD:/work" --gpus all --ipc=host ode-transformer run quickstart/macaron-tiny
FROM python:3.12-slim
ARG INDEX=https://download.pytorch.org/whl/cpu
RUN apt-get update && apt-get install -y --no-install-recommends curl xz-utils && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN pip install --no-cache-dir --extra-index-url $INDEX -c /source/constraints.txt /source && rm -r /source
WORKDIR /work
ENTRYPOINT ["ode-transformer"]
