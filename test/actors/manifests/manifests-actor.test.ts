// The owners of manifests as routes use them: over the bus, over a real database, in simulated time.
import assert from "node:assert/strict";
import { test } from "node:test";
import { insertManifestVersionOp, setManifestPointerOp } from "../../../storage/tables/manifests.ts";
import { bundledNames, withBundled } from "../../support/bundled-manifests.ts";
import { cleanup } from "../../support/temp.ts";
import { ManifestsWorld, principal, putOf, secret } from "./world.ts";

const atEnd = cleanup();
const nowhere = { name: "nobody", principal };

test("a put manifest is a version, active at once on every thread, returned unchanged", async () => {
  const world = await ManifestsWorld.open(atEnd);

  const first = await world.put("acme", "one", { comment: "the first" });
  assert.deepEqual(await world.said("acme"), ["one", "one"]);
  const second = await world.put("acme", "two");

  assert.deepEqual(await world.said("acme"), ["two", "two"]);
  assert.deepEqual(
    [first.version, first.comment, first.created_by, first.tenant_id],
    [1, "the first", "alice", "acme"],
  );
  assert.equal(first.manifest, putOf("one").manifest);
  assert.equal(second.version, 2);
  assert.deepEqual(world.versions("acme"), ["1 one", "2 two"]);
  assert.equal(world.pointer("acme"), "2");
  assert.deepEqual(await world.audit("acme"), [
    'manifest_published {"version":1,"active":true}',
    'manifest_published {"version":2,"active":true}',
  ]);
});

test("an upload of the active body makes no version and no audit row", async () => {
  const world = await ManifestsWorld.open(atEnd);
  const first = await world.put("acme", "one");

  const again = await world.put("acme", "one", { comment: "again" });

  assert.deepEqual(again, first);
  assert.deepEqual(world.versions("acme"), ["1 one"]);
  assert.equal((await world.audit("acme")).length, 1);
});

test("an inactive version is stored once and waits; the first of a name is active", async () => {
  const world = await ManifestsWorld.open(atEnd);
  await world.put("acme", "one", { activate: false });

  const waiting = await world.put("acme", "two", { activate: false });
  const again = await world.put("acme", "two", { activate: false });

  assert.deepEqual([waiting.version, again.version], [2, 2]);
  assert.equal(world.pointer("acme"), "1");
  assert.deepEqual(world.versions("acme"), ["1 one", "2 two"]);
  assert.deepEqual(await world.said("acme"), ["one", "one"]);
});

test("an invalid manifest is refused, and nothing of it is stored or recorded", async () => {
  const world = await ManifestsWorld.open(atEnd);
  const bodies = {
    name_mismatch: putOf("x", { manifest: putOf("x", { name: "other" }).manifest }),
    invalid_manifest: putOf("x", { manifest: '{"metadata":{"name":"helper"},"spec":{"tols":[]}}' }),
    "invalid_manifest of a tool": putOf("x", {
      manifest: '{"metadata":{"name":"helper"},"spec":{"tools":["nobodys"]}}',
    }),
    "invalid_manifest of what is not built": putOf("x", {
      manifest: '{"metadata":{"name":"helper"},"spec":{"containers":[{"name":"c","binding":"b"}]}}',
    }),
  };

  for (const [code, body] of Object.entries(bodies))
    assert.deepEqual(await world.outcome("acme", "put", body), { refused: code.split(" ")[0] }, code);

  assert.deepEqual([world.versions("acme"), world.pointer("acme"), await world.audit("acme")], [[], null, []]);
});

