# Rows on NVIDIA's CUDA image: Python from the distribution's snapshot, everything that computes from hashed wheels.
# Never built here: the base could not be pulled, and the snapshot not be reached.
FROM nvidia/cuda:13.0.2-devel-ubuntu24.04@sha256:5dc1bca23d05bd37b011be68ec470c03b403a5da07ec3a86e41af9470e9d0cc6
ARG SOURCE_DATE_EPOCH
ARG PYTHON=3.12
ARG REQUIREMENTS
ARG STACK_REQUIREMENTS
ENV PYTHONDONTWRITEBYTECODE=1
# The one step with a network: a dated snapshot of the distribution has one version of each package.
RUN set -eu; \
    apt-get update --snapshot=20261115T000000Z; \
    DEBIAN_FRONTEND=noninteractive apt-get install --snapshot=20261115T000000Z --yes --no-install-recommends \
        python3.12=3.12.3-* python3.12-dev=3.12.3-* python3.12-venv=3.12.3-*; \
    rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/ldconfig/aux-cache /var/cache/apt/*.bin
RUN --network=none \
    --mount=type=bind,from=wheels,target=/wheels \
    --mount=type=bind,source=lock,target=/lock \
    set -eu; \
    fill() { \
        "python$PYTHON" -m venv "/opt/$1"; \
        "/opt/$1/bin/python" -m pip install --no-index --find-links /wheels --no-cache-dir --no-deps --require-hashes \
            --requirement "$2"; \
        "/opt/$1/bin/python" -m pip uninstall --yes --quiet pip; \
    }; \
    fill stack "/lock/$STACK_REQUIREMENTS"; \
    fill samebits "/lock/$REQUIREMENTS"; \
    echo /opt/kit/src >"/opt/samebits/lib/python$PYTHON/site-packages/kit.pth"
COPY lock /opt/kit/lock
COPY recipes /opt/kit/recipes
COPY src /opt/kit/src
ARG ROW
ARG MATERIAL
ARG REVISION
RUN --network=none \
    set -eu; \
    mkdir -p /opt/kit/link; \
    ln -s ../src/samebits /opt/kit/link/samebits; \
    /opt/samebits/bin/python -m compileall -q /opt/kit/src; \
    /opt/samebits/bin/python -m samebits.pins.make_inventory \
        --row "/opt/kit/lock/$ROW.toml" --row-sha256 "$MATERIAL" --revision "$REVISION" /opt/samebits /opt/stack
LABEL samebits.row=$ROW \
    samebits.material=$MATERIAL \
    org.opencontainers.image.revision=$REVISION
ENV HOME=/tmp
WORKDIR /opt/kit
USER 10001:10001
ENTRYPOINT ["/opt/samebits/bin/python", "-m", "samebits"]
