import assert from "node:assert/strict";
import { existsSync, lutimesSync, mkdirSync, readdirSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";
import { sweepDrafts } from "../../../../actors/tools/workspace/drafts.ts";
import { type Env, systemEnv } from "../../../../bus/env.ts";
import { cleanup, tempDir } from "../../../support/temp.ts";

const draft = `.svc-tmp-${"0a".repeat(16)}`;
const hourMs = 3_600_000;

/** Makes a file with this age. */
function put(path: string, ageMs: number): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "half of");
  const at = new Date(Date.now() - ageMs);
  utimesSync(path, at, at);
}

/** The real environment without waiting, with the time it would have waited. */
function hastyEnv(): { env: Env; pauses: number[] } {
  const pauses: number[] = [];
  const real = systemEnv();
  return {
    pauses,
    env: {
      ...real,
      timer(delayMs, work) {
        pauses.push(delayMs);
        real.defer(work);
        return { cancel() {} };
      },
    },
  };
}

test("drafts unwritten for an hour are deleted in all places of a tool, and only they", async (t) => {
  const home = tempDir(cleanup(t));
  const root = join(home, "root");
  const old = [
    draft,
    `a/b/${draft}`,
    `a/.svc-tmp-${"1b".repeat(16)}`,
    `.svc-scopes/acme/shared/${draft}`,
    `.svc-scopes/acme/threads/t/deep/${draft}`,
  ];
  const kept = ["a/file", `a/b/.svc-tmp-${"2c".repeat(16)}`, "a/.svc-tmp-notes", `.git/${draft}`, `a/${draft}x`];
  for (const path of old) put(join(root, path), hourMs + 60_000);
  for (const path of kept) put(join(root, path), path.includes("2c2c") ? hourMs - 60_000 : 2 * hourMs);
  mkdirSync(join(root, `c/${draft}`), { recursive: true });
  put(join(home, `outside/${draft}`), 2 * hourMs);
  symlinkSync(join(home, "outside"), join(root, "linked"));
  const link = join(root, `a/.svc-tmp-${"3d".repeat(16)}`);
  symlinkSync(join(home, `outside/${draft}`), link);
  lutimesSync(link, 0, 0);

  await sweepDrafts(root, systemEnv());

  for (const path of old) assert.ok(!existsSync(join(root, path)), path);
  for (const path of [...kept, `c/${draft}`, `../outside/${draft}`]) assert.ok(existsSync(join(root, path)), path);
  assert.ok(!readdirSync(join(root, "a")).includes(basename(link)));
});

test("a sweep of many names pauses after each few hundred", async (t) => {
  const root = tempDir(cleanup(t));
  for (let i = 0; i < 1000; i++) writeFileSync(join(root, `f${i}`), "");
  put(join(root, draft), 2 * hourMs);
  const { env, pauses } = hastyEnv();

  await sweepDrafts(root, env);

  assert.ok(!readdirSync(root).includes(draft));
  assert.equal(pauses.length, Math.floor(1000 / 256));
  assert.ok(
    pauses.every((ms) => ms > 0),
    String(pauses),
  );
});

test("a missing workspace root is an empty sweep", async (t) => {
  await sweepDrafts(join(tempDir(cleanup(t)), "nowhere"), systemEnv());
});
