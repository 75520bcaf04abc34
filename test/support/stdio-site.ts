import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";

// An MCP server that is a process, started by tests with the name of its fault. It speaks the older wire by hand, so that it can break it.
// Its tool `facts` returns its process, its folder, its arguments, its environment and how many calls were cancelled; `fail` shows its fault in the middle of a call.

const [, , fault = "none", ...args] = process.argv;
/** Another one in each process: in a sandbox they have the same number. */
const mark = randomUUID();
/** Calls of `fail`, and those that were cancelled. */
const counts = { begun: 0, cancelled: 0 };
const write = (message: object): boolean => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const text = (value: string) => ({ content: [{ type: "text", text: value }] });

/** Writes for ever, as fast as its pipe takes it. */
function flood(line: () => string): void {
  const more = (): void => {
    while (process.stdout.write(line()));
    process.stdout.once("drain", more);
  };
  more();
}

const faultsInCall: Readonly<Record<string, (id: unknown) => void>> = {
  crashes() {
    process.stderr.write("the disk is full\n");
    process.exit(7);
  },
  streams: () => flood(() => `${JSON.stringify({ jsonrpc: "2.0", method: "notifications/message", params: {} })}\n`),
  endless: () => flood(() => "x".repeat(65_536)),
  pings() {
    for (let at = 0; at < 1_000; at++) write({ id: `ping ${at}`, method: "ping" });
  },
  silent() {},
  fills: (id) => process.stderr.write("e".repeat(20 * 1024 * 1024), () => write({ id, result: text("written") })),
};

function call(id: unknown, name: string): void {
  const { HOME, PATH, LANG, SECRET, NAME, SVC_AUTH_MODE } = process.env;
  const facts = {
    pid: process.pid,
    mark,
    counts,
    cwd: process.cwd(),
    args,
    HOME,
    PATH,
    LANG,
    SECRET,
    NAME,
    SVC_AUTH_MODE,
  };
  const breaks = faultsInCall[fault];
  if (name === "fail") counts.begun++;
  if (name === "facts") write({ id, result: text(JSON.stringify(facts)) });
  else if (breaks === undefined) write({ id, result: text("ok") });
  else breaks(id);
}

if (fault === "exits") {
  process.stderr.write("no licence\n");
  process.exit(3);
}
if (fault === "stubborn") for (const name of ["SIGTERM", "SIGINT"] as const) process.on(name, () => {});
if (fault === "forks") {
  const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { detached: true, stdio: "ignore" });
  process.env.NAME = String(child.pid);
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const {
    id,
    method,
    params = {},
  } = JSON.parse(line) as {
    id?: unknown;
    method?: string;
    params?: { name?: string; protocolVersion?: string };
  };
  if (fault === "hangs") return;
  if (fault === "garbage") process.stdout.write('Loading…\n{"not": "a message"}\n{broken\n\u0000\n');
  if (method === "initialize")
    write({
      id,
      result: {
        protocolVersion: params.protocolVersion ?? "2025-06-18",
        capabilities: { tools: {} },
        serverInfo: { name: "site", version: "1" },
        instructions: `Use fail with care.${"!".repeat(10_000)}`,
      },
    });
  else if (method === "tools/list")
    write({ id, result: { tools: ["facts", "fail"].map((name) => ({ name, inputSchema: { type: "object" } })) } });
  else if (method === "tools/call") call(id, params.name ?? "");
  else if (method === "notifications/cancelled") counts.cancelled++;
  else if (id !== undefined && method !== undefined) write({ id, error: { code: -32601, message: "no such method" } });
});
process.stdin.on("end", () => {
  if (fault !== "stubborn") process.exit(0);
  setInterval(() => {}, 1000);
});
