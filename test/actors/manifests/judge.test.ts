// The owner of a tenant's manifests judges the endings of their runs.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { JudgedManifest } from "../../../bus/protocol/manifests.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { cleanup } from "../../support/temp.ts";
import { ManifestsWorld, principal, putOf } from "./world.ts";

const hourMs = 3_600_000;

describe("judging manifests", () => {
  const atEnd = cleanup();
  let world: ManifestsWorld;
  let count = 0;
  before(async () => {
    world = new ManifestsWorld(atEnd, await SimDisk.open(atEnd));
  });

  const versionOf = (name: string, anomaly: object) => ({
    ...putOf("x", { name }),
    manifest: JSON.stringify({ metadata: { name }, spec: { system_prompt: { inline: String(++count) }, anomaly } }),
  });
  /** A manifest with a canary; each version has separate rules. */
  async function rollout(tenant: string, name: string, active: object = {}, canary: object = {}): Promise<number> {
    await world.ask(tenant, "put", versionOf(name, active));
    await world.ask(tenant, "put", { ...versionOf(name, canary), activate: false });
    return (await world.ask(tenant, "canary", { name, version: 2, weight: 50, principal })).updated_at;
  }
  const of = (failures: number, runs: number) => ({ failures, runs });
  const judge = (tenant: string, name: string, more: Partial<JudgedManifest>) =>
    world.ask(tenant, "judge", {
      ...{ name, seen: of(1, 1), rollout: null, versions: [], now: world.sim.now, window_ms: hourMs },
      ...more,
    });
  const failing = (rollout: number) => ({
    rollout,
    seen: of(10, 40),
    versions: [
      { version: 1, ...of(0, 20) },
      { version: 2, ...of(10, 20) },
    ],
  });

  test("TASK-011 a failing canary is removed and audited, for its tenant only", async () => {
    const updated_at = await rollout("acme", "helper");
    await rollout("globex", "helper");

    const answer = await judge("acme", "helper", failing(updated_at));
    const again = await judge("acme", "helper", { ...failing(updated_at), seen: of(1, 40) });

    assert.deepEqual([answer, again], [{ anomaly: true }, { anomaly: false }]);
    assert.deepEqual([world.pointer("acme", "helper"), world.pointer("globex", "helper")], ["1", "1/2@50"]);
    const audited = (await world.audit("acme")).filter((row) => row.startsWith("manifest_canary_rolled_back"));
    assert.deepEqual(audited, [
      'manifest_canary_rolled_back {"version":1,"canary_version":2,"canary_weight":50,"runs":20,"failures":10,"rate":0.5,"baseline_rate":0,"window_minutes":60}',
    ]);
    assert.ok(!(await world.audit("globex")).some((row) => row.includes("rolled_back")));
  });

  test("TASK-011 counts of another rollout are ignored", async () => {
    const updated_at = await rollout("acme", "again");
    await world.sim.advance(5);
    await world.ask("acme", "canary", { name: "again", version: 2, weight: 60, principal });

    const { anomaly } = await judge("acme", "again", { ...failing(updated_at), seen: of(10, 100) });

    assert.equal(anomaly, false);
    assert.equal(world.pointer("acme", "again"), "1/2@60");
  });

  for (const [name, active, canary, pointer] of [
    ["quiet", {}, { enabled: false }, "1/2@50"],
    ["loud", { enabled: false }, {}, "1"],
    ["patient", {}, { min_rate: 0.6 }, "1/2@50"],
    ["few", {}, { min_volume: 21 }, "1/2@50"],
  ] as const)
    test(`TASK-011 the canary's own rules count: ${name}`, async () => {
      const updated_at = await rollout("acme", name, active, canary);

      await judge("acme", name, { ...failing(updated_at), seen: of(10, 100) });

      assert.equal(world.pointer("acme", name), pointer);
    });

  test("TASK-011 failures of both sides are not the canary's", async () => {
    const updated_at = await rollout("acme", "outage");

    const { anomaly } = await judge("acme", "outage", {
      rollout: updated_at,
      seen: of(20, 40),
      versions: [
        { version: 1, ...of(10, 20) },
        { version: 2, ...of(10, 20) },
      ],
    });

    assert.equal(anomaly, true, "the manifest as a whole fails more often than ever");
    assert.equal(world.pointer("acme", "outage"), "1/2@50");
    const audited = (await world.audit("acme")).filter((row) => row.startsWith("anomaly_detected"));
    assert.deepEqual(audited, [
      'anomaly_detected {"version":1,"runs":40,"failures":20,"rate":0.5,"baseline_rate":0,"window_minutes":60}',
    ]);
  });

  test("TASK-011 a usual failure rate is no anomaly, and one observation makes it usual", async () => {
    await world.ask("acme", "put", versionOf("steady", {}));
    const seen = of(10, 40);

    const answers = [];
    for (let hour = 0; hour < 3; hour++) {
      answers.push((await judge("acme", "steady", { seen })).anomaly);
      await world.sim.advance(hourMs);
    }
    const worse = await judge("acme", "steady", { seen: of(40, 40) });

    assert.deepEqual(answers, [true, false, false]);
    assert.equal(worse.anomaly, true);
  });

  test("TASK-011 the operator's manifests are watched too, and deleted ones are not", async () => {
    const { anomaly } = await judge("acme", "operators", { seen: of(10, 40) });

    assert.equal(anomaly, true);
    await assert.rejects(judge("acme", "nothing", { seen: of(10, 40) }), { code: "unknown_manifest" });
  });
});
