import { type ActorContext, type AnyActorDefinition, defineActor } from "../../actors/runtime/define.ts";
import type { AskOptions } from "../../bus/bus.ts";
import { type Outcome, outcomeOf } from "./outcome.ts";
import { SimNet } from "./sim-bus.ts";
import { Sim } from "./sim-env.ts";

/** An actor kind whose behaviour each test sets. */
export interface ProbeMessages {
  work: { body: unknown; reply: unknown };
  /** Interleaves. */
  side: { body: unknown; reply: unknown };
  /** Accepted beyond the mailbox limit. */
  end: { body: unknown; reply: unknown };
  /** Both. */
  urgent: { body: unknown; reply: unknown };
  poke: { body: unknown };
}

declare module "../../bus/protocol/kinds.ts" {
  interface Protocols {
    probe: ProbeMessages;
  }
}

type ProbeContext = ActorContext<undefined>;
type ProbeHandler<State> = (state: State, body: unknown, context: ProbeContext) => unknown;

export interface ProbeOptions<State> {
  readonly mailboxLimit?: number;
  readonly passivateAfterMs?: number;
  readonly leavesCrowds?: true;
  /** True if `side` keeps no other message waiting. */
  readonly isSideDetached?: true;
  load(context: ProbeContext): State | Promise<State>;
  idle?(state: State): boolean;
  crashed?(state: State, context: ProbeContext, error: unknown): void;
  readonly work?: ProbeHandler<State>;
  readonly side?: ProbeHandler<State>;
  readonly end?: ProbeHandler<State>;
  readonly urgent?: ProbeHandler<State>;
  poke?(state: State, body: unknown, context: ProbeContext): void | Promise<void>;
}

/** The probe kind with this behaviour; a message without a handler answers its own body. */
function probeActor<State>(options: ProbeOptions<State>) {
  const answerBody: ProbeHandler<State> = (_state, body) => body;
  return defineActor<"probe", State, undefined>({
    kind: "probe",
    mailboxLimit: options.mailboxLimit ?? 100,
    interleaves: ["side", "urgent"],
    detached: options.isSideDetached ? ["side"] : [],
    reserved: ["end", "urgent"],
    passivateAfterMs: options.passivateAfterMs ?? 5_000,
    ...(options.leavesCrowds && { leavesCrowds: true }),
    load: (context) => options.load(context),
    idle: (state) => options.idle?.(state) ?? true,
    crashed: (state, context, error) => options.crashed?.(state, context, error),
    on: {
      work: options.work ?? answerBody,
      side: options.side ?? answerBody,
      end: options.end ?? answerBody,
      urgent: options.urgent ?? answerBody,
      poke: (state, body, context) => options.poke?.(state, body, context),
    },
  });
}

/** One simulated node whose only actors are probes. */
export class ProbeNode {
  readonly sim = new Sim(1);
  readonly net: SimNet;

  constructor(probe: AnyActorDefinition) {
    this.net = new SimNet(this.sim, { actorNodes: [0], definitions: [probe] });
  }

  get bus() {
    return this.net.node(0).bus;
  }

  get host() {
    return this.net.node(0).host;
  }

  /** Asks now; the message's fate is visible after the simulation has run. */
  ask(
    type: "work" | "side" | "end" | "urgent",
    body: unknown,
    key = "a",
    options?: AskOptions,
  ): Promise<Outcome<unknown>> {
    return outcomeOf(this.bus.ask({ kind: "probe", key }, type, body, options));
  }

  poke(body: unknown, key = "a"): void {
    this.bus.tell({ kind: "probe", key }, "poke", body);
  }

  /** The outcomes of all of these, after as much simulated time as they take. */
  outcomes(asked: readonly Promise<Outcome<unknown>>[]): Promise<Outcome<unknown>[]> {
    return this.sim.until(Promise.all(asked));
  }
}

/** A probe node; see `ProbeOptions`. */
export function probeNode<State>(options: ProbeOptions<State>): ProbeNode {
  return new ProbeNode(probeActor(options));
}
