FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE streams_command.py streams_pytest.py ./
COPY tools/package_metadata.py tools/package_metadata.py
COPY processor_api processor_api
COPY state state
COPY dsl dsl
COPY streams streams
# Some files of `streams new` are links to these.
COPY deploy deploy
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim-bookworm
# Other extras:  docker build --build-arg EXTRAS=http,json,registry,snapshots,otel .
ARG EXTRAS=http,json
COPY constraints.txt /tmp/constraints.txt
RUN --mount=from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir -c /tmp/constraints.txt "$(ls /wheels/*.whl)[${EXTRAS}]"
RUN useradd --uid 1000 --create-home streams && install -d -o streams -g streams /app /var/lib/streams
USER streams
WORKDIR /app
ENV PYTHONUNBUFFERED=1
VOLUME /var/lib/streams
ENTRYPOINT ["streams"]
CMD ["--help"]
