// Claims of turns whose facts are captured: two hosts, and a claim that has ended.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import {
  addCaptureOp,
  type CaptureRow,
  claimCaptures,
  endCaptureOp,
  putOffCaptureOp,
} from "../../../storage/tables/captures.ts";
import { dialects, type TestStore, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const turnOf = (run_id: string): Omit<CaptureRow, "due_at" | "attempts" | "claimed_by" | "pauses"> => ({
  ...{ run_id, thread_key: 7, thread_id: "acme:t", manifest_id: "m", principal: "ann", owner: "" },
  ...{ from_seq: 0, until_seq: 2, request_id: "r", taint: [], lost_with: null },
});

for (const dialect of dialects)
  describe(`captures on ${dialect}`, () => {
    const atEnd = cleanup();
    let opened: TestStore;
    let hosts: readonly Store[];
    before(async () => {
      opened = await testStore(dialect, atEnd);
      hosts = [opened.store, opened.another(), opened.another(), opened.another()];
    });
    const add = (store: TenantStore, count: number) =>
      store.write(Array.from({ length: count }, (_, at) => addCaptureOp(store, turnOf(`run${at}`))));

    test("MEM-018 each turn is claimed by one of several hosts that ask at once", async () => {
      await add(opened.store.tenant("many"), 40);

      const claimed: CaptureRow[] = [];
      for (let round = 0; round < 5; round++) {
        const answers = await Promise.all(
          hosts.map((host, at) => claimCaptures(host.tenant("many"), { owner: `host${at}`, forMs: 60_000, limit: 4 })),
        );
        claimed.push(...answers.flat());
      }

      const runs = claimed.map(({ run_id }) => run_id);
      assert.equal(new Set(runs).size, runs.length, "no turn is claimed twice");
      assert.ok(claimed.every(({ attempts }) => attempts === 1));
    });

    test("MEM-018 the batch of a host whose claim has ended is refused, and the next host's is written", async () => {
      const tenant = opened.store.tenant("slow");
      await add(tenant, 1);

      const [first] = await claimCaptures(hosts[0]?.tenant("slow") as TenantStore, { owner: "a", forMs: 0, limit: 1 });
      const [second] = await claimCaptures(hosts[1]?.tenant("slow") as TenantStore, { owner: "b", forMs: 0, limit: 1 });
      const late = tenant.write([endCaptureOp(tenant, first as CaptureRow)]);
      await assert.rejects(late, { code: "conflict" });
      await tenant.write([putOffCaptureOp(tenant, first as CaptureRow, 60_000, "nothing")]);
      await tenant.write([endCaptureOp(tenant, second as CaptureRow)]);

      assert.deepEqual([first?.attempts, second?.attempts], [1, 2]);
      assert.deepEqual(await claimCaptures(tenant, { owner: "c", forMs: 0, limit: 1 }), []);
    });
  });
