import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import sharp from "sharp";
import { ImageFailure, ImageProcesses } from "../../../../actors/tools/images/image-process.ts";
import { systemEnv } from "../../../../bus/env.ts";
import { eventually } from "../../../support/eventually.ts";
import { png } from "../../../support/image-bytes.ts";

// sharp sets it, and a test leaves the environment unchanged.
delete process.env.VIPSHOME;

const processes = new ImageProcesses(systemEnv());
const never = new AbortController().signal;

/** An image whose decoding takes a while. */
function slow(): Promise<Buffer> {
  return sharp({ create: { width: 6000, height: 6000, channels: 3, background: "red" } })
    .png()
    .toBuffer();
}

/** Ids of the image processes that this process has started. */
function children(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const isOwn = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ")[1] === String(process.pid);
        return isOwn && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("image-child");
      } catch {
        return false;
      }
    })
    .map(Number);
}

async function oneChild(): Promise<number> {
  await eventually("a process has started", async () => children().length === 1);
  return children()[0] as number;
}

test("a crash of the image library fails its call alone", async () => {
  const work = processes.run("acme", { op: "rotate", degrees: 90 }, slow, never);
  const child = await oneChild();

  process.kill(child, "SIGSEGV");

  await assert.rejects(work, new ImageFailure("provider_error", "the image library failed on this image"));
  const { format, width, height } = await processes.run("acme", { op: "info" }, async () => png(), never);
  assert.deepEqual([format, width, height], ["png", 1, 1]);
});

test("an abort ends the process", async () => {
  const controller = new AbortController();
  const work = processes.run("acme", { op: "rotate", degrees: 90 }, slow, controller.signal);
  await oneChild();

  controller.abort();

  await assert.rejects(work, new ImageFailure("interrupted", "the call was given up"));
  await eventually("the process has ended", async () => children().length === 0);
});

test("a process has no environment", async () => {
  const work = processes.run("acme", { op: "rotate", degrees: 90 }, slow, never);
  const child = await oneChild();

  const environment = readFileSync(`/proc/${child}/environ`, "utf8").split("\0");

  const names = environment.filter((line) => line !== "").map((line) => line.split("=")[0]);
  assert.deepEqual(names, ["NODE_CHANNEL_FD", "NODE_CHANNEL_SERIALIZATION_MODE"]);
  await work.catch(() => {});
});

test("calls of one tenant wait for each other", async () => {
  const outcomes = await Promise.all(
    [1, 2, 3].map(() => processes.run("acme", { op: "info" }, async () => png(), never)),
  );

  assert.deepEqual(
    outcomes.map(({ width }) => width),
    [1, 1, 1],
  );
});
