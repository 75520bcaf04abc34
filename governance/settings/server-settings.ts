import { type Budget, readBudgets } from "./budgets.ts";
import { allDuties, readDuty } from "./duties.ts";
import { readHost, readOrigin, readPublicUrl } from "./hosts.ts";
import { bool, int, json, list, oneOf, optionalSeconds, path, seconds, text } from "./setting.ts";

const day = 86_400;

/** Settings of the process, its port, and access by browsers and proxies. */
export const serverSettings = {
  environment: oneOf(
    "ENVIRONMENT",
    ["development", "staging", "production"],
    "development",
    "The purpose of this deployment; production refuses settings that are only for trials.",
  ),
  host: text("HOST", "127.0.0.1", "The address to listen on.", {
    pattern: /^[A-Za-z0-9._:-]{1,253}$/,
    reason: "must be a host name or an IP address",
  }),
  port: int("PORT", 8080, [0, 65_535], "The port to listen on; 0 selects a free one."),
  logLevel: oneOf(
    "LOG_LEVEL",
    ["trace", "debug", "info", "warn", "error", "fatal", "silent"],
    "info",
    "The lowest level of log lines that is written.",
    { aliases: { warning: "warn", critical: "fatal" } },
  ),
  logFormat: oneOf(
    "LOG_FORMAT",
    ["auto", "json", "text"],
    "auto",
    "The form of log lines; auto is text on a terminal, else JSON.",
  ),
  dataDir: path("DATA_DIR", "./data", "Folder of the embedded database and object store. It belongs to one process."),
  defaultManifest: text(
    "DEFAULT_MANIFEST",
    "quick",
    "The manifest of A2A calls that name none, of the agent card, and of the example in the first log lines; `svc doctor` checks it.",
    {
      pattern: /^[A-Za-z0-9._-]{1,128}$/,
      reason: "must be a manifest name",
    },
  ),
  manifestSource: oneOf(
    "MANIFEST_SOURCE",
    ["store", "bundled"],
    "store",
    "Whether tenants can store manifests; bundled has no routes to write them.",
  ),
  manifestDir: path(
    "MANIFEST_DIR",
    "",
    "A folder of the operator's manifests, visible to every tenant; changes are read at once.",
  ),
  plugins: list("PLUGINS", [], "Plugins to load at the start: files (paths with a slash) or installed packages."),
  commerceEnabled: bool(
    "COMMERCE_ENABLED",
    true,
    "Loads the shop that ships with svc: catalog, carts, checkout and storefronts. False loads none of its parts.",
  ),
  piiDetectors: bool(
    "PII_DETECTORS",
    true,
    "Loads the detectors of personal data that ship with svc when a manifest needs them; false leaves guardrails three simple patterns.",
  ),
  duties: list(
    "DUTIES",
    allDuties,
    "Duties of this process: answer requests (api), run durable runs, webhooks and periodic tasks (worker), start the due tasks (scheduler).",
    { item: readDuty },
  ),
  processRole: oneOf(
    "PROCESS_ROLE",
    ["all", ...allDuties, "cli"],
    "all",
    "Another name of SVC_DUTIES, for a process with one duty; all and cli select nothing.",
  ),
  allowInsecure: bool(
    "ALLOW_INSECURE",
    false,
    "Allows SVC_AUTH_MODE=none for staging on loopback, and in development http for webhooks and SVC_SEARCH_URL.",
  ),
  drainDelaySeconds: seconds(
    "DRAIN_DELAY_SECONDS",
    0,
    [0, 600],
    "Time after SIGTERM in which svc still serves everything, with /ready at 503, before the port closes.",
  ),
  gracefulShutdownSeconds: seconds(
    "GRACEFUL_SHUTDOWN_SECONDS",
    120,
    [0, 3600],
    "Time for live turns to finish after the port is closed, before they are interrupted.",
  ),
  httpEngine: oneOf(
    "HTTP_ENGINE",
    ["auto", "uws", "node"],
    "auto",
    "HTTP server: uWebSockets.js or Node's own; auto is uws if it has a binary for this platform.",
  ),
  httpThreads: int("HTTP_THREADS", 0, [0, 64], "Threads for HTTP; 0 is automatic."),
  httpMaxHeaderBytes: int(
    "HTTP_MAX_HEADER_BYTES",
    16_384,
    [4096, 65_536],
    "Maximum bytes of request line and headers; more than 100 headers (uws: 98) are refused too.",
  ),
  actorThreads: int("ACTOR_THREADS", 0, [0, 64], "Threads for turns; 0 is automatic."),
  workers: int(
    "WORKERS",
    1,
    [1, 256],
    "Number of processes that share the port, each a host of the deployment; more than 1 needs SVC_CLUSTER_KEY.",
  ),
  respawnFailedWorkers: bool(
    "RESPAWN_FAILED_WORKERS",
    true,
    "With SVC_WORKERS above 1, starts a process again that has ended; false ends all of them then.",
  ),
  metricsPort: int(
    "METRICS_PORT",
    0,
    [0, 65_535],
    "A port that answers only /health, /live, /ready, /metrics and POST /tasks/{name}/run; 0 is none. A process without the duty api has no other port.",
  ),
  allowedHosts: list("ALLOWED_HOSTS", [], "Host names that requests may have in the Host header.", {
    defaultWords: "localhost, 127.0.0.1, [::1] and SVC_HOST",
    item: readHost,
  }),
  corsOrigins: list("CORS_ORIGINS", [], "Origins whose pages may call this server from a browser.", {
    item: readOrigin,
  }),
  publicUrl: text(
    "PUBLIC_URL",
    "",
    "The base URL at which clients reach this server, for documents in which svc names itself.",
    { defaultWords: "the address of the request", item: readPublicUrl },
  ),
  trustedClientIpHeader: text(
    "TRUSTED_CLIENT_IP_HEADER",
    "",
    "The header in which your proxy sends the client's address; svc trusts no other header.",
    { pattern: /^[A-Za-z0-9-]{1,64}$/, reason: "must be a header name" },
  ),
  console: bool("CONSOLE", true, "Serves the console at /console; false removes it."),
  docsPublic: bool("DOCS_PUBLIC", false, "Shows /docs and /openapi.json without credentials."),
  hstsMaxAgeSeconds: int(
    "HSTS_MAX_AGE_SECONDS",
    180 * day,
    [0, 730 * day],
    "max-age of strict-transport-security over TLS; 0 is off.",
  ),
  hstsIncludeSubdomains: bool("HSTS_INCLUDE_SUBDOMAINS", true, "Whether strict-transport-security covers subdomains."),
};

