import type { Readable } from "node:stream";
import type { Outgoing, OutgoingRules } from "../egress/outgoing.ts";
import type { CommandRequest } from "./command-request.ts";
import { eventCharsMax, type RunnerCommand, type RunnerEvent, type RunnerInput } from "./runner-protocol.ts";
import type { OnOutput, RunningCommand } from "./spawner.ts";
import type { CommandExit } from "./spawner-frames.ts";

/** Bytes of standard input in one request. */
const inputBytesMax = 512 * 1024;
/** Time for the answer to a request about a running command. */
const requestMs = 30_000;
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

  constructor(outgoing: Pick<Outgoing, "send" | "whole">, place: RunnerPlace) {
    this.#outgoing = outgoing;
    this.#place = place;
  }

  /** Starts a command. Throws RunnerRefusal if the runner does not. */
  async start({ argv, env = {}, folder, tenantId, keepBytes, onOutput }: CommandRequest): Promise<RunningCommand> {
    const rules = rulesFor(tenantId);
    const asked: RunnerCommand = {
      ...{ tenant_id: tenantId, argv, env, keep_bytes: keepBytes ?? null },
      folder: folder === null ? null : { below: folder.below, cwd: folder.cwd, hidden: folder.hidden },
    };
    const answer = await this.#outgoing
      .send(rules, { ...this.#request("POST", "/commands", asked), streams: true })
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
    return new CommandOnRunner(answer.body, events, onOutput, (method, path, body) =>
      this.#outgoing.whole(rules, { ...this.#request(method, at + path, body), timeoutMs: requestMs }, answerBytesMax),
    );
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

class CommandOnRunner implements RunningCommand {
  readonly exit: Promise<CommandExit>;
  readonly #ask: Ask;
  /** Input is sent in its order. */
  #sending: Promise<unknown> = Promise.resolve();
  #isOver = false;
  #isKilled = false;

  constructor(body: Readable, events: AsyncGenerator<RunnerEvent>, onOutput: OnOutput, ask: Ask) {
    this.#ask = ask;
    this.exit = this.#follow(body, events, onOutput);
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
    if (this.#isOver || this.#isKilled) return;
    this.#isKilled = true;
    void this.#ask("DELETE", "").catch(() => {});
  }

  #send(input: RunnerInput): void {
    this.#sending = this.#sending
      .then(() => (this.#isOver ? undefined : this.#ask("POST", "/input", input)))
      .catch(() => {});
  }

  async #follow(body: Readable, events: AsyncGenerator<RunnerEvent>, onOutput: OnOutput): Promise<CommandExit> {
    try {
      for await (const event of events) {
        if ("exit" in event) return event.exit;
        if ("stream" in event) await onOutput(event.stream, Buffer.from(event.data, "base64"));
      }
    } catch {
      // The connection is gone, or no one takes the output: the runner ends the command.
    } finally {
      this.#isOver = true;
      body.destroy();
    }
    return { code: null, signal: null, failure: "lost" };
  }
}

/** Reads the events of a stream. Throws for a line that is too long or no JSON. */
async function* eventsOf(body: Readable): AsyncGenerator<RunnerEvent, undefined> {
  let rest = "";
  for await (const chunk of body as AsyncIterable<Buffer>) {
    // Events are ASCII: JSON of base64, ids and numbers.
    rest += chunk.toString("latin1");
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > eventCharsMax) throw new RangeError("an event is too long");
    for (const line of lines) if (line.startsWith("data:")) yield JSON.parse(line.slice(5)) as RunnerEvent;
  }
  return undefined;
}
