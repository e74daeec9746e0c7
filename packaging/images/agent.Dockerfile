# The image from which pods copy the agent (`kubernetes.agentImage`). It has `cp` beside the static program.
ARG BASE=busybox:stable-musl
FROM ${BASE}
COPY tunesmith-agent /usr/local/bin/
LABEL org.opencontainers.image.title="Tunesmith agent" \
      org.opencontainers.image.description="Runs one attempt of a trial for a Tunesmith server" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 10001:10001
ENTRYPOINT ["/usr/local/bin/tunesmith-agent"]
