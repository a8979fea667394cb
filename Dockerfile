# One Oncelog broker, configured by environment alone (docs/containers.md):
#
#   docker build -t oncelog .
#   docker run --rm oncelog config check

# Python 3.13 on Debian 13. The tag is for people, the digest is what is taken.
ARG PYTHON_IMAGE=python:3.13.9-slim-trixie@sha256:326df678c20c78d465db501563f3492d17c42a4afe33a1f2bf5406a1d56b0e86

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
COPY . .
# A wheel is built from the repository and installed with what a broker and the console need, and what
# makes certificates (`oncelog tls`). The environment has no pip of its own, and its modules are compiled here: the image may run on a read-only file system.
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv --without-pip /opt/oncelog && \
    python3 -m pip --python /opt/oncelog/bin/python3 install --root-user-action=ignore ".[broker,console]" "cryptography>=44"

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="oncelog" \
      org.opencontainers.image.description="A broker of Oncelog, a replicated commit log" \
      org.opencontainers.image.licenses="Apache-2.0"
# A fixed user. Its group is root's, and the data belongs to that group, so that platforms which
# choose a user themselves (OpenShift) can write it as well.
RUN useradd --uid 10001 --gid 0 --no-create-home --no-log-init --home-dir /var/lib/oncelog \
        --shell /usr/sbin/nologin oncelog && \
    install --directory --owner=10001 --group=0 --mode=0775 /var/lib/oncelog
COPY --from=build /opt/oncelog /opt/oncelog
# Data goes into a folder below the volume: a fresh disk may hold a lost+found of root's.
ENV PATH=/opt/oncelog/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/var/lib/oncelog \
    ONCELOG_LOG_DIRS=/var/lib/oncelog/data \
    ONCELOG_METRICS_HOST=0.0.0.0 \
    ONCELOG_METRICS_PORT=9644
USER 10001:0
WORKDIR /var/lib/oncelog
VOLUME /var/lib/oncelog
EXPOSE 9092 9644
# A clean stop: leadership moves away, logs are synced.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=10s --start-period=120s --retries=3 \
    CMD ["oncelog", "broker", "health"]
ENTRYPOINT ["oncelog", "broker"]
