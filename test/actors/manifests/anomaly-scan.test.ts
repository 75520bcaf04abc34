// The runs that the anomaly scan counts, and the actors that it notifies.
import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { scanForAnomalies } from "../../../actors/manifests/anomaly-scan.ts";
import { Bus } from "../../../bus/bus.ts";
import { systemEnv } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { nodeId } from "../../../bus/protocol/node-id.ts";
import { setManifestPointerOp } from "../../../storage/tables/manifests.ts";
import { insertEndedRunOp } from "../../../storage/tables/runs.ts";
import { newRun } from "../../support/rows.ts";
import { testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

test("TASK-011 the scan counts all runs of an hour and notifies each owner once", async (t) => {
  const { store } = await testStore("sqlite", cleanup(t));
  const startedAt = Date.now();
  const env = { ...systemEnv(), now: () => startedAt };
  const node = nodeId("here", 0);
  const asked: unknown[] = [];
  const bus: Bus = new Bus({
    ...{ env, node, incarnation: 0, actorNodes: [node] },
    deliver(delivery) {
      asked.push([delivery.type, delivery.key, delivery.body]);
      // A manifest that cannot be judged does not stop the scan of others.
      if (delivery.key === "acme") bus.refuse(delivery, new SvcError("unknown_manifest"));
      else bus.reply(delivery, { anomaly: true });
    },
  });
  const now = env.now();
  const [acme, globex] = [store.tenant("acme"), store.tenant("globex")];
  const end = { last_seq: null, stop_reason: null, error: null, usage: null, status: "completed" } as const;
  const run = (of: typeof acme, id: number, ended_at: number, manifest_version: number) =>
    insertEndedRunOp(of, newRun(`r${id}`, { manifest_version, started_at: ended_at }), { ...end, ended_at });
  await acme.write([
    setManifestPointerOp(acme, {
      ...{ name: "m", version: 1, canary_version: 2, canary_weight: 5, updated_by: "p" },
      updated_at: now - 1_800_000,
    }),
  ]);
  // More than one page, with the canary's runs spread over all pages.
  await acme.write(
    Array.from({ length: 5_500 }, (_, at) => run(acme, at, now - 5_500 + at, 1 + (at % 11 === 0 ? 1 : 0))),
  );
  await acme.write([run(acme, 9_000, now - 3_600_001, 1), run(acme, 9_001, now - 3_000_000, 1)]);
  await globex.write([run(globex, 1, now, 7)]);

  await scanForAnomalies({ store, bus, env, log: pino({ level: "silent" }) });

  const told = { now, window_ms: 3_600_000 };
  assert.deepEqual(asked, [
    [
      "judge",
      "acme",
      {
        ...{ name: "m", seen: { runs: 5_501, failures: 0 }, rollout: now - 1_800_000, ...told },
        versions: [
          { version: 1, runs: 5_000, failures: 0 },
          { version: 2, runs: 500, failures: 0 },
        ],
      },
    ],
    ["judge", "globex", { name: "m", seen: { runs: 1, failures: 0 }, rollout: null, versions: [], ...told }],
  ]);
});
