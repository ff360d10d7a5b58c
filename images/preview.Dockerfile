# The DeepSeek-V4 true-on-policy preview, on the image that its own Dockerfile starts from.
#
# It cannot be built yet: vLLM, Megatron-LM, DeepGEMM and DeepEP are commits without a release.  Each is built once, on
# the row's hardware, to a wheel whose digest then stands in the row and in lock/preview.txt; `samebits images build`
# says which digests are missing, and fetches the wheels into the context `wheels` when none is.
FROM nvcr.io/nvidia/pytorch:26.07-py3@sha256:2140e699b3beaf7f96a0081fd9c9406bc3832b435cdb60dfa2d261f7d2f34a1c
ARG SOURCE_DATE_EPOCH
ARG PYTHON=3.12
ENV PYTHONDONTWRITEBYTECODE=1
RUN --network=none \
    --mount=type=bind,from=wheels,target=/wheels \
    --mount=type=bind,source=lock,target=/lock \
    set -eu; \
    "python$PYTHON" -m venv /opt/samebits; \
    /opt/samebits/bin/python -m pip install --no-index --find-links /wheels --no-cache-dir --no-deps --require-hashes \
        --requirement /lock/verify.txt; \
    /opt/samebits/bin/python -m pip uninstall --yes --quiet pip; \
    "python$PYTHON" -m pip install --no-index --find-links /wheels --no-cache-dir --no-deps --require-hashes \
        --requirement /lock/preview.txt; \
    echo /opt/kit/src >"/opt/samebits/lib/python$PYTHON/site-packages/kit.pth"; \
    mkdir -p /opt/stack/bin; \
    ln -s "$(command -v "python$PYTHON")" /opt/stack/bin/python
COPY lock /opt/kit/lock
COPY recipes /opt/kit/recipes
COPY src /opt/kit/src
ARG ROW
ARG MATERIAL
ARG REVISION
RUN --network=none \
    set -eu; \
    /opt/samebits/bin/python -m compileall -q /opt/kit/src; \
    /opt/samebits/bin/python -m samebits.pins.make_inventory \
        --row "/opt/kit/lock/$ROW.toml" --row-sha256 "$MATERIAL" --revision "$REVISION" /opt/samebits /usr/local
LABEL samebits.row=$ROW \
    samebits.material=$MATERIAL \
    org.opencontainers.image.revision=$REVISION
ENV HOME=/tmp \
    VLLM_BATCH_INVARIANT=1 \
    VLLM_DS4_DECODE_KERNEL=sparse \
    VERL_FULL_DETERMINISM=1
WORKDIR /opt/kit
USER 10001:10001
ENTRYPOINT ["/opt/samebits/bin/python", "-m", "samebits"]
