# A broker as a container: `docker build -t penstock .`; with etcd, for clusters: `docker build --target cluster .`.
FROM python:3.11-slim AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY pyproject.toml hatch_build.py constraints.txt README.md LICENSE ./
COPY tools/compile_loops.py tools/
COPY src src
RUN python -m venv /opt/penstock \
    && PIP_CONSTRAINT=constraints.txt /opt/penstock/bin/pip install --no-cache-dir --disable-pip-version-check '.[grpc]'

FROM python:3.11-slim AS penstock
COPY --from=build /opt/penstock /opt/penstock
RUN groupadd --gid 10001 penstock \
    && useradd --uid 10001 --gid penstock --home-dir /data --no-create-home --shell /usr/sbin/nologin penstock \
    && install --directory --owner penstock --group penstock --mode 0700 /data
ENV PATH=/opt/penstock/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PENSTOCK_HOST=0.0.0.0 \
    PENSTOCK_DATA_DIR=/data \
    PENSTOCK_LOG_FORMAT=json
USER penstock
VOLUME /data
# Kafka, HTTP, text, JSON, queue
EXPOSE 9092 9080 9081 9082 9999
HEALTHCHECK --interval=5s --timeout=10s --start-period=60s --retries=3 CMD ["penstock", "health"]
ENTRYPOINT ["penstock"]
CMD ["start"]

FROM penstock AS cluster
USER root
RUN apt-get update \
    && apt-get install --yes --no-install-recommends etcd-server \
    && rm -rf /var/lib/apt/lists/*
USER penstock

# The last stage is what a build without --target makes.
FROM penstock
