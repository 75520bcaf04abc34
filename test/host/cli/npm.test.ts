// `npm start`: a signal to any of its processes ends all of them, and live turns finish first where the signal allows
// it.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { gate, says, turn } from "../../support/chat.ts";
import { eventually } from "../../support/eventually.ts";
import type { TestStream } from "../../support/http-client.ts";
import { type MockModel, startMockModel } from "../../support/mock-model.ts";
import { modelEnv } from "../../support/server.ts";
import { cleanup, tempDir } from "../../support/temp.ts";
import { nodes, root, type Started, serveUnder, start, systemPath } from "./started.ts";

const pinnedFirst = `${join(root, "node_modules/.bin")}:${systemPath()}`;
const npmStart = ["npm", "start"];
/** The interval at which svc.js checks for npm. */
const npmLookMs = 500;
const skip = process.platform === "linux" ? false : "looks into /proc";

/** A shell that starts a server and waits for it; some shells would replace themselves with the last command. */
function waitedForBySh(node: string): readonly string[] {
  return ["sh", "-c", `${serveUnder(node).join(" ")}; true`];
}

/** The living descendants of a process. */
function descendants(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  const pids = children === "" ? [] : children.split(" ").map(Number);
  return pids.flatMap((child) => [child, ...descendants(child)]);
}

/** Lets time pass in which nothing must happen; `hold` runs repeatedly during it. */
function passes(ms: number, hold = () => new Promise<void>(setImmediate)): Promise<true> {
  const since = performance.now();
  return eventually("some time has passed", async () => {
    await hold();
    return performance.now() - since > ms;
  });
}

describe("npm start", { skip }, () => {
  const atEnd = cleanup();
  let mock: MockModel;
  before(async () => {
    mock = await startMockModel();
    atEnd.after(() => mock.close());
  });

  interface MidStream {
    readonly svc: Started;
    /** The server's own process. */
    readonly server: number;
    /** Every process, npm first. */
    readonly all: readonly number[];
    readonly stream: TestStream;
    readonly release: () => void;
  }

  /** A server with a stream whose model waits after its first word until `release`. */
  async function midStream(
    context: { after(work: () => Promise<void>): void },
    command: readonly string[] = npmStart,
    env: Readonly<Record<string, string>> = {},
  ): Promise<MidStream> {
    const held = gate();
    mock.answer("slow", says("first ", held.opened, "and last"));
    const svc = start({ atEnd: cleanup(context), command, env: { ...modelEnv(mock, ["slow"]), ...env } });
    await svc.printed(/svc is ready/);
    const stream = await svc.client.stream("/chat/stream", turn("quick", "hello", { thread_id: "t" }));
    await stream.until("text_delta");
    const npm = svc.child.pid as number;
    const all = [npm, ...descendants(npm)];
    return { svc, server: all.at(-1) as number, all, stream, release: held.open };
  }

  async function assertDrains({ svc, stream, release }: MidStream): Promise<void> {
    await svc.printed(/draining/);
    release();
    const frames = await stream.rest();
    await svc.exited;

    assert.deepEqual(
      frames.slice(-2).map(({ name }) => name),
      ["done", "[DONE]"],
    );
    assert.equal(frames.at(-2)?.json.data.final.content, "first and last");
    assert.match(svc.output(), /stopped/);
  }

  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    test(`${signal} to npm drains the server, and npm ends after it, with its exit code`, async (t) => {
      const started = await midStream(t, npmStart, { PATH: signal === "SIGTERM" ? systemPath() : pinnedFirst });

      started.svc.child.kill(signal);

      await assertDrains(started);
      assert.deepEqual([started.svc.child.exitCode, started.svc.child.signalCode], [0, null]);
    });
  }

  for (const signal of ["SIGHUP", "SIGKILL"] as const) {
    test(`${signal} to npm, which it does not pass on, drains the server`, async (t) => {
      const started = await midStream(t, npmStart, { PATH: signal === "SIGHUP" ? systemPath() : pinnedFirst });

      started.svc.child.kill(signal);

      await assertDrains(started);
    });
  }

  for (const signal of ["SIGINT", "SIGHUP"] as const) {
    test(`${signal} to all of them at once, as from a terminal, counts as one signal`, async (t) => {
      const started = await midStream(t);

      started.svc.signal(signal);
      await passes(2 * npmLookMs);

      await assertDrains(started);
    });
  }

  test("SIGTERM to the server drains it, and npm ends after it, with its exit code", async (t) => {
    const started = await midStream(t);

    process.kill(started.server, "SIGTERM");

    await assertDrains(started);
    assert.equal(started.svc.child.exitCode, 0);
  });

  test("a killed server ends npm too", async (t) => {
    const { svc, server, all } = await midStream(t);

    process.kill(server, "SIGKILL");
    await svc.exited;

    for (const pid of all) assert.throws(() => process.kill(pid, 0), { code: "ESRCH" });
  });

  test("passes its arguments on", async (t) => {
    const svc = start({ atEnd: cleanup(t), command: [...npmStart, "--", "--role", "none"] });

    assert.equal(await svc.exited, 2);
    assert.match(svc.output(), /--role must be one of/);
  });

  for (const node of nodes) {
    test(`the server under ${node} drains when npm's parent process ends`, async (t) => {
      const started = await midStream(t, waitedForBySh(node), {
        npm_lifecycle_event: "start",
        npm_package_json: join(root, "package.json"),
      });

      started.svc.child.kill("SIGKILL");

      await assertDrains(started);
    });

    test(`a server under ${node} that another package's npm start started outlives npm`, async (t) => {
      const elsewhere = join(tempDir(cleanup(t)), "package.json");
      writeFileSync(elsewhere, "{}");
      const { svc, server, stream, release } = await midStream(t, waitedForBySh(node), {
        npm_lifecycle_event: "start",
        npm_package_json: elsewhere,
      });
      const parent = svc.child.pid as number;

      svc.child.kill("SIGKILL");
      await passes(2 * npmLookMs, async () => assert.equal((await svc.client.get("/ready")).status, 200));
      assert.throws(() => process.kill(parent, 0), { code: "ESRCH" });
      release();
      const frames = await stream.rest();
      process.kill(server, "SIGTERM");
      await svc.exited;

      assert.equal(frames.at(-1)?.name, "[DONE]");
      assert.match(svc.output(), /stopped/);
    });
  }
});
