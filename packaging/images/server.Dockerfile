# The image of the server, which also has the agent. `cargo xtask release --only program,agent,images` builds it.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN [ -e /etc/ssl/certs/ca-certificates.crt ] \
    || { apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*; }
RUN mkdir /data && chown 10001:10001 /data
COPY tunesmith tunesmith-agent /usr/local/bin/
LABEL org.opencontainers.image.title="Tunesmith" \
      org.opencontainers.image.description="Hyperparameter tuning service" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 10001:10001
ENV HOME=/data
VOLUME /data
EXPOSE 8080
# The server ends the programs that it has started, and reaps them: no other init process is needed.
ENTRYPOINT ["tunesmith"]
CMD ["serve", "--listen", "0.0.0.0:8080", "--data-dir", "/data"]