test("a canary gets its share of threads, none without a thread, until it is cleared", async () => {
  const world = await ManifestsWorld.open(atEnd);
  await world.put("acme", "stable");
  await world.put("acme", "canary", { activate: false });
  const variants = async () => {
    const said = await Promise.all(Array.from({ length: 200 }, (_, at) => world.said("acme", `t${at}`)));
    for (const [here, there] of said) assert.equal(here, there);
    return said.filter(([here]) => here === "canary").length;
  };
  assert.equal(await variants(), 0);

  const set = await world.ask("acme", "canary", { name: "helper", version: 2, weight: 30, principal });
  const some = await variants();
  const without = await world.said("acme", null);
  await world.ask("acme", "canary", { name: "helper", version: 2, weight: 100, principal });
  const all = await variants();
  const cleared = await world.ask("acme", "clearCanary", { name: "helper", principal });

  assert.deepEqual([set.version, set.canary_version, set.canary_weight, set.source], [1, 2, 30, "store"]);
  assert.ok(some > 30 && some < 90, `${some} of 200`);
  assert.deepEqual(without, ["stable", "stable"]);
  assert.equal(all, 200);
  assert.deepEqual([cleared.canary_version, cleared.canary_weight], [null, 0]);
  assert.equal(await variants(), 0);
  assert.deepEqual((await world.audit("acme")).slice(2), [
    'manifest_canary_set {"version":2,"weight":30}',
    'manifest_canary_set {"version":2,"weight":100}',
    "manifest_canary_cleared {}",
  ]);
});

test("an activated version, and a rolled back one, answers alone", async () => {
  const world = await ManifestsWorld.open(atEnd);
  await world.put("acme", "one");
  await world.put("acme", "two", { activate: false });
  await world.ask("acme", "canary", { name: "helper", version: 2, weight: 50, principal });
  assert.equal(world.pointer("acme"), "1/2@50");

  await world.put("acme", "three");
  assert.equal(world.pointer("acme"), "3");
  await world.ask("acme", "canary", { name: "helper", version: 2, weight: 50, principal });
  await world.said("acme", "t1");
  await world.sim.advance(7_000);
  const back = await world.ask("acme", "rollback", { name: "helper", version: 1, comment: "oh", principal });

  assert.equal(world.pointer("acme"), "1");
  assert.deepEqual([back.version, back.canary_version, back.updated_by], [1, null, "alice"]);
  assert.ok(world.sim.now - back.updated_at < 1_000, "stamped with the time of the change");
  assert.deepEqual(await world.said("acme", "t1"), ["one", "one"]);
  assert.equal((await world.audit("acme")).at(-1), 'manifest_rolled_back {"version":1,"comment":"oh"}');
});

test("a canary and a rollback need an existing manifest and version", async () => {
  const world = await ManifestsWorld.open(atEnd);
  await world.put("acme", "one");

  const outcomes = [
    await world.outcome("acme", "canary", { ...nowhere, version: 1, weight: 5 }),
    await world.outcome("acme", "clearCanary", nowhere),
    await world.outcome("acme", "rollback", { ...nowhere, version: 1, comment: "" }),
    await world.outcome("acme", "canary", { name: "helper", version: 2, weight: 5, principal }),
    await world.outcome("acme", "rollback", { name: "helper", version: 2, comment: "", principal }),
    await world.outcome("acme", "get", { name: "nobody", thread_suffix: null }),
  ];

  const refused = ["not_found", "not_found", "not_found", "unknown_version", "not_found", "unknown_manifest"];
  assert.deepEqual(
    outcomes,
    refused.map((code) => ({ refused: code })),
  );
  assert.equal(world.pointer("acme"), "1");
  assert.equal((await world.audit("acme")).length, 1);
});

for (const seed of [1, 2, 3, 4])
  test(`concurrent uploads are numbered in sequence, each once (seed ${seed})`, async () => {
    const world = await ManifestsWorld.open(atEnd, { seed });
    const texts = Array.from({ length: 12 }, (_, at) => `text ${at}`);

    const asked = texts.map((text) => world.asking("acme", "put", putOf(text)));
    const other = world.asking("globex", "put", putOf("theirs"));
    const views = await world.sim.until(Promise.all(asked));
    await world.sim.until(other);

    assert.deepEqual(
      views.map(({ version }) => version).toSorted((a, b) => a - b),
      texts.map((_, at) => at + 1),
    );
    assert.deepEqual(
      world.versions("acme").toSorted(),
      views.map(({ version }, at) => `${version} text ${at}`).toSorted(),
    );
    assert.equal(world.pointer("acme"), "12");
    assert.deepEqual([world.versions("globex"), world.pointer("globex")], [["1 theirs"], "1"]);
  });

