// How long what is kept, by the settings.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Bus } from "../../bus/bus.ts";
import { systemEnv } from "../../bus/env.ts";
import { nodeId } from "../../bus/protocol/node-id.ts";
import { loadSettings } from "../../governance/settings/settings.ts";
import { deleteAged } from "../../host/aged-rows.ts";
import { auditPage, insertAuditOp } from "../../storage/tables/audit.ts";
import { insertThreadOp, threadBySuffix } from "../../storage/tables/threads.ts";
import { threadRow } from "../support/rows.ts";
import { testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

test("TASK-012 nothing is deleted of what is kept for ever, and of the rest only what is older", async (t) => {
  const { store } = await testStore("sqlite", cleanup(t));
  const startedAt = Date.now();
  const env = { ...systemEnv(), now: () => startedAt };
  const node = nodeId("here", 0);
  const asked: unknown[] = [];
  const bus: Bus = new Bus({
    ...{ env, node, incarnation: 0, actorNodes: [node] },
    deliver(delivery) {
      asked.push([delivery.kind, delivery.type, delivery.key, delivery.body]);
      bus.reply(delivery, { deleted: true });
    },
  });
  const acme = store.tenant("acme");
  const dayMs = 86_400_000;
  const row = (id: string, ts: number) => ({
    ...{ id, ts, event_type: "x", manifest_id: "m", principal_subj: "p", status: "ok", payload: "{}" },
  });
  await acme.write([
    insertAuditOp(acme, row("a", env.now() - 11 * dayMs)),
    insertAuditOp(acme, row("b", env.now() - 9 * dayMs)),
    insertThreadOp(acme, threadRow(1, "t", { updated_at: env.now() - 11 * dayMs })),
  ]);
  const sweep = (of: Record<string, string>) => {
    const settings = loadSettings({
      ...{ SVC_AUDIT_RETENTION_DAYS: "0", SVC_USAGE_RETENTION_DAYS: "0" },
      ...of,
    });
    return deleteAged({ store, bus, env, settings });
  };
  const rows = async () => (await auditPage(acme, {}, null, 10)).rows.map(({ id }) => id);

  const nothing = await sweep({});
  const before = await rows();
  const something = await sweep({ SVC_AUDIT_RETENTION_DAYS: "10", SVC_SESSION_RETENTION_DAYS: "10" });

  assert.deepEqual([nothing, before, something], [{}, ["b", "a"], { conversations: 1, audit: 1 }]);
  assert.deepEqual(await rows(), ["b"]);
  const idle_since = env.now() - 10 * dayMs;
  assert.deepEqual(asked, [["thread", "erase", "acme:t", { idle_since }]]);
  assert.ok(await threadBySuffix(acme, "t"), "the owner of a conversation deletes it, and nobody else");
});
