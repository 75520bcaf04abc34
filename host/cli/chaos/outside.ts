import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Env } from "../../../bus/env.ts";
import { answerOf, runOf } from "./model-script.ts";
import type { Seeded } from "./seeded.ts";

/** A side effect that a tool reported. */
export interface Effect {
  readonly run: number;
  readonly tool: string;
  readonly effect: string;
  readonly key: string;
}

/** A received webhook. */
export interface Hook {
  readonly id: string;
  readonly body: string;
}

/** Max random delay of a response. */
const slowMs = 60;

/**
 * Simulates everything outside the server on loopback: the model, the targets of tools, and the webhook endpoint. It runs in
 * this process, so that its record survives each kill of the server.
 */
export class Outside {
  readonly effects: Effect[] = [];
  readonly hooks: Hook[] = [];
  modelCalls = 0;
  /** Called with the run's number for each request of a run. */
  onActivity: (run: number) => void = () => {};
  readonly #env: Env;
  readonly #seeded: Seeded;
  readonly #server: Server;
  /** Requests of runs that have no complete response yet. */
  readonly #open = new Map<ServerResponse, number>();

  constructor(env: Env, seeded: Seeded) {
    this.#env = env;
    this.#seeded = seeded;
    this.#server = createServer((request, response) => void this.#take(request, response));
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** Runs with an open request. */
  get busy(): ReadonlySet<number> {
    return new Set(this.#open.values());
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on("error", () => {});
    response.on("close", () => this.#open.delete(response));
    const body = await bodyOf(request);
    if (body === null) return;
    if (request.url === "/hook") {
      this.hooks.push({ id: String(request.headers["webhook-id"]), body });
      // Sometimes refuses a webhook that it has recorded, to force a retry.
      response.writeHead(this.#seeded.int(10) === 0 ? 500 : 200).end();
      return;
    }
    if (request.url === "/effects") {
      const effect = JSON.parse(body) as Effect;
      this.effects.push(effect);
      this.#begin(response, effect.run);
      await this.#pause();
      response.end("{}");
      return;
    }
    await this.#answer(body, response);
  }

  #begin(response: ServerResponse, run: number): void {
    this.#open.set(response, run);
    this.onActivity(run);
  }

  /** Streams the model's reply in chunks, so that a kill may fall between two of them. */
  async #answer(body: string, response: ServerResponse): Promise<void> {
    const { messages = [] } = JSON.parse(body) as { messages?: Parameters<typeof answerOf>[0] };
    this.modelCalls++;
    this.#begin(response, runOf(messages));
    await this.#pause();
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const chunk of answerOf(messages)) {
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
      await this.#pause();
    }
    response.end("data: [DONE]\n\n");
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => this.#env.timer(this.#seeded.int(slowMs), resolve));
  }
}

/** Reads the body; null if the sender was killed. */
async function bodyOf(request: IncomingMessage): Promise<string | null> {
  const pieces: Buffer[] = [];
  try {
    for await (const piece of request) pieces.push(piece as Buffer);
  } catch {
    return null;
  }
  return Buffer.concat(pieces).toString("utf8");
}
