# An application on AMD GPUs that refuses to start on a bad node.
#
#     python -m build --wheel                                   # once: dist/gpudoctor_cli-*.whl
#     docker build -f examples/docker/rocm.Dockerfile -t app .
#
# The build stops where the environment does not fit the GPUs that it is meant for; the container stops, with exit
# code 121, 122 or 123, where the node is at fault. Otherwise the application is process 1, as if nothing stood
# in front of it.

ARG BASE=rocm/dev-ubuntu-24.04:6.4-complete
FROM ${BASE}

# Where the base image has no Python of its own.
RUN python3 -c "import ensurepip" 2>/dev/null \
 || (apt-get update && apt-get install -y --no-install-recommends python3 python3-venv && rm -rf /var/lib/apt/lists/*)

# The doctor has an environment of its own: nothing of it is seen by the application, and no package of the
# application can break it.
COPY dist/gpudoctor_cli-*.whl /tmp/gpudoctor/
RUN python3 -m venv /opt/gpudoctor \
 && /opt/gpudoctor/bin/pip install --no-cache-dir /tmp/gpudoctor/*.whl \
 && ln -s /opt/gpudoctor/bin/gpudoctor /usr/local/bin/gpudoctor \
 && rm -r /tmp/gpudoctor

# The application. `gpudoctor recommend` says which build of torch a machine should have.
ARG TORCH="torch==2.9.1+rocm6.4"
ARG TORCH_INDEX=https://download.pytorch.org/whl/rocm6.4
RUN python3 -m venv /opt/app \
 && if [ -n "${TORCH}" ]; then /opt/app/bin/pip install --no-cache-dir ${TORCH} --index-url ${TORCH_INDEX}; fi

# Will this environment work on the machines that it is meant for? No GPU is needed to answer.
ARG GPU="MI300X"
RUN gpudoctor check --python /opt/app --gpu "${GPU}"

# What every start needs; `docker run -e GPUDOCTOR_REQUIRE=...` replaces it.
ENV GPUDOCTOR_REQUIRE="gpu>=1"

# Writes nothing, needs no network, no home and no writable file system: any user, --read-only, process 1.
ENTRYPOINT ["gpudoctor", "preflight", "--python", "/opt/app/bin/python", "--"]
CMD ["/opt/app/bin/python", "-c", "print('ready')"]
