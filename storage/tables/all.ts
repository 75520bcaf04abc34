// Every module that declares statements, so that the store thread knows them all.
import "./audit.ts";
import "./events.ts";
import "./idempotency.ts";
import "./kv.ts";
import "./live-runs.ts";
import "./manifests.ts";
import "./schema-revisions.ts";
import "./search.ts";
import "./threads.ts";
import "./usage.ts";
