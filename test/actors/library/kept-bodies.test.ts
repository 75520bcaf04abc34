// The store returns the bodies that durable runs were accepted with unchanged, and only to the tenant that stored them.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { KeptBodies } from "../../../actors/library/kept-bodies.ts";
import { compile } from "../../../manifests/compile/compile.ts";
import { parseManifest } from "../../../manifests/parse/parse.ts";
import type { Manifest } from "../../../manifests/schema/manifest.ts";
import { bundledManifests, openManifestDirectory } from "../../../manifests/sources/files.ts";
import type { Store } from "../../../storage/store/store.ts";
import { agent, plainSource, registries } from "../../manifests/support.ts";
import { gateDialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const made = (manifest: Manifest) => compile(manifest, registries(), { ...plainSource, version: 7 });

for (const dialect of gateDialects) {
  describe(`stored manifests, on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });

    test("DUR-008 return unchanged, each once, and only to their tenant", async () => {
      let now = 0;
      const kept = new KeptBodies(() => now);
      const [member, own] = ["member", "own"].map((name) =>
        made(parseManifest(agent({ limits: { max_tool_calls: 3 } }, { name }))),
      );
      assert.ok(member && own);
      const team = { ...own, subAgents: [member, { ...member, subAgents: [own] }] };
      const tenant = store.tenant("acme");

      const first = kept.keep(tenant, team);
      const unwritten = kept.keep(tenant, team);
      await tenant.write(first.ops);
      first.kept();
      const second = kept.keep(tenant, team);
      const other = kept.keep(store.tenant("globex"), team);
      now = 600_001;
      const later = kept.keep(tenant, team);
      await tenant.write(later.ops);
      const read = await new KeptBodies(() => now).read(tenant, first.digest);

      assert.deepEqual(
        [first, unwritten, second, other, later].map(({ digest, ops }) => [digest === first.digest, ops.length]),
        [
          [true, 1],
          [true, 1],
          [true, 0],
          [true, 1],
          [true, 1],
        ],
      );
      assert.deepEqual(read, [
        { manifest: own.manifest, version: 7 },
        { manifest: member.manifest, version: 7 },
      ]);
      assert.equal(await kept.read(tenant, first.digest), await kept.read(tenant, first.digest));
      assert.equal(await kept.read(store.tenant("globex"), first.digest), undefined);
    });
  });
}

test("DUR-008 a manifest that is read again is unchanged, whatever its text", () => {
  for (const layer of [bundledManifests(), openManifestDirectory("examples", () => 0)])
    for (const name of layer.names()) {
      const manifest = layer.get(name);

      assert.deepEqual(parseManifest(JSON.parse(JSON.stringify(manifest))), manifest, name);
    }
});
