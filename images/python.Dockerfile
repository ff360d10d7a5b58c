# Rows on a plain Python: everything that computes comes from hashed wheels, and no step has a network.
#
# Built by `samebits images build ROW`, which fetches the wheels that lock/ names by digest into the context `wheels`.
FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
ARG SOURCE_DATE_EPOCH
ARG PYTHON=3.11
ARG REQUIREMENTS
# A row whose workers have a stack of their own names its requirements; torch belongs to whoever computes.
ARG STACK_REQUIREMENTS=""
ARG TORCH
ENV PYTHONDONTWRITEBYTECODE=1
# pip compiles what it installs; with SOURCE_DATE_EPOCH set, by the sources' hashes and not by their times.
RUN --network=none \
    --mount=type=bind,from=wheels,target=/wheels \
    --mount=type=bind,source=lock,target=/lock \
    set -eu; \
    fill() { \
        "python$PYTHON" -m venv "/opt/$1"; \
        "/opt/$1/bin/python" -m pip install --no-index --find-links /wheels --no-cache-dir --no-deps --require-hashes \
            --requirement "$2" --requirement "$3"; \
        "/opt/$1/bin/python" -m pip uninstall --yes --quiet pip; \
    }; \
    echo "$TORCH" >/tmp/torch.txt; \
    : >/tmp/nothing.txt; \
    if [ -n "$STACK_REQUIREMENTS" ]; then \
        fill stack "/lock/$STACK_REQUIREMENTS" /tmp/torch.txt; \
        fill samebits "/lock/$REQUIREMENTS" /tmp/nothing.txt; \
    else \
        fill samebits "/lock/$REQUIREMENTS" /tmp/torch.txt; \
    fi; \
    echo /opt/kit/src >"/opt/samebits/lib/python$PYTHON/site-packages/kit.pth"; \
    rm /tmp/torch.txt /tmp/nothing.txt
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
    set -- /opt/samebits; \
    if [ -d /opt/stack ]; then set -- "$@" /opt/stack; fi; \
    /opt/samebits/bin/python -m samebits.pins.make_inventory \
        --row "/opt/kit/lock/$ROW.toml" --row-sha256 "$MATERIAL" --revision "$REVISION" "$@"
LABEL samebits.row=$ROW \
    samebits.material=$MATERIAL \
    org.opencontainers.image.revision=$REVISION
# HOME is the one writable place beside the mounted run folder.
ENV HOME=/tmp
WORKDIR /opt/kit
USER 10001:10001
ENTRYPOINT ["/opt/samebits/bin/python", "-m", "samebits"]
