#!/usr/bin/env node
// Starts svc.ts on a suitable Node: the current one if it is recent enough, otherwise the one that npm installed in
// node_modules.
import { spawn } from "node:child_process";
import { existsSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";

// In a container this may be process 1, which no signal ends unless a listener handles it. So exit on a signal that has no other
// listener, as any other process would.
if (process.pid === 1)
  for (const [signal, number] of Object.entries({ SIGHUP: 1, SIGINT: 2, SIGTERM: 15 }))
    process.on(signal, () => process.listenerCount(signal) === 1 && process.exit(128 + number));

const main = new URL("./svc.ts", import.meta.url);
const stripTypes = new URL("./strip-types.js", import.meta.url);
const [major, minor] = process.versions.node.split(".").map(Number);

/** Interval of the check whether npm still runs, because no event reports its end. */
const npmLookMs = 500;

const pinned = fileURLToPath(new URL("./node_modules/node/bin/node", import.meta.url));

// uWebSockets.js has binaries for Node 22 only. A newer Node is used if no pinned one is installed; svc then uses Node's own
// HTTP server.
if ((major === 22 && minor >= 18) || (major >= 24 && !existsSync(pinned))) {
  await import(stripTypes.href);
  // The server stops on this event, as when its launcher ends.
  whenNpmEnds(() => process.emit("disconnect"));
  await import(main.href);
} else {
  if (!existsSync(pinned)) {
    process.stderr.write(
      `svc needs Node 22.18 or newer of the 22 line, or 24 or newer, and found ${process.versions.node}. Run "npm ci" first.\n`,
    );
    process.exit(1);
  }
  run(pinned);
}

/** Runs svc.ts in a child process with the same input and output. Forwards signals to it, and exits when it does. */
function run(node) {
  const child = spawn(node, ["--import", stripTypes.href, fileURLToPath(main), ...process.argv.slice(2)], {
    stdio: ["inherit", "inherit", "inherit", "ipc"],
    // A process group of its own: otherwise Ctrl-C would reach the child twice, from the terminal and through this process.
    detached: true,
  });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  // The terminal reports a new width to its own process group only, so pass it on to the child.
  if (process.platform !== "win32") process.on("SIGWINCH", () => child.kill("SIGWINCH"));
  whenNpmEnds(() => child.connected && child.disconnect());
  child.on("error", (error) => {
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  });
  child.on("exit", (code, signal) => process.exit(code ?? (signal === "SIGKILL" ? 137 : 1)));
}

/**
 * Calls back when npm has ended, if `npm start` of this package started the process. npm forwards SIGTERM and SIGINT; other
 * signals end npm alone. Any other parent process may end before this one.
 */
function whenNpmEnds(callback) {
  const { npm_lifecycle_event: script, npm_package_json: started = "" } = process.env;
  const own = fileURLToPath(new URL("./package.json", import.meta.url));
  if (script !== "start" || !existsSync(started) || realpathSync(started) !== own) return;
  const parent = process.ppid;
  const look = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(look);
    callback();
  }, npmLookMs).unref();
}
