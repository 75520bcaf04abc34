import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { systemEnv } from "../../bus/env.ts";
import { chooseVariant } from "../../manifests/resolve/canary.ts";
import { createResolver } from "../../manifests/resolve/resolve.ts";
import { notingObjects, pointTo, storeVersion, temporaryStore } from "../manifests/layers.ts";
import { tempDir } from "../support/temp.ts";

const choice = {
  tenantId: "acme",
  name: "a",
  version: 1,
  canary_version: 2,
  canary_weight: 50,
};

test("MANI-001 a thread stays on the side that its hash and both versions select", () => {
  const threads = Array.from({ length: 50 }, (_, at) => `thread-${at}`);
  const sides = (change: object) =>
    threads.map((threadSuffix) => chooseVariant({ ...choice, threadSuffix, ...change }));
  const canaries = (list: string[]) => list.filter((side) => side === "canary").length;

  assert.deepEqual(sides({}), sides({}));
  assert.ok(canaries(sides({})) > 10 && canaries(sides({})) < 40, `${canaries(sides({}))} of 50 at half`);
  for (const other of [{ tenantId: "other" }, { name: "b" }, { version: 3 }, { canary_version: 4 }])
    assert.notDeepEqual(sides(other), sides({}), JSON.stringify(other));
  assert.equal(canaries(sides({ canary_weight: 0 })), 0);
  assert.equal(canaries(sides({ canary_weight: 100 })), 50);
  assert.equal(canaries(sides({ canary_version: null, canary_weight: 100 })), 0);
  assert.equal(chooseVariant({ ...choice, canary_weight: 100, threadSuffix: null }), "stable");
  // SHA-256 of "acme|t|a|1|2" begins with 8b1344ab, and 2333295787 % 100 is 87.
  assert.equal(chooseVariant({ ...choice, threadSuffix: "t", canary_weight: 87 }), "stable");
  assert.equal(chooseVariant({ ...choice, threadSuffix: "t", canary_weight: 88 }), "canary");
});

test("MANI-001 a growing weight moves threads to the canary and none back", () => {
  for (let at = 0; at < 50; at++) {
    let last = "stable";
    for (let canary_weight = 0; canary_weight <= 100; canary_weight++) {
      const side = chooseVariant({ ...choice, threadSuffix: `t${at}`, canary_weight });
      assert.ok(!(last === "canary" && side === "stable"));
      last = side;
    }
  }
});

test("MANI-010 a stored version is resolved before the object, directory and bundled ones", async (t) => {
  const store = await temporaryStore(t);
  const directory = tempDir(t);
  const { source, remove } = await notingObjects({
    "manifests/acme/quick.json": JSON.stringify({ metadata: { name: "quick", description: "acme's object" } }),
    "manifests/quick.json": JSON.stringify({ metadata: { name: "quick", description: "everyone's object" } }),
  });
  const file = join(directory, "quick.yaml");
  writeFileSync(file, "metadata: {name: quick, description: file}\n");
  await storeVersion(store, "acme", "quick", 1, { metadata: { name: "quick", description: "stored" } });
  await pointTo(store, "acme", "quick", 1);
  const { resolve } = createResolver({ env: systemEnv(), store, objects: source, directory, objectFreshMs: 0 });
  const found = async (tenantId: string) => {
    const { source: layer, manifest } = await resolve(tenantId, "quick", null);
    return [layer, manifest.metadata.description];
  };

  assert.deepEqual(await found("acme"), ["store", "stored"]);
  assert.deepEqual(await found("other"), ["object", "everyone's object"]);
  const unstored = createResolver({ env: systemEnv(), store: null, objects: source, directory, objectFreshMs: 0 });
  assert.equal((await unstored.resolve("acme", "quick", null)).manifest.metadata.description, "acme's object");
  await remove("manifests/acme/quick.json");
  assert.equal((await unstored.resolve("acme", "quick", null)).manifest.metadata.description, "everyone's object");
  await remove("manifests/quick.json");
  assert.deepEqual(await found("other"), ["directory", "file"]);
  rmSync(file);
  await nextTurn();
  assert.equal((await found("other"))[0], "bundled");
  assert.deepEqual(await found("acme"), ["store", "stored"]);
});
