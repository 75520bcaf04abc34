// Whether a turn is durable, by its entry point and its manifest.
import assert from "node:assert/strict";
import { test } from "node:test";
import { durableAsked } from "../../../../actors/run/intake/admission.ts";
import { entryPoints } from "../../../../bus/frames/entry-points.ts";
import type { EntryPoint } from "../../../../bus/protocol/run.ts";
import type { CompiledAgent } from "../../../../manifests/compile/compiled.ts";

const settings = { hibernateAfterSeconds: 60 } as Parameters<typeof durableAsked>[2];
const plain = { durable: null } as CompiledAgent;
const durable = { durable: { ttlSeconds: 5, webhooks: [] } } as unknown as CompiledAgent;

test("a run is durable if the record of its entry point says so", () => {
  for (const [name, { durable: mayBe }] of Object.entries(entryPoints)) {
    const surface = name as EntryPoint;
    const ofPlain = durableAsked(plain, { surface }, settings);
    const ofDurable = durableAsked(durable, { surface }, settings);

    assert.deepEqual(ofPlain, mayBe === "always" ? { ttl_ms: 60_000 } : null, name);
    assert.deepEqual(ofDurable, mayBe === "never" ? null : { ttl_ms: 5_000 }, name);
  }
});
