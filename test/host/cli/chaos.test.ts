// svc chaos: it kills its own server repeatedly and compares the data with the acknowledged writes.
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { ChaosClient } from "../../../host/cli/chaos/client.ts";
import { ChaosLoad } from "../../../host/cli/chaos/load.ts";
import { Seeded } from "../../../host/cli/chaos/seeded.ts";
import { chaosOf } from "../../support/chaos.ts";
import { eventually } from "../../support/eventually.ts";
import { cleanup, tempDir } from "../../support/temp.ts";

describe("svc chaos", () => {
  const atEnd = cleanup();

  test("DUR-008 durable runs with three effects keep every guarantee despite kills", async (t) => {
    const { code, answer } = await chaosOf(["--runs", "16", "--kills", "5", "--seed", "7"]);

    const { ok, runs, kills, effects, webhooks, invariants } = answer;
    t.diagnostic(JSON.stringify(answer.running_again_ms));
    assert.deepEqual([code, ok, runs, kills], [0, true, 16, 5], JSON.stringify(invariants, null, 1));
    assert.ok(effects >= 3 * 16 - 16 && webhooks >= 16, `${effects} effects, ${webhooks} webhooks`);
    for (const { name, checked, broken } of invariants) assert.deepEqual([name, broken], [name, []], `of ${checked}`);
    assert.ok(invariants.filter(({ checked }) => checked >= 16).length >= 6, JSON.stringify(invariants));
  });

  test("a broken guarantee is exit 1 and names the runs that broke it", async () => {
    const plugin = join(import.meta.dirname, "../../support/broken-chaos-plugin.ts");
    const { code, answer } = await chaosOf(["--runs", "4", "--kills", "0"], plugin);

    const broken = answer.invariants.filter((invariant) => invariant.broken.length > 0);
    assert.deepEqual([code, answer.ok], [1, false]);
    assert.deepEqual(
      broken.map(({ name }) => name),
      ["no effect with a key is applied twice", "a once call runs once, unless a person approved a second try"],
    );
    assert.match(broken[0]?.broken[0] ?? "", /^run-\d-chaos_look has the keys /);
  });

  test("a decision counts if its answer leaves open whether it took effect, and not if it was refused", async (t) => {
    const decided: string[] = [];
    const server = createServer((request, response) => {
      const id = /approvals\/(\w+)\/decide/.exec(request.url ?? "")?.[1];
      const isFirst = id !== undefined && !decided.includes(id);
      if (id !== undefined) decided.push(id);
      const ids = decided.length === 0 ? ["lost", "refused", "late"] : ["late"];
      const items = ids.map((one) => ({ id: one, rule_id: "asks", tool_call_id: `call-${one}` }));
      const status = id === undefined ? 200 : isFirst && id !== "refused" ? 503 : 409;
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ items }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    t.after(() => server.close());
    const client = new ChaosClient(() => `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const load = new ChaosLoad(client, new Seeded(1), systemEnv(), { acme: "key" });

    const living = load.live();
    await eventually("both decisions of a request that is still pending", async () => decided.length >= 7);
    load.stop();
    await living;
    await client.close();

    const counted = [...load.decided].map(([id, { decisions }]) => [id, [...decisions]]);
    assert.deepEqual(Object.fromEntries(counted), { lost: ["denied"], refused: [], late: ["approved"] });
  });

  test("a guarantee that no run tested is unchecked, which is exit 3", async () => {
    const { code, answer } = await chaosOf(["--runs", "1", "--kills", "0"]);

    const unseen = answer.invariants.filter(({ checked }) => checked === 0);
    assert.deepEqual([code, answer.ok], [3, false]);
    assert.ok(unseen.length > 0 && unseen.every(({ broken }) => broken.length === 0), JSON.stringify(answer));
  });

  test("a non-empty directory is refused and left unchanged", async () => {
    const dir = tempDir(atEnd);
    mkdirSync(join(dir, "data"));
    writeFileSync(join(dir, "data", "svc.db"), "somebody's");

    const { code, answer } = await chaosOf(["--dir", dir]);

    assert.deepEqual([code, answer.error], [2, "not_empty"]);
    assert.deepEqual(readdirSync(dir), ["data"]);
  });

  test("a path that cannot become a directory is a usage error and left unchanged", async () => {
    const path = join(tempDir(atEnd), "a file");
    writeFileSync(path, "somebody's");

    for (const dir of [path, join(path, "below")]) {
      const { code, answer } = await chaosOf(["--dir", dir]);

      assert.deepEqual([code, answer.error], [2, "no_directory"]);
    }
    assert.equal(readFileSync(path, "utf8"), "somebody's");
  });

  test("invalid numbers are refused", async () => {
    for (const args of [
      ["--runs", "0"],
      ["--kills", "-1"],
      ["--seed", "x"],
      ["--runs", "99999999"],
    ]) {
      const { code, answer } = await chaosOf(args);
      assert.deepEqual([code, answer.error], [2, "usage"], args.join(" "));
    }
  });
});
