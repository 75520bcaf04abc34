#!/usr/bin/env node
// Starts svc.ts on a Node that can run it: this one when it is new enough, else the one that npm installed beside us.
import { spawn } from "node:child_process";
import { existsSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";

// The first process of a container is ended by no signal that nobody there listens to: what has no listener of its own ends here, as it would elsewhere.
if (process.pid === 1)
  for (const [signal, number] of Object.entries({ SIGHUP: 1, SIGINT: 2, SIGTERM: 15 }))
    process.on(signal, () => process.listenerCount(signal) === 1 && process.exit(128 + number));

const main = new URL("./svc.ts", import.meta.url);
const stripTypes = new URL("./strip-types.js", import.meta.url);
const [major, minor] = process.versions.node.split(".").map(Number);

/** How often we look whether npm is still there: nothing says so by itself. */
const npmLookMs = 500;

const pinned = fileURLToPath(new URL("./node_modules/node/bin/node", import.meta.url));

// uWebSockets.js has binaries for Node 22 and not for newer ones: those are taken where there is nothing else, with Node's own server.
if ((major === 22 && minor >= 18) || (major >= 24 && !existsSync(pinned))) {
  await import(stripTypes.href);
  // As the server is told it by a launcher that ends.
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

/** Runs the server as a child that shares our input and output, gets our signals, and ends when we do. */
function run(node) {
  const child = spawn(node, ["--import", stripTypes.href, fileURLToPath(main), ...process.argv.slice(2)], {
    stdio: ["inherit", "inherit", "inherit", "ipc"],
    // Its own process group: Ctrl-C then reaches the child once, through us, and not a second time from the terminal.
    detached: true,
  });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  // The terminal tells its own group of processes when it becomes wider. Nowhere else can that be passed on.
  if (process.platform !== "win32") process.on("SIGWINCH", () => child.kill("SIGWINCH"));
  whenNpmEnds(() => child.connected && child.disconnect());
  child.on("error", (error) => {
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  });
  child.on("exit", (code, signal) => process.exit(code ?? (signal === "SIGKILL" ? 137 : 1)));
}

/**
 * Calls back when npm has ended, if this is what our `npm start` has started: npm passes SIGTERM and SIGINT on, and no other
 * signal that ends it. Whoever has started us otherwise may end before us.
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
