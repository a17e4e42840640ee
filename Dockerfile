# docker build -t encke . && docker run --read-only -p 8000:8000 -p 127.0.0.1:8001:8001 -v encke:/data encke
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install --no-install-recommends -y ca-certificates cmake g++ make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p encke -p encke-proxy -p encke-lab
RUN contrib/container/root target/release /image && install -d /data

# The programs and the libraries that they need, and nothing else: no shell, no package manager.
FROM scratch
COPY --from=build /image /
COPY --from=build --chown=10001:10001 /data /data
USER 10001:10001
# The build fails if anything is missing.
RUN ["/usr/bin/encke", "--version"]
VOLUME /data
EXPOSE 8000 8001
# Configure identity (docs/IDENTITY.md) and a control token; contrib/container has an example.
#   docker run … encke serve --config /etc/encke.toml
ENTRYPOINT ["/usr/bin/encke"]
CMD ["serve", "--help"]
