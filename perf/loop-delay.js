// Loaded into each thread of the server under test. Notes each long turn of its event loop on one line.
import { appendFileSync } from "node:fs";
import { threadId } from "node:worker_threads";

const everyMs = 5;
const notedMs = 10;
const path = process.env.PERF_LOOP_DELAYS;

let due = performance.now() + everyMs;
function look() {
  const lateMs = performance.now() - due;
  if (lateMs > notedMs) appendFileSync(path, `${Date.now()} ${threadId} ${lateMs.toFixed(1)}\n`);
  due = performance.now() + everyMs;
  setTimeout(look, everyMs).unref();
}
if (path !== undefined) setTimeout(look, everyMs).unref();
