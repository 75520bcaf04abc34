/** A scenario of back-to-back turns on several streams. All of them together take five minutes on two CPUs. */
export interface TurnScenario {
  readonly name: string;
  readonly title: string;
  readonly manifest: string;
  /** The wire name of the mock's model; also the id of the route. */
  readonly model: string;
  readonly streams: number;
  /** The streams start evenly over this time, so that they are spread over the length of a turn. */
  readonly rampMs: number;
  readonly rounds: number;
  readonly turnsMax: number;
  readonly secondsMax: number;
  /** False if the relay cannot do the work of the scenario. */
  readonly relayed: boolean;
  readonly warmUp: { readonly manifest: string; readonly model: string; readonly streams: number };
}

const chunkGapMs = 20;
const chunks = 64;

const fullLoad = { streams: 64, rampMs: 0, rounds: 3, turnsMax: 50_000, secondsMax: 2.5, relayed: true };

export const turnScenarios: readonly TurnScenario[] = [
  {
    ...fullLoad,
    name: "burst",
    title: "the model answers in one piece",
    manifest: "perf-burst",
    model: "mock-burst",
    warmUp: { manifest: "perf-burst", model: "mock-burst", streams: 64 },
  },
  {
    ...fullLoad,
    name: "trickle",
    title: "the model sends chunk by chunk, without waiting",
    manifest: "perf-trickle",
    model: "mock-trickle",
    warmUp: { manifest: "perf-trickle", model: "mock-trickle", streams: 64 },
  },
  paced(20, 3),
  paced(100, 3),
  paced(1000, 3.5),
  paced(2000, 3.5),
  {
    ...fullLoad,
    name: "guarded",
    title: "as trickle, with content screening and redaction",
    manifest: "perf-guarded",
    model: "mock-trickle",
    relayed: false,
    warmUp: { manifest: "perf-guarded", model: "mock-trickle", streams: 64 },
  },
  {
    ...fullLoad,
    name: "tools",
    title: "a calculator call and its result in every turn",
    manifest: "perf-tools",
    model: "mock-tools",
    relayed: false,
    warmUp: { manifest: "perf-tools", model: "mock-tools", streams: 64 },
  },
];

/** Open reattach streams on stored threads. */
export const idleScenario = {
  name: "idle",
  title: "open reattach streams over stored threads",
  manifest: "perf-burst",
  model: "mock-burst",
  threads: 1000,
  streams: 8000,
  warmUpStreams: 300,
} as const;

/** Long use of the same threads: memory must not grow with the number of turns. */
export const soakScenario = {
  name: "soak",
  title: "turns over the same threads, windowed:24",
  manifest: "perf-soak",
  model: "mock-burst",
  threads: 1000,
  streams: 64,
  turnsMax: 100_000,
  secondsMax: 90,
} as const;

const pacedLoad = paced(100, 3);

/** The path of each turn to its first token, by its waits. */
export const firstWordScenario = {
  name: "firstword",
  title: "where the first word's time goes",
  manifest: pacedLoad.manifest,
  model: pacedLoad.model,
  streams: pacedLoad.streams,
  rampMs: pacedLoad.rampMs,
  rounds: 2,
  secondsMax: pacedLoad.secondsMax,
  warmUp: pacedLoad.warmUp,
} as const;

/** The latency of other tenants while one tenant sends large bodies of keys, back to back. */
export const bodiesScenario = {
  name: "bodies",
  title: "others' first words while one tenant sends 1 MiB bodies of keys",
  manifest: pacedLoad.manifest,
  model: pacedLoad.model,
  streams: 50,
  connections: 2,
  /** Within the limits of a body: 60,000 members, 1,000 in an object, 100,000 values. */
  objects: 59,
  members: 1000,
  rampMs: pacedLoad.rampMs,
  rounds: 2,
  secondsMax: 4,
  warmUp: { manifest: "perf-burst", model: "mock-burst", streams: 20 },
} as const;

/** Runs that wait for their client, answered in random order. */
export const waitsScenario = {
  name: "waits",
  title: "runs that wait for their client, answered in no order",
  manifest: "perf-waits",
  model: "mock-waits",
  resumedBy: '"event":"tool_end"',
  runs: 5000,
  /** Enough runs to fill the page cache of the store, which the measurement must not include. */
  warmUp: 2500,
  /** V8 returns unused memory after one or two minutes of little activity. */
  restMs: 180_000,
  answersPerSecond: 100,
} as const;

/** Durable runs against turns of the same work. */
export const durableScenario = {
  name: "durable",
  title: "durable runs, and turns of the same work",
  /** The number of streams, and of concurrent durable runs. */
  concurrency: 64,
  loads: [
    { name: "one model call", transient: "perf-burst", durable: "perf-durable" },
    { name: "three tool steps", transient: "perf-steps", durable: "perf-durable-steps" },
    // The server has spare time with this model, so that a run does not wait for others.
    { name: "a paced model", transient: "perf-paced", durable: "perf-durable-paced" },
  ],
  rounds: 3,
  secondsMax: 5,
  /** Runs that are answered while they wait. */
  wakes: 500,
  answersPerSecond: 50,
  // The stream of a durable run reports log entries, so it contains the tool_result.
  waits: { manifest: "perf-durable-waits", resumedBy: '"kind":"tool_result"' },
} as const;

