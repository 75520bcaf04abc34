// The largest repository that a thread may have: its clone, its files, and a process that is killed again and again while git works.
import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { startChatProcess } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { startRepoHost } from "../support/repo-host.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const filesMax = 100_000;
const kills = 20;

test("a repository of 100,000 files is cloned and listed, and kills leave nothing half done", async (t) => {
  const atEnd = cleanup(t);
  const host = await startRepoHost(atEnd);
  host.addMany("acme/large", filesMax);
  const root = tempDir(atEnd);
  const { SVC_GITHUB_URL, SVC_GITHUB_API_URL, SVC_REPO_HOSTS, SVC_EGRESS_CA_FILE, SVC_TEST_RESOLVE } = host.settings;
  const { server } = await startChatProcess(atEnd, {
    models: ["scripted"],
    manifests: { agent: { tools: ["read_file"] } },
    env: {
      ...{ SVC_GITHUB_URL, SVC_GITHUB_API_URL, SVC_REPO_HOSTS, SVC_EGRESS_CA_FILE, SVC_TEST_RESOLVE },
      SVC_WORKSPACE_ROOT: root,
    },
  });
  const path = "/chat/sessions/large/workspace/repo";
  const repos = join(root, ".svc-scopes/default/repos");
  const gitDirs = () => readdirSync(join(server.dataDir, "checkouts")).filter((name) => !name.endsWith(".pem"));
  const state = async () => (await server.get(path)).json;
  const ended = async () => {
    for (;;) {
      const found = await state();
      if (found.state !== "cloning") return found;
      await setTimeout(200);
    }
  };

  for (let at = 0; at < kills; at++) {
    assert.equal((await server.post(path, { full_name: "acme/large" })).status, 202);
    await setTimeout((at * 300) % 3_000);
    await server.kill();
    await server.restart();
    const { state: found } = await ended();
    if (found === "ready") assert.equal((await server.request("DELETE", path)).status, 204);
    else assert.equal(found, "failed");
    await eventually("no remains", async () => gitDirs().length === 0);
    assert.deepEqual(existsSync(repos) ? readdirSync(repos) : [], []);
  }
  const startedAt = performance.now();
  await server.post(path, { full_name: "acme/large" });
  const whole = await ended();
  const clonedMs = performance.now() - startedAt;
  const listed = await server.get(`${path}/files?limit=10000`);
  const listedMs = performance.now() - startedAt - clonedMs;

  assert.deepEqual([whole.state, whole.dirty], ["ready", false]);
  assert.deepEqual([listed.json.files.length, listed.json.truncated], [10_000, true]);
  t.diagnostic(`clone ${Math.round(clonedMs)} ms, list ${Math.round(listedMs)} ms`);
});
