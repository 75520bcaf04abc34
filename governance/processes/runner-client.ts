import type { Readable } from "node:stream";
import type { Env, Timer } from "../../bus/env.ts";
import type { Outgoing, OutgoingRules } from "../egress/outgoing.ts";
import type { CommandRequest } from "./command-request.ts";
import { eventsOf } from "./runner-events.ts";
import type { RunnerCommand, RunnerEvent, RunnerInput } from "./runner-protocol.ts";
import type { OnOutput, RunningCommand } from "./spawner.ts";
import type { CommandExit } from "./spawner-frames.ts";

/** Bytes of standard input in one request. */
const inputBytesMax = 512 * 1024;
/** Time for the start of a command: less than the calls of background commands wait for it. */
const startMs = 10_000;
/** Time for the answer to a request about a running command. */
const requestMs = 30_000;
/** Time in which the runner reports the end of a command that it was asked to end. */
const killMs = 10_000;
const answerBytesMax = 64 * 1024;

/** Where the runner is. */
export interface RunnerPlace {
  /** Without a trailing slash. */
  readonly url: string;
  readonly token: string;
}

/** The runner has not started a command, for the reason in the message. */
export class RunnerRefusal extends Error {
  override readonly name = "RunnerRefusal";
}

/** Starts commands on a runner. */
export class RunnerClient {
  readonly #outgoing: Pick<Outgoing, "send" | "whole">;
  readonly #place: RunnerPlace;
  readonly #env: Pick<Env, "timer">;

  constructor(outgoing: Pick<Outgoing, "send" | "whole">, place: RunnerPlace, env: Pick<Env, "timer">) {
    this.#outgoing = outgoing;
    this.#place = place;
    this.#env = env;
  }

  /** Starts a command. Throws RunnerRefusal if the runner does not. */
  async start(request: CommandRequest): Promise<RunningCommand> {
    const { signal } = request;
    const starting = new AbortController();
    const giveUp = (): void => starting.abort();
    const timer = this.#env.timer(startMs, giveUp);
    signal?.addEventListener("abort", giveUp);
    if (signal?.aborted) giveUp();
    try {
      return await this.#start(request, starting.signal);
    } finally {
      timer.cancel();
      signal?.removeEventListener("abort", giveUp);
    }
  }

  async #start({ argv, env = {}, folder, tenantId, keepBytes, onOutput }: CommandRequest, signal: AbortSignal) {
    const rules = rulesFor(tenantId);
    const asked: RunnerCommand = {
      ...{ tenant_id: tenantId, argv, env, keep_bytes: keepBytes ?? null },
      folder: folder === null ? null : { below: folder.below, cwd: folder.cwd, hidden: folder.hidden },
    };
    const answer = await this.#outgoing
      .send(rules, { ...this.#request("POST", "/commands", asked), streams: true, signal })
      .catch(() => {
        throw new RunnerRefusal("the runner of commands cannot be reached");
      });
    const events = eventsOf(answer.body);
    const first = answer.status === 200 ? await events.next().catch(() => null) : null;
    if (first === null || first.done || !("id" in first.value)) {
      answer.body.destroy();
      throw new RunnerRefusal(`the runner of commands has refused (status ${answer.status})`);
    }
    const at = `/commands/${encodeURIComponent(first.value.id)}`;
    const ask: Ask = (method, path, body) =>
      this.#outgoing.whole(rules, { ...this.#request(method, at + path, body), timeoutMs: requestMs }, answerBytesMax);
    const { body } = answer;
    return new CommandOnRunner({ body, events, onOutput, ask, env: this.#env, keepBytes: keepBytes ?? null });
  }

  #request(method: string, path: string, body: unknown) {
    const { url, token } = this.#place;
    return {
      method,
      url: url + path,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: body === undefined ? null : JSON.stringify(body),
      follows: false,
    };
  }
}

function rulesFor(tenantId: string): OutgoingRules {
  return { tenantId, policy: "operator", allowHosts: [], credentials: [], onEvent: () => {} };
}

type Ask = (method: string, path: string, body?: RunnerInput) => Promise<unknown>;

/** The stream of a command that has started. */
interface Started {
  readonly body: Readable;
  readonly events: AsyncGenerator<RunnerEvent>;
  readonly onOutput: OnOutput;
  readonly ask: Ask;
  readonly env: Pick<Env, "timer">;
  /** Max bytes of each stream; null for any number. */
  readonly keepBytes: number | null;
}

class CommandOnRunner implements RunningCommand {
  readonly exit: Promise<CommandExit>;
  readonly #started: Started;
  /** Input is sent in its order. */
  #sending: Promise<unknown> = Promise.resolve();
  #isOver = false;
  #killing: Timer | null = null;

  constructor(started: Started) {
    this.#started = started;
    this.exit = this.#follow();
  }

  write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += inputBytesMax)
      this.#send({ data: Buffer.from(bytes.subarray(at, at + inputBytesMax)).toString("base64"), end: false });
    return this.#sending.then(() => {});
  }

  endInput(): void {
    this.#send({ data: "", end: true });
  }

  kill(): void {
    if (this.#isOver || this.#killing !== null) return;
    const { ask, body, env } = this.#started;
    // A runner ends a command whose stream is closed, also one that does not answer.
    this.#killing = env.timer(killMs, () => body.destroy());
    void ask("DELETE", "").catch(() => {});
  }

  #send(input: RunnerInput): void {
    this.#sending = this.#sending
      .then(() => (this.#isOver ? undefined : this.#started.ask("POST", "/input", input)))
      .catch(() => {});
  }

  async #follow(): Promise<CommandExit> {
    const { body, events, onOutput, keepBytes } = this.#started;
    const left = { stdout: keepBytes ?? Number.POSITIVE_INFINITY, stderr: keepBytes ?? Number.POSITIVE_INFINITY };
    try {
      for await (const event of events) {
        if ("exit" in event) return event.exit;
        if (!("stream" in event)) continue;
        const bytes = Buffer.from(event.data, "base64");
        left[event.stream] -= bytes.length;
        if (left[event.stream] < 0) throw new RangeError("the runner sends more than it was asked for");
        await onOutput(event.stream, bytes);
      }
    } catch {
      // The connection is gone, no one takes the output, or the runner breaks the protocol: it ends the command.
    } finally {
      this.#isOver = true;
      this.#killing?.cancel();
      body.destroy();
    }
    return { code: null, signal: null, failure: "lost" };
  }
}
