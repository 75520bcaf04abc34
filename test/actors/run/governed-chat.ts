import { defineTool } from "../../../actors/tools/tool.ts";
import { Type } from "../../../bus/type.ts";
import type { Control } from "../../../governance/controls/control.ts";
import { type LogEvent, readEvents } from "../../../storage/tables/events.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { ActorProcess, type AskedTurn, processSettings, type TestTurn, tenantId } from "../../support/actor-process.ts";
import { ScriptedModel, type ScriptedReply } from "../../support/scripted-model.ts";
import type { SimDisk } from "../../support/sim-disk.ts";
import { Sim, type SimEnv } from "../../support/sim-env.ts";
import type { Cleanup } from "../../support/temp.ts";

/** The text of a tool of these chats for a requested leak. */
export const secret = "planted-secret-0123456789-xyz";

const tools = ["calculator", "leaky", "failing"];
const manifests = {
  agent: { tools },
  limited: { tools, limits: { max_tool_calls: 2 } },
  gated: { tools, approvals: [{ id: "gate", tools: ["leaky"] }] },
  beside: { tools, execution: { tools: "parallel" }, approvals: [{ id: "gate", tools: ["calculator"] }] },
  durable: { tools, execution: { mode: "durable", resume_token_ttl_seconds: 30 } },
  brief: { tools, limits: { max_output_tokens: 6 } },
};

/** A distinct seed for each chat: they share a store, and ids are drawn from the seed. */
let chats = 0;

/** The results of a chat, for a test of controls. */
export interface GovernedTurn {
  readonly turn: TestTurn;
  readonly events: readonly LogEvent[];
  readonly audit: readonly { readonly event_type: string; readonly status: string; readonly payload: Payload }[];
}

interface Payload {
  readonly [key: string]: unknown;
}

/** Chats below HTTP in simulated time, with the controls of a test among the built-in ones. */
export class GovernedChat {
  readonly model: ScriptedModel;
  readonly sim: Sim;
  readonly env: SimEnv;
  readonly process: ActorProcess;
  /** Arguments with which tools were run. */
  readonly ran: unknown[] = [];
  readonly #disk: SimDisk;
  #replies: readonly ScriptedReply[] = [];
  #asked = 0;

  constructor(atEnd: Cleanup, disk: SimDisk, controls: readonly Control[]) {
    this.sim = new Sim(++chats, { orderly: true });
    this.env = this.sim.env();
    this.#disk = disk;
    this.model = new ScriptedModel(this.env, () => this.#replies[this.#asked++] ?? { text: ["Out of script."] });
    this.process = new ActorProcess({
      env: this.env,
      store: disk.store(this.sim, this.env, () => 0.3),
      settings: processSettings(atEnd, manifests, { SVC_OPENAI_API_KEY: secret }),
      model: this.model,
      tools: this.#tools(),
      controls: controls.map((control) => () => control),
      bootId: this.env.id(),
    });
    atEnd.after(() => this.process.close());
  }

  /** Submits a turn whose model gives these replies in turn. */
  submit(suffix: string | null, replies: readonly ScriptedReply[], asked: Partial<AskedTurn> = {}): TestTurn {
    this.#replies = replies;
    this.#asked = 0;
    return this.process.submit({ manifest: "agent", thread_suffix: suffix, ...asked });
  }

  /** Runs a turn to its end, and reads its results. */
  async play(suffix: string, replies: readonly ScriptedReply[], asked: Partial<AskedTurn> = {}): Promise<GovernedTurn> {
    const turn = this.submit(suffix, replies, asked);
    await this.sim.until(turn.accepted);
    await this.sim.until(turn.ended);
    return this.left(suffix, turn);
  }

  /** Reads the thread and its audit rows after buffered rows are written. */
  async left(suffix: string, turn: TestTurn): Promise<GovernedTurn> {
    await this.sim.advance(5_000);
    if (this.process.crashes.length > 0) throw this.process.crashes[0];
    const tenant = this.process.deps.store.tenant(tenantId);
    const head = await threadBySuffix(tenant, suffix);
    const events = await readEvents(tenant, head?.thread_key ?? -1, 0, 1_000);
    const rows = this.#disk
      .query("SELECT event_type, status, payload FROM audit WHERE tenant_id = ? ORDER BY ts, id", tenantId)
      .map(({ event_type, status, payload }) => {
        return { event_type: String(event_type), status: String(status), payload: JSON.parse(String(payload)) };
      });
    return { turn, events, audit: rows.filter(({ payload }) => payload.thread_id === `${tenantId}:${suffix}`) };
  }

  #tools() {
    const parameters = Type.Object({ path: Type.Optional(Type.String()) }, { additionalProperties: false });
    const note = (args: unknown) => this.ran.push(args);
    return [
      defineTool({
        name: "leaky",
        description: "Tells a secret.",
        parameters,
        effect: "read",
        risk: "reads",
        preview: async ({ path }) => `looks into ${path}`,
        execute(args) {
          note(args);
          return { text: `found ${secret} in ${args.path ?? "nothing"}` };
        },
      }),
      defineTool({
        name: "failing",
        description: "Fails.",
        parameters,
        effect: "read",
        risk: "reads",
        execute(args) {
          note(args);
          return { text: "no such thing", error: "not_found" };
        },
      }),
    ];
  }
}

/** A reply that asks for these calls. */
export function asks(...calls: readonly (readonly [name: string, args: object])[]): ScriptedReply {
  return { calls: calls.map(([name, args], at) => ({ id: `c${at}`, name, arguments: JSON.stringify(args) })) };
}

/** The tool results of the log with their metadata. */
export function resultsOf(events: readonly LogEvent[]) {
  return events.filter(({ kind }) => kind === "tool_result").map(({ content, extra }) => [content, extra?.metadata]);
}

/** The data of all frames of a kind. */
export function framesOf(turn: TestTurn, name: string) {
  return turn.frames.filter((frame) => frame.name === name).map(({ json }) => json.data);
}
