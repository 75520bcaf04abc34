import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { pushAgain } from "../../../actors/durable/lost-pushes.ts";
import { RedisRefusal } from "../../../governance/egress/redis.ts";
import { unpushed } from "../../../storage/tables/queued-waits.ts";
import { closeWaitOp, type NewWait, openWaitOp } from "../../../storage/tables/waits.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const wait = (wait_id: string, fields: Partial<NewWait> = {}): NewWait => ({
  wait_id,
  thread_key: 1,
  suffix: "t",
  run_id: "r",
  asked_on: 1,
  beside: 0,
  kind: "queue",
  subject: "render",
  may_answer: { scopes: [], principal: null, not_principal: null },
  call: { tool_call_id: "c", tool: "render", args: {}, control: null },
  opened_at: Date.now() - 60_000,
  deadline: Date.now() + 600_000,
  approval_id: null,
  frame: null,
  asked_as: "c",
  push: { list: "l", text: wait_id },
  ...fields,
});

for (const dialect of dialects) {
  describe(`calls whose push may be lost, on ${dialect}`, () => {
    const atEnd = cleanup();

    test("are pushed again once, unless in progress, over, answered or not repeatable", async () => {
      const { store } = await testStore(dialect, atEnd);
      const [acme, globex] = [store.tenant("acme"), store.tenant("globex")];
      const { push: _, ...once } = wait("once");
      await acme.write([
        openWaitOp(acme, wait("b", { opened_at: Date.now() - 50_000 })),
        openWaitOp(acme, wait("young", { opened_at: Date.now() })),
        openWaitOp(acme, wait("late", { deadline: Date.now() - 1 })),
        openWaitOp(acme, wait("closed")),
        openWaitOp(acme, once),
      ]);
      await acme.write([closeWaitOp(acme, "closed")]);
      await globex.write([openWaitOp(globex, wait("a"))]);
      const sent: unknown[][] = [];
      let isAway = true;
      const redis = {
        async command(...words: unknown[]) {
          if (isAway) throw new Error("away");
          sent.push(words);
        },
      };

      await assert.rejects(pushAgain(store, redis), /away/);
      isAway = false;
      const first = await pushAgain(store, redis);
      const second = await pushAgain(store, redis);

      assert.deepEqual([first, second], [2, 0]);
      assert.deepEqual(sent, [
        ["LPUSH", "l", "a"],
        ["LPUSH", "l", "b"],
      ]);
      assert.deepEqual(
        (await unpushed(store.system, -1_000, 10)).map(({ wait_id }) => wait_id),
        ["young"],
      );
    });

    test("are pushed although Redis refuses an earlier one, which is retried", async () => {
      const { store } = await testStore(dialect, atEnd);
      const acme = store.tenant("acme");
      await acme.write([
        openWaitOp(acme, wait("x", { push: { list: "no list", text: "x" }, opened_at: Date.now() - 90_000 })),
        openWaitOp(acme, wait("y")),
      ]);
      const sent: unknown[] = [];
      const redis = {
        async command(_name: string, list: unknown, text: unknown) {
          if (list === "no list") throw new RedisRefusal("WRONGTYPE");
          sent.push(text);
        },
      };

      const pushed = [await pushAgain(store, redis), await pushAgain(store, redis)];

      assert.deepEqual([pushed, sent], [[1, 0], ["y"]]);
      assert.deepEqual(
        (await unpushed(store.system, -1_000, 10)).map(({ wait_id }) => wait_id),
        ["x"],
      );
    });

    test("are all found, in pages", async () => {
      const { store } = await testStore(dialect, atEnd);
      const acme = store.tenant("acme");
      await acme.write(Array.from({ length: 230 }, (_, at) => openWaitOp(acme, wait(`w${at}`))));
      let sent = 0;

      const pushed = await pushAgain(store, { command: async () => void sent++ });

      assert.deepEqual([pushed, sent], [230, 230]);
    });
  });
}
