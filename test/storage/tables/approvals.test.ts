import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { tenantSql } from "../../../storage/store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import {
  type ApprovalKey,
  abandonOps,
  approvalById,
  approvalPage,
  askOps,
  claimGrantOp,
  consumeGrantOp,
  deadlineMark,
  decideOps,
  decisionOf,
  joinOps,
  leaveOps,
  liveGrant,
  type NewApproval,
  pendingForAnother,
} from "../../../storage/tables/approvals.ts";
import {
  expireWaitsOp,
  type NewWait,
  openWaitOp,
  supersedeWaitsOp,
  waitsOfRun,
} from "../../../storage/tables/waits.ts";
import { eventually } from "../../support/eventually.ts";
import { openApproval } from "../../support/open-approval.ts";
import { hasPostgresServer, needsServer } from "../../support/postgres.ts";
import { onServer } from "../../support/postgres-server.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import { dialects, type TestStore, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

/** On SQLite batches run one after the other. */
const skipLock = (await hasPostgresServer()) ? false : needsServer;
const key: ApprovalKey = { manifest_id: "m", tool_name: "tool", call_signature: "0".repeat(64) };
const yes = { decision: "approved", note: "", edited_args: null } as const;
const asker = "asker";

/** Moves the decision of a request into the past. */
const decidedBefore = tenantSql(
  "test_decided_before",
  "UPDATE approvals SET decided_at = decided_at - CAST(? AS BIGINT) WHERE tenant_id = :tenant AND id = ?",
);

/** Moves the creation of a request into the past. */
const askedBefore = tenantSql(
  "test_asked_before",
  "UPDATE approvals SET ts = ts - CAST(? AS BIGINT), deadline = deadline - CAST(? AS BIGINT) WHERE tenant_id = :tenant AND id = ?",
);

const request = (id: string, lastsMs: number): NewApproval => ({
  ...key,
  id,
  args: "{}",
  parameters: "{}",
  evidence: { effect: "once", risk: "speaks", cost_usd: 0, tool_calls: 0 },
  rule_id: "rule",
  reason: "",
  thread_id: "",
  tool_call_id: "",
  principal_subj: asker,
  bound_to: "",
  not_by: "",
  one_shot: 0,
  ttl_seconds: lastsMs / 1000,
  lastsMs,
});

/** Opens a wait of the run `r-<id>`. */
function waitFor(tenant: TenantStore, wait_id: string, approval_id: string | null = "same"): WriteOp {
  return openWaitOp(tenant, waitOf(wait_id, approval_id));
}

function waitOf(wait_id: string, approval_id: string | null): NewWait {
  return {
    ...{ wait_id, thread_key: 1, asked_on: 1, opened_at: 1, deadline: null, suffix: "s", run_id: `r-${wait_id}` },
    ...{ beside: 0, kind: "approval", subject: "s", approval_id, frame: null, asked_as: null },
    may_answer: { scopes: [], principal: null, not_principal: null },
    call: { tool_call_id: "c", tool: "t", args: {}, control: null },
  };
}