/** Steps of workflows, and durable runs of the same work. */
export const workflowScenario = {
  name: "workflow",
  title: "steps of workflows, and durable runs of the same work",
  manifest: "perf-durable",
  runs: 8,
  /** Items of a run at once. */
  parallel: 8,
  items: 500,
  secondsMax: 5,
} as const;

/** Turns and durable runs on several hosts, and on SQLite. It needs Postgres and Redis. */
export const clusterScenario = {
  name: "cluster",
  title: "turns and durable runs on 1, 2 and 3 hosts, and on SQLite",
  manifests: { turns: "perf-burst", durable: "perf-durable" },
  hosts: [1, 2, 3],
  /** Connections, over all hosts together. */
  streams: 64,
  rounds: 3,
  secondsMax: 5,
  /** Number of measured first tokens of each kind. */
  firstTokens: 100,
} as const;

/** Anonymous shoppers of one storefront, each with a pause between its requests. */
export const shopScenario = {
  name: "shop",
  title: "anonymous shoppers of a storefront",
  model: "mock-shop",
  shoppers: 2_000,
  /** The pause of a shopper is drawn from zero to twice this time. */
  pauseMs: 10_000,
  seconds: 60,
  products: 500,
} as const;

/** The tenant of the harness on the server. */
export const perfTenant = "perf";

/** The stored data of a tenant after long use; the cost of the requests must not grow with it. */
export const growthScenario = {
  name: "growth",
  title: "requests over much that is stored",
  threads: 100_000,
  usageRows: 300_000,
  manifests: 620,
  /** Number of requests of each kind. */
  requests: 100,
  rareWord: "zebra",
  /** One of this many threads contains the word. */
  rareEvery: 20_000,
} as const;

/** Turns on short and long threads, with each session strategy. */
export const longThreadScenario = {
  name: "longthread",
  title: "turns on threads of 20 and of 10,000 events",
  model: "mock-burst",
  strategies: ["windowed:24", "compacting", "full_replay"],
  lengths: [20, 10_000],
  /** For each strategy and length. */
  threads: 6,
  /** Turns on each thread after its first one. */
  turns: 8,
} as const;

/** A large skill library, and an evaluation of an agent. */
export const skillsScenario = {
  name: "skills",
  title: "an agent with many skills, and an evaluation",
  skills: 2_000,
  items: 500,
  concurrency: 8,
  /** Its answer takes 63 ms. */
  itemModel: "mock-paced-1",
  /** Number of requests of each kind. */
  requests: 50,
} as const;

/** Crowds that reattach to a few long threads at once, as after a restart. */
export const reattachScenario = {
  name: "reattach",
  title: "many reattach at once to a few long threads",
  manifest: "perf-burst",
  model: "mock-burst",
  prefix: "reattach",
  threads: 40,
  threadBytes: 400_000,
  crowds: [
    { reads: true, streams: 200 },
    { reads: true, streams: 2000 },
    { reads: false, streams: 2000 },
  ],
  holdMs: 8_000,
} as const;

/** Searches of documents by words and by vectors. `--turns` is the number of chunks. */
export const recallName = "recall";

export const scenarioNames: readonly string[] = [
  ...turnScenarios.map((scenario) => scenario.name),
  firstWordScenario.name,
  bodiesScenario.name,
  idleScenario.name,
  soakScenario.name,
  growthScenario.name,
  longThreadScenario.name,
  waitsScenario.name,
  durableScenario.name,
  workflowScenario.name,
  clusterScenario.name,
  shopScenario.name,
  reattachScenario.name,
  skillsScenario.name,
  recallName,
];

/** Wire models by manifest name, for the relay and for the routes of svc. */
export const models: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    [...turnScenarios, idleScenario, soakScenario, waitsScenario].map(({ manifest, model }) => [manifest, model]),
  ),
  "perf-steps": "mock-steps-3",
};

/** The warm-up is small and quick, so that memory before the load is that of an idle server with compiled code. */
function paced(streams: number, secondsMax: number): TurnScenario {
  return {
    name: `paced-${streams}`,
    title: `the model sends a chunk every ${chunkGapMs} ms`,
    manifest: "perf-paced",
    model: `mock-paced-${chunkGapMs}`,
    streams,
    rampMs: chunkGapMs * chunks,
    rounds: 2,
    turnsMax: 1_000_000,
    secondsMax,
    relayed: true,
    warmUp: { manifest: "perf-trickle", model: "mock-trickle", streams: 20 },
  };
}
