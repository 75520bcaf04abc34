// Each change of the active manifests raises a counter in the same batch, for processes that get no message.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import type { Store } from "../../../storage/store/store.ts";
import { manifestChanges, manifestPointer } from "../../../storage/tables/manifests.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { refusingStore } from "../../support/refusing-store.ts";
import { ScriptedModel } from "../../support/scripted-model.ts";
import { testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
const principal = { tenant_id: tenantId, sub: "alice", scopes: [], scheme: "none", issuer: "" };
const body = (description: string) => JSON.stringify({ metadata: { name: "a", description }, spec: {} });

describe("is counted where it takes effect, once, and not without effect", () => {
  const atEnd = cleanup();
  let store: Store;
  before(async () => {
    ({ store } = await testStore("sqlite", atEnd));
  });

  test("is counted where it takes effect, once, and not without effect", async () => {
    const refusing = refusingStore(store);
    const process = new ActorProcess({
      env,
      store: refusing,
      settings: processSettings(atEnd, {}),
      model: new ScriptedModel(env, () => ({})),
      bootId: env.id(),
    });
    atEnd.after(() => process.close());
    const owner = { kind: "manifests", key: tenantId } as const;
    const put = (description: string, activate: boolean) =>
      process.bus.ask(owner, "put", { name: "a", manifest: body(description), comment: "", activate, principal });
    const counted = async (change: Promise<unknown>) => {
      await change;
      return manifestChanges(store.system);
    };
    const start = await manifestChanges(store.system);

    const counts = [
      await counted(put("one", true)),
      await counted(put("one", true)),
      await counted(put("two", false)),
      await counted(process.bus.ask(owner, "canary", { name: "a", version: 2, weight: 50, principal })),
      await counted(process.bus.ask(owner, "clearCanary", { name: "a", principal })),
      await counted(process.bus.ask(owner, "rollback", { name: "a", version: 2, comment: "", principal })),
    ];
    refusing.refused = "manifest_changes_count";
    await assert.rejects(put("three", true), { code: "storage_unavailable" });

    assert.deepEqual(
      counts.map((count) => count - start),
      [1, 1, 1, 2, 3, 4],
    );
    assert.equal((await manifestPointer(store.tenant(tenantId), "a"))?.version, 2);
  });
});