for (const dialect of dialects) {
  describe(`approvals on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let config: TestStore["config"];
    let count = 0;
    before(async () => {
      ({ store, config } = await testStore(dialect, atEnd));
    });
    const freshTenant = (): TenantStore => store.tenant(`approvals-${++count}`);
    const approve = async (tenant: TenantStore, id: string) => tenant.write(decideOps(tenant, id, yes, "decider"));

    test("a page ends at its length, has one request at least, and skips none", async () => {
      const tenant = freshTenant();
      const mebibyte = 1024 * 1024;
      for (const [at, mebibytes] of [3, 1, 1.5, 0, 0, 9, 2.5, 1, 1].entries()) {
        const args = JSON.stringify({ text: "x".repeat(mebibytes * mebibyte) });
        await openApproval(tenant, { ...request(`r${at}`, 60_000), call_signature: `${at}`, args });
      }
      const pages: string[][] = [];
      const filter = { status: "pending" };

      for (let cursor: string | null = null, isLast = false; !isLast; ) {
        const page = await approvalPage(tenant, filter, cursor, 50);
        pages.push(page.rows.map(({ id }) => id));
        cursor = page.next_cursor;
        isLast = cursor === null;
      }
      const few = await approvalPage(tenant, filter, null, 2);

      assert.deepEqual(pages.flat().sort(), ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"]);
      assert.ok(
        pages.some((ids) => ids.length === 1 && ids[0] === "r5"),
        JSON.stringify(pages),
      );
      assert.ok(pages.length > 3 && pages.length < 8, JSON.stringify(pages));
      assert.equal(few.rows.length, 2);
    });

    test("an expired request cannot be decided, even before it is marked", async () => {
      const tenant = freshTenant();
      await openApproval(tenant, request("late", 0));

      await assert.rejects(approve(tenant, "late"), { code: "conflict" });

      assert.equal((await approvalById(tenant, "late"))?.status, "pending");
    });

    test("an approval lasts as long from its decision as its request, in its tenant only", async () => {
      const [tenant, other] = [freshTenant(), freshTenant()];
      await openApproval(tenant, request("grant", 600_000));
      await approve(tenant, "grant");
      const after = (ms: number) => tenant.write([tenant.op(decidedBefore, [ms, "grant"], 1)]);

      assert.equal((await liveGrant(tenant, key, asker))?.id, "grant");
      assert.equal(await liveGrant(other, key, asker), undefined);
      await after(300_000);
      assert.equal((await liveGrant(tenant, key, asker))?.id, "grant");
      await after(300_000);
      assert.equal(await liveGrant(tenant, key, asker), undefined);
      assert.equal((await approvalById(tenant, "grant"))?.status, "approved");
    });

    test("an approval lasts from its decision, however old its request", async () => {
      const tenant = freshTenant();
      await openApproval(tenant, request("old", 600_000));
      await approve(tenant, "old");

      await tenant.write([tenant.op(askedBefore, [599_000, 599_000, "old"], 1)]);
      const early = await liveGrant(tenant, key, asker);
      await tenant.write([tenant.op(askedBefore, [600_000, 600_000, "old"], 1)]);
      const late = await liveGrant(tenant, key, asker);

      assert.deepEqual([early?.id, late?.id], ["old", "old"]);
    });

    test("an approval is for its own principal, and one for a single call is used once", async () => {
      const tenant = freshTenant();
      await openApproval(tenant, { ...request("bound", 600_000), bound_to: asker });
      await approve(tenant, "bound");

      assert.equal((await liveGrant(tenant, key, asker))?.id, "bound");
      assert.equal(await liveGrant(tenant, key, "another"), undefined);
      await openApproval(tenant, { ...request("once", 600_000), one_shot: 1 });
      await approve(tenant, "once");
      assert.equal((await liveGrant(tenant, key, "another"))?.id, "once");
      await tenant.write([claimGrantOp(tenant, "once", "call")]);
      assert.equal(await liveGrant(tenant, key, "another"), undefined);
    });

    test("a wait for a request id is answered within its own tenant only", async () => {
      const [tenant, other] = [freshTenant(), freshTenant()];
      for (const each of [tenant, other]) await openApproval(each, request("same", 600_000));
      await other.write(joinOps(other, "same", "theirs", waitFor(other, "theirs")));

      await tenant.write(leaveOps(tenant, "same", "aborted", waitFor(tenant, "unrelated", null)));
      const left = [await approvalById(tenant, "same"), await approvalById(other, "same")];
      await approve(other, "same");
      await openApproval(tenant, { ...request("next", 600_000), call_signature: "1".repeat(64) });
      await openApproval(other, { ...request("next", 600_000), call_signature: "1".repeat(64) });
      await approve(other, "next");
      await tenant.write(joinOps(tenant, "next", "own", waitFor(tenant, "own", "next")));

      assert.deepEqual(
        left.map((row) => row?.status),
        ["denied", "pending"],
      );
      const stateOf = async (of: TenantStore, run: string) => (await waitsOfRun(of, run)).map(({ state }) => state);
      assert.deepEqual(await stateOf(other, "r-theirs"), ["answered"]);
      assert.deepEqual(await stateOf(tenant, "r-own"), ["open"]);
    });

    test("a lost run's request is closed with the reason of its call, unless another waits", async () => {
      const tenant = freshTenant();
      const ids = ["open", "over", "superseded", "answered", "shared"];
      for (const [at, id] of ids.entries()) {
        await openApproval(tenant, { ...request(id, 600_000), call_signature: `${at}` });
        const wait = { ...waitOf(id, id), run_id: "lost", asked_on: at, deadline: id === "over" ? 5 : null };
        await tenant.write(joinOps(tenant, id, id, openWaitOp(tenant, wait)));
      }
      await tenant.write(joinOps(tenant, "shared", "others", waitFor(tenant, "others", "shared")));
      await tenant.write([expireWaitsOp(tenant, "lost"), supersedeWaitsOp(tenant, ids.indexOf("superseded"))]);
      await approve(tenant, "answered");

      await tenant.write(abandonOps(tenant, await waitsOfRun(tenant, "lost")));

      const rows = await Promise.all(ids.map((id) => approvalById(tenant, id)));
      const said = rows.map((row) => row && [row.id, row.status, decisionOf(row)?.note]);
      assert.deepEqual(said, [
        ["open", "denied", "aborted"],
        ["over", "expired", "timeout"],
        ["superseded", "denied", "superseded"],
        ["answered", "approved", ""],
        ["shared", "pending", undefined],
      ]);
      assert.deepEqual(await waitsOfRun(tenant, "lost"), []);
      assert.equal((await waitsOfRun(tenant, "r-others"))[0]?.state, "open");
    });

    test("the newest of two approvals admits a call, because it may have other arguments", async () => {
      const tenant = freshTenant();
      for (const id of ["b", "a", "c"]) {
        await openApproval(tenant, request(id, 600_000));
        await approve(tenant, id);
        await tenant.write([tenant.op(decidedBefore, [id === "c" ? 1_000 : 2_000, id], 1)]);
      }

      assert.equal((await liveGrant(tenant, key, asker))?.id, "c");
    });

    test("a grant for one call is used up by it, one for any number never", async () => {
      const tenant = freshTenant();
      for (const one_shot of [0, 1]) {
        const id = `shots-${one_shot}`;
        await openApproval(tenant, { ...request(id, 600_000), call_signature: id, one_shot });
        await approve(tenant, id);
      }

      await tenant.write(["shots-0", "shots-1"].map((id) => consumeGrantOp(tenant, id)));

      const rows = await Promise.all(["shots-0", "shots-1"].map((id) => approvalById(tenant, id)));
      assert.deepEqual(
        rows.map((row) => row?.consumed_at !== null),
        [false, true],
      );
    });

    test("a grant is claimed by one call once it is approved, and not before", async () => {
      const tenant = freshTenant();
      await openApproval(tenant, { ...request("single", 600_000), one_shot: 1 });
      const claim = (call: string) => tenant.write([claimGrantOp(tenant, "single", call)]);

      await assert.rejects(claim("first"), { code: "conflict" });
      await approve(tenant, "single");
      await claim("first");
      await claim("first");

      await assert.rejects(claim("second"), { code: "conflict" });
    });

    test("a request and its wait are written together, joined to an equal one, or not", async () => {
      const tenant = freshTenant();
      const ask = (id: string, lastsMs: number, more: Partial<NewApproval> = {}, ...others: WriteOp[]) => {
        const frame = { name: "asked", data: { id, until: deadlineMark(id) } };
        const wait = { ...waitOf(`w-${id}`, id), deadline: Number.MAX_SAFE_INTEGER, frame };
        const asked = { ...request(id, lastsMs), ...more };
        return tenant.write([...askOps(tenant, asked, wait.wait_id, openWaitOp(tenant, wait)), ...others]);
      };
      const waitFor = async (id: string) => (await waitsOfRun(tenant, `r-w-${id}`))[0];
      await ask("lapsed", 0);

      await ask("first", 600_000);
      await Promise.all([ask("second", 60_000), ask("third", 60_000)]);
      await ask("other", 600_000, { call_signature: "1".repeat(64), bound_to: "ann" });
      await ask("foreign", 600_000, { call_signature: "1".repeat(64), bound_to: "ben" });
      const failing = tenant.op(decidedBefore, [0, "nowhere"], 1);
      await assert.rejects(ask("failed", 600_000, { call_signature: "2".repeat(64) }, failing), { code: "conflict" });

      const { rows } = await approvalPage(tenant, {}, null, 10);
      const status = Object.fromEntries(rows.map(({ id, status }) => [id, status]));
      assert.deepEqual(status, { lapsed: "expired", first: "pending", other: "pending" });
      const { deadline } = (await approvalById(tenant, "first")) as { deadline: number };
      for (const id of ["first", "second", "third"]) {
        const wait = await waitFor(id);
        assert.deepEqual([wait?.approval_id, wait?.deadline, wait?.state], ["first", deadline, "open"], id);
        assert.deepEqual(wait?.frame?.data, { id: "first", until: deadline }, id);
      }
      assert.equal((await waitFor("other"))?.state, "open");
      const foreign = await waitFor("foreign");
      assert.deepEqual([foreign?.approval_id, foreign?.state, foreign?.frame], ["other", "answered", null]);
      assert.deepEqual(foreign?.answer, { value: { ...yes, decision: "denied", note: pendingForAnother }, by: "svc" });
      assert.equal(await waitFor("failed"), undefined);
    });

    if (dialect === "postgres")
      test("a call that meets a request during its decision always has one of its own", {
        skip: skipLock,
      }, async () => {
        const tenant = freshTenant();
        await openApproval(tenant, request("old", 600_000));
        assert.ok(config.engine === "postgres");
        await onServer(config.postgres.url, async (client) => {
          await client.query("BEGIN");
          await client.query("UPDATE approvals SET status = 'denied' WHERE tenant_id = $1 AND id = 'old'", [
            tenant.tenantId,
          ]);
          const asking = tenant.write(askOps(tenant, request("new", 600_000), "w", waitFor(tenant, "w", "new")));
          await eventually("a batch that waits for the row", () =>
            onServer((config as { postgres: { url: string } }).postgres.url, async (other) => {
              const { rows } = await other.query(
                "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
              );
              return rows.length > 0 || undefined;
            }),
          );
          await client.query("COMMIT");
          await asking;
        });

        assert.equal((await approvalById(tenant, "new"))?.status, "pending");
        const [wait] = await waitsOfRun(tenant, "r-w");
        assert.deepEqual([wait?.approval_id, wait?.state], ["new", "open"]);
      });

    if (dialect === "postgres")
      test("a call that joins a request waits for its decider, and is answered", {
        skip: skipLock,
      }, async () => {
        const tenant = freshTenant();
        await openApproval(tenant, request("deciding", 600_000));
        assert.ok(config.engine === "postgres");
        const { url } = config.postgres;
        await onServer(url, async (client) => {
          await client.query("BEGIN");
          await client.query(
            "UPDATE approvals SET status = 'approved', decision = $1 WHERE tenant_id = $2 AND id = $3",
            [JSON.stringify({ value: yes, by: "decider" }), tenant.tenantId, "deciding"],
          );

          let isOver = false;
          const joining = tenant.write(joinOps(tenant, "deciding", "joins", waitFor(tenant, "joins", "deciding")));
          const over = joining.finally(() => {
            isOver = true;
          });
          await eventually("a batch that waits for the row, or is over", () =>
            onServer(url, async (other) => {
              const { rows } = await other.query(
                "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
              );
              return rows.length > 0 || isOver || undefined;
            }),
          );
          await client.query("COMMIT");
          await over;
        });

        assert.equal((await waitsOfRun(tenant, "r-joins"))[0]?.state, "answered");
      });
  });
}

test("an approval ends in the exact millisecond of its expiry", async (t) => {
  const sim = new Sim(1);
  const disk = await SimDisk.open(cleanup(t));
  const tenant = disk.store(sim, sim.env()).tenant("exact");
  const granted = () => sim.until(liveGrant(tenant, key, asker), 0);
  await sim.until(openApproval(tenant, request("exact", 600_000)));
  await sim.until(tenant.write(decideOps(tenant, "exact", yes, "decider")));
  const { decided_at } = (await sim.until(approvalById(tenant, "exact"), 0)) ?? {};
  const endsAt = (decided_at ?? 0) + 600_000;

  await sim.advance(endsAt - 1 - sim.now);
  const before = await granted();
  await sim.advance(1);

  assert.deepEqual([before?.id, await granted()], ["exact", undefined]);
});
