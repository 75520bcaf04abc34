import { ManifestLibrary } from "../../actors/library/manifest-library.ts";
import type { ModelProvider } from "../../actors/models/provider.ts";
import { ActorHost } from "../../actors/runtime/host.ts";
import { registriesOf } from "../../actors/tools/registry/registries.ts";
import { toolList } from "../../actors/tools/source.ts";
import type { Tool } from "../../actors/tools/tool.ts";
import { runAddress, threadAddress } from "../../bus/address.ts";
import { Bus, type BusOptions } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { nodeId } from "../../bus/protocol/node-id.ts";
import type { AbortReason, SubmitTurn, TurnAccepted } from "../../bus/protocol/run.ts";
import type { MakeControl } from "../../governance/controls/control.ts";
import { loadSettings, type Settings } from "../../governance/settings/settings.ts";
import { type ActorDeps, actorKinds, createActorDeps } from "../../host/actor-deps.ts";
import type { LoadedPlugin } from "../../host/plugin-seams.ts";
import { createResolver } from "../../manifests/resolve/resolve.ts";
import type { Store } from "../../storage/store/store.ts";
import { emptyTurn } from "./empty-turn.ts";
import { manifestEnv, type Env as Settable } from "./server.ts";
import { type Frame, FrameReader } from "./sse-frames.ts";
import type { Cleanup } from "./temp.ts";

// The actors of one process as the server composes them, without HTTP: they are asked over the bus. The clock and the store are
// the test's, so the same conversations can be held in simulated time or against a real database.

/** The tenant of every turn. */
export const tenantId = "acme";

const modelRoute = {
  scripted: {
    provider: "openai",
    model: "scripted",
    max_output_tokens: 32_768,
    price: { input: 2, output: 8, cache_read: 0.5 },
  },
};

/** Settings under which the only model is the test's own, and these manifests are the operator's. */
export function processSettings(
  atEnd: Cleanup,
  manifests: Readonly<Record<string, object>>,
  env: Settable = {},
): Settings {
  return loadSettings({
    SVC_LOG_LEVEL: "silent",
    SVC_AUDIT_FLUSH_SECONDS: "1",
    SVC_OBJECT_STORE: "memory",
    SVC_MANIFEST_SOURCE: "bundled",
    SVC_MODEL_ROUTES: JSON.stringify(modelRoute),
    SVC_DEFAULT_MODEL_ID: "scripted",
    ...manifestEnv(atEnd, manifests),
    ...env,
  });
}

interface ProcessOptions {
  readonly env: Env;
  readonly store: Store;
  readonly settings: Settings;
  readonly model: ModelProvider;
  /** Tools added to the built-in ones. */
  readonly tools?: readonly Tool[];
  /** The loaded plugins; none by default. */
  readonly plugins?: readonly LoadedPlugin[];
  /** Controls added to the built-in ones. */
  readonly controls?: readonly MakeControl[];
  /** Unique for each process on a store. */
  readonly bootId: string;
  /** The connections to other hosts. */
  readonly busOptions?: Pick<BusOptions, "dial" | "refusal"> | undefined;
  /** Replaces the services that a server gives its actors. */
  readonly wrap?: (deps: ActorDeps) => ActorDeps;
}

/** The request of a turn; the other fields have the same value in all turns. */
export type AskedTurn = Partial<SubmitTurn> & Pick<SubmitTurn, "manifest" | "thread_suffix">;

/** The actors of one process. */
export class ActorProcess {
  readonly bus: Bus;
  readonly deps: ActorDeps;
  readonly host: ActorHost;
  /** The errors that actors have crashed with. */
  readonly crashes: unknown[] = [];
  readonly #env: Env;

  constructor({
    env,
    store,
    settings,
    model,
    tools = [],
    controls = [],
    plugins = [],
    bootId,
    busOptions = {},
    wrap = (deps) => deps,
  }: ProcessOptions) {
    this.#env = env;
    const node = nodeId(bootId, 0);
    this.bus = new Bus({
      ...busOptions,
      env,
      node,
      incarnation: 0,
      actorNodes: [node],
      deliver: (message) => this.host.deliver(message),
    });
    const unused = { engine: "sqlite", path: "" } as const;
    const config = { node: 0, actorNodes: [node], settings, store: unused, bootId, incarnation: 0, version: "1" };
    const made = createActorDeps(config, env, store, this.bus, plugins);
    const models = { ...made.models, provider: () => model };
    const toolSources = [...made.toolSources, toolList("the test", tools)];
    const registries = registriesOf(settings, { models, secrets: made.secrets, toolSources, patterns: made.patterns });
    const resolver = createResolver({ env, store: null, objects: null, directory: settings.manifestDir });
    const objects = { get: async () => null, list: async () => [] };
    const library = new ManifestLibrary(resolver, registries, objects, made.metrics, () => env.monotonic());
    this.deps = wrap({
      ...{ ...made, models, toolSources, manifests: library },
      controls: [...made.controls, ...controls],
    });
    this.host = new ActorHost({
      env,
      bus: this.bus,
      deps: this.deps,
      definitions: actorKinds,
      onCrash: (_kind, _key, error) => this.crashes.push(error),
    });
  }

  /** Submits a turn, as an http thread would. */
  submit(asked: AskedTurn): TestTurn {
    return new TestTurn(this.bus, this.#env, asked);
  }

  abort(suffix: string, reason: AbortReason = "client"): Promise<{ aborted: boolean }> {
    return this.bus.ask(threadAddress(tenantId, suffix), "abort", { reason }, { deadlineMs: 60_000 });
  }

  /** Stops all timers and background work. */
  close(): void {
    this.host.close();
  }
}

/** A submitted turn, and its outcome. */
export class TestTurn {
  readonly runId: string;
  readonly frames: Frame[] = [];
  readonly accepted: Promise<TurnAccepted>;
  /** Resolves with the last text of the channel. */
  readonly ended: Promise<void>;
  /** All that has come over the channel. */
  text = "";

  constructor(bus: Bus, env: Env, asked: AskedTurn) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ended = promise;
    const reader = new FrameReader();
    const stream = asked.surface === undefined || asked.surface === "chat_stream";
    const channel = bus.openChannel((text, last) => {
      this.text += text;
      if (stream) this.frames.push(...reader.push(text));
      if (last) resolve();
    });
    this.runId = asked.run_id ?? env.id();
    const turn: SubmitTurn = {
      ...emptyTurn,
      run_id: this.runId,
      principal: { tenant_id: tenantId, sub: "alice", scopes: [], scheme: "none", issuer: "" },
      request_id: env.id(),
      messages: asked.surface === "continue" ? [] : [{ role: "user", content: "go" }],
      idempotency: null,
      lease: null,
      channel,
      ...asked,
    };
    this.accepted = bus.ask(runAddress(turn.principal.tenant_id, turn.thread_suffix, turn.run_id), "start", turn);
    // A test that ends the process does not wait for it.
    this.accepted.catch(() => {});
  }

  /** Names of the frames that are not tokens, with the call's id where there is one. */
  get outline(): string[] {
    return this.frames
      .filter(
        ({ name, json }) => !["text_delta", "thinking_delta"].includes(name) && json?.data?.progress === undefined,
      )
      .map(({ name, json }) => (json?.data?.id === undefined ? name : `${name} ${json.data.id}`));
  }
}
