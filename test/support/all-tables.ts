// Every module that declares statements, for the tests that hold each of them against both engines.
import "../../storage/tables/approvals.ts";
import "../../storage/tables/audit.ts";
import "../../storage/tables/events.ts";
import "../../storage/tables/files.ts";
import "../../storage/tables/hosts.ts";
import "../../storage/tables/idempotency.ts";
import "../../storage/tables/kv.ts";
import "../../storage/tables/live-runs.ts";
import "../../storage/tables/manifests.ts";
import "../../storage/tables/rate-buckets.ts";
import "../../storage/tables/runs.ts";
import "../../storage/tables/schema-revisions.ts";
import "../../storage/tables/search.ts";
import "../../storage/tables/stored-bytes.ts";
import "../../storage/tables/threads.ts";
import "../../storage/tables/usage.ts";
import "../../storage/tables/waits.ts";
