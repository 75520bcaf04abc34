// A tenant's manifests when the store refuses, when a thread is lost, and when no request comes for a while.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sweepMs } from "../../../actors/runtime/idle-sweep.ts";
import { outcomeOf } from "../../support/outcome.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { cleanup } from "../../support/temp.ts";
import { ManifestsWorld, principal, putOf } from "./world.ts";

const atEnd = cleanup();

for (const refused of ["manifest_versions_insert", "manifest_pointers_upsert"])
  test(`a store that refuses ${refused} changes nothing and leaves no gap in versions`, async () => {
    const world = await ManifestsWorld.open(atEnd);
    await world.put("acme", "one");
    await world.said("acme");
    const { store } = world.partsOf(world.homeOf("acme"));

    store.refused = refused;
    const failed = await world.outcome("acme", "put", putOf("two"));
    const during = [world.versions("acme"), world.pointer("acme"), await world.said("acme")];
    store.refused = null;
    const next = await world.put("acme", "three");

    assert.deepEqual(failed, { refused: "storage_unavailable" });
    assert.deepEqual(during, [["1 one"], "1", ["one", "one"]]);
    assert.equal(next.version, 2);
    assert.deepEqual(await world.said("acme"), ["three", "three"]);
    assert.deepEqual(await world.audit("acme"), [
      'manifest_published {"version":1,"active":true}',
      'manifest_published {"version":2,"active":true}',
    ]);
    assert.deepEqual(world.net.crashes, []);
  });

test("a canary that the store refuses is set on no thread", async () => {
  const world = await ManifestsWorld.open(atEnd);
  await world.put("acme", "one");
  await world.put("acme", "two", { activate: false });
  const { store } = world.partsOf(world.homeOf("acme"));

  store.refused = "manifest_pointers_upsert";
  const failed = await world.outcome("acme", "canary", { name: "helper", version: 2, weight: 100, principal });
  store.refused = null;

  assert.deepEqual(failed, { refused: "storage_unavailable" });
  assert.equal(world.pointer("acme"), "1");
  assert.deepEqual(await world.said("acme", "t"), ["one", "one"]);
  assert.equal((await world.audit("acme")).length, 2);
});

for (let afterMs = 0; afterMs <= 30; afterMs += 2)
  test(`a thread lost ${afterMs} ms into a write leaves whole versions to its successor`, async () => {
    const world = await ManifestsWorld.open(atEnd, { seed: afterMs + 1, writeMs: 4 });
    await world.put("acme", "one");
    const home = world.homeOf("acme");

    const asked = outcomeOf(world.asking("acme", "put", putOf("two")));
    await world.sim.advance(afterMs);
    world.net.kill(home);
    const outcome = await world.sim.until(asked);
    await world.sim.advance(200);
    const stored = world.versions("acme").length;
    const pointer = world.pointer("acme");
    const next = await world.put("acme", "three");

    if ("answer" in outcome) assert.equal(stored, 2);
    else assert.equal(outcome.refused, "actor_lost");
    // A version and its activation are one change.
    assert.equal(pointer, String(stored));
    assert.equal(next.version, stored + 1);
    assert.deepEqual(world.versions("acme").at(-1), `${stored + 1} three`);
    assert.deepEqual(await world.said("acme"), ["three", "three"]);
  });

test("a change is answered and applies although a thread to notify has ended", async () => {
  const world = await ManifestsWorld.open(atEnd);
  await world.put("acme", "one");
  await world.said("acme");
  const other = 1 - world.homeOf("acme");

  const asked = world.asking("acme", "put", putOf("two"));
  world.net.kill(other);
  const view = await world.sim.until(asked);
  await world.sim.advance(200);

  assert.equal(view.version, 2);
  assert.deepEqual(await world.said("acme"), ["two", "two"]);
});

test("another process on the same store continues where this one ended", async () => {
  const disk = await SimDisk.open(atEnd);
  const before = new ManifestsWorld(atEnd, disk);
  await before.put("acme", "one");
  await before.put("acme", "two", { activate: false });
  await before.ask("acme", "canary", { name: "helper", version: 2, weight: 100, principal });

  const after = new ManifestsWorld(atEnd, disk, { seed: 2 });

  assert.deepEqual(await after.said("acme", "t"), ["two", "two"]);
  assert.equal((await after.put("acme", "three")).version, 3);
  assert.deepEqual(await after.said("acme", "t"), ["three", "three"]);
});

test("an owner without requests leaves memory and finds its manifests again", async () => {
  const world = await ManifestsWorld.open(atEnd);
  await world.put("acme", "one");
  const { host } = world.net.node(world.homeOf("acme"));
  const withOwner = host.size;

  await world.sim.advance(58_000);
  assert.equal(host.size, withOwner);
  await world.sim.advance(3_000 + 2 * sweepMs);
  assert.equal(host.size, withOwner - 1);

  assert.equal((await world.put("acme", "two")).version, 2);
  assert.equal(host.size, withOwner);
});