test("a tenant sees nothing of another's, and its owner says so", async () => {
  const world = await ManifestsWorld.open(atEnd);
  await world.put("acme", "ours");
  await world.put("globex", "theirs");
  await world.put("globex", "mine alone", { name: "own" });

  const listed = async (tenant: string) =>
    (await world.ask(tenant, "list", { models: false })).items.map(({ name, version, source }) =>
      [name, version ?? "-", source].join(" "),
    );

  const bundled = bundledNames.map((name) => `${name} - bundled`);
  assert.deepEqual(await listed("acme"), [...bundled, "helper 1 store", "operators - directory"].sort());
  assert.deepEqual(
    await listed("globex"),
    [...bundled, "helper 1 store", "operators - directory", "own 1 store"].sort(),
  );
  assert.deepEqual(await world.said("acme"), ["ours", "ours"]);
  assert.deepEqual(await world.said("globex"), ["theirs", "theirs"]);
  assert.deepEqual(await world.outcome("acme", "get", { name: "own", thread_suffix: null }), {
    refused: "unknown_manifest",
  });
  assert.equal((await world.audit("acme")).length, 1);
});

test("a read during the write of a version gets the active version", async () => {
  const world = await ManifestsWorld.open(atEnd, { writeMs: 500 });
  await world.put("acme", "one");
  let written = false;
  const putting = world.asking("acme", "put", putOf("two")).then(() => {
    written = true;
  });
  await world.sim.advance(100);

  const got = await world.ask("acme", "get", { name: "helper", thread_suffix: null });
  const listed = await world.ask("acme", "list", { models: true });

  assert.equal(written, false);
  assert.deepEqual([got.version, got.variant, got.source], [1, "stable", "store"]);
  assert.deepEqual(
    listed.items.map(({ name, version }) => [name, version]),
    withBundled("helper", "operators").map((name) => [name, name === "helper" ? 1 : null]),
  );
  await world.sim.until(putting);
  assert.equal((await world.ask("acme", "get", { name: "helper", thread_suffix: null })).version, 2);
});

test("a tenant reads the operator's secrets masked, and its own text unmasked", async () => {
  const world = await ManifestsWorld.open(atEnd);
  await world.put("acme", `I said ${secret}.`);

  const own = await world.ask("acme", "get", { name: "helper", thread_suffix: null });
  const operators = await world.ask("acme", "get", { name: "operators", thread_suffix: null });

  assert.ok(own.manifest.includes(secret));
  assert.ok(operators.manifest.includes("Never say"));
  assert.ok(!operators.manifest.includes(secret));
});

test("a manifest that no longer compiles has no card, and hides no other", async () => {
  const world = await ManifestsWorld.open(atEnd);
  await world.put("acme", "sound");
  await world.put("acme", "broken", { name: "broken" });
  // An operator has removed a tool.
  const { store } = world.partsOf(0);
  const tenant = store.tenant("acme");
  const manifest = JSON.stringify({ metadata: { name: "broken" }, spec: { tools: ["gone"] } });
  const row = { name: "broken", version: 2, manifest, digest: "", created_at: 0, created_by: "", comment: "" };
  const pointer = { name: "broken", version: 2, canary_version: null, canary_weight: 0, updated_at: 0, updated_by: "" };
  await world.sim.until(tenant.write([insertManifestVersionOp(tenant, row), setManifestPointerOp(tenant, pointer)]));
  for (const node of [0, 1]) world.partsOf(node).manifests.forget("acme", "broken");

  const { items } = await world.ask("acme", "list", { models: true });

  const cards = items.map(({ name, model }) => `${name} ${model?.providerModel ?? "none"}`);
  for (const card of [
    "broken none",
    "helper small-wire",
    "hybrid-router none",
    "operators small-wire",
    "quick small-wire",
  ])
    assert.ok(cards.includes(card), card);
  assert.equal(cards.length, withBundled("broken", "helper", "operators").length);
});
