# docker build -t encke . && docker run --read-only -p 8000:8000 -p 127.0.0.1:8001:8001 -v encke:/data encke
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install --no-install-recommends -y cmake g++ make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p encke

FROM debian:bookworm-slim
RUN useradd --system --uid 10001 encke && install -d -o encke -m 700 /data
COPY --from=build /src/target/release/encke /usr/bin/encke
USER 10001
VOLUME /data
EXPOSE 8000 8001
# Readers of your own (docs/IDENTITY.md) and a control token belong to this:
#   docker run … encke serve --config /etc/encke.toml
ENTRYPOINT ["/usr/bin/encke"]
CMD ["serve", "--help"]
