# An image with the library, compiled from this tree: docker build -t shmtensor . (not built by CI)
#
#   docker run --rm shmtensor python -m shmtensor doctor
#   docker run --rm --shm-size=8g -v "$PWD":/work -w /work shmtensor python train.py
#
# Docker gives 64 MB of /dev/shm without --shm-size. That works: what does not fit is placed in a second volume of memory
# without a file system.
FROM python:3.11-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ make && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN pip wheel --no-cache-dir --wheel-dir /wheels "/source[examples]"

FROM python:3.11-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels "shmtensor[examples]" && rm -r /wheels
CMD ["python", "-m", "shmtensor", "doctor"]
