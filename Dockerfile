# svc in a container. docs/operations.md says how to run it.
#
# The base has a Node of the line that svc needs, so the one that npm would install beside it stays out: no install script runs.
# uWebSockets.js has no binaries for musl, hence Debian.
FROM node:22-bookworm-slim AS build
WORKDIR /svc
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts && npm cache clean --force
# Of the binaries of uWebSockets.js, which has them for every system and Node, those that can run here.
RUN find node_modules/uWebSockets.js -name "*.node" ! -name "uws_linux_*_$(node --print process.versions.modules).node" -delete
COPY LICENSE svc.js svc.ts strip-types.js ./
COPY bus ./bus
COPY storage ./storage
COPY manifests ./manifests
COPY governance ./governance
COPY actors ./actors
COPY http ./http
COPY plugins ./plugins
COPY host ./host
COPY docs ./docs
COPY client ./client
COPY console ./console
# Loads every file once, so that its stripped text is in node_modules/.cache, which cannot be written to later.
RUN ["node", "--import", "./strip-types.js", "--input-type=module", "--eval", "import { globSync } from 'node:fs'; for (const file of globSync('{bus,storage,manifests,governance,actors,http,plugins}/**/*.ts')) await import(`./${file}`).catch(() => {});"]
RUN ["node", "svc.js", "version"]

FROM node:22-bookworm-slim
# git clones the repositories of threads.
RUN apt-get update && apt-get install -y --no-install-recommends git ca-certificates && rm -rf /var/lib/apt/lists/*
RUN install -d -o node -g node -m 700 /data
COPY --from=build /svc /svc
WORKDIR /svc
# Containers come and go behind something that spreads requests and needs a moment to notice.
ENV SVC_HOST=0.0.0.0 SVC_PORT=8080 SVC_DATA_DIR=/data SVC_DRAIN_DELAY_SECONDS=5
USER node
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --start-period=30s --interval=30s --timeout=5s --retries=3 \
  CMD ["node", "--eval", "fetch(`http://127.0.0.1:${process.env.SVC_PORT}/live`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "svc.js"]
CMD ["serve"]
