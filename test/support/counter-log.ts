import { type AnyActorDefinition, defineActor } from "../../actors/runtime/define.ts";
import { type Address, topicOf } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { Sim } from "./sim-env.ts";

// A minimal model of a thread. Its actor writes numbers to a log that outlives it, publishes each after its
// acknowledgement, and reports the acknowledged head to new readers. The readers join, leave and return.

export interface CounterMessages {
  /** Writes the next number. */
  append: { body: Record<string, never>; reply: number };
  /** Everything below `head` can be read from the log. Subscribe before asking. */
  attach: { body: Record<string, never>; reply: { readonly head: number } };
}

declare module "../../bus/protocol/kinds.ts" {
  interface Protocols {
    counter: CounterMessages;
  }
}

/** The store: entries of a log are durable. */
export class CounterLogs {
  readonly #logs = new Map<string, number[]>();

  log(key: string): number[] {
    const log = this.#logs.get(key) ?? [];
    this.#logs.set(key, log);
    return log;
  }
}

/** The counter kind. A write takes random time until it is durable, and again until it is acknowledged. */
export function counterActor(sim: Sim): AnyActorDefinition {
  return defineActor<"counter", { head: number }, CounterLogs>({
    kind: "counter",
    mailboxLimit: 1000,
    interleaves: ["attach"],
    reserved: [],
    passivateAfterMs: 2_000,
    load: ({ key, deps, env }) =>
      new Promise((resolve) => env.timer(sim.int(5), () => resolve({ head: deps.log(key).length }))),
    idle: () => true,
    crashed() {},
    on: {
      async append(state, _body, { key, deps, env, bus }) {
        const number = state.head;
        await new Promise<void>((resolve) => env.timer(writeMs(sim), resolve));
        deps.log(key).push(number);
        await new Promise<void>((resolve) => env.timer(writeMs(sim), resolve));
        state.head = number + 1;
        bus.publish(topicOf({ kind: "counter", key }), `${number} `);
        return number;
      },
      attach: (state) => ({ head: state.head }),
    },
  });
}

/** Mostly no time at all, so that much happens in one turn. */
function writeMs(sim: Sim): number {
  return sim.int(4) === 0 ? sim.int(3) : 0;
}

/** Follows one log from a node, from the beginning, each number once. It tracks only the order, not the numbers. */
export class CounterReader {
  /** All it has seen, in order. */
  readonly seen: number[] = [];
  readonly #bus: Bus;
  readonly #sim: Sim;
  readonly #address: Address<"counter">;
  readonly #logs: CounterLogs;
  /** Counts attempts to join: events of an earlier attempt are ignored. */
  #attempt = 0;
  #joined = false;

  constructor(sim: Sim, bus: Bus, key: string, logs: CounterLogs) {
    this.#bus = bus;
    this.#sim = sim;
    this.#address = { kind: "counter", key };
    this.#logs = logs;
    bus.onLost((node) => {
      if (this.#joined && bus.nodeOf(this.#address) === node) this.#tryLater();
    });
  }

  get joined(): boolean {
    return this.#joined;
  }

  join(): void {
    this.#joined = true;
    this.#try();
  }

  leave(): void {
    this.#joined = false;
    this.#attempt++;
    this.#bus.unsubscribe(this.#address);
  }

  #tryLater(): void {
    const attempt = ++this.#attempt;
    this.#bus.env.timer(this.#sim.int(20), () => {
      if (attempt === this.#attempt) this.#try();
    });
  }

  #try(): void {
    const attempt = ++this.#attempt;
    let queue: string[] | null = [];
    this.#bus.subscribe(this.#address, (text) => {
      if (attempt !== this.#attempt) return;
      if (queue) queue.push(text);
      else this.#see(text);
    });
    // Texts received before the answer are in the log below head.
    const forget = (): void => {
      queue = [];
    };
    const attached = this.#bus.ask(this.#address, "attach", {}, { deadlineMs: 1_000, onReply: forget });
    attached.then(
      ({ head }) =>
        // A read takes time, and more texts are published during it.
        this.#bus.env.timer(this.#sim.int(10), () => {
          if (attempt !== this.#attempt) return;
          this.seen.push(...this.#logs.log(this.#address.key).slice(this.seen.length, head));
          for (const text of queue ?? []) this.#see(text);
          queue = null;
        }),
      () => {
        if (attempt === this.#attempt) this.#tryLater();
      },
    );
  }

  #see(text: string): void {
    this.seen.push(...text.trim().split(" ").map(Number));
  }
}
