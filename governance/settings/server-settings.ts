import { allDuties, readDuty } from "./duties.ts";
import { readHost, readOrigin } from "./hosts.ts";
import { bool, int, list, oneOf, optionalSeconds, path, seconds, text } from "./setting.ts";

const day = 86_400;

/** The process, its port, and what a browser or a proxy in front of it may do. */
export const serverSettings = {
  environment: oneOf(
    "ENVIRONMENT",
    ["development", "staging", "production"],
    "development",
    "What this deployment is for; production refuses what is only fit for trying out.",
  ),
  host: text("HOST", "127.0.0.1", "The address to listen on.", {
    pattern: /^[A-Za-z0-9._:-]{1,253}$/,
    reason: "must be a host name or an IP address",
  }),
  port: int("PORT", 8080, [0, 65_535], "The port to listen on; 0 takes any free one."),
  logLevel: oneOf(
    "LOG_LEVEL",
    ["trace", "debug", "info", "warn", "error", "fatal", "silent"],
    "info",
    "The least severe log lines that are written.",
    { aliases: { warning: "warn", critical: "fatal" } },
  ),
  logFormat: oneOf(
    "LOG_FORMAT",
    ["auto", "json", "text"],
    "auto",
    "The form of log lines; auto is text on a terminal, else JSON.",
  ),
  dataDir: path("DATA_DIR", "./data", "Where the embedded database and object store live. It belongs to one process."),
  defaultManifest: text(
    "DEFAULT_MANIFEST",
    "quick",
    "The manifest that the first lines of the log say to try, and that `svc doctor` checks.",
    {
      pattern: /^[A-Za-z0-9._-]{1,128}$/,
      reason: "must be a manifest name",
    },
  ),
  manifestSource: oneOf(
    "MANIFEST_SOURCE",
    ["store", "bundled"],
    "store",
    "Whether tenants store manifests; bundled has no write routes for them.",
  ),
  manifestDir: path(
    "MANIFEST_DIR",
    "",
    "A directory of the operator's own manifests, seen by every tenant and re-read at once.",
  ),
  plugins: list("PLUGINS", [], "Plugins to load at the start: files, by paths with a slash, or installed packages."),
  duties: list(
    "DUTIES",
    allDuties,
    "What this process does: answer requests (api), carry out durable runs, webhooks and periodic tasks (worker), and begin the tasks that are due (scheduler).",
    { item: readDuty },
  ),
  allowInsecure: bool(
    "ALLOW_INSECURE",
    false,
    "Lets a staging deployment on loopback run with SVC_AUTH_MODE=none, and webhooks of a development one go over http.",
  ),
  drainDelaySeconds: seconds(
    "DRAIN_DELAY_SECONDS",
    0,
    [0, 600],
    "How long after SIGTERM everything is still served, with /ready at 503, before the port closes.",
  ),
  gracefulShutdownSeconds: seconds(
    "GRACEFUL_SHUTDOWN_SECONDS",
    120,
    [0, 3600],
    "How long live turns may finish once the port is closed before they are interrupted.",
  ),
  httpEngine: oneOf(
    "HTTP_ENGINE",
    ["auto", "uws", "node"],
    "auto",
    "What speaks HTTP: uWebSockets.js or Node's own server; auto is uws where it has a binary.",
  ),
  httpThreads: int("HTTP_THREADS", 0, [0, 64], "Threads that speak HTTP; 0 is automatic."),
  httpMaxHeaderBytes: int(
    "HTTP_MAX_HEADER_BYTES",
    16_384,
    [4096, 65_536],
    "Bytes of a request's line and headers together; of more than 100 headers (uws: 98) it is refused too.",
  ),
  actorThreads: int("ACTOR_THREADS", 0, [0, 64], "Threads that run turns; 0 is automatic."),
  workers: int("WORKERS", 1, [1, 256], "Processes of this server; this version has one, and does not start with more."),
  allowedHosts: list("ALLOWED_HOSTS", [], "Host names that requests may be addressed to.", {
    defaultWords: "localhost, 127.0.0.1, [::1] and SVC_HOST",
    item: readHost,
  }),
  corsOrigins: list("CORS_ORIGINS", [], "Origins whose pages may call this server from a browser.", {
    item: readOrigin,
  }),
  trustedClientIpHeader: text(
    "TRUSTED_CLIENT_IP_HEADER",
    "",
    "The header in which the proxy in front tells the client's address; no other header is believed.",
    { pattern: /^[A-Za-z0-9-]{1,64}$/, reason: "must be a header name" },
  ),
  docsPublic: bool("DOCS_PUBLIC", false, "Shows /docs and /openapi.json without credentials."),
  hstsMaxAgeSeconds: int(
    "HSTS_MAX_AGE_SECONDS",
    180 * day,
    [0, 730 * day],
    "Of strict-transport-security over TLS; 0 is off.",
  ),
  hstsIncludeSubdomains: bool("HSTS_INCLUDE_SUBDOMAINS", true, "Whether strict-transport-security covers subdomains."),
};

/** What a caller may use up, and how long things last. */
export const limitSettings = {
  rateLimit: int("RATE_LIMIT", 120, [0, 1e12], "Requests of one tenant in a window; 0 is off."),
  rateLimitWindowSeconds: seconds("RATE_LIMIT_WINDOW_SECONDS", 60, [0.001, day], "The window of SVC_RATE_LIMIT."),
  idempotencyTtlSeconds: seconds(
    "IDEMPOTENCY_TTL_SECONDS",
    day,
    [0.001, 365 * day],
    "How long an Idempotency-Key of a turn is remembered.",
  ),
  leaseEnforce: oneOf(
    "LEASE_ENFORCE",
    ["advisory", "strict"],
    "advisory",
    "Whether a client without a lease is kept out of a thread that another drives; advisory looks at tokens that are sent.",
  ),
  detachedRunSeconds: optionalSeconds(
    "DETACHED_RUN_SECONDS",
    [0, day],
    "How long a run goes on after its client has gone; 0 aborts it at once. One that waits for a person stays suspended, and goes on when it is answered.",
    { defaultWords: "the run's own wall clock" },
  ),
  streamResumeIdleSeconds: seconds(
    "STREAM_RESUME_IDLE_SECONDS",
    300,
    [0.001, day],
    "How long a reattached stream stays open while nothing happens.",
  ),
  maxBodyBytes: int(
    "MAX_BODY_BYTES",
    1024 * 1024,
    [1024 * 1024, 16 * 1024 * 1024],
    "Bytes of a request's body; triggers keep their own limit, and POST /files has room for SVC_MAX_UPLOAD_BYTES.",
  ),
  streamBufferBytes: int(
    "STREAM_BUFFER_BYTES",
    256 * 1024 * 1024,
    [64 * 1024, 2 ** 40],
    "Bytes that may wait for slow readers in this process before the largest stream is closed.",
  ),
  auditFlushSeconds: seconds(
    "AUDIT_FLUSH_SECONDS",
    5,
    [0, 3600],
    "How long audit rows wait to be written together; SIGKILL may lose that much. With 0 they wait for flush_audit, once a minute.",
  ),
};
