import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { type Cleanup, tempDir } from "./temp.ts";

// A headless Chromium, spoken to over its own pipe in the DevTools protocol.

const names = ["chromium", "chromium-browser", "google-chrome"];

/** The browser that is installed, null when there is none. */
export function findChromium(): string | null {
  const folders = (process.env.PATH ?? "").split(delimiter);
  return folders.flatMap((folder) => names.map((name) => join(folder, name))).find((file) => existsSync(file)) ?? null;
}

/** An event of the protocol, with the session that it belongs to. */
interface Event {
  readonly method: string;
  // biome-ignore lint/suspicious/noExplicitAny: the protocol is too large to write down
  readonly params: any;
}

/** One tab. */
export interface Page {
  /** Every event of the tab so far. */
  readonly events: readonly Event[];
  /** Sends a command of the protocol. */
  // biome-ignore lint/suspicious/noExplicitAny: the protocol is too large to write down
  send(method: string, params?: object): Promise<any>;
  /** Resolves at the next event of this name. */
  next(method: string): Promise<void>;
  /** The value of an expression in the page; of a promise, what it resolves with. */
  evaluate(expression: string): Promise<unknown>;
}

/** A running browser. */
export interface Browser {
  /** Opens a tab that has loaded nothing yet, with a session storage and cookies of its own. */
  open(atEnd: Cleanup): Promise<Page>;
}

/** Starts a browser. Its start costs seconds, so the tests of a file share it. */
export function startBrowser(executable: string, atEnd: Cleanup): Browser {
  const profile = tempDir(atEnd);
  const child = spawn(
    executable,
    [
      "--headless=new",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--disable-background-networking",
      "--disable-component-update",
      "--no-first-run",
      `--user-data-dir=${profile}`,
      "--remote-debugging-pipe",
      "about:blank",
    ],
    {
      detached: true,
      stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
      env: { PATH: process.env.PATH ?? "", HOME: profile },
    },
  );
  atEnd.after(() => end(child));
  const connection = new Connection(child);
  return { open: (atEnd) => openPage(connection, atEnd) };
}

async function openPage(connection: Connection, atEnd: Cleanup): Promise<Page> {
  const { browserContextId } = await connection.send("Target.createBrowserContext");
  // A browser that has ended does not answer.
  atEnd.after(() => void connection.send("Target.disposeBrowserContext", { browserContextId }).catch(() => {}));
  const { targetId } = await connection.send("Target.createTarget", { url: "about:blank", browserContextId });
  const { sessionId } = await connection.send("Target.attachToTarget", { targetId, flatten: true });
  const send: Page["send"] = (method, params) => connection.send(method, params, sessionId);
  return {
    events: connection.eventsOf(sessionId),
    send,
    next: (method) => connection.next(method, sessionId),
    async evaluate(expression) {
      const { result, exceptionDetails } = await send("Runtime.evaluate", {
        expression,
        awaitPromise: true,
        returnByValue: true,
      });
      if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails));
      return result.value;
    },
  };
}

/** Commands and their answers, each a JSON text that ends in NUL. */
class Connection {
  /** By session. */
  readonly #events = new Map<string, Event[]>();
  readonly #out: Writable;
  // biome-ignore lint/suspicious/noExplicitAny: the protocol is too large to write down
  readonly #waiting = new Map<number, { resolve(result: any): void; reject(error: Error): void }>();
  readonly #listening: { readonly method: string; readonly sessionId: string; resolve(): void }[] = [];
  #last = 0;
  #rest = "";

  constructor(child: ChildProcess) {
    this.#out = child.stdio[3] as Writable;
    const input = child.stdio[4] as Readable;
    input.setEncoding("utf8");
    input.on("data", (text: string) => this.#take(text));
    child.on("exit", (code) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`the browser ended with ${code}`));
    });
    this.#out.on("error", () => {});
  }

  // biome-ignore lint/suspicious/noExplicitAny: the protocol is too large to write down
  send(method: string, params: object = {}, sessionId?: string): Promise<any> {
    const id = ++this.#last;
    this.#out.write(`${JSON.stringify({ id, method, params, ...(sessionId !== undefined && { sessionId }) })}\0`);
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  /** The events of a session so far; later ones are added. */
  eventsOf(sessionId: string): readonly Event[] {
    const events = this.#events.get(sessionId) ?? [];
    this.#events.set(sessionId, events);
    return events;
  }

  next(method: string, sessionId: string): Promise<void> {
    return new Promise((resolve) => this.#listening.push({ method, sessionId, resolve }));
  }

  #take(text: string): void {
    const messages = (this.#rest + text).split("\0");
    this.#rest = messages.pop() ?? "";
    for (const each of messages) {
      const { id, result, error, method, params, sessionId } = JSON.parse(each);
      if (id === undefined) {
        this.#events.get(sessionId)?.push({ method, params });
        for (const each of this.#listening) if (each.method === method && each.sessionId === sessionId) each.resolve();
        continue;
      }
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error) waiting?.reject(new Error(error.message));
      else waiting?.resolve(result);
    }
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  // Kills its process group too: its children would keep writing into the profile.
  process.kill(-(child.pid as number), "SIGKILL");
  await ended;
}
