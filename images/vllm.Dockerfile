# Rows on vLLM's own image, which brings the whole stack of the workers; only the kit is added, in an environment of its
# own that the stack does not see.  Never built here: the base could not be pulled.
FROM vllm/vllm-openai:v0.26.0@sha256:ffb2d59b1c059a5bd8d781320c9f5189de8293693b7d95da54befddaa54abf52
ARG SOURCE_DATE_EPOCH
ARG PYTHON=3.12
ARG REQUIREMENTS
ENV PYTHONDONTWRITEBYTECODE=1
RUN --network=none \
    --mount=type=bind,from=wheels,target=/wheels \
    --mount=type=bind,source=lock,target=/lock \
    set -eu; \
    "python$PYTHON" -m venv /opt/samebits; \
    /opt/samebits/bin/python -m pip install --no-index --find-links /wheels --no-cache-dir --no-deps --require-hashes \
        --requirement "/lock/$REQUIREMENTS"; \
    /opt/samebits/bin/python -m pip uninstall --yes --quiet pip; \
    echo /opt/kit/src >"/opt/samebits/lib/python$PYTHON/site-packages/kit.pth"; \
    mkdir -p /opt/stack/bin; \
    ln -s "$(command -v "python$PYTHON")" /opt/stack/bin/python
COPY lock /opt/kit/lock
COPY recipes /opt/kit/recipes
COPY src /opt/kit/src
ARG ROW
ARG MATERIAL
ARG REVISION
# The base's packages lie under /usr/local, and so do CUDA, NCCL and NVSHMEM.
RUN --network=none \
    set -eu; \
    mkdir -p /opt/kit/link; \
    ln -s ../src/samebits /opt/kit/link/samebits; \
    /opt/samebits/bin/python -m compileall -q /opt/kit/src; \
    /opt/samebits/bin/python -m samebits.pins.make_inventory \
        --row "/opt/kit/lock/$ROW.toml" --row-sha256 "$MATERIAL" --revision "$REVISION" /opt/samebits /usr/local
LABEL samebits.row=$ROW \
    samebits.material=$MATERIAL \
    org.opencontainers.image.revision=$REVISION
ENV HOME=/tmp
WORKDIR /opt/kit
USER 10001:10001
ENTRYPOINT ["/opt/samebits/bin/python", "-m", "samebits"]
