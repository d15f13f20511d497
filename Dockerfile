# clquant with PoCL, and a GPU's driver by --build-arg DRIVER=intel-opencl-icd or mesa-opencl-icd.
# NVIDIA's driver comes from the host, through its container toolkit: docker run --gpus all.
FROM debian:bookworm-slim
ARG DRIVER=""
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-venv ocl-icd-libopencl1 pocl-opencl-icd ${DRIVER} \
    && rm -rf /var/lib/apt/lists/* \
    && mkdir -p /etc/OpenCL/vendors \
    && echo libnvidia-opencl.so.1 > /etc/OpenCL/vendors/nvidia.icd
COPY . /src
RUN python3 -m venv /opt/clquant \
    && /opt/clquant/bin/pip install --no-cache-dir "/src[cli]" \
    && rm -rf /src
ENV PATH=/opt/clquant/bin:$PATH \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    XDG_CACHE_HOME=/tmp/cache
WORKDIR /work
ENTRYPOINT ["clquant"]
CMD ["--help"]