/** Limits on callers, and lifetimes. */
export const limitSettings = {
  rateLimit: int("RATE_LIMIT", 120, [0, 1e12], "Maximum requests of one tenant per window; 0 is off."),
  rateLimitWindowSeconds: seconds(
    "RATE_LIMIT_WINDOW_SECONDS",
    60,
    [0.001, day],
    "Length of the window of SVC_RATE_LIMIT.",
  ),
  budgets: json<readonly Budget[]>(
    "BUDGETS",
    [],
    "Budgets for models: a list of {id, tenant, principal, manifest, period, tokens, usd, webhooks}.",
    readBudgets,
  ),
  idempotencyTtlSeconds: seconds(
    "IDEMPOTENCY_TTL_SECONDS",
    day,
    [0.001, 365 * day],
    "Time that the Idempotency-Key of a turn is remembered.",
  ),
  leaseEnforce: oneOf(
    "LEASE_ENFORCE",
    ["advisory", "strict"],
    "advisory",
    "Whether a client without a lease is refused on a thread that another client leases; advisory only checks tokens that are sent.",
  ),
  detachedRunSeconds: optionalSeconds(
    "DETACHED_RUN_SECONDS",
    [0, day],
    "Time that a run continues after its client disconnected; 0 aborts it at once. A run that waits for a person stays suspended until the answer.",
    { defaultWords: "the run's own wall clock" },
  ),
  streamResumeIdleSeconds: seconds(
    "STREAM_RESUME_IDLE_SECONDS",
    300,
    [0.001, day],
    "Time that a reattached stream stays open without events.",
  ),
  maxBodyBytes: int(
    "MAX_BODY_BYTES",
    1024 * 1024,
    [1024 * 1024, 16 * 1024 * 1024],
    "Maximum bytes of a request body; triggers have their own limit, and POST /files allows SVC_MAX_UPLOAD_BYTES.",
  ),
  streamBufferBytes: int(
    "STREAM_BUFFER_BYTES",
    256 * 1024 * 1024,
    [64 * 1024, 2 ** 40],
    "Maximum bytes buffered for slow readers in this process, before the largest stream is closed.",
  ),
  auditFlushSeconds: seconds(
    "AUDIT_FLUSH_SECONDS",
    5,
    [0, 3600],
    "Interval at which audit rows are written together; SIGKILL may lose the rows of that time. 0 leaves them to flush_audit, once a minute.",
  ),
};
