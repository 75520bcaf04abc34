// SVC_LOAD_AGENTS_MD: agents that work in a workspace read its AGENTS.md.
import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { calls, inTurn, shown, startChat, systemOf, turn } from "../support/chat.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

describe("AGENTS.md of a workspace", () => {
  const atEnd = cleanup();
  const root = tempDir(atEnd);
  const folder = (thread: string) => join(root, ".svc-scopes", "default", "threads", thread);
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests: { coder: { tools: ["write_file"] }, talker: { tools: ["calculator"] } },
      env: { SVC_WORKSPACE_ROOT: root, SVC_LOAD_AGENTS_MD: "true" },
    }));
  });

  /** Runs a turn; returns the text that its last model call shows of the file, null for none. */
  async function read(
    manifest: string,
    thread_id: string,
    ...wanted: readonly (readonly [string, object])[]
  ): Promise<string | null> {
    mock.answer("scripted", wanted.length === 0 ? inTurn({ text: "ok" }) : inTurn(calls(...wanted), { text: "ok" }));
    const { status, text } = await server.request("POST", "/chat", { body: turn(manifest, "go", { thread_id }) });
    assert.equal(status, 200, text);
    const last = mock.requests.at(-1);
    assert.ok(!systemOf(last)?.includes("AGENTS.md"), "the system text does not quote a file");
    return shown(last).find(({ content }) => content.startsWith("[AGENTS.md"))?.content ?? null;
  }

  test("is read before each step, so also what the agent itself has written", async () => {
    const none = await read("coder", "written");
    const written = await read("coder", "written", ["write_file", { path: "AGENTS.md", content: "Use tabs." }]);

    assert.equal(none, null);
    assert.match(written ?? "", /^\[AGENTS\.md of the workspace: .*\]\nUse tabs\.$/);
  });

  test("is read once for each step, whatever the step calls", async () => {
    const before = mock.requests.length;
    const write = ["write_file", { path: "x", content: "x" }] as const;
    mock.answer(
      "scripted",
      () => [calls(write, write), calls(write)][mock.requests.length - before - 1] ?? { text: "ok" },
    );
    await server.request("POST", "/chat", { body: turn("coder", "go", { thread_id: "written" }) });

    const steps = mock.requests.slice(before);
    const counts = steps.map((step) => shown(step).filter(({ content }) => content.startsWith("[AGENTS.md")).length);
    assert.deepEqual(counts, [1, 1, 1]);
  });

  test("is not in the log, and another thread and an agent without files do not read it", async () => {
    const { text } = await server.get("/chat/history/written");

    assert.ok(!text.includes("[AGENTS.md"));
    assert.equal(await read("coder", "other"), null);
    assert.equal(await read("talker", "written"), null);
  });

  const odd: readonly (readonly [what: string, make: (file: string) => void, shows: RegExp | null])[] = [
    ["a long file", (file) => writeFileSync(file, "x".repeat(40_000)), /more than 32768 bytes: read it in parts/],
    ["a link out of the workspace", (file) => symlinkSync("/etc/hostname", file), null],
    ["a folder", (file) => mkdirSync(file), null],
    ["bytes that are no text", (file) => writeFileSync(file, Buffer.from([0xff, 0xfe, 0x00])), null],
  ];
  for (const [what, make, shows] of odd) {
    test(`that is ${what} does not fail the turn`, async () => {
      const thread = what.replaceAll(" ", "-");
      mkdirSync(folder(thread), { recursive: true });
      make(join(folder(thread), "AGENTS.md"));

      const text = await read("coder", thread);

      if (shows === null) assert.equal(text, null);
      else assert.match(text ?? "", shows);
    });
  }
});
